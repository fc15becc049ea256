"""Joins with a relation: a row passes as it comes, with other columns beside its own, or it is left out.

A relation stands still within a batch and sends nothing, so it counts as a stream that has ended. What is true of the
stream's rows is true of the results, on the stream's columns: to these the operator is a projection.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slackwater.model.node import Lookup, Project, raw_name
from slackwater.model.schema import Named, column
from slackwater.semantics.contracts.offers import Offer
from slackwater.semantics.limits import Bounds
from slackwater.semantics.operators import common, project
from slackwater.semantics.operators.answers import (
    Copies,
    Known,
    Newest,
    Points,
    Reaction,
    Trace,
    Traced,
)
from slackwater.semantics.pattern_wants import Want
from slackwater.semantics.patterns import Patterns

entering = common.no_time
keeps = common.no_state
needs = common.no_needs


def as_projection(node: Lookup) -> Project:
    """What becomes of the stream's columns; those of the relation are none of these."""
    own = {column(raw_name(0, f.name), f.type).sql: f for f in node.child.schema}
    columns = tuple(
        Named(o.name, column(f.name, f.type))
        for o in node.outputs
        if (f := own.get(o.expr.sql)) is not None
    )
    origins = tuple((out, name, 0) for out, name in node.origins)
    return Project(node.schema, node.times, node.child, columns, origins)


def bounds(node: Lookup, inputs: Sequence[Bounds], sources: Mapping[str, Bounds]) -> dict[str, int]:
    return project.bounds(as_projection(node), inputs, sources)


def wants(node: Lookup, above: Sequence[Want]) -> tuple[Sequence[Want], ...]:
    return project.wants(as_projection(node), above)


def patterns(
    node: Lookup,
    inputs: Sequence[Patterns],
    bounds: Sequence[Bounds],
    sources: Mapping[str, Patterns],
) -> Patterns:
    return project.patterns(as_projection(node), inputs, bounds, sources)


def feedback(node: Lookup, records: Patterns) -> Reaction:
    """A record on the stream's columns alone goes on: all results of a row have them.

    One that asks for the relation's columns is not for a row to tell, and the next version may say otherwise.
    """
    return project.feedback(as_projection(node), records)


def newest(
    node: Lookup, inputs: Sequence[Newest], bounds: Sequence[Bounds], sources: Mapping[str, Newest]
) -> dict[str, int]:
    return project.newest(as_projection(node), inputs, bounds, sources)


heard = newest


def offers(node: Lookup, inputs: Sequence[Offer], sources: Mapping[str, Offer]) -> Offer:
    """The stream's scheme: the relation has ended, and holds back nothing."""
    return project.offers(as_projection(node), inputs, sources)


def frontier(node: Lookup, columns: Sequence[str], known: Known) -> Points:
    return project.frontier(as_projection(node), columns, known)


def trace(node: Lookup, name: str, ask: Trace) -> list[Traced]:
    return project.trace(as_projection(node), name, ask)


def copies(node: Lookup, column: str) -> Copies:
    return project.copies(as_projection(node), column)
