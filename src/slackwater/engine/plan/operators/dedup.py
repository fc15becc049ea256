"""The first rows of each value, in the plan."""

from __future__ import annotations

from slackwater.engine.plan.steps import Step
from slackwater.model.node import Dedup
from slackwater.model.schema import Field


def raw_fields(node: Dedup) -> tuple[Field, ...]:
    """Those of the rows that came."""
    return node.schema


def finishing(node: Dedup) -> tuple[Step, ...]:
    """None."""
    return ()


def times(node: Dedup) -> tuple[str, ...]:
    """The time of its one input."""
    return (node.on,)


def results(node: Dedup, name: str) -> tuple[str, ...]:
    """Its own."""
    return (name,)
