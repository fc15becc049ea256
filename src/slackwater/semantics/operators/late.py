"""Late rows of a source: they break its bounds and its patterns, by definition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slackwater.model.node import Late
from slackwater.semantics.limits import END, START, Bounds
from slackwater.semantics.operators.answers import (
    STATELESS,
    Trace,
    Traced,
    bounds_alone,
    no_time,
)
from slackwater.semantics.pattern_wants import Want
from slackwater.semantics.patterns import Patterns

entering = no_time
frontier = bounds_alone


def bounds(node: Late, inputs: Sequence[Bounds], sources: Mapping[str, Bounds]) -> dict[str, int]:
    # Only the end of the stream is progress here.
    ended = all(v >= END for v in inputs[0].values())
    return {t.name: END if ended else START for t in node.times}


def wants(node: Late, above: Sequence[Want]) -> tuple[Sequence[Want], ...]:
    return ((),)


def patterns(
    node: Late,
    inputs: Sequence[Patterns],
    bounds: Sequence[Bounds],
    sources: Mapping[str, Patterns],
) -> Patterns:
    return ()


def trace(node: Late, name: str, ask: Trace) -> list[Traced]:
    return []


def keeps(node: Late) -> str:
    return STATELESS
