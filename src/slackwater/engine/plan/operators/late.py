"""The late rows of a source, in the plan: they leave as they are."""

from __future__ import annotations

from slackwater.engine.plan.steps import Step
from slackwater.model.node import Late
from slackwater.model.schema import Field


def raw_fields(node: Late) -> tuple[Field, ...]:
    """Those of the source, and why a row is late."""
    return node.schema


def finishing(node: Late) -> tuple[Step, ...]:
    """None."""
    return ()
