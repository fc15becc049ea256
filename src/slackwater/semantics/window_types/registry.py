"""What each type of window answers: one module per type, all with the same questions.

`semantics.windows` asks them, and says what the answers mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from slackwater.model.registry import Registry
from slackwater.model.window import (
    ByTuple,
    CustomWindow,
    JointWindow,
    Landmark,
    RowWindow,
    SessionWindow,
    TimeWindow,
    Window,
)
from slackwater.semantics.window_types import (
    by_tuple,
    custom,
    joint,
    landmark,
    rows,
    session,
    time,
)
from slackwater.semantics.window_types.answers import Ints, Traits


class WindowRules(Protocol):
    """The questions. A window is given as its own type; bounds are times, neither `START` nor `END`,
    except in ``missed``, where all may have ended.
    """

    @property
    def TRAITS(self) -> Traits:  # noqa: N802 - a constant of each module
        """What is true of all windows of the type."""

    def needs_rows(self, w: Any, /) -> bool:
        """Whether rows must be counted in order of arrival, so that partial aggregates would not do."""

    def extents(self, wids: Ints, w: Any, /) -> tuple[Ints, Ints]:
        """What the ``window`` column shows of each id: start and end."""

    def result_bound(self, bound: int, w: Any, /) -> int:
        """Bound of the results that come later, on their time."""

    def missed(self, times: Ints, bound: int, w: Any, /) -> Ints:
        """How many windows closed by ``bound`` each time would have been in."""

    def closing(self, hi: int, w: Any, /) -> int:
        """The bound that closes every window which holds a row of time ``hi``, the newest."""

    def reaching(self, needed: int, w: Any, /) -> int:
        """The least bound whose ``result_bound`` is at least ``needed``."""

    def shifted(self, w: Any, ticks: int, /) -> Window:
        """The window for times that are ``ticks`` smaller."""

    def holds(self, time: int, w: Any, /) -> bool:
        """Whether a row of that time is in a window at all."""

    def apart(self, w: Any, key: str, /) -> bool:
        """Whether no window holds rows of two values of that group column."""

    def keeps(self, w: Any, each: str, keys: Sequence[str], /) -> str:
        """What is kept of windows, and what frees it, for people; ``each`` is what is kept of a group."""


WINDOWS: Registry[WindowRules] = Registry(
    __name__,
    {
        TimeWindow: time,
        RowWindow: rows,
        Landmark: landmark,
        ByTuple: by_tuple,
        SessionWindow: session,
        CustomWindow: custom,
        JointWindow: joint,
    },
)
