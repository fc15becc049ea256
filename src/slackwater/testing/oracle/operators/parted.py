"""Rows parted by what is at hand of a relation. By definition all of it is, so that no row waits: when a row comes out is not part of
what a join means.
"""

from __future__ import annotations

from slackwater.model.node import Parted
from slackwater.testing.oracle.operators import lookup
from slackwater.testing.oracle.operators.lookup import excluded as excluded
from slackwater.testing.oracle.operators.lookup import input_row as input_row
from slackwater.testing.oracle.operators.lookup import may_come as may_come
from slackwater.testing.oracle.operators.lookup import shifts as shifts
from slackwater.testing.oracle.relations import alone, shown
from slackwater.testing.oracle.run import Run
from slackwater.testing.oracle.types import Item

bounds = lookup.bounds


def items(node: Parted, run: Run) -> list[Item]:
    if node.waits:
        return []
    return [
        Item(shown(node, alone(node, i.row)), run.steps, i.kept_out)
        for i in run.arriving(node.child)
    ]
