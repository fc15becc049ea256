"""Projections: times may be moved by a constant, columns renamed or left out."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from slackwater.model.node import Project
from slackwater.model.schema import Expr
from slackwater.model.unnamed_time import UNNAMED
from slackwater.semantics.contracts.offers import Offer, renamed
from slackwater.semantics.feedback.columns import joined, moved, parted
from slackwater.semantics.limits import START, Bounds, shift
from slackwater.semantics.operators import common
from slackwater.semantics.operators.answers import (
    Copies,
    Known,
    Newest,
    Points,
    Reaction,
    Trace,
    Traced,
    least,
)
from slackwater.semantics.pattern_wants import Want, plain_column, plain_field
from slackwater.semantics.patterns import Pattern, Patterns, Test

_VARIANTS = 16

entering = common.no_time
keeps = common.no_state
needs = common.no_needs


def bounds(
    node: Project, inputs: Sequence[Bounds], sources: Mapping[str, Bounds]
) -> dict[str, int]:
    # Nobody asks for the bound of a time that was left out.
    return {
        out: shift(inputs[0][name], ticks) for out, name, ticks in node.origins if out != UNNAMED
    }


def wants(node: Project, above: Sequence[Want]) -> tuple[Sequence[Want], ...]:
    return ([_below(node, want) for want in above],)


def _below(node: Project, want: Want) -> Want:
    """A want on a projection's output as one on its input."""
    times = {out: (name, ticks) for out, name, ticks in node.origins}
    columns = {}
    for c in node.columns:
        name = times[c.name][0] if c.name in times else plain_column(c.expr)
        if name is not None and node.child.field(name) is not None:
            columns[c.name] = name
    columns |= {out: name for out, (name, _) in times.items() if _is_apart(node, out)}
    time, ticks = times.get(want.time, ("", 0))
    usable = frozenset(columns[c] for c in want.columns if c in columns)
    return Want(usable, time, want.slide, want.origin - ticks)


def patterns(
    node: Project,
    inputs: Sequence[Patterns],
    bounds: Sequence[Bounds],
    sources: Mapping[str, Patterns],
) -> Patterns:
    return tuple(q for p in inputs[0] for q in _projected(node, p))


def _projected(node: Project, p: Pattern) -> list[Pattern]:
    """The pattern on the output's columns: none if a tested column is gone, several if one has several names."""
    times = {out: (name, ticks) for out, name, ticks in node.origins}
    choices: list[list[tuple[str, Test]]] = []
    for column, test in p.tests:
        names = []
        for c in node.columns:
            if c.name in times:
                name, ticks = times[c.name]
                if name == column:
                    names.append((c.name, moved(test, ticks)))
            elif plain_column(c.expr) == column:
                names.append((c.name, test))
        names += [
            (out, moved(test, ticks))
            for out, (name, ticks) in times.items()
            if name == column and _is_apart(node, out)
        ]
        choices.append(names)
    picked = itertools.islice(itertools.product(*choices), _VARIANTS)
    return [Pattern.of(dict(tests)) for tests in picked]


def _is_apart(node: Project, time: str) -> bool:
    """Whether a time is no column: the greatest or least of several."""
    return time != UNNAMED and node.field(time) is None


def feedback(node: Project, records: Patterns) -> Reaction:
    return Reaction.of(1, ((r, (_unprojected(node, r),), False) for r in records))


def offers(node: Project, inputs: Sequence[Offer], sources: Mapping[str, Offer]) -> Offer:
    times: dict[str, list[str]] = {}
    for out, name, _ in node.origins:
        if out != UNNAMED:
            times.setdefault(name, []).append(out)
    origins = {out: name for out, name, _ in node.origins}
    columns: dict[str, list[str]] = {}
    for c in node.columns:
        below = origins.get(c.name) or plain_column(c.expr)
        if below is not None:
            columns.setdefault(below, []).append(c.name)
    for out, name, _ in node.origins:
        if _is_apart(node, out):
            columns.setdefault(name, []).append(out)
    return renamed(inputs[0], times, columns)


def _unprojected(node: Project, record: Pattern) -> Pattern | None:
    """A record on the columns that were projected; None if one of them was computed."""
    times = {out: (name, ticks) for out, name, ticks in node.origins}
    exprs = {c.name: c.expr for c in node.columns}
    below = Pattern(())
    for column, test in record.tests:
        if column in times:
            name, ticks = times[column]
            below &= Pattern.of({name: moved(test, -ticks)})
            continue
        whole, part = parted(node, column)
        expr = exprs.get(whole)
        origin = None if expr is None else plain_column(expr)
        if origin is None and expr is not None and not part:
            origin, part = _field(expr)
        named = None if origin is None else joined(node.child, origin, part)
        if named is None:
            return None
        # Copies of a column have the same value: it passes the tests of all of them.
        below &= Pattern.of({named: test})
    return below


def _field(expr: Expr) -> tuple[str | None, str]:
    """The column and its field, with the dot, that an expression just is."""
    name, dot, field = (plain_field(expr) or "").rpartition(".")
    return (name, dot + field) if name else (None, "")


def newest(
    node: Project, inputs: Sequence[Newest], bounds: Sequence[Bounds], sources: Mapping[str, Newest]
) -> dict[str, int]:
    return {
        out: shift(inputs[0].get(name, START), ticks)
        for out, name, ticks in node.origins
        if out != UNNAMED
    }


heard = newest


def frontier(node: Project, columns: Sequence[str], known: Known) -> Points:
    moves = {out: (name, ticks) for out, name, ticks in node.origins}
    below = known.below(node.child, [moves[c][0] for c in columns])
    return least(
        tuple(shift(v, moves[c][1]) for v, c in zip(point, columns, strict=True)) for point in below
    )


def trace(node: Project, name: str, ask: Trace) -> list[Traced]:
    return [
        (chain, moved + ticks)
        for out, origin, ticks in node.origins
        if out == name
        for chain, moved in ask.below(node.child, origin)
    ]


def copies(node: Project, column: str) -> Copies:
    below = {c.name: plain_column(c.expr) for c in node.columns}.get(column)
    return [] if below is None else [(node.child, below)]
