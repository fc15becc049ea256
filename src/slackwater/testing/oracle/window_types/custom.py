"""Types of windows that users give, by definition."""

from __future__ import annotations

from typing import Any

import numpy as np

from slackwater.model.node import Aggregate
from slackwater.model.window import CustomWindow
from slackwater.testing.oracle.run import Run
from slackwater.testing.oracle.types import Item
from slackwater.testing.oracle.types import Window as Extent
from slackwater.testing.oracle.window_types.came import (
    Came,
    Completing,
    Given,
    by_group,
    completed_results,
    excluded_group,
)

excluded = excluded_group


def results(node: Aggregate, run: Run) -> list[Item]:
    return completed_results(node, run, completed)


def _of_group(
    w: CustomWindow, key: tuple[Any, ...], mine: list[Came], before: int, after: int
) -> list[Completing]:
    low, high = min(c.time for c in mine), max(c.time for c in mine)
    found = []
    for wid in sorted({int(i) for i in w.windows(low + w.shift, high + 1 + w.shift)}):
        parts = _pieces(w, wid)
        end = max(b for _, b in parts)
        rows = [c.row for c in mine if any(a <= c.time < b for a, b in parts) and end > c.bound]
        if rows and before < end <= after:
            found.append(Completing(wid, Extent(min(a for a, _ in parts), end), key, rows))
    return found


completed = by_group(_of_group)


def _pieces(w: CustomWindow, wid: int) -> list[tuple[int, int]]:
    starts, ends = w.extent(np.array([wid], np.int64))
    pairs = zip(np.ravel(starts).tolist(), np.ravel(ends).tolist(), strict=True)
    return [(a - w.shift, b - w.shift) for a, b in pairs if a < b]


def bound_of_results(v: int, w: CustomWindow) -> int:
    return v


def missed(node: Aggregate, time: int, given: Given, run: Run) -> int:
    w = node.window
    assert isinstance(w, CustomWindow)
    bound = run.before(node.child, w.on)
    ids = {int(i) for i in w.windows(time + w.shift, time + 1 + w.shift)}
    return sum(max(b for _, b in _pieces(w, i)) <= bound for i in ids)
