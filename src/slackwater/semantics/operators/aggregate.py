"""Aggregates per window and group: most answers are those of the type of window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slackwater.model.node import Aggregate, Node
from slackwater.model.spans import words_of
from slackwater.model.window import TimeWindow
from slackwater.semantics.limits import Bounds
from slackwater.semantics.operators import common
from slackwater.semantics.operators.answers import Copies, Known, Points, Trace, Traced, least
from slackwater.semantics.pattern_wants import Want, plain_column
from slackwater.semantics.patterns import Pattern, Patterns, Span, Test
from slackwater.semantics.window_ids import extent, window_bound
from slackwater.semantics.window_types.registry import WINDOWS
from slackwater.semantics.windows import result_bound, shifted


def entering(node: Aggregate) -> tuple[str, ...]:
    return (node.window.on,)


def bounds(
    node: Aggregate, inputs: Sequence[Bounds], sources: Mapping[str, Bounds]
) -> dict[str, int]:
    pairs = zip(node.times, node.windows, strict=True)
    return {t.name: result_bound(inputs[0][w.on], w) for t, w in pairs}


def key_columns(node: Aggregate) -> dict[str, str]:
    """Group columns of the result by the input's column that each just is; others cannot be punctuated."""
    keys: dict[str, str] = {}
    for key in node.keys:
        name = plain_column(key.expr)
        if not WINDOWS[type(node.window)].apart(node.window, key.name):
            continue
        if name is not None and node.child.field(name) is not None:
            keys.setdefault(name, key.name)
    return keys


def closable(node: Node) -> bool:
    """Whether patterns can close single groups of an aggregate."""
    return isinstance(node, Aggregate) and _spans(node) and not node.emit_empty


def finishable(node: Node) -> bool:
    """Whether patterns can end single groups of an aggregate, whose windows are not just spans of time."""
    return isinstance(node, Aggregate) and not _spans(node)


def _spans(node: Aggregate) -> bool:
    return WINDOWS[type(node.window)].traits.spans


def wants(node: Aggregate, above: Sequence[Want]) -> tuple[Sequence[Want], ...]:
    if closable(node):
        w = node.window
        assert isinstance(w, TimeWindow)
        own = Want(frozenset([*key_columns(node), w.on]), w.on, w.slide, w.origin)
        return ((own,),)
    return ((Want(frozenset(key_columns(node))),) if finishable(node) else (),)


def patterns(
    node: Aggregate,
    inputs: Sequence[Patterns],
    bounds: Sequence[Bounds],
    sources: Mapping[str, Patterns],
) -> Patterns:
    if closable(node):
        return tuple(q for p in inputs[0] if (q := _grouped(node, p)) is not None)
    if not finishable(node):
        return ()
    keys = key_columns(node)
    usable = [p for p in inputs[0] if set(p.columns) <= set(keys)]
    return tuple(Pattern.of({keys[c]: t for c, t in p.tests}) for p in usable)


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


def frontier(node: Aggregate, columns: Sequence[str], known: Known) -> Points:
    if not WINDOWS[type(node.window)].traits.joint:
        return common.bounds_alone(node, columns, known)
    windows = {t.name: w for t, w in zip(node.times, node.windows, strict=True)}
    below = known.below(node.child, [windows[c].on for c in columns])
    return least(
        tuple(result_bound(v, windows[c]) for v, c in zip(point, columns, strict=True))
        for point in below
    )


def trace(node: Aggregate, name: str, ask: Trace) -> list[Traced]:
    w = node.windows[[t.name for t in node.times].index(name)]
    if not WINDOWS[type(w)].traits.timed:
        return []  # its results are on row numbers
    return [((*chain, shifted(w, moved)), 0) for chain, moved in ask.below(node.child, w.on)]


def copies(node: Aggregate, column: str) -> Copies:
    below = {k.name: plain_column(k.expr) for k in node.keys}.get(column)
    return [] if below is None else [(node.child, below)]


def keeps(node: Aggregate) -> str:
    growing = any(not p.traits.bounded for p in node.primitives)
    each = "a table of values per group" if growing else "a partial result per group"
    words, on = words_of(node), node.window.on

    def span(ticks: int) -> str:
        return words.span(ticks, on)

    return WINDOWS[type(node.window)].keeps(node.window, each, [k.name for k in node.keys], span)
