"""Joins, by definition; what pairs is in `oracle.join`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from slackwater.model.join import Band, Reach, Within
from slackwater.model.node import Join
from slackwater.testing.oracle.join import first_partner, last_partner, pairs
from slackwater.testing.oracle.operators import common
from slackwater.testing.oracle.operators.common import Coming
from slackwater.testing.oracle.run import BoundOf, Limits, Run
from slackwater.testing.oracle.types import Item
from slackwater.testing.oracle.windows import time_of

excluded = common.not_excluded
shifts = common.no_shifts
input_row = common.no_row


def bounds(node: Join, run: Run) -> dict[str, int]:
    own = [b[on] for b, on in zip(run.below(node), node.on, strict=True)]
    return run.joins[id(node)].bounds(own)


def items(node: Join, run: Run) -> list[Item]:
    sides = list(zip(node.inputs, node.on, strict=True))
    rows = [[i for i in run.arriving(c) if on not in i.kept_out] for c, on in sides]
    bounds = [run.after(c, on) for c, on in sides]
    return [Item(r, run.steps) for r in run.joins[id(node)].step(rows, bounds)]


def may_come(node: Join, limits: Limits, ask: Coming) -> bool:
    if node.how != "inner":
        return common.may_come_by_bounds(node, limits, ask)
    return any(
        all(time_of(row, name) < end for name, end in limits.items())
        for row in _later_results(node, limits, ask.bound)
    )


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
