"""Filters: what is true of all rows is true of some."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slackwater.model.node import Filter
from slackwater.semantics.limits import Bounds
from slackwater.semantics.operators.answers import (
    STATELESS,
    Known,
    Points,
    Trace,
    Traced,
    no_time,
)
from slackwater.semantics.pattern_wants import Want
from slackwater.semantics.patterns import Patterns

entering = no_time


def bounds(node: Filter, inputs: Sequence[Bounds], sources: Mapping[str, Bounds]) -> dict[str, int]:
    return {t.name: inputs[0][t.name] for t in node.times}


def wants(node: Filter, above: Sequence[Want]) -> tuple[Sequence[Want], ...]:
    return (above,)


def patterns(
    node: Filter,
    inputs: Sequence[Patterns],
    bounds: Sequence[Bounds],
    sources: Mapping[str, Patterns],
) -> Patterns:
    return inputs[0]


def frontier(node: Filter, columns: Sequence[str], known: Known) -> Points:
    return known.below(node.child, columns)


def trace(node: Filter, name: str, ask: Trace) -> list[Traced]:
    return ask.below(node.child, name)


def keeps(node: Filter) -> str:
    return STATELESS
