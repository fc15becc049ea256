"""Carrying the order of arrival, and what filters said, from a source to an operator that counts rows."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from slackwater.errors import AnalysisError
from slackwater.model.names import ours
from slackwater.model.node import Dedup, Filter, Node, Project, Source
from slackwater.model.schema import Expr, Field, Named, column

PASS = ours("__pass")
_TRUE = Expr("true", "boolean", "true")


class Arrival(NamedTuple):
    """The operators with the columns carried along, and the names of these.

    ``order`` is empty where rows have no order of arrival; ``passing`` is None where no filter is below.
    """

    node: Node
    order: tuple[str, ...]
    passing: str | None


def with_order(node: Node) -> Arrival:
    """The same rows, with the columns that give their order of arrival, if there is a source with one below.

    Filters, projections and dropDuplicates let rows pass as they come. Behind a union, a join or an aggregate
    there is no order of arrival but that of batches, and behind a sort it is that of time.
    """
    source = _source(node, (Filter, Project, Dedup))
    if source is None or not source.order:
        return Arrival(node, (), None)
    if all(f in node.schema for f in _fields(source)) and not _projects(node):
        return Arrival(node, source.order, None)
    names = tuple(ours(f"__order{i}") for i in range(len(source.order)))
    return Arrival(_carried(node, source, names, passing=False), names, None)


def at_source(node: Node) -> Arrival:
    """All rows of the source below, with their order of arrival and whether the filters let them pass."""
    source = _source(node, (Filter, Project))
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
    return Arrival(_carried(node, source, names, passing=True), names, PASS)


def no_order(stream: str, what: str, way: str) -> AnalysisError:
    """The error of an operation that needs an order of arrival where there is none."""
    return AnalysisError(
        "NO_ARRIVAL_ORDER",
        f"{what} needs the order in which rows arrived, and stream '{stream}' does not tell it",
        hint=f'name the column(s) that do, e.g. sw.stream(..., order="offset"); {way}',
        stream=stream,
    )


def _source(node: Node, through: tuple[type[Node], ...]) -> Source | None:
    while isinstance(node, through):
        (node,) = node.children
    return node if isinstance(node, Source) else None


def _fields(source: Source) -> list[Field]:
    return [f for f in source.schema if f.name in source.order]


def _projects(node: Node) -> bool:
    while not isinstance(node, Source):
        if isinstance(node, Project):
            return True
        (node,) = node.children
    return False


def _carried(node: Node, source: Source, names: tuple[str, ...], *, passing: bool) -> Node:
    extra = [
        Field(n, f.type)
        for n, f in zip(names, (_field(source, c) for c in source.order), strict=True)
    ]
    if passing:
        extra.append(Field(PASS, "boolean"))
    if isinstance(node, Source):
        columns = [Named(f.name, column(f.name, f.type)) for f in node.schema]
        columns += [
            Named(n, column(c, _field(source, c).type))
            for n, c in zip(names, source.order, strict=True)
        ]
        if passing:
            columns.append(Named(PASS, _TRUE))
        same = tuple((t.name, t.name, 0) for t in node.times)
        return Project((*node.schema, *extra), node.times, node, tuple(columns), same)
    (child,) = node.children
    below = _carried(child, source, names, passing=passing)
    kept = [Named(f.name, column(f.name, f.type)) for f in extra]
    if isinstance(node, Project):
        safe = {out for out, _, _ in node.origins}
        own = [
            c if c.name in safe or not passing else Named(c.name, guarded(c.expr, PASS))
            for c in node.columns
        ]
        return Project((*node.schema, *extra), node.times, below, (*own, *kept), node.origins)
    if isinstance(node, Filter) and passing:
        columns = [Named(f.name, column(f.name, f.type)) for f in (*node.schema, *extra[:-1])]
        columns.append(Named(PASS, _and_true(node.condition)))
        same = tuple((t.name, t.name, 0) for t in node.times)
        return Project((*node.schema, *extra), node.times, below, tuple(columns), same)
    assert isinstance(node, Filter | Dedup)
    return replace(node, schema=(*node.schema, *extra), child=below)


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
    found = source.field(name)
    assert found is not None
    return found
