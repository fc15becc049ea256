"""How patterns go through operators, which of them a consumer can use, and what they close.

One rule per operator, from the patterns of its inputs to those of its output. An operator without a rule passes
nothing on, which is always true.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import gcd

from slackwater.model.node import Aggregate, Dedup, Filter, Node, Project, Source, Union
from slackwater.model.schema import Expr
from slackwater.model.window import TimeWindow
from slackwater.semantics.bounds import END, START, Bounds, aligned
from slackwater.semantics.patterns import Pattern, Patterns, Span, Test, above, crossed, merged
from slackwater.semantics.window_ids import extent, last_complete, window_bound
from slackwater.semantics.window_types.registry import WINDOWS

_PLAIN = re.compile(r"`((?:[^`]|``)+)`|(\w+)")
_VARIANTS = 16


def plain_column(expr: Expr) -> str | None:
    """The column that an expression just is, or None.

    >>> plain_column(Expr("`a b`", "int")), plain_column(Expr("a + 1", "int"))
    ('a b', None)
    """
    m = _PLAIN.fullmatch(expr.sql.strip())
    if m is None:
        return None
    return m[1].replace("``", "`") if m[1] is not None else m[2]


def key_columns(node: Aggregate) -> dict[str, str]:
    """Group columns of the result by the input's column that each just is; others cannot be punctuated."""
    found: dict[str, str] = {}
    for key in node.keys:
        name = plain_column(key.expr)
        if not WINDOWS[type(node.window)].apart(node.window, key.name):
            continue
        if name is not None and node.child.field(name) is not None:
            found.setdefault(name, key.name)
    return found


def closable(node: Node) -> bool:
    """Whether patterns can close single groups of an aggregate."""
    return isinstance(node, Aggregate) and _spans(node) and not node.emit_empty


def finishable(node: Node) -> bool:
    """Whether patterns can end single groups of an aggregate, whose windows are not just spans of time."""
    return isinstance(node, Aggregate) and not _spans(node)


def _spans(node: Aggregate) -> bool:
    return WINDOWS[type(node.window)].TRAITS.spans


# ---- what a consumer can use ----


@dataclass(frozen=True)
class Want:
    """A consumer that can use patterns on these columns; its windows end at ``origin + k*slide`` of ``time``."""

    columns: frozenset[str]
    time: str = ""
    slide: int = 1
    origin: int = 0


def wants(nodes: Sequence[Node]) -> list[tuple[Want, ...]]:
    """For every operator, in the order of ``nodes`` (children first), what its consumers can use of it."""
    found: dict[int, list[Want]] = {id(n): [] for n in nodes}
    for node in reversed(nodes):
        mine = found[id(node)]
        if isinstance(node, Aggregate) and closable(node):
            w = node.window
            assert isinstance(w, TimeWindow)
            own = Want(frozenset([*key_columns(node), w.on]), w.on, w.slide, w.origin)
            found[id(node.child)].append(own)
        elif isinstance(node, Aggregate) and finishable(node):
            found[id(node.child)].append(Want(frozenset(key_columns(node))))
        elif isinstance(node, Dedup):
            found[id(node.child)] += [*mine, Want(frozenset(node.subset), node.on)]
        elif isinstance(node, Filter):
            found[id(node.child)] += mine
        elif isinstance(node, Project):
            found[id(node.child)] += [_below(node, want) for want in mine]
        elif isinstance(node, Union):
            for child in node.inputs:
                names = dict(zip((f.name for f in node.schema), (f.name for f in child.schema)))
                found[id(child)] += [
                    Want(
                        frozenset(names[c] for c in w.columns),
                        names.get(w.time, ""),
                        w.slide,
                        w.origin,
                    )
                    for w in mine
                ]
    return [tuple(dict.fromkeys(found[id(n)])) for n in nodes]


def _below(node: Project, want: Want) -> Want:
    """A want on a projection's output as one on its input."""
    times = {out: (name, ticks) for out, name, ticks in node.origins}
    columns = {}
    for c in node.columns:
        name = times[c.name][0] if c.name in times else plain_column(c.expr)
        if name is not None and node.child.field(name) is not None:
            columns[c.name] = name
    time, ticks = times.get(want.time, ("", 0))
    usable = frozenset(columns[c] for c in want.columns if c in columns)
    return Want(usable, time, want.slide, want.origin - ticks)


def described(patterns: Patterns, wanted: Sequence[Want]) -> Patterns:
    """Only what some consumer can use, "before v" rounded down to where its windows end.

    Fewer patterns say the same to these consumers; a pattern that would say nothing is left out.
    """
    found = []
    for p in patterns:
        able = [w for w in wanted if set(p.columns) <= w.columns]
        if not able:
            continue
        times = {w.time for w in able}
        if len(times) == 1 and (time := times.pop()):
            test = p.test(time)
            limit = None if test is None else test.limit
            if isinstance(limit, int):
                first = able[0]
                grain = gcd(*(w.slide for w in able), *(w.origin - first.origin for w in able))
                p = p.replaced(time, Test.below(aligned(limit, grain, first.origin)))
        found.append(p)
    return merged(found)


# ---- through operators ----


def propagate_patterns(
    nodes: Sequence[Node], bounds: Sequence[Bounds], sources: Mapping[str, Patterns]
) -> list[Patterns]:
    """The patterns of every operator's output, in the order of ``nodes`` (children first).

    ``bounds`` are those of `bounds.propagate`; ``sources`` gives the patterns of each source by name.
    """
    if not any(sources.values()):
        return [() for _ in nodes]
    needs = wants(nodes)
    found: dict[int, Patterns] = {}
    linear = {id(n): b for n, b in zip(nodes, bounds, strict=True)}
    for node, need, bound in zip(nodes, needs, bounds, strict=True):
        if isinstance(node, Source):
            mine = sources.get(node.name, ())
        else:
            mine = output_patterns(
                node, [found[id(c)] for c in node.children], [linear[id(c)] for c in node.children]
            )
        known = {c: v for c, v in bound.items() if v > START}
        found[id(node)] = described(above(mine, known), need)
    return [found[id(n)] for n in nodes]


