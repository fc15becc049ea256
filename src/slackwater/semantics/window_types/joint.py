"""Windows of several times of a row: most questions go to the window of each time by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from slackwater.errors import AnalysisError
from slackwater.model.window import JointWindow
from slackwater.semantics.window_types.rules import Ints, Span, Traits, WindowRules


class JointWindows(WindowRules[JointWindow]):
    """Windows of several times."""

    traits = Traits("CF", plan="joint", joint=True)

    def extents(self, wids: Ints, w: JointWindow) -> tuple[Ints, Ints]:
        raise _of_each()

    def result_bound(self, bound: int, w: JointWindow) -> int:
        raise _of_each()

    def missed(self, times: Ints, bound: int, w: JointWindow) -> Ints:
        raise _of_each()

    def closing(self, hi: int, w: JointWindow) -> int:
        raise _of_each()

    def reaching(self, needed: int, w: JointWindow) -> int:
        raise _of_each()

    def shifted(self, w: JointWindow, ticks: int) -> NoReturn:
        raise _of_each()

    def keeps(self, w: JointWindow, each: str, keys: Sequence[str], span: Span) -> str:
        times = " and ".join(one.on for one in w.windows)
        return f"{each} and part of windows on {times}, until no later row can be in both"


def _of_each() -> AnalysisError:
    return AnalysisError(
        "SEVERAL_TIMES",
        "windows of several times have no time in common that could answer",
        hint="ask the window of each time: Aggregate.windows",
    )
