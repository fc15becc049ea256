"""Landmark windows, by definition."""

from __future__ import annotations

from typing import Any

from slackwater.model.node import Aggregate
from slackwater.model.window import Landmark, TimeWindow
from slackwater.semantics.limits import END, START
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
from slackwater.testing.oracle.windows import end_of, first_not_reached, windows_holding

excluded = excluded_group


def results(node: Aggregate, run: Run) -> list[Item]:
    return completed_results(node, run, completed)


def _of_group(
    w: Landmark, key: tuple[Any, ...], mine: list[Came], before: int, after: int
) -> list[Completing]:
    slides = TimeWindow(w.slide, w.slide, w.origin, "")
    mine = [c for c in mine if c.time >= w.origin]
    if not mine:
        return []
    first = windows_holding(min(c.time for c in mine), slides)[0]
    # Without an end of the stream a group is reported for ever; with one, up to its last row.
    newest = windows_holding(max(c.time for c in mine), slides)[0]
    last = newest if after >= END else first_not_reached(after, slides) if after > START else first
    found = []
    for wid in range(first, last + 1):
        end = end_of(wid, slides)
        rows = [c.row for c in mine if c.time < end and end > c.bound]
        if rows and before < end <= after:
            found.append(Completing(wid, Extent(w.origin, end), key, rows))
    return found


completed = by_group(_of_group)


def bound_of_results(v: int, w: Landmark) -> int:
    if v <= START or v >= END:
        return v
    slides = TimeWindow(w.slide, w.slide, w.origin, "")
    return end_of(first_not_reached(v, slides), slides) - 1


def missed(node: Aggregate, time: int, given: Given, run: Run) -> int:
    w = node.window
    assert isinstance(w, Landmark)
    bound = run.before(node.child, w.on)
    count, end = 0, w.origin
    while bound > START and w.origin <= time and (end := end + w.slide) <= bound:
        count += end > time
    return count
