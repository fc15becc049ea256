"""Sorts: rows wait for their turn by one time, and may be old by another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slackwater.model.node import Sort
from slackwater.semantics.limits import END, START, Bounds
from slackwater.semantics.operators.answers import Trace, Traced, bounds_alone
from slackwater.semantics.pattern_wants import Want
from slackwater.semantics.patterns import Patterns

frontier = bounds_alone


def entering(node: Sort) -> tuple[str, ...]:
    return (node.on,)


def bounds(node: Sort, inputs: Sequence[Bounds], sources: Mapping[str, Bounds]) -> dict[str, int]:
    known = {t.name: inputs[0][t.name] for t in node.times}
    return {n: v if n == node.on or v >= END else START for n, v in known.items()}


def wants(node: Sort, above: Sequence[Want]) -> tuple[Sequence[Want], ...]:
    return ((),)


def patterns(
    node: Sort,
    inputs: Sequence[Patterns],
    bounds: Sequence[Bounds],
    sources: Mapping[str, Patterns],
) -> Patterns:
    # The rows it holds back would break them.
    return ()


def trace(node: Sort, name: str, ask: Trace) -> list[Traced]:
    return ask.below(node.child, name)


def keeps(node: Sort) -> str:
    return f"rows at or above the bound on {node.times[0].name}"
