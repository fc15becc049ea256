"""Answers that several operators have in common; a module of an operator takes them by name."""

from __future__ import annotations

from slackwater.engine.plan.read_columns import ALL, Columns
from slackwater.engine.plan.steps import Step
from slackwater.model.node import Node
from slackwater.model.schema import Field


def own_fields(node: Node) -> tuple[Field, ...]:
    """Rows leave with the columns that the user sees."""
    return node.schema


def no_steps(node: Node) -> tuple[Step, ...]:
    """Nothing is left to be made of them."""
    return ()


def own_name(node: Node, name: str) -> tuple[str, ...]:
    """Results leave under the operator's own name."""
    return (name,)


def whole_rows(node: Node, input: int) -> Columns:
    """Rows are kept whole, so all their columns are read."""
    return ALL
