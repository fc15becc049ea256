"""Types of windows that transcripts can name, as a user would define them.

``shifts``: a day of 10 ticks has window ``10 * day`` for its first three ticks and its last two, and window
``10 * day + 7`` for ticks 2 to 8: the pieces of a window do not touch, ids do not follow each other, and a
tick is in one or two windows or (tick 7 of no day) in one only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from slackwater.model.window import CustomWindow

DAY = 10


def _windows(low: int, high: int) -> Any:
    days = np.arange(low // DAY, (high - 1) // DAY + 1)
    ids = np.concatenate([days * 10, days * 10 + 7])
    starts, ends = _extent(ids)
    return ids[((starts < high) & (ends > low) & (starts < ends)).any(axis=1)]


def _extent(ids: Any) -> tuple[Any, Any]:
    day, late = ids // 10 * DAY, ids % 10 == 7
    starts = np.stack([np.where(late, day + 2, day), np.where(late, day, day + 8)], axis=1)
    ends = np.stack([np.where(late, day + 9, day + 3), np.where(late, day, day + 10)], axis=1)
    return starts, ends


def _wids(times: Any) -> tuple[Any, Any]:
    day, tick = times // DAY, times % DAY
    edge = np.flatnonzero((tick < 3) | (tick >= 8))
    core = np.flatnonzero((tick >= 2) & (tick < 9))
    return np.concatenate([edge, core]), np.concatenate([day[edge] * 10, day[core] * 10 + 7])


def shifts(on: str) -> CustomWindow:
    """The type described above."""
    return CustomWindow("shifts", on, _windows, _extent, _wids)


CUSTOM: Mapping[str, Callable[[str], CustomWindow]] = {"shifts": shifts}
