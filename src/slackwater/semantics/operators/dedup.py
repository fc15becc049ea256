"""Duplicates dropped: a row that comes out came in with it, at the same time."""

from __future__ import annotations

from collections.abc import Sequence

from slackwater.model.node import Dedup
from slackwater.model.spans import words_of
from slackwater.semantics.operators import common
from slackwater.semantics.pattern_wants import Want

bounds = common.same_bounds
patterns = common.same_patterns
frontier = common.same_frontier
trace = common.same_trace
copies = common.same_copies


def entering(node: Dedup) -> tuple[str, ...]:
    return (node.on,)


def wants(node: Dedup, above: Sequence[Want]) -> tuple[Sequence[Want], ...]:
    return ((*above, Want(frozenset(node.subset), node.on)),)


def keeps(node: Dedup) -> str:
    what = f"the {', '.join(node.subset)} of rows"
    far = "" if node.within is None else f", for {words_of(node).span(node.within, node.on)} more"
    return f"{what} at or above the bound on {node.on}{far}"
