"""In the plan: rows come out as they went in."""

from __future__ import annotations

from slackwater.engine.plan.steps import Step
from slackwater.model.schema import Field
from tests.toy.model import Delay


def raw_fields(node: Delay) -> tuple[Field, ...]:
    return node.schema


def finishing(node: Delay) -> tuple[Step, ...]:
    return ()


def times(node: Delay) -> tuple[str, ...]:
    return (node.on,)


def results(node: Delay, name: str) -> tuple[str, ...]:
    return (name,)
