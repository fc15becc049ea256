"""Answers that several operators have in common; a module of an operator takes them by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NoReturn

from slackwater.errors import AnalysisError
from slackwater.model.node import Node
from slackwater.semantics.contracts.needs import Need
from slackwater.semantics.contracts.offers import NOTHING, Offer
from slackwater.semantics.limits import START, Bounds
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

# --- of operators that let rows pass as they come, or leave some out ------------------------------------


def same_bounds(
    node: Node, inputs: Sequence[Bounds], sources: Mapping[str, Bounds]
) -> dict[str, int]:
    """What is true of all rows is true of some."""
    return {t.name: inputs[0][t.name] for t in node.times}


def same_patterns(
    node: Node,
    inputs: Sequence[Patterns],
    bounds: Sequence[Bounds],
    sources: Mapping[str, Patterns],
) -> Patterns:
    """What does not come in does not come out."""
    return inputs[0]


def same_offer(node: Node, inputs: Sequence[Offer], sources: Mapping[str, Offer]) -> Offer:
    """What is sure of all rows is sure of some."""
    return inputs[0]


def same_frontier(node: Node, columns: Sequence[str], known: Known) -> Points:
    """The input's, over the same times."""
    return known.below(node.children[0], columns)


def same_trace(node: Node, name: str, ask: Trace) -> list[Traced]:
    """A time keeps its name."""
    return ask.below(node.children[0], name)


def same_copies(node: Node, column: str) -> Copies:
    """A column keeps its name and its values."""
    return [] if node.field(column) is None else [(node.children[0], column)]


def same_feedback(node: Node, records: Patterns) -> Reaction:
    """What is not wanted behind the operator is not wanted in front of it."""
    return Reaction((records,))


def same_newest(
    node: Node, inputs: Sequence[Newest], bounds: Sequence[Bounds], sources: Mapping[str, Newest]
) -> dict[str, int]:
    """Times are the input's."""
    return {t.name: inputs[0].get(t.name, START) for t in node.times}


def no_state(node: Node) -> str:
    """What an operator keeps that keeps nothing."""
    return "nothing: rows pass as they come"


def no_needs(node: Node) -> tuple[Need, ...]:
    """There is no state to be freed."""
    return ()


def no_time(node: Node) -> tuple[str, ...]:
    """No rows are held back."""
    return ()


# --- of operators that say less than others -------------------------------------------------------------


def no_wants(node: Node, above: Sequence[Want]) -> tuple[Sequence[Want], ...]:
    """No pattern is of use to the operator, and none goes through it."""
    return tuple(() for _ in node.children)


def no_patterns(
    node: Node,
    inputs: Sequence[Patterns],
    bounds: Sequence[Bounds],
    sources: Mapping[str, Patterns],
) -> Patterns:
    """Nothing is said, which is always true."""
    return ()


def no_offer(node: Node, inputs: Sequence[Offer], sources: Mapping[str, Offer]) -> Offer:
    """Nothing is sure before the input ends."""
    return inputs[0] if all(i.ended for i in inputs) else NOTHING


def bounds_alone(node: Node, columns: Sequence[str], known: Known) -> Points:
    """The frontier of an operator that knows no more of its times together than of each alone."""
    return (tuple(known.bound(node, c) for c in columns),)


def only_guarded(node: Node, records: Patterns) -> Reaction:
    """Nothing goes on: what is lost in front of the operator may change results that are wanted."""
    return Reaction(tuple(() for _ in node.children), records)


def no_copies(node: Node, column: str) -> Copies:
    """No column is said to be one of an input."""
    return []


def ask_readers(node: Node, *_: object) -> NoReturn:
    """The answer of an operator that the planner put in the place of several: they answer for themselves."""
    raise AnalysisError(
        "ASK_READERS",
        f"{type(node).__name__} holds the state of several operators and says nothing of their results",
        hint="ask each of its readers",
        operator=type(node).__name__,
    )
