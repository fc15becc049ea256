"""Aggregates per window and group: most answers are those of the type of window."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from slackwater.model.node import Aggregate, Dedup, Filter, Node, Sort, Source
from slackwater.model.spans import words_of
from slackwater.model.window import ByTuple, Landmark, RowWindow, TimeWindow, is_all_time
from slackwater.semantics.contracts.needs import ALWAYS, Need, Way, by_bound, by_patterns
from slackwater.semantics.contracts.offers import Offer, renamed
from slackwater.semantics.feedback.columns import joined, moved, parted
from slackwater.semantics.limits import END, START, Bounds, shift
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
from slackwater.semantics.pattern_wants import Want, plain_column
from slackwater.semantics.patterns import Pattern, Patterns, Span, Test
from slackwater.semantics.window_ids import (
    extent,
    last_complete,
    rows_within,
    times_of_wids,
    window_bound,
)
from slackwater.semantics.window_types.registry import WINDOWS
from slackwater.semantics.windows import closing, result_bound, shifted


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


def feedback(node: Aggregate, records: Patterns) -> Reaction:
    """Rows of a group or window that nobody wants may go; its results stay back, since they would lack them.

    Only time windows let rows go. Elsewhere windows are made of the rows that come, or never end. An aggregate that reports
    empty windows reports them from its first row to its last, so it must see these.
    """
    w = node.window
    whole = isinstance(w, TimeWindow) and not is_all_time(w)
    if not whole or (node.emit_empty and not node.keys):
        return common.only_guarded(node, records)
    each = [part for r in records for part in _by_rows(node, r)]
    return Reaction.of(1, ((r, (_of_rows(node, r),), True) for r in each))


def _by_rows(node: Aggregate, record: Pattern) -> list[Pattern]:
    """A record in two: the part of which rows can tell by their value, and the rest."""
    best = _best(node)
    name = None if best is None else next((c for c in record.columns if c in best.names), None)
    if best is None or name is None:
        return [record]
    test = record.test(name) or Test()
    settled_below = best.settled_below(test)
    parts = [record.replaced(name, t) for t in (settled_below, test - settled_below)]
    return [p for p in parts if not p.empty]


@dataclass(frozen=True)
class _Best:
    """A greatest or least value that is all that an aggregate computes.

    ``names`` are the results' columns that it is, ``column`` is that of the rows. ``certain``: rows have no null there.
    """

    names: frozenset[str]
    column: str
    greatest: bool
    certain: bool

    def settled_below(self, test: Test) -> Test:
        """The part of a test on results by which rows may go: all below (or above) a limit.

        A result that fails the test is made by a row on the other side of the limit, and rows on this side do not change it. One
        that passes stays on this side whichever of its rows go, also if only nulls are left, provided that null passes, too.
        """
        if not test.null and not self.certain:
            return Test()
        ends = test.spans[:1] if self.greatest else test.spans[-1:]
        spans = [s for s in ends if s[0 if self.greatest else 1] is None]
        # Nulls alone are seldom many: a guard for each row would cost more than they do.
        return Test.of(spans, test.null) if spans else Test()


def _best(node: Aggregate) -> _Best | None:
    if len(node.primitives) != 1 or node.primitives[0].function not in ("max", "min"):
        return None
    (primitive,) = node.primitives
    # With a FILTER clause the argument is an expression.
    column = plain_column(primitive.args[0])
    field = None if column is None else node.child.field(column)
    keys = {k.name for k in node.keys}
    names = {o.name for o in node.outputs if plain_column(o.expr) == primitive.column} - keys
    if column is None or field is None or field.type != primitive.type or not names:
        return None
    greatest = primitive.function == "max"
    return _Best(frozenset(names), column, greatest, _never_null(node.child, column))


def _never_null(node: Node, column: str) -> bool:
    """Whether a column has no null; a column's field tells it of the rows of a stream alone."""
    while isinstance(node, (Filter, Sort, Dedup)):
        node = node.child
    found = node.field(column)
    return isinstance(node, Source) and found is not None and not found.nullable


def _of_rows(node: Aggregate, record: Pattern) -> Pattern | None:
    """The rows all of whose results match a record; None if that is not for a row to tell."""
    best = _best(node)
    w, time = node.window, node.times[0].name
    assert isinstance(w, TimeWindow)
    keys = {k.name: plain_column(k.expr) for k in node.keys}
    of_result: dict[tuple[str, str], Callable[[Test], Test]] = {
        (time, ""): lambda t: t,
        ("wid", ""): lambda t: times_of_wids(t, w),
        (time, ".start"): lambda t: moved(t, w.range - 1),
    }
    below = Pattern(())
    results: Test | None = None
    for column, test in record.tests:
        name, part = parted(node, column)
        if name in keys:
            origin = keys[name]
            named = None if origin is None else joined(node.child, origin, part)
            if named is None:
                return None
            below &= Pattern.of({named: test})
        elif (name, part) in of_result:
            mine = of_result[name, part](test)
            results = mine if results is None else results & mine
        elif best is not None and column in best.names and best.settled_below(test) == test:
            below &= Pattern.of({best.column: test})
        else:
            return None  # it is about a value, which all rows of the group make together
    if results is not None:
        below &= Pattern.of({w.on: rows_within(results, w)})
    return below


