"""Sources: what they say of their times is known from outside the plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slackwater.model.node import Source
from slackwater.semantics.contracts.offers import NOTHING, Offer
from slackwater.semantics.limits import START, Bounds
from slackwater.semantics.operators import common
from slackwater.semantics.operators.answers import Newest, Trace, Traced
from slackwater.semantics.patterns import Patterns

entering = common.no_time
wants = common.no_wants
frontier = common.bounds_alone
copies = common.no_copies  # there are no inputs
feedback = common.only_guarded
keeps = common.no_state
needs = common.no_needs


def bounds(node: Source, inputs: Sequence[Bounds], sources: Mapping[str, Bounds]) -> dict[str, int]:
    given = sources.get(node.name, {})
    return {t.name: given.get(t.name, START) for t in node.times}


def patterns(
    node: Source,
    inputs: Sequence[Patterns],
    bounds: Sequence[Bounds],
    sources: Mapping[str, Patterns],
) -> Patterns:
    return sources.get(node.name, ())


def newest(
    node: Source, inputs: Sequence[Newest], bounds: Sequence[Bounds], sources: Mapping[str, Newest]
) -> dict[str, int]:
    given = sources.get(node.name, {})
    return {t.name: given.get(t.name, START) for t in node.times}


heard = newest


def offers(node: Source, inputs: Sequence[Offer], sources: Mapping[str, Offer]) -> Offer:
    return sources.get(node.name, NOTHING)


def trace(node: Source, name: str, ask: Trace) -> list[Traced]:
    return [((), 0)] if node.name == ask.source.name and name == ask.column else []
