"""Groups on the windows of several times, by definition.

A box, one window of each time, is closed when no later row can have all of its times below the ends of the box's
windows. Whether one can is found by trying times that a row of a join might have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any

from slackwater.model.join import Band, Reach, Within
from slackwater.model.node import Aggregate, Dedup, Filter, Join, Node, Project, Union
from slackwater.model.window import TimeWindow
from slackwater.semantics.limits import END, START
from slackwater.testing.oracle.expressions import compile_expression
from slackwater.testing.oracle.join import first_partner, last_partner, pairs
from slackwater.testing.oracle.types import Item, Row, Window
from slackwater.testing.oracle.windows import end_of, time_of, windows_holding

Limits = Mapping[str, int]
"""By time column the end, excluded, below which it is looked for."""

BoundOf = Callable[[Node, str], int]


@dataclass(frozen=True)
class Box:
    """A group on the windows of several times, with its rows."""

    windows: dict[str, Window]
    key: tuple[Any, ...]
    rows: list[Row]


def closed_boxes(
    node: Aggregate,
    items: Sequence[Item],
    step: int,
    bounds: Callable[[Node], Sequence[Mapping[str, int]]],
) -> list[Box]:
    """The boxes that this step closes. ``bounds`` gives those of a node after each step; ``items`` are all rows
    that ever came, each of which enters the boxes that were open when it did.
    """
    windows = [w for w in node.windows if isinstance(w, TimeWindow)]
    keys = [compile_expression(k.expr.sql) for k in node.keys]

    @cache
    def closed(box: tuple[int, ...], steps: int) -> bool:
        """Whether a box was closed after so many steps."""
        limits: dict[str, int] = {}
        for w, wid in zip(windows, box, strict=True):
            limits[w.on] = min(limits.get(w.on, END), end_of(wid, w))
        return not may_come(
            node.child, limits, lambda n, c: bounds(n)[steps - 1][c] if steps else START
        )

    groups: dict[tuple[Any, ...], list[Row]] = {}
    for item in items:
        held = [windows_holding(time_of(item.row, w.on), w) for w in windows]
        for box in product(*held):
            if not closed(box, item.step):
                groups.setdefault((box, tuple(k(item.row) for k in keys)), []).append(item.row)
    return [
        Box(
            {
                t.name: Window(end_of(wid, w) - w.range, end_of(wid, w))
                for t, w, wid in zip(node.times, windows, box, strict=True)
            },
            key,
            rows,
        )
        for (box, key), rows in groups.items()
        if closed(box, step + 1) and not closed(box, step)
    ]


def may_come(node: Node, limits: Limits, bound: BoundOf) -> bool:
    """Whether a later row of ``node`` may have all of these times below the limits, by the bounds in force."""
    if isinstance(node, Filter | Dedup):
        return may_come(node.child, limits, bound)
    if isinstance(node, Project):
        below: dict[str, int] = {}
        for out, name, ticks in node.origins:
            if out in limits:
                below[name] = min(below.get(name, END), limits[out] - ticks)
        return may_come(node.child, below, bound)
    if isinstance(node, Union):
        names = [t.name for t in node.times]
        return any(
            may_come(c, {c.times[names.index(n)].name: v for n, v in limits.items()}, bound)
            for c in node.inputs
        )
    if isinstance(node, Aggregate):
        # Its results that are below the limits: those of the last windows that are come last.
        rows: dict[str, int] = {}
        for time, w in zip(node.times, node.windows, strict=True):
            if time.name in limits:
                assert isinstance(w, TimeWindow)
                wid = (limits[time.name] - w.origin) // w.slide + 1
                while end_of(wid, w) - 1 >= limits[time.name]:
                    wid -= 1
                rows[w.on] = min(rows.get(w.on, END), end_of(wid, w))
        return may_come(node.child, rows, bound)
    if isinstance(node, Join) and node.how == "inner":
        return any(
            all(time_of(row, name) < end for name, end in limits.items())
            for row in _later_results(node, limits, bound)
        )
    return all(bound(node, name) < end for name, end in limits.items())


def _later_results(node: Join, limits: Limits, bound: BoundOf) -> Iterator[dict[str, int]]:
    """Times of the earliest results that hold a row which is yet to come: none is lower than all of them."""
    wide = 2 * _span(node.within) + 2
    inputs = range(len(node.inputs))
    for i in inputs:
        least = max(bound(node.inputs[i], node.on[i]), min(limits.values()) - wide)
        for time in range(least, min(least + wide, max(limits.values()) + wide)):
            ranges = [[time] if j == i else _partners(node.within, i, j, time) for j in inputs]
            for times in product(*ranges):
                if all(
                    pairs(node.within, j, k, times[j], times[k]) for j in inputs for k in range(j)
                ):
                    yield dict(zip(node.time_names, times, strict=True))


def _partners(within: Within, i: int, j: int, time: int) -> list[int]:
    first, last = first_partner(within, i, j, time), last_partner(within, i, j, time)
    return [] if first is None or last is None else list(range(first, last + 1))


def _span(within: Within) -> int:
    if isinstance(within, Band):
        return abs(within.before) + abs(within.after)
    return sum(map(abs, within.ticks)) if isinstance(within, Reach) else within.window.range
