"""The definition, for the oracle: a row leaves at the first step after which the bound is more than ``by`` ahead of it."""

from __future__ import annotations

from slackwater.semantics.limits import END, START
from slackwater.testing.oracle.operators import common
from slackwater.testing.oracle.run import Run
from slackwater.testing.oracle.types import Item
from slackwater.testing.oracle.windows import time_of
from tests.toy.model import Delay

excluded = common.not_excluded
may_come = common.may_come_by_bounds
shifts = common.same_shifts
input_row = common.same_row


def bounds(node: Delay, run: Run) -> dict[str, int]:
    known = run.below(node)[0][node.on]
    return {node.on: known if known in (START, END) else known - node.by}


def items(node: Delay, run: Run) -> list[Item]:
    before, after = run.before(node.child, node.on), run.after(node.child, node.on)
    run.dropped += sum(_passed(node, i, before) for i in run.arriving(node.child))
    ready = [
        i
        for i in run.items[id(node.child)]
        if not _passed(node, i, before) and _passed(node, i, after)
    ]
    return [Item(i.row, run.steps, i.kept_out) for i in ready if node.on not in i.kept_out]


def _passed(node: Delay, item: Item, bound: int) -> bool:
    if bound in (START, END):
        return bound == END
    return time_of(item.row, node.on) + node.by < bound
