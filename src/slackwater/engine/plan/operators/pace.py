"""Pace in the plan: a step that judges rows by their time; its limit is that of the batch."""

from __future__ import annotations

from slackwater.engine.plan.operators.kind import Below
from slackwater.engine.plan.steps import PaceStep
from slackwater.model.node import Outpaced, Pace


def below(node: Pace, on: str) -> tuple[Below, ...]:
    """Times pass unchanged."""
    return (Below(node.child, on, (PaceStep(node, isinstance(node, Outpaced)),)),)
