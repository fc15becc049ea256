"""A union in the plan: several ways to one consumer, and no step."""

from __future__ import annotations

from slackwater.engine.plan.operators.kind import Below
from slackwater.model.node import Union


def below(node: Union, on: str) -> tuple[Below, ...]:
    """Times go by their place: an input may call its time otherwise."""
    place = next((i for i, t in enumerate(node.times) if t.name == on), 0)
    return tuple(Below(c, c.times[place].name if c.times else "") for c in node.inputs)
