"""A projection in the plan: a step with columns."""

from __future__ import annotations

from slackwater.engine.plan.operators.kind import Below
from slackwater.engine.plan.steps import ProjectStep
from slackwater.model.node import Project


def below(node: Project, on: str) -> tuple[Below, ...]:
    """A time may have another name below, and be shifted; no name if it comes from no time."""
    origin, shift = next(((i, s) for o, i, s in node.origins if o == on), ("", 0))
    return (Below(node.child, origin, (ProjectStep(node.columns),), shift),)
