"""A join in the plan: inside it columns have names by input, and its outputs are made of these."""

from __future__ import annotations

from slackwater.engine.plan.operators import common
from slackwater.engine.plan.read_columns import Columns
from slackwater.engine.plan.steps import ProjectStep, Step
from slackwater.model.node import Join
from slackwater.model.schema import Field

results = common.own_name


def raw_fields(node: Join) -> tuple[Field, ...]:
    """Columns of both inputs that outputs are made of."""
    return node.raw_fields


def finishing(node: Join) -> tuple[Step, ...]:
    """The user's columns."""
    return (ProjectStep(node.outputs),)


def times(node: Join) -> tuple[str, ...]:
    """One of each input."""
    return node.on


def reads(node: Join, input: int) -> Columns:
    """Time and keys of the input, and what condition and outputs use of it."""
    keys = (k.expr for k in node.keys[input])
    return Columns((node.on[input], *node.used[input]), keys)
