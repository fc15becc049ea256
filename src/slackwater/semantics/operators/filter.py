"""Filters: what is true of all rows is true of some."""

from __future__ import annotations

from collections.abc import Sequence

from slackwater.model.node import Filter
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
keeps = common.no_state
offers = common.same_offer
needs = common.no_needs


def wants(node: Filter, above: Sequence[Want]) -> tuple[Sequence[Want], ...]:
    return (above,)