def newest(
    node: Aggregate,
    inputs: Sequence[Newest],
    bounds: Sequence[Bounds],
    sources: Mapping[str, Newest],
) -> dict[str, int]:
    """The time of the last result that holds the newest row."""
    found = {}
    for time, w in zip(node.times, node.windows, strict=True):
        traits, last = WINDOWS[type(w)].traits, inputs[0].get(w.on, START)
        if last > START and not traits.timed:
            last = END  # rows are counted: which window a row is in is not for its time to say
        elif START < last < END:
            last = closing(last, w) - 1
            if node.emit_empty or not traits.ends:
                # Results come for every slide that the bound passes, with or without new rows.
                last = max(last, bounds[0].get(w.on, START) - 1)
        found[time.name] = min(last, END)
    return found


def heard(
    node: Aggregate,
    inputs: Sequence[Newest],
    bounds: Sequence[Bounds],
    sources: Mapping[str, Newest],
) -> dict[str, int]:
    """The time of the last result that the bound has let out."""
    last = newest(node, inputs, bounds, sources)
    for time, w in zip(node.times, node.windows, strict=True):
        bound = bounds[0].get(w.on, START)
        if isinstance(w, TimeWindow) and START < bound < END:
            bound = extent(last_complete(bound, w), w)[1]
        last[time.name] = min(last[time.name], shift(bound, -1))
    return last


def offers(node: Aggregate, inputs: Sequence[Offer], sources: Mapping[str, Offer]) -> Offer:
    (own,) = inputs
    if own.ended:
        return own
    on = node.window.on
    keys = {c: [name] for c, name in key_columns(node).items()}
    if not (closable(node) or finishable(node)):
        keys = {}
    times: dict[str, list[str]] = {}
    # Windows of several times are complete when all of these have passed.
    if {w.on for w in node.windows} <= own.bounds or len(node.windows) == 1:
        for t, w in zip(node.times, node.windows, strict=True):
            if WINDOWS[type(w)].traits.timed and not is_all_time(w):
                times.setdefault(w.on, []).append(t.name)
    if closable(node):
        if on in keys:
            del keys[on]  # such a test would be on the group, and not on the time
        elif not is_all_time(node.window):
            keys[on] = times[on]
            # Single values close a window only when they are all that it holds.
            passed = frozenset(t for t in own.templates if t.kind(on) in "+-")
            own = replace(own, templates=passed)
    return renamed(own, times, keys)


def needs(node: Aggregate) -> tuple[Need, ...]:
    w, keys = node.window, frozenset(key_columns(node))
    names = ", ".join(k.name for k in node.keys)
    groups = f" of groups of {names}" if names else ""
    if is_all_time(w):
        state = f"groups of {names}" if names else "the one group of all rows"
        return (Need(0, (by_patterns(keys - {w.on}),), state),)
    if closable(node):
        way = Way(frozenset([w.on]), keys | {w.on}, keys)
        return (Need(0, (way,), f"windows on {w.on}{groups}"),)
    ended = by_patterns(keys) if finishable(node) else Way()
    if isinstance(w, RowWindow):
        # Rows are counted: results come whatever the time.
        per = ", ".join(w.per)
        state = f"a counter and the last {w.range} rows of each {per}"
        return (Need(0, (ended,), state, (ALWAYS,)),) if per else ()
    bounds = [by_bound(on) for on in dict.fromkeys(one.on for one in node.windows)]
    if isinstance(w, Landmark) and any(not p.traits.bounded for p in node.primitives):
        return (Need(0, (ended,), f"all values there ever were{groups}"),)
    if node.keys and isinstance(w, Landmark):
        return (Need(0, (ended,), f"a partial result for each group of {names}", (bounds[0],)),)
    if node.keys and isinstance(w, ByTuple) and w.every > 1:
        return (Need(0, (ended,), f"a counter for each group of {names}", (bounds[0],)),)
    if len(bounds) > 1:
        return tuple(Need(0, (b,), f"windows on {', '.join(b.bounds)}{groups}") for b in bounds)
    return (Need(0, (bounds[0], ended), f"windows on {w.on}{groups}"),)


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
