"""Sessions: rows of a group that follow each other closely. They have no ids."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from slackwater.errors import AnalysisError
from slackwater.model.window import SessionWindow
from slackwater.semantics.window_types.rules import Ints, Span, Traits, WindowRules


class Sessions(WindowRules[SessionWindow]):
    """Rows of a group that follow each other closely."""

    traits = Traits("FCA", plan="sessions")

    def extents(self, wids: Ints, w: SessionWindow) -> tuple[Ints, Ints]:
        raise AnalysisError(
            "NO_WINDOW_IDS",
            "a session has no id: its extent is known only where its rows are",
            hint="take start and end from the session's result",
        )

    def result_bound(self, bound: int, w: SessionWindow) -> int:
        # A closed session whose end is the bound may still grow; the time of its result is one tick below its end.
        return bound - int(w.closed)

    def missed(self, times: Ints, bound: int, w: SessionWindow) -> Ints:
        return (times + w.reach <= bound).astype(np.int64)

    def closing(self, hi: int, w: SessionWindow) -> int:
        return hi + w.reach

    def reaching(self, needed: int, w: SessionWindow) -> int:
        return needed + int(w.closed)

    def shifted(self, w: SessionWindow, ticks: int) -> SessionWindow:
        return w

    def keeps(self, w: SessionWindow, each: str, keys: Sequence[str], span: Span) -> str:
        return f"{each} and session that the bound on {w.on} has not closed"
