"""Filters, by definition."""

from __future__ import annotations

from slackwater.model.node import Filter
from slackwater.testing.oracle.expressions import compile_expression
from slackwater.testing.oracle.operators import common
from slackwater.testing.oracle.run import Run
from slackwater.testing.oracle.types import Item

bounds = common.same_bounds
excluded = common.same_excluded
may_come = common.same_may_come
shifts = common.same_shifts
input_row = common.same_row


def items(node: Filter, run: Run) -> list[Item]:
    keep = compile_expression(node.condition.sql)
    return [i for i in run.arriving(node.child) if keep(i.row) is True]
