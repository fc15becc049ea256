"""Duplicates dropped, by definition: a row comes out if it repeats none that did."""

from __future__ import annotations

from slackwater.model.node import Dedup
from slackwater.semantics.limits import END, START
from slackwater.testing.oracle.operators import common
from slackwater.testing.oracle.run import Run
from slackwater.testing.oracle.types import Item, Row
from slackwater.testing.oracle.windows import time_of

bounds = common.same_bounds
excluded = common.same_excluded
may_come = common.same_may_come
shifts = common.same_shifts
input_row = common.same_row


def items(node: Dedup, run: Run) -> list[Item]:
    before = run.before(node.child, node.on)
    frontier = before
    if node.within is not None and node.on not in node.subset and before not in (START, END):
        frontier = before - node.within
    kept = list(run.items[id(node)])
    new: list[Item] = []
    arriving = [i for i in run.arriving(node.child) if node.on not in i.kept_out]
    for item in sorted(arriving, key=lambda i: time_of(i.row, node.on)):
        subset = {c: item.row[c] for c in node.subset}
        gone = run.exclusions.any and run.exclusions.excluded(node.child, subset, run.steps)
        if time_of(item.row, node.on) < frontier or gone:
            run.dropped += 1
        elif not any(_repeats(node, item.row, k.row) for k in kept):
            kept.append(item)
            new.append(item)
    return new


def _repeats(node: Dedup, row: Row, earlier: Row) -> bool:
    if any(row[c] != earlier[c] for c in node.subset):
        return False
    apart = abs(time_of(row, node.on) - time_of(earlier, node.on))
    return node.within is None or apart <= node.within