def output_patterns(node: Node, inputs: Sequence[Patterns], bounds: Sequence[Bounds]) -> Patterns:
    """The patterns of one operator's output, from those (and the bounds) of its inputs.

    A sort passes none on: the rows it holds back would break them. Neither do late rows, which break them by
    definition.
    """
    if isinstance(node, Filter | Dedup):
        return inputs[0]
    if isinstance(node, Project):
        return tuple(q for p in inputs[0] for q in _projected(node, p))
    if isinstance(node, Union):
        return _united(node, inputs, bounds)
    if isinstance(node, Aggregate) and closable(node):
        return tuple(q for p in inputs[0] if (q := _grouped(node, p)) is not None)
    if isinstance(node, Aggregate) and finishable(node):
        keys = key_columns(node)
        usable = [p for p in inputs[0] if set(p.columns) <= set(keys)]
        return tuple(Pattern.of({keys[c]: t for c, t in p.tests}) for p in usable)
    return ()


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
                    names.append((c.name, _shifted(test, ticks)))
            elif plain_column(c.expr) == column:
                names.append((c.name, test))
        choices.append(names)
    picked = itertools.islice(itertools.product(*choices), _VARIANTS)
    return [Pattern.of(dict(tests)) for tests in picked]


def _shifted(test: Test, ticks: int) -> Test:
    if not ticks:
        return test

    def moved(v: object) -> int | None:
        return v + ticks if isinstance(v, int) else None

    return Test(tuple((moved(low), moved(high)) for low, high in test.spans), test.null)


def _united(node: Union, inputs: Sequence[Patterns], bounds: Sequence[Bounds]) -> Patterns:
    """What all inputs say, columns by position; a linear bound is a pattern on its time."""
    names = [f.name for f in node.schema]
    sides = []
    for child, patterns, bound in zip(node.inputs, inputs, bounds, strict=True):
        to = dict(zip((f.name for f in child.schema), names, strict=True))
        side = [Pattern.of({to[c]: t for c, t in p.tests}) for p in patterns]
        for mine, common in zip(child.times, node.times, strict=False):
            v = bound.get(mine.name, START)
            if v >= END:
                side = [Pattern(())]  # it has ended: it agrees with whatever the others say
                break
            if v > START:
                side.append(Pattern.of({common.name: Test.below(v)}))
        sides.append(tuple(side))
    return crossed(sides, [t.name for t in node.times])


def _grouped(node: Aggregate, p: Pattern) -> Pattern | None:
    """What a pattern on group columns (and the time) says of the results."""
    keys, w = key_columns(node), node.window
    assert isinstance(w, TimeWindow)
    tests: dict[str, Test] = {}
    for column, test in p.tests:
        if column == w.on and column not in keys:
            spans = [s for span in test.spans if (s := _result_times(span, w)) is not None]
            if not spans:
                return None
            tests[node.times[0].name] = Test.of(spans)
        elif column in keys and column != w.on:
            tests[keys[column]] = test
        else:
            return None
    return Pattern.of(tests)


def _result_times(span: Span, w: TimeWindow) -> Span | None:
    """Times (end - 1) of the results of windows that lie within the span."""
    low, high = span
    assert not isinstance(low, str) and not isinstance(high, str)
    first = None
    if low is not None:
        wid = -((w.origin + w.slide - w.range - low) // w.slide)
        first = extent(wid, w)[1] - 1
    last = None if high is None else window_bound(high, w)
    return (first, last) if first is None or last is None or first < last else None


# ---- what patterns close ----


@dataclass(frozen=True)
class Closing:
    """Patterns that an aggregate's input has, as far as they close groups.

    ``tests`` has one entry per pattern: the test on each key (None: wildcard), in the keys' order, and the
    spans of time within which a window is closed.
    """

    tests: tuple[tuple[tuple[Test | None, ...], tuple[Span, ...]], ...] = ()
    closed: int = START
    """The greatest window that the linear bound closes."""

    def __bool__(self) -> bool:
        return bool(self.tests)


def finishing(node: Aggregate, patterns: Patterns) -> Closing:
    """The groups that patterns end whatever the time."""
    usable = [p for p in patterns if set(p.columns) <= set(key_columns(node))]
    names = [plain_column(k.expr) for k in node.keys]
    tests = [tuple(p.test(n) if n else None for n in names) for p in usable]
    return Closing(tuple((t, ((None, None),)) for t in tests))


def closing(node: Aggregate, patterns: Patterns, bound: int) -> Closing:
    """What the patterns in force at an aggregate's input close, besides the linear bound."""
    w = node.window
    if not patterns or not closable(node):
        return Closing()
    assert isinstance(w, TimeWindow)
    names = [plain_column(k.expr) for k in node.keys]
    found = []
    for p in patterns:
        tests = dict(p.tests)
        time = tests.pop(w.on, None) if w.on not in names else None
        spans: tuple[Span, ...] = ((None, None),) if time is None else time.spans
        if bound > START:
            spans = Test.of([*spans, (None, bound)]).spans
        if set(tests) <= set(names):
            found.append((tuple(tests.get(n or "") for n in names), spans))
    closed = START if bound <= START else END if bound >= END else last_complete(bound, w)
    return Closing(tuple(found), closed)
