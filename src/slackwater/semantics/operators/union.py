"""Unions: what all inputs say. Columns correspond by position; the first input names them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slackwater.model.node import Node, Union
from slackwater.semantics.contracts.offers import Offer, renamed
from slackwater.semantics.contracts.offers import crossed as crossed_offers
from slackwater.semantics.feedback.columns import joined, parted
from slackwater.semantics.limits import END, START, Bounds, minimum
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
from slackwater.semantics.pattern_wants import Want
from slackwater.semantics.patterns import Pattern, Patterns, Test, crossed

entering = common.no_time
keeps = common.no_state
needs = common.no_needs


def bounds(node: Union, inputs: Sequence[Bounds], sources: Mapping[str, Bounds]) -> dict[str, int]:
    columns = [[b[t.name] for t in c.times] for c, b in zip(node.inputs, inputs, strict=True)]
    return {t.name: minimum(c[i] for c in columns) for i, t in enumerate(node.times)}


def wants(node: Union, above: Sequence[Want]) -> tuple[Sequence[Want], ...]:
    by_input = []
    for child in node.inputs:
        names = _names(node, child)
        by_input.append(
            [
                Want(
                    frozenset(names[c] for c in w.columns if c in names),
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
    sides = []
    for child, mine, bound in zip(node.inputs, inputs, bounds, strict=True):
        to = {own: united for united, own in _names(node, child).items()}
        side = [Pattern.of({to[c]: t for c, t in p.tests}) for p in mine if set(p.columns) <= to.keys()]  # fmt: skip
        for own, united in zip(child.times, node.times, strict=False):
            v = bound.get(own.name, START)
            if v >= END:
                side = [Pattern(())]  # it has ended: it agrees with whatever the others say
                break
            if v > START:
                side.append(Pattern.of({united.name: Test.below(v)}))
        sides.append(tuple(side))
    return crossed(sides, [t.name for t in node.times])


def _names(node: Union, child: Node) -> dict[str, str]:
    """What columns and times of the result are called in an input; the time of a join is no column."""
    names = zip((f.name for f in node.schema), (f.name for f in child.schema), strict=True)
    times = zip((t.name for t in node.times), (t.name for t in child.times), strict=False)
    return dict(times) | dict(names)


def feedback(node: Union, records: Patterns) -> Reaction:
    """Everything, to each input; what some input has no name for is guarded behind the union, for the sake of that one."""
    sent = [[_of_input(node, c, r) for r in records] for c in node.inputs]
    stopped = {i for side in sent for i, r in enumerate(side) if r is None}
    return Reaction(
        tuple(tuple(r for r in side if r is not None) for side in sent),
        tuple(records[i] for i in sorted(stopped)),
    )


def _of_input(node: Union, child: Node, record: Pattern) -> Pattern | None:
    """A record under the names of an input; None if a name would be that of another column there."""
    names = _names(node, child)
    tests: dict[str, Test] = {}
    for column, test in record.tests:
        name, part = parted(node, column)
        named = joined(child, names[name], part)
        if named is None:
            return None
        tests[named] = test
    return Pattern.of(tests)


def newest(
    node: Union, inputs: Sequence[Newest], bounds: Sequence[Bounds], sources: Mapping[str, Newest]
) -> dict[str, int]:
    sides = list(zip(node.inputs, inputs, strict=True))
    return {
        t.name: max(n.get(c.times[i].name, START) for c, n in sides)
        for i, t in enumerate(node.times)
    }


heard = newest


def offers(node: Union, inputs: Sequence[Offer], sources: Mapping[str, Offer]) -> Offer:
    """What all inputs offer, in the result's names."""
    names = [f.name for f in node.schema]
    sides = []
    for child, mine in zip(node.inputs, inputs, strict=True):
        to = {f.name: [n] for f, n in zip(child.schema, names, strict=True)}
        times = {own.name: [t.name] for own, t in zip(child.times, node.times, strict=False)}
        sides.append(renamed(mine, times, to))
    return crossed_offers(sides)


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
