"""A join with a relation in the plan: a step that holds rows against a table."""

from __future__ import annotations

from slackwater.engine.plan.operators.kind import Below
from slackwater.engine.plan.steps import LookupStep
from slackwater.model.node import Lookup


def below(node: Lookup, on: str) -> tuple[Below, ...]:
    """A time may have another name below; no name if it comes from no time."""
    origin = dict(node.origins).get(on, "")
    return (Below(node.child, origin, (LookupStep.of(node),)),)
