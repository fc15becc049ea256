"""Duplicates dropped: a row that comes out came in with it, at the same time."""

from __future__ import annotations

from collections.abc import Sequence

from slackwater.model.node import Dedup
from slackwater.model.spans import words_of
from slackwater.semantics.contracts.needs import Need, by_bound, by_patterns
from slackwater.semantics.feedback.columns import parted
from slackwater.semantics.operators import common
from slackwater.semantics.operators.answers import Reaction
from slackwater.semantics.pattern_wants import Want
from slackwater.semantics.patterns import Pattern, Patterns

bounds = common.same_bounds
patterns = common.same_patterns
frontier = common.same_frontier
trace = common.same_trace
copies = common.same_copies
newest = common.same_newest
heard = common.same_newest
offers = common.same_offer


def entering(node: Dedup) -> tuple[str, ...]:
    return (node.on,)


def wants(node: Dedup, above: Sequence[Want]) -> tuple[Sequence[Want], ...]:
    return ((*above, Want(frozenset(node.subset), node.on)),)


def feedback(node: Dedup, records: Patterns) -> Reaction:
    """Rows that repeat each other must go together, or the next one would take the place of the one that went.

    They agree on the subset, and if that holds the time, a row that went cannot be repeated for ever. It must hold all
    times: by another one, a row that is kept back for a while may be newer than any that is missing.
    """
    timed = {node.on, *(t.name for t in node.times)} <= set(node.subset)

    def below(record: Pattern) -> Pattern | None:
        tested = {parted(node, c)[0] for c in record.columns}
        return record if timed and tested <= set(node.subset) else None

    return Reaction.of(1, ((r, (below(r),), True) for r in records))


def needs(node: Dedup) -> tuple[Need, ...]:
    ways = by_bound(node.on), by_patterns(node.subset)
    return (Need(0, ways, f"the {', '.join(node.subset)} of rows that have come"),)


def keeps(node: Dedup) -> str:
    what = f"the {', '.join(node.subset)} of rows"
    far = "" if node.within is None else f", for {words_of(node).span(node.within, node.on)} more"
    return f"{what} at or above the bound on {node.on}{far}"
