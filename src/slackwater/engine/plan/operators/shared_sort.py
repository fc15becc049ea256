"""Rows that wait for several sorts, in the plan. The sorts are the producers: each has paths of its own."""

from __future__ import annotations

from slackwater.engine.plan.operators import common
from slackwater.model.node import SharedSort

reads = common.whole_rows


def times(node: SharedSort) -> tuple[str, ...]:
    """One of each sort."""
    return tuple(r.on for _, r in node.readers)


def results(node: SharedSort, name: str) -> tuple[str, ...]:
    """Those of the sorts."""
    return tuple(n for n, _ in node.readers)
