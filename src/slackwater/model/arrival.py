"""Carrying the order of arrival, and what filters said, from a source to an operator that counts rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from slackwater.errors import AnalysisError
from slackwater.model.names import ours
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
from slackwater.model.schema import Expr, Field, Named, column

PASS = ours("__pass")
_TRUE = Expr("true", "boolean", "true")


class Carried(NamedTuple):
    """The operators with the columns carried along, and the names of these.

    ``order`` is empty where rows have no order of arrival; ``passing`` is None where no filter is below.
    """

    node: Node
    order: tuple[str, ...]
    passing: str | None


def with_order(node: Node) -> Carried:
    """The same rows, with the columns that give their order of arrival, if there is a source with one below.

    Filters, projections and dropDuplicates let rows pass as they come. Behind a union, a join or an aggregate
    there is no order of arrival but that of batches, and behind a sort it is that of time.
    """
    source = _source(node)
    if source is None or not source.order:
        return Carried(node, (), None)
    if all(f in node.schema for f in _fields(source)) and _same_columns(node):
        return Carried(node, source.order, None)
    names = tuple(ours(f"__order{i}") for i in range(len(source.order)))
    return Carried(_carried(node, source, names, passing=False), names, None)


def at_source(node: Node) -> Carried:
    """All rows of the source below, with their order of arrival and whether the filters let them pass."""
    source = _source(node, counted=True)
    if source is None:
        raise AnalysisError(
            "NOT_AT_SOURCE",
            "rows cannot be counted at the source: between it and the window is more than filters and "
            "projections",
            hint='use sw.rows(..., at="operator"), which counts the rows that reach the window',
        )
    if not source.order:
        raise no_order(source.name, 'sw.rows(at="source")', 'or count with sw.rows(at="operator")')
    below = node
    while isinstance(below, Project):
        below = below.child
    if isinstance(below, Source):
        return with_order(node)
    names = tuple(ours(f"__order{i}") for i in range(len(source.order)))
    return Carried(_carried(node, source, names, passing=True), names, PASS)


def no_order(stream: str, what: str, way: str) -> AnalysisError:
    """The error of an operation that needs an order of arrival where there is none."""
    return AnalysisError(
        "NO_ARRIVAL_ORDER",
        f"{what} needs the order in which rows arrived, and stream '{stream}' does not tell it",
        hint=f'name the column(s) that do, e.g. sw.stream(..., order="offset"); {way}',
        stream=stream,
    )


def _source(node: Node, *, counted: bool = False) -> Source | None:
    """The source whose order rows have behind ``node``, or None; if ``counted``, all rows of it must be countable."""
    while (passing := PASSING[type(node)]) is not None and (passing.counted or not counted):
        (node,) = node.children
    return node if isinstance(node, Source) else None


def _fields(source: Source) -> list[Field]:
    return [f for f in source.schema if f.name in source.order]


def _same_columns(node: Node) -> bool:
    """Whether a column is surely the source's of that name; of other operators it is not known, so columns of ours go along."""
    while isinstance(node, Filter | Dedup):
        node = node.child
    return isinstance(node, Source)


def _carried(node: Node, source: Source, names: tuple[str, ...], *, passing: bool) -> Node:
    extra = [
        Field(n, f.type)
        for n, f in zip(names, (_field(source, c) for c in source.order), strict=True)
    ]
    if passing:
        extra.append(Field(PASS, "boolean"))
    return _with_columns(node, source, extra, passing)


def _with_columns(node: Node, source: Source, extra: Sequence[Field], passing: bool) -> Node:
    if isinstance(node, Source):
        columns = _as_they_are(node.schema)
        columns += [
            Named(f.name, column(c, f.type)) for f, c in zip(extra, source.order, strict=False)
        ]
        if passing:
            columns.append(Named(PASS, _TRUE))
        return Project((*node.schema, *extra), node.times, node, tuple(columns), _unmoved(node))
    entry = PASSING[type(node)]
    assert entry is not None, "the way to a source leads through operators that let rows pass"
    (child,) = node.children
    return entry.carry(node, _with_columns(child, source, extra, passing), extra, passing)


def _project(node: Project, below: Node, extra: Sequence[Field], passing: bool) -> Node:
    safe = {out for out, _, _ in node.origins}
    own = [
        c if c.name in safe or not passing else Named(c.name, guarded(c.expr, PASS))
        for c in node.columns
    ]
    columns = (*own, *_as_they_are(extra))
    return Project((*node.schema, *extra), node.times, below, columns, node.origins)


def _filter(node: Filter, below: Node, extra: Sequence[Field], passing: bool) -> Node:
    if not passing:
        return replace(node, schema=(*node.schema, *extra), child=below)
    columns = _as_they_are((*node.schema, *extra[:-1]))
    columns.append(Named(PASS, _and_true(node.condition)))
    return Project((*node.schema, *extra), node.times, below, tuple(columns), _unmoved(node))


def _with_more(node: Dedup | Pace, below: Node, extra: Sequence[Field], passing: bool) -> Node:
    return replace(node, schema=(*node.schema, *extra), child=below)


def _as_they_are(fields: Sequence[Field]) -> list[Named]:
    return [Named(f.name, column(f.name, f.type)) for f in fields]


def _unmoved(node: Node) -> tuple[tuple[str, str, int], ...]:
    return tuple((t.name, t.name, 0) for t in node.times)


class Passing(NamedTuple):
    """An operator that lets rows pass as they come.

    ``carry`` gives the operator over a child that has further columns, which it takes along; told that the last of these
    is `PASS`, it marks rows there and drops none. Where ``counted`` is not true it cannot, and no row below it can be
    counted.
    """

    carry: Callable[[Any, Node, Sequence[Field], bool], Node]
    counted: bool


PASSING: Registry[Passing | None] = Registry(
    __name__,
    {
        # The order begins here.
        Source: None,
        Filter: Passing(_filter, counted=True),
        Project: Passing(_project, counted=True),
        Dedup: Passing(_with_more, counted=False),
        Pace: Passing(_with_more, counted=False),
        Outpaced: Passing(_with_more, counted=False),
        # Their rows have no order of arrival but that of batches, or that of time.
        Late: None,
        Union: None,
        Sort: None,
        Aggregate: None,
        Join: None,
        Lookup: None,
        Held: None,
        Parted: None,
        Waiting: None,
    },
)
"""How rows leave each type of operator of a user's query; None if not in the order in which they came."""


def guarded(e: Expr, passing: str) -> Expr:
    """The expression, evaluated only for rows that pass; columns are taken as they are."""
    if e.sql == column(e.sql.strip("`"), e.type).sql:
        return e
    test = column(passing, "boolean")
    duck = None if e.duck is None else f"CASE WHEN {test.duck} THEN {e.duck} END"
    return Expr(f"if({test.sql}, {e.sql}, null)", e.type, duck, e.why)


def _and_true(e: Expr) -> Expr:
    test = column(PASS, "boolean")
    duck = None
    if e.duck is not None:
        duck = f"CASE WHEN {test.duck} THEN coalesce({e.duck}, false) ELSE false END"
    return Expr(f"if({test.sql}, coalesce({e.sql}, false), false)", "boolean", duck, e.why)


def _field(source: Source, name: str) -> Field:
    field = source.field(name)
    assert field is not None
    return field
