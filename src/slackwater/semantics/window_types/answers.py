"""What types of windows answer with, and the two plainest answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

ContextClass = Literal["CF", "FCF", "FCA"]
TimePlan = Literal["panes", "wids", "buffered", "adaptive"]
WindowPlan = Literal[
    "panes", "wids", "buffered", "adaptive", "rows", "landmark", "ticks", "sessions", "custom", "joint"
]  # fmt: skip
Ints = NDArray[np.int64]


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


def always(*_: object) -> bool:
    """The answer of a type for which something holds, whatever its parameters."""
    return True


def never(*_: object) -> bool:
    """The answer of a type for which something holds with no parameters."""
    return False
