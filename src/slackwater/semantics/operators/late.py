"""Late rows of a source: they break its bounds and its patterns, by definition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slackwater.model.node import Late
from slackwater.semantics.limits import END, START, Bounds
from slackwater.semantics.operators import common
from slackwater.semantics.operators.answers import Copies, Reaction, Trace, Traced
from slackwater.semantics.patterns import Patterns

entering = common.no_time
wants = common.no_wants
patterns = common.no_patterns
frontier = common.bounds_alone
keeps = common.no_state
newest = common.same_newest
heard = common.same_newest
offers = common.no_offer  # only the end of the stream is progress here
needs = common.no_needs


def bounds(node: Late, inputs: Sequence[Bounds], sources: Mapping[str, Bounds]) -> dict[str, int]:
    # Only the end of the stream is progress here.
    ended = all(v >= END for v in inputs[0].values())
    return {t.name: END if ended else START for t in node.times}


def feedback(node: Late, records: Patterns) -> Reaction:
    # Rows are judged before a guard of their source drops any, so this has no say in what the source may drop.
    return Reaction((None,), records)


def trace(node: Late, name: str, ask: Trace) -> list[Traced]:
    return []


def copies(node: Late, column: str) -> Copies:
    # Why a row is late is no column of the source.
    return [] if node.source.field(column) is None else [(node.source, column)]
