"""Sorts, by definition: a row leaves at the first step whose bound passes it, if none had when it came."""

from __future__ import annotations

from slackwater.model.node import Sort
from slackwater.semantics.limits import END
from slackwater.testing.oracle.operators import common
from slackwater.testing.oracle.run import Run
from slackwater.testing.oracle.types import Item
from slackwater.testing.oracle.windows import time_of

bounds = common.same_bounds
excluded = common.not_excluded
may_come = common.may_come_by_bounds
shifts = common.same_shifts
input_row = common.same_row


def items(node: Sort, run: Run) -> list[Item]:
    before, after = run.before(node.child, node.on), run.after(node.child, node.on)
    for item in run.arriving(node.child):
        late = node.on not in item.kept_out and time_of(item.row, node.on) < before
        run.dropped += late
    leaving = [
        i
        for i in run.items[id(node.child)]
        if node.on not in i.kept_out
        and before <= time_of(i.row, node.on)
        and (after >= END or time_of(i.row, node.on) < after)
    ]
    if before >= END:
        leaving = []
    leaving.sort(key=lambda i: time_of(i.row, node.on))
    return [Item(i.row, run.steps, i.kept_out) for i in leaving]
