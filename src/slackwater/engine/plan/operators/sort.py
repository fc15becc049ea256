"""Rows in order of time, in the plan."""

from __future__ import annotations

from slackwater.engine.plan.steps import Step
from slackwater.model.node import Sort
from slackwater.model.schema import Field


def raw_fields(node: Sort) -> tuple[Field, ...]:
    """Those of the rows that came."""
    return node.schema


def finishing(node: Sort) -> tuple[Step, ...]:
    """None."""
    return ()


def times(node: Sort) -> tuple[str, ...]:
    """The time of its one input."""
    return (node.on,)


def results(node: Sort, name: str) -> tuple[str, ...]:
    """Its own."""
    return (name,)
