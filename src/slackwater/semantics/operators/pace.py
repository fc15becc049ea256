"""Pace: rows too far behind the newest time are left out. Its own promise is in `semantics.pace`, since it needs the mark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from slackwater.model.node import Aggregate, Node, Pace, Sort, Source
from slackwater.model.spans import words_of
from slackwater.semantics.contracts.offers import Offer
from slackwater.semantics.operators import common
from slackwater.semantics.operators.answers import Known, Points, least
from slackwater.semantics.pattern_wants import Want

entering = common.no_time
bounds = common.same_bounds
patterns = common.same_patterns
trace = common.same_trace
copies = common.same_copies
# No record moves the mark, which progress makes, and guards never change progress.
feedback = common.same_feedback
newest = common.same_newest
heard = common.same_newest
needs = common.no_needs


def wants(node: Pace, above: Sequence[Want]) -> tuple[Sequence[Want], ...]:
    return (above,)


def frontier(node: Pace, columns: Sequence[str], known: Known) -> Points:
    own = [known.bound(node, c) for c in columns]
    points = known.below(node.child, columns)
    return least(tuple(map(max, point, own)) for point in points)


def offers(node: Pace, inputs: Sequence[Offer], sources: Mapping[str, Offer]) -> Offer:
    """What the input offers; and a bound on its time, whatever the input says, if new rows raise the mark."""
    own = inputs[0]
    if own.ended or not (node.clock or _hears_of_rows(node.child)):
        return own
    return replace(own, bounds=own.bounds | {node.on})


def _hears_of_rows(node: Node) -> bool:
    """Whether each new row is heard of at once; of what operators hold back only their bounds tell."""
    if isinstance(node, Aggregate | Sort):
        return False
    return isinstance(node, Source) or any(_hears_of_rows(c) for c in node.children)


def keeps(node: Pace) -> str:
    far = words_of(node).span(node.limit, node.on)
    return f"nothing: rows more than {far} behind the newest {node.on} are dropped"
