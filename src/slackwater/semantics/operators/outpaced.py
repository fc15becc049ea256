"""What a pace drops: rows of its input like others, to which the input's bounds apply."""

from __future__ import annotations

from collections.abc import Sequence

from slackwater.model.node import Outpaced
from slackwater.semantics.operators import common
from slackwater.semantics.pattern_wants import Want

entering = common.no_time
bounds = common.same_bounds
patterns = common.same_patterns
frontier = common.same_frontier
trace = common.same_trace
copies = common.same_copies
feedback = common.same_feedback
newest = common.same_newest
heard = common.same_newest
offers = common.same_offer
needs = common.no_needs
keeps = common.no_state


def wants(node: Outpaced, above: Sequence[Want]) -> tuple[Sequence[Want], ...]:
    return (above,)
