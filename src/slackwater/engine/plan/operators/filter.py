"""A filter in the plan: a step with a condition."""

from __future__ import annotations

from slackwater.engine.plan.operators.kind import Below
from slackwater.engine.plan.steps import FilterStep
from slackwater.model.node import Filter


def below(node: Filter, on: str) -> tuple[Below, ...]:
    """Times pass unchanged."""
    return (Below(node.child, on, (FilterStep(node.condition),)),)
