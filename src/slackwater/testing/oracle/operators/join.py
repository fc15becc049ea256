"""Joins, by definition; what pairs is in `oracle.join`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import TYPE_CHECKING, Any

from slackwater.model.join import Anytime, Band, Reach, Tumbling, Within
from slackwater.model.node import Join, raw_name
from slackwater.model.schema import column
from slackwater.model.time import TimeColumn
from slackwater.testing.oracle.columns import plain
from slackwater.testing.oracle.join import first_partner, last_partner, pairs
from slackwater.testing.oracle.operators import common
from slackwater.testing.oracle.operators.common import Coming
from slackwater.testing.oracle.run import BoundOf, Limits, Run
from slackwater.testing.oracle.types import Item, Row
from slackwater.testing.oracle.windows import time_of

if TYPE_CHECKING:
    from slackwater.testing.oracle.patterns import Exclusions

shifts = common.no_shifts
input_row = common.no_row


def bounds(node: Join, run: Run) -> dict[str, int]:
    own = [b[on] for b, on in zip(run.below(node), node.on, strict=True)]
    return run.joins[id(node)].bounds(own)


def items(node: Join, run: Run) -> list[Item]:
    sides = list(zip(node.inputs, node.on, strict=True))
    rows = [[i for i in run.arriving(c) if on not in i.kept_out] for c, on in sides]
    bounds = [run.after(c, on) for c, on in sides]
    ask, steps = run.exclusions, run.steps + 1
    excluded = (lambda child, row: ask.excluded(child, row, steps)) if ask.any else None
    done = run.joins[id(node)].step(rows, bounds, excluded)
    return [Item(r, run.steps) for r in done]


def excluded(node: Join, row: Row, steps: int, ask: Exclusions) -> bool:
    """Whether no later result has these values: it would hold a row that has not come, or one that waits for such a row.

    So all inputs must have closed all rows that could be in it.
    """
    if node.memory is not None:
        return False  # results may wait for a pass
    known: list[dict[str, Any]] = [{} for _ in node.inputs]
    for name, value in row.items():
        for i, own in _sources_of(node, name):
            known[i][own] = value
    times = [t for t in node.times if t.name in row]
    inputs = range(len(node.inputs))
    if not times:
        return any(known) and all(ask.excluded(node.inputs[i], known[i], steps) for i in inputs)
    if isinstance(node.within, Anytime):
        return False
    return all(
        ask.excluded(node.inputs[i], {**known[i], node.on[i]: t}, steps)
        for combination in _combinations(node, times[0], row[times[0].name])
        for i, t in combination
    )


def _sources_of(node: Join, name: str) -> list[tuple[int, str]]:
    """The columns of inputs whose value a column of the results has in each of them: keys, which are equal."""
    expr = next((o.expr.sql for o in node.outputs if o.name == name), None)
    kept = {"inner": None, "left": 0, "left_semi": 0, "left_anti": 0, "right": 1}.get(node.how)
    for keys in zip(*node.keys, strict=True):
        names = [plain(k.expr) for k in keys]
        raws = [None if n is None else column(raw_name(i, n), k.expr.type).sql for i, (n, k) in enumerate(zip(names, keys, strict=True))]  # fmt: skip
        shown = [r for i, r in enumerate(raws) if r is not None and kept in (None, i)]
        if node.how == "full":
            shown = [f"coalesce({', '.join(map(str, raws))})"]
        if expr in shown:
            return [(i, n) for i, n in enumerate(names) if n is not None]
    return []


def _combinations(node: Join, time: TimeColumn, value: int) -> list[list[tuple[int, int]]]:
    """The times by input of the rows that a result of that time may have, or of all partners that a row alone could have."""
    inputs, found = range(len(node.inputs)), []
    own = node.time_names.index(time.name) if time.name in node.time_names else None
    alone = {"inner": (), "right": (1,), "full": (0, 1)}.get(node.how, (0,))
    for i in inputs if own is None else [own]:
        ranges = [[value] if j == i else _partners(node.within, i, j, value) for j in inputs]
        for times in product(*ranges):
            if own is None and value != (max(times) if time.kind == "greatest" else min(times)):
                continue
            if all(pairs(node.within, j, k, times[j], times[k]) for j in inputs for k in range(j)):
                found.append(list(enumerate(times)))
        if i in alone:
            found += [[(i, value)], *([(j, t)] for j in inputs if j != i for t in ranges[j])]
    return found


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
    if isinstance(within, Reach):
        return sum(map(abs, within.ticks))
    assert isinstance(within, Tumbling)  # results at any time have no window that follows
    return within.window.range
