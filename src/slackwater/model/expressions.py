"""The expressions that each type of operator holds, as Spark's analyser understood them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from slackwater.model.node import (
    Aggregate,
    Dedup,
    Filter,
    Held,
    Join,
    Late,
    Lookup,
    Node,
    Outpaced,
    Pace,
    Parted,
    Project,
    Sort,
    Source,
    Union,
    Waiting,
)
from slackwater.model.registry import Registry
from slackwater.model.schema import Expr


def expressions(node: Node) -> tuple[Expr, ...]:
    """What an operator of a user's query evaluates for its rows."""
    return EXPRESSIONS[type(node)](node)


def no_expressions(node: Node) -> tuple[Expr, ...]:
    """The operator has names of columns, and evaluates nothing."""
    return ()


def _filter(node: Filter) -> tuple[Expr, ...]:
    return (node.condition,)


def _project(node: Project) -> tuple[Expr, ...]:
    return tuple(c.expr for c in node.columns)


def _aggregate(node: Aggregate) -> tuple[Expr, ...]:
    arguments = (a for p in node.primitives for a in p.args)
    return (*(k.expr for k in node.keys), *arguments, *(o.expr for o in node.outputs))


def _join(node: Join) -> tuple[Expr, ...]:
    keys = (k.expr for side in node.keys for k in side)
    where = (node.where,) if isinstance(node.where, Expr) else ()  # or a function, or none
    return (*keys, *(o.expr for o in (*node.outputs, *node.pair)), *where)


def _lookup(node: Lookup) -> tuple[Expr, ...]:
    where = () if node.where is None else (node.where,)
    changes = (
        e
        for change in node.relation.changes
        for e in ((change,) if isinstance(change, Expr) else (c.expr for c in change))
    )
    made = (c.expr for c in (*node.keys, *node.outputs, *node.pair))
    return (*made, *where, *changes)


EXPRESSIONS: Registry[Callable[[Any], tuple[Expr, ...]]] = Registry(
    __name__,
    {
        Source: no_expressions,
        Late: no_expressions,
        Filter: _filter,
        Project: _project,
        Union: no_expressions,
        Dedup: no_expressions,
        Sort: no_expressions,
        Pace: no_expressions,
        Outpaced: no_expressions,
        Aggregate: _aggregate,
        Join: _join,
        Lookup: _lookup,
        Held: _lookup,
        Parted: _lookup,
        Waiting: _lookup,
    },
)
