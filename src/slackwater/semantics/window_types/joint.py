"""Windows of several times of a row: most questions go to the window of each time by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from slackwater.errors import AnalysisError
from slackwater.model.window import JointWindow
from slackwater.semantics.window_types.answers import Ints, Traits, always, never

TRAITS = Traits("CF", plan="joint", joint=True)

needs_rows = never
holds = always
apart = always


def extents(wids: Ints, w: JointWindow) -> tuple[Ints, Ints]:
    raise _of_each()


def result_bound(bound: int, w: JointWindow) -> int:
    raise _of_each()


def missed(times: Ints, bound: int, w: JointWindow) -> Ints:
    raise _of_each()


def closing(hi: int, w: JointWindow) -> int:
    raise _of_each()


def reaching(needed: int, w: JointWindow) -> int:
    raise _of_each()


def shifted(w: JointWindow, ticks: int) -> NoReturn:
    raise _of_each()


def keeps(w: JointWindow, each: str, keys: Sequence[str]) -> str:
    times = " and ".join(one.on for one in w.windows)
    return f"{each} and part of windows on {times}, until no later row can be in both"


def _of_each() -> AnalysisError:
    return AnalysisError(
        "SEVERAL_TIMES",
        "windows of several times have no time in common that could answer",
        hint="ask the window of each time: Aggregate.windows",
    )
