"""Unions: what all inputs say. Columns correspond by position; the first input names them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slackwater.model.node import Union
from slackwater.semantics.limits import END, START, Bounds, minimum
from slackwater.semantics.operators import common
from slackwater.semantics.operators.answers import Copies, Known, Points, Trace, Traced, least
from slackwater.semantics.pattern_wants import Want
from slackwater.semantics.patterns import Pattern, Patterns, Test, crossed

entering = common.no_time
keeps = common.no_state


def bounds(node: Union, inputs: Sequence[Bounds], sources: Mapping[str, Bounds]) -> dict[str, int]:
    columns = [[b[t.name] for t in c.times] for c, b in zip(node.inputs, inputs, strict=True)]
    return {t.name: minimum(c[i] for c in columns) for i, t in enumerate(node.times)}


def wants(node: Union, above: Sequence[Want]) -> tuple[Sequence[Want], ...]:
    by_input = []
    for child in node.inputs:
        names = dict(zip((f.name for f in node.schema), (f.name for f in child.schema)))
        by_input.append(
            [
                Want(
                    frozenset(names[c] for c in w.columns),
                    names.get(w.time, ""),
                    w.slide,
                    w.origin,
                )
                for w in above
            ]
        )
    return tuple(by_input)


def patterns(
    node: Union,
    inputs: Sequence[Patterns],
    bounds: Sequence[Bounds],
    sources: Mapping[str, Patterns],
) -> Patterns:
    """What all inputs say; a linear bound is a pattern on its time."""
    names = [f.name for f in node.schema]
    sides = []
    for child, mine, bound in zip(node.inputs, inputs, bounds, strict=True):
        to = dict(zip((f.name for f in child.schema), names, strict=True))
        side = [Pattern.of({to[c]: t for c, t in p.tests}) for p in mine]
        for own, united in zip(child.times, node.times, strict=False):
            v = bound.get(own.name, START)
            if v >= END:
                side = [Pattern(())]  # it has ended: it agrees with whatever the others say
                break
            if v > START:
                side.append(Pattern.of({united.name: Test.below(v)}))
        sides.append(tuple(side))
    return crossed(sides, [t.name for t in node.times])


def frontier(node: Union, columns: Sequence[str], known: Known) -> Points:
    at = [[t.name for t in node.times].index(c) for c in columns]
    inputs = [known.below(child, [child.times[i].name for i in at]) for child in node.inputs]
    return least(point for points in inputs for point in points)


def trace(node: Union, name: str, ask: Trace) -> list[Traced]:
    at = [t.name for t in node.times].index(name)
    return [p for i in node.inputs for p in ask.below(i, i.times[at].name)]


def copies(node: Union, column: str) -> Copies:
    """By its place: an input may call it otherwise."""
    names = [f.name for f in node.schema]
    if column not in names:
        return []
    return [(child, child.schema[names.index(column)].name) for child in node.inputs]
