"""What a type of window must answer, and what it answers with."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Generic, Literal, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

ContextClass = Literal["CF", "FCF", "FCA"]
TimePlan = Literal["panes", "wids", "buffered", "adaptive"]
WindowPlan = Literal[
    "panes", "wids", "buffered", "adaptive", "rows", "landmark", "ticks", "sessions", "custom", "joint"
]  # fmt: skip
Ints = NDArray[np.int64]
Span: TypeAlias = Callable[[int], str]


@dataclass(frozen=True)
class Traits:
    """What is true of all windows of a type.

    ``context`` is what must be known, besides a row itself, to tell its windows: nothing (``CF``), rows that came before
    it (``FCF``, a counter), also rows that come after it (``FCA``). ``plan`` is how the windows are computed; None leaves
    the choice to cost. ``spans``: a window is just a span of time, so a pattern can close it for a single group.
    ``timed``: results are on the times of rows. ``ends``: a window ends at some bound, which frees its state. ``joint``:
    a window is on several times, which progress together.
    """

    context: ContextClass
    plan: WindowPlan | None
    spans: bool = False
    timed: bool = True
    ends: bool = True
    joint: bool = False


W = TypeVar("W")


class WindowRules(ABC, Generic[W]):
    """The questions. Bounds are times, neither `START` nor `END`, except in ``missed``, where all may have ended.

    What is not abstract is the answer of nearly all types.
    """

    traits: ClassVar[Traits]

    def needs_rows(self, w: W) -> bool:
        """Whether rows must be counted in order of arrival, so that partial aggregates would not do."""
        return False

    def besides_time(self, w: W) -> tuple[str, ...]:
        """Columns of the input that are read to place a row, besides its time."""
        return ()

    @abstractmethod
    def extents(self, wids: Ints, w: W) -> tuple[Ints, Ints]:
        """What the ``window`` column shows of each id: start and end."""

    @abstractmethod
    def result_bound(self, bound: int, w: W) -> int:
        """Bound of the results that come later, on their time."""

    @abstractmethod
    def missed(self, times: Ints, bound: int, w: W) -> Ints:
        """How many windows closed by ``bound`` each time would have been in."""

    @abstractmethod
    def closing(self, hi: int, w: W) -> int:
        """The bound that closes every window which holds a row of time ``hi``, the newest."""

    @abstractmethod
    def reaching(self, needed: int, w: W) -> int:
        """The least bound whose ``result_bound`` is at least ``needed``."""

    @abstractmethod
    def shifted(self, w: W, ticks: int) -> W:
        """The window for times that are ``ticks`` smaller."""

    def holds(self, time: int, w: W) -> bool:
        """Whether a row of that time is in a window at all."""
        return True

    def apart(self, w: W, key: str) -> bool:
        """Whether no window holds rows of two values of that group column."""
        return True

    @abstractmethod
    def keeps(self, w: W, each: str, keys: Sequence[str], span: Span) -> str:
        """What is kept of windows, and what frees it, for people; ``each`` is what is kept of a group.

        ``span`` puts a span of the window's time into words.
        """
