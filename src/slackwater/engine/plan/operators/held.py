"""Rows that wait for a partner in a relation, in the plan."""

from __future__ import annotations

from slackwater.engine.plan.operators import common
from slackwater.model.node import Held

raw_fields = common.own_fields
finishing = common.no_steps
results = common.own_name
reads = common.whole_rows


def times(node: Held) -> tuple[str, ...]:
    """The time of its one input."""
    return (node.on,)
