"""Duplicates dropped: a row that comes out came in with it, at the same time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slackwater.model.node import Dedup
from slackwater.semantics.limits import Bounds
from slackwater.semantics.operators.answers import Known, Points, Trace, Traced
from slackwater.semantics.pattern_wants import Want
from slackwater.semantics.patterns import Patterns


def entering(node: Dedup) -> tuple[str, ...]:
    return (node.on,)


def bounds(node: Dedup, inputs: Sequence[Bounds], sources: Mapping[str, Bounds]) -> dict[str, int]:
    return {t.name: inputs[0][t.name] for t in node.times}


def wants(node: Dedup, above: Sequence[Want]) -> tuple[Sequence[Want], ...]:
    return ((*above, Want(frozenset(node.subset), node.on)),)


def patterns(
    node: Dedup,
    inputs: Sequence[Patterns],
    bounds: Sequence[Bounds],
    sources: Mapping[str, Patterns],
) -> Patterns:
    return inputs[0]


def frontier(node: Dedup, columns: Sequence[str], known: Known) -> Points:
    return known.below(node.child, columns)


def trace(node: Dedup, name: str, ask: Trace) -> list[Traced]:
    return ask.below(node.child, name)


def keeps(node: Dedup) -> str:
    what = f"the {', '.join(node.subset)} of rows"
    far = "" if node.within is None else f", for {node.within} ticks more"
    return f"{what} at or above the bound on {node.on}{far}"
