"""What the oracle says of each type of window: one module per type, all with the same questions.

Every type looks at all rows that ever came and at the bounds in force when they came; nothing is kept from step to
step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from slackwater.model.node import Aggregate
from slackwater.model.registry import Registry
from slackwater.model.window import (
    ByTuple,
    CustomWindow,
    JointWindow,
    Landmark,
    RowWindow,
    SessionWindow,
    TimeWindow,
)
from slackwater.testing.oracle.run import Run
from slackwater.testing.oracle.types import Item, Row
from slackwater.testing.oracle.window_types import (
    by_tuple,
    custom,
    joint,
    landmark,
    rows,
    session,
    time,
)
from slackwater.testing.oracle.window_types.came import Given

if TYPE_CHECKING:
    from slackwater.testing.oracle.patterns import Exclusions


class Definition(Protocol):
    """The questions. The window of ``node`` is of the type."""

    def results(self, node: Aggregate, run: Run, /) -> list[Item]:
        """Results of the windows that this step completes."""

    def bound_of_results(self, v: int, w: Any, /) -> int:
        """No later result has a time (end − 1) below this, once the input's bound is ``v``."""

    def missed(self, node: Aggregate, time: int, given: Given, run: Run, /) -> int:
        """How many closed windows a row of that time is known to have missed."""

    def excluded(self, node: Aggregate, row: Row, steps: int, ask: Exclusions, /) -> bool:
        """Whether punctuation says that no later result has these values."""


WINDOWS: Registry[Definition] = Registry(
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
