"""A stream at the edge, in the plan: its rows leave as they are."""

from __future__ import annotations

from slackwater.engine.plan.steps import Step
from slackwater.model.node import Source
from slackwater.model.schema import Field


def raw_fields(node: Source) -> tuple[Field, ...]:
    """Those of the stream."""
    return node.schema


def finishing(node: Source) -> tuple[Step, ...]:
    """None."""
    return ()
