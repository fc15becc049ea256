"""Rows that wait for segments of a relation: they hold bounds back, and come out with the partners that they would have had at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slackwater.model.node import Waiting
from slackwater.model.spans import in_words
from slackwater.semantics.contracts.offers import Offer
from slackwater.semantics.limits import END, START, Bounds
from slackwater.semantics.operators import common, project
from slackwater.semantics.operators.answers import Copies, Newest, Trace, Traced
from slackwater.semantics.operators.lookup import as_projection

wants = common.no_wants
patterns = common.no_patterns  # the rows it holds back would break them
frontier = common.bounds_alone
needs = common.no_needs  # the clock frees what waits
# Whether a row finds a partner is known later than what is wanted of it.
feedback = common.only_guarded


def entering(node: Waiting) -> tuple[str, ...]:
    return (node.on,)


def bounds(
    node: Waiting, inputs: Sequence[Bounds], sources: Mapping[str, Bounds]
) -> dict[str, int]:
    (below,) = inputs
    return {
        out: below[name] if name == node.on or below[name] >= END else START
        for out, name in node.origins
    }


def offers(node: Waiting, inputs: Sequence[Offer], sources: Mapping[str, Offer]) -> Offer:
    own = inputs[0]
    if own.ended:
        return own
    kept = own.bounds & {node.on}
    return Offer(frozenset(out for out, name in node.origins if name in kept))


def trace(node: Waiting, name: str, ask: Trace) -> list[Traced]:
    return project.trace(as_projection(node), name, ask)


def copies(node: Waiting, column: str) -> Copies:
    return project.copies(as_projection(node), column)


def newest(
    node: Waiting, inputs: Sequence[Newest], bounds: Sequence[Bounds], sources: Mapping[str, Newest]
) -> dict[str, int]:
    return project.newest(as_projection(node), inputs, bounds, sources)


heard = newest


def keeps(node: Waiting) -> str:
    return (
        f"rows that wait for segments of relation '{node.relation.name}', until these are read: {in_words(node.deadline)} of the "
        "clock at most"
    )
