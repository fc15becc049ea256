"""In the plan: rows come out as they went in."""

from __future__ import annotations

from slackwater.engine.plan.operators import common
from tests.toy.model import Delay

raw_fields = common.own_fields
finishing = common.no_steps
results = common.own_name
reads = common.whole_rows


def times(node: Delay) -> tuple[str, ...]:
    return (node.on,)
