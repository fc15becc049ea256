"""Rows that wait for a partner in a relation: what waits holds the bound back, and may be old by another time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slackwater.model.node import Held
from slackwater.model.spans import words_of
from slackwater.semantics.contracts.needs import Need, by_bound
from slackwater.semantics.contracts.offers import Offer
from slackwater.semantics.limits import END, START, Bounds, shift
from slackwater.semantics.operators import common, project
from slackwater.semantics.operators.answers import Copies, Newest, Trace, Traced
from slackwater.semantics.operators.lookup import as_projection

wants = common.no_wants
patterns = common.no_patterns  # the rows it holds back would break them
frontier = common.bounds_alone
# Whether a row finds a partner is known later than what is wanted of it.
feedback = common.only_guarded


def entering(node: Held) -> tuple[str, ...]:
    return (node.on,)


def bounds(node: Held, inputs: Sequence[Bounds], sources: Mapping[str, Bounds]) -> dict[str, int]:
    (below,) = inputs
    return {
        out: below[name] if name == node.on or below[name] >= END else START
        for out, name in node.origins
    }


def waited_out(node: Held, bound: int) -> int:
    """The time below which a row has waited long enough: the bound is above its time plus ``hold``."""
    return shift(bound, -node.hold)


def offers(node: Held, inputs: Sequence[Offer], sources: Mapping[str, Offer]) -> Offer:
    own = inputs[0]
    if own.ended:
        return own
    kept = own.bounds & {node.on}
    return Offer(frozenset(out for out, name in node.origins if name in kept))


def needs(node: Held) -> tuple[Need, ...]:
    what = f"rows that wait for a partner in relation '{node.relation.name}'"
    return (Need(0, (by_bound(node.on),), what),)


def trace(node: Held, name: str, ask: Trace) -> list[Traced]:
    return project.trace(as_projection(node), name, ask)


def copies(node: Held, column: str) -> Copies:
    return project.copies(as_projection(node), column)


def newest(
    node: Held, inputs: Sequence[Newest], bounds: Sequence[Bounds], sources: Mapping[str, Newest]
) -> dict[str, int]:
    return project.newest(as_projection(node), inputs, bounds, sources)


heard = newest


def keeps(node: Held) -> str:
    long = words_of(node).span(node.hold, node.on)
    return (
        f"rows without a partner in relation '{node.relation.name}', until a version of it has one or the bound on "
        f"{node.on} is more than {long} above their time"
    )
