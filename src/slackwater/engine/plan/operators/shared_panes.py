"""A store of panes in the plan. Its readers are the producers: each has paths of its own."""

from __future__ import annotations

from slackwater.engine.plan.operators.aggregate import columns_of
from slackwater.engine.plan.read_columns import Columns
from slackwater.model.node import SharedPanes


def times(node: SharedPanes) -> tuple[str, ...]:
    """One of each reader."""
    return tuple(r.window.on for _, r in node.readers)


def results(node: SharedPanes, name: str) -> tuple[str, ...]:
    """Those of the readers."""
    return tuple(n for n, _ in node.readers)


def reads(node: SharedPanes, input: int) -> Columns:
    """Those of the panes and of all readers."""
    return columns_of(node, *(r for _, r in node.readers))
