"""Sessions: rows of a group that follow each other closely. They have no ids."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from slackwater.errors import AnalysisError
from slackwater.model.window import SessionWindow
from slackwater.semantics.window_types.answers import Ints, Traits, always, never

TRAITS = Traits("FCA", plan="sessions")

needs_rows = never
holds = always
apart = always


def extents(wids: Ints, w: SessionWindow) -> tuple[Ints, Ints]:
    raise AnalysisError(
        "NO_WINDOW_IDS",
        "a session has no id: its extent is known only where its rows are",
        hint="take start and end from the session's result",
    )


def result_bound(bound: int, w: SessionWindow) -> int:
    return bound


def missed(times: Ints, bound: int, w: SessionWindow) -> Ints:
    return (times + w.gap <= bound).astype(np.int64)


def closing(hi: int, w: SessionWindow) -> int:
    return hi + w.gap


def reaching(needed: int, w: SessionWindow) -> int:
    return needed


def shifted(w: SessionWindow, ticks: int) -> SessionWindow:
    return w


def keeps(w: SessionWindow, each: str, keys: Sequence[str]) -> str:
    return f"{each} and session that the bound on {w.on} has not closed"
