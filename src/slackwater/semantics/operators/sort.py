"""Sorts: rows wait for their turn by one time, and may be old by another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slackwater.model.node import Sort
from slackwater.semantics.contracts.needs import Need, by_bound
from slackwater.semantics.contracts.offers import Offer
from slackwater.semantics.limits import END, START, Bounds, shift
from slackwater.semantics.operators import common
from slackwater.semantics.operators.answers import Newest

wants = common.no_wants
patterns = common.no_patterns  # the rows it holds back would break them
frontier = common.bounds_alone
trace = common.same_trace
copies = common.same_copies
feedback = common.same_feedback
newest = common.same_newest


def entering(node: Sort) -> tuple[str, ...]:
    return (node.on,)


def bounds(node: Sort, inputs: Sequence[Bounds], sources: Mapping[str, Bounds]) -> dict[str, int]:
    known = {t.name: inputs[0][t.name] for t in node.times}
    return {n: v if n == node.on or v >= END else START for n, v in known.items()}


def heard(
    node: Sort, inputs: Sequence[Newest], bounds: Sequence[Bounds], sources: Mapping[str, Newest]
) -> dict[str, int]:
    # Rows below the bound have left.
    last = newest(node, inputs, bounds, sources)
    return {**last, node.on: min(last[node.on], shift(bounds[0].get(node.on, START), -1))}


def offers(node: Sort, inputs: Sequence[Offer], sources: Mapping[str, Offer]) -> Offer:
    own = inputs[0]
    return own if own.ended else Offer(own.bounds & {node.on})


def needs(node: Sort) -> tuple[Need, ...]:
    return (Need(0, (by_bound(node.on),), f"rows that wait for their turn by {node.on}"),)


def keeps(node: Sort) -> str:
    return f"rows at or above the bound on {node.times[0].name}"
