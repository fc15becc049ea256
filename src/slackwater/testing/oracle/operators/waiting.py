"""Rows that wait for segments of a relation. By definition there are none: see `parted`."""

from __future__ import annotations

from slackwater.model.node import Waiting
from slackwater.semantics.limits import END, START
from slackwater.testing.oracle.operators import common
from slackwater.testing.oracle.operators.lookup import shifts as shifts
from slackwater.testing.oracle.run import Run
from slackwater.testing.oracle.types import Item

excluded = common.not_excluded
may_come = common.may_come_by_bounds
input_row = common.no_row


def bounds(node: Waiting, run: Run) -> dict[str, int]:
    (below,) = run.below(node)
    return {
        out: below[name] if name == node.on or below[name] >= END else START
        for out, name in node.origins
    }


def items(node: Waiting, run: Run) -> list[Item]:
    return []
