"""How feedback goes against the data, through a whole plan: who drops what, and what stays dark when it ends.

Each operator has its rule in `operators`, from the records that all readers of its output assert to what it does about
them. Here the rules are put together over a plan that shares operators. Records travel in the batch in which they are
known, to all operators at once, so that guards and darkness begin together.

*The end of a record.* Rows that were dropped are missing for ever. A source's are no newer than the newest plausible time
that it had after the last batch in which the record acted; `newest` carries that time up, operator by operator. What an
operator was dark for, it stays dark for up to that time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from slackwater.model.node import Aggregate, Dedup, Join, Node, Source
from slackwater.model.same import Same
from slackwater.model.window import TimeWindow, is_all_time
from slackwater.semantics.feedback.columns import moved, parted, settled
from slackwater.semantics.feedback.value import ANY, both
from slackwater.semantics.limits import END, START, Bounds
from slackwater.semantics.operators.answers import Newest, Reaction
from slackwater.semantics.operators.registry import RULES
from slackwater.semantics.patterns import Pattern, Patterns, Test
from slackwater.semantics.window_ids import times_of_wids

MOST_AT_A_PLACE = 1000
"""An operator takes on no more records; each reader drops for itself the rows of those beyond."""


@dataclass(frozen=True)
class Shade:
    """Results that an operator keeps back since they may lack rows; if ``alone``, only those without a partner."""

    record: Pattern
    alone: bool = False

    def to_json(self) -> list[Any]:
        """Plain lists and dicts."""
        return [self.record.to_json(), self.alone]

    @classmethod
    def from_json(cls, json: Sequence[Any]) -> Shade:
        """The inverse of `to_json`."""
        return cls(Pattern.from_json(json[0]), json[1])


@dataclass(frozen=True)
class Place:
    """What is done at an operator.

    ``asserted`` is what all of its readers will ignore. Rows that match ``guard`` are dropped where they come out, and so
    are those that match ``dark``; a guard may be lazy, darkness may not. ``ports`` are guards in front of the operator, one
    for each input: what it alone does not want of an input that others read, too. ``filtered`` is what all readers drop by
    filters of the query, before the rows get to another operator: no guard is needed for it. ``beyond`` counts the records
    that all readers assert and the operator does not take on, since it has enough.
    """

    asserted: Patterns = ()
    guard: Patterns = ()
    dark: tuple[Shade, ...] = ()
    ports: tuple[Patterns, ...] = ()
    filtered: Patterns = ()
    beyond: int = 0


@dataclass(frozen=True)
class Layout:
    """Where feedback acts in a plan: ``places`` in the order of its operators, and a guard in front of each output."""

    places: tuple[Place, ...]
    outputs: tuple[Patterns, ...]


def laid_out(
    nodes: Sequence[Node],
    outputs: Sequence[tuple[Node, Patterns]],
    testable: Callable[[Node, Pattern], bool] = lambda _, __: True,
    by_filters: Mapping[int, Patterns] = MappingProxyType({}),
    own: Mapping[int, Patterns] = MappingProxyType({}),
    sealed: Mapping[int, Patterns] = MappingProxyType({}),
    before: Mapping[int, Patterns] = MappingProxyType({}),
) -> Layout:
    """Where the records of outputs act; ``nodes`` are the plan's, children first, and an output reads one of them.

    An output without feedback is in the list, too: it wants all rows of the operator that it reads. An operator whose results
    lack what a record tests (they are not ``testable``) could not keep them back, so nothing of that record goes on.
    ``by_filters`` is what filters of the plan drop, by their place in it: they assert that of what they read. ``own`` are records
    that other operators assert of their inputs, by the operator's id. ``sealed`` is what operators know of their own results that
    nobody wants, by their place. ``before`` is what was asserted of operators in the batch before, by their place: where there
    are more records than an operator takes on, these stay.
    """
    readers: dict[int, list[Patterns]] = {id(n): [] for n in nodes}
    wanted = [
        tuple(m for r in records if not (m := in_result_time(n, r)).empty) for n, records in outputs
    ]
    for (node, _), records in zip(outputs, wanted, strict=True):
        readers[id(node)].append(records)
    asserted: dict[int, Patterns] = {}
    filtered = _filtered(nodes, [n for n, _ in outputs], by_filters)
    reactions = {}
    beyond = {}
    for at, node in reversed(list(enumerate(nodes))):
        common = _common(readers[id(node)])
        asserted[id(node)] = _taken_on(common, before.get(at, ()))
        beyond[id(node)] = len(common) - len(asserted[id(node)])
        known = (*asserted[id(node)], *sealed[at]) if at in sealed else asserted[id(node)]
        reaction = _reaction(node, known, testable)
        if id(node) in own:
            more = (None if s is None else (*s, *own[id(node)]) for s in reaction.inputs)
            reaction = replace(reaction, inputs=tuple(more))
        reactions[id(node)] = reaction
        filters = by_filters.get(at, ()) if node.reacting.propagate else ()
        for child, sent in zip(node.children, reaction.inputs, strict=True):
            if sent is not None:
                dropped = _of_filter(child, filters)
                records = _settled(child, sent)
                both_ways = (*records, *_beyond(dropped, records)) if dropped else records
                readers[id(child)].append(both_ways)

    def rest(at: int, child: Node, records: Patterns | None) -> Patterns:
        left = _beyond(_settled(child, records or ()), asserted[id(child)])
        # What is filtered on the way from there needs no guard in front of that.
        return _beyond(left, filtered.edges.get((at, id(child)), ())) if left else left

    places = []
    for at, node in enumerate(nodes):
        reaction, known = reactions[id(node)], filtered.nodes.get(id(node), ())
        sent_on = reaction.inputs if node.reacting.exploit else ((),) * len(node.children)
        ports = zip(node.children, sent_on, strict=True)
        places.append(
            Place(
                asserted[id(node)],
                _beyond(reaction.guard, known) if known else reaction.guard,
                tuple(Shade(r, reaction.alone) for r in reaction.dark),
                tuple(rest(at, c, records) for c, records in ports),
                known,
                beyond[id(node)],
            )
        )
    guards = zip(outputs, wanted, strict=True)
    return Layout(tuple(places), tuple(_beyond(r, asserted[id(n)]) for (n, _), r in guards))


def _reaction(node: Node, records: Patterns, testable: Callable[[Node, Pattern], bool]) -> Reaction:
    """What an operator does about records: its rule, as far as its settings let it."""
    rule, settings = RULES[type(node)].feedback, node.reacting
    # Rows that only pass need not have it: they are never kept back.
    unable = [r for r in records if not testable(node, r) and rule(node, (r,)).dark]
    reaction = rule(node, tuple(r for r in records if r not in unable) if unable else records)
    if unable:
        reaction = replace(reaction, guard=(*reaction.guard, *unable))
    if not settings.propagate:
        inputs = tuple(None if sent is None else () for sent in reaction.inputs)
        reaction = Reaction(inputs, records)
    if not settings.exploit:
        assert not reaction.dark, "what must keep results back is not switched off alone"
        reaction = replace(reaction, guard=())
    return reaction


def must_exploit(node: Node) -> bool:
    """Whether an operator keeps results back that lack rows, so that it cannot let rows go without acting itself."""
    outer = isinstance(node, Join) and node.how not in ("inner", "left_semi")
    return outer or isinstance(node, (Aggregate, Dedup))


@dataclass(frozen=True)
class _Filtered:
    """What is dropped by filters of the query on the way to an operator that holds state: by node, and by reader and node."""

    nodes: Mapping[int, Patterns]
    edges: Mapping[tuple[int, int], Patterns]


def _filtered(
    nodes: Sequence[Node], outputs: Sequence[Node], by_filters: Mapping[int, Patterns]
) -> _Filtered:
    if not by_filters:
        return _Filtered({}, {})
    readers: dict[int, list[Patterns]] = {id(n): [] for n in nodes}
    for node in outputs:
        readers[id(node)].append(())
    known: dict[int, Patterns] = {}
    edges: dict[tuple[int, int], Patterns] = {}
    for at, node in reversed(list(enumerate(nodes))):
        mine = known[id(node)] = agreed(readers[id(node)])
        passes = not RULES[type(node)].entering(node)
        reaction = RULES[type(node)].feedback(node, mine if passes else ())
        for child, sent in zip(node.children, reaction.inputs, strict=True):
            if sent is not None:
                records = (*_settled(child, sent), *_of_filter(child, by_filters.get(at, ())))
                readers[id(child)].append(records)
                edges[at, id(child)] = records
    return _Filtered(known, edges)


def _of_filter(child: Node, records: Patterns) -> Patterns:
    return tuple(m for r in records if not (m := in_result_time(child, r)).empty)


def _settled(node: Node, records: Patterns) -> Patterns:
    if not any(t.kind == "window" for t in node.times):
        return records
    return tuple(settled(node, r) for r in records)


def in_result_time(node: Node, record: Pattern) -> Pattern:
    """A record with tests on a window's id, start or end as one test on the time of its result.

    So the record ends with that time, and two ways to say the same are one. A test stays as it is where the output has the
    id of a window, but not its time.
    """
    made = Pattern(())
    for column, test in settled(node, record).tests:
        name, part = parted(node, column)
        origin = _aggregate_column(node, name)
        times = None
        if origin is not None and (window := _time_window(origin[0])) is not None:
            time = origin[0].times[0].name
            if origin[1] == "wid" and not part:
                times = times_of_wids(test, window)
            elif origin[1] == time and part == ".start":
                times = moved(test, window.range - 1)
            place = None if times is None else _shown_time(node, origin[0])
            if times is not None and place is not None:
                # An id is never null.
                made &= Pattern.of({place[0]: moved(times, place[1])})
                continue
        made &= Pattern.of({column: test})
    return made


def _aggregate_column(node: Node, name: str) -> tuple[Aggregate, str] | None:
    """The aggregate's result that a column just is, if only operators over one other stand between."""
    while not isinstance(node, Aggregate):
        copies = RULES[type(node)].copies(node, name)
        if len(copies) != 1:
            return None
        ((node, name),) = copies
    return (node, name) if all(k.name != name for k in node.keys) else None


def _time_window(node: Aggregate) -> TimeWindow | None:
    w = node.window
    return w if isinstance(w, TimeWindow) and not is_all_time(w) else None


def _shown_time(node: Node, origin: Aggregate) -> tuple[str, int] | None:
    """The time of an operator's output that is the time of an aggregate's results, and by how much it is moved."""
    if node is origin:
        return node.times[0].name, 0
    if len(node.children) != 1:
        return None
    below = _shown_time(node.children[0], origin)
    if below is None:
        return None
    # How far a time is moved is what becomes of time 0.
    shown = RULES[type(node)].newest(node, [{below[0]: 0}], [{}], {})
    found = [(name, ticks) for name, ticks in shown.items() if ticks > START]
    return (found[0][0], below[1] + found[0][1]) if found else None


def agreed(readers: Sequence[Patterns]) -> Patterns:
    """What all readers assert, as far as a place takes it on; nothing, if there are none."""
    return _taken_on(_common(readers))


def _common(readers: Sequence[Patterns]) -> Patterns:
    if not readers:
        return ()
    # Where all say the same, as they mostly do, no record is compared with another.
    common = readers[0]
    for other in readers[1:]:
        if other != common:
            common = both(common, other)
    return common


def _taken_on(records: Patterns, before: Patterns = ()) -> Patterns:
    """As many records as a place takes on. Those that were asserted ``before`` stay: while it is wanted, no record ends."""
    if len(records) <= MOST_AT_A_PLACE:
        return records
    same = set(before)
    old = [
        r in same or any(not r.apart(b) and b.within(r) for b in before) for r in records
    ]  # one that has grown stands for what it was
    room = MOST_AT_A_PLACE
    chosen = set()
    for wanted in (True, False):
        places = [i for i, known in enumerate(old) if known is wanted][:room]
        chosen.update(places)
        room -= len(places)
    return tuple(r for i, r in enumerate(records) if i in chosen)


def _beyond(mine: Patterns, theirs: Patterns) -> Patterns:
    """The records of one side that no record of the other side covers."""
    if mine is theirs:
        return ()
    same = set(theirs)
    return tuple(
        r for r in mine if r not in same and not any(not r.apart(t) and r.within(t) for t in theirs)
    )


def scan_guards(nodes: Sequence[Node], layout: Layout) -> dict[int, Patterns]:
    """By input what all streams that read it assert: a row that matches need not be read at all."""
    by_input: dict[int, list[Patterns]] = {}
    for node, place in zip(nodes, layout.places, strict=True):
        if isinstance(node, Source):
            by_input.setdefault(node.input, []).append(place.asserted)
    return {i: agreed(streams) for i, streams in by_input.items()}


# --- the end of a record --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reached:
    """How far a plan is after a batch: the newest plausible time of each source by name, and the bounds of operators."""

    sources: Mapping[str, Newest]
    bounds: Callable[[Node], Bounds]


def newest(node: Node, at: Reached) -> dict[str, int]:
    """The greatest times of an operator's results that hold rows which have come so far."""
    below = [newest(c, at) for c in node.children]
    return _carried(node, below, at)


def missing(node: Node, records: Patterns, at: Reached) -> dict[str, int]:
    """The greatest times of results that lack rows, after records on an operator's output acted.

    Only inputs to which something went count.
    """
    reaction = RULES[type(node)].feedback(node, records)
    below: list[Newest] = []
    for child, sent in zip(node.children, reaction.inputs, strict=True):
        if reaction.guard:
            below.append(newest(child, at))
        elif sent:
            below.append(missing(child, _settled(child, sent), at))
        else:
            below.append({})
    return _carried(node, below, at)


def _carried(node: Node, below: Sequence[Newest], at: Reached) -> dict[str, int]:
    bounds = [at.bounds(c) for c in node.children]
    return RULES[type(node)].newest(node, below, bounds, at.sources)


def shade(node: Node, dark: Shade, at: Reached) -> Shade | None:
    """What an operator stays dark for when a record ends; None if nothing that it dropped can be missed any more."""
    last = missing(node, (dark.record,), at)
    known = at.bounds(node)
    tests = {}
    for name, time in last.items():
        if time <= START:
            return None
        if time < END:
            # A row that came out alone lacks the other side's time.
            tests[name] = Test(((None, time + 1),), isinstance(node, Join) and name not in known)
    left = replace(dark, record=dark.record & Pattern.of(tests))
    return None if left.record.empty or is_past(left.record, known) else left


def shades_after(
    nodes: Sequence[Node],
    before: Layout,
    after: Layout,
    shades: Sequence[tuple[Shade, ...]],
    at: Reached,
) -> list[tuple[Shade, ...]]:
    """What operators are still dark for in a batch, by operator: what earlier records left, and those that end with it.

    ``before`` and ``after`` are where feedback acted in the last batch and acts in this one, and ``at`` is how far the
    plan was in between. A batch keeps back what matches its layout's darkness, and what matches these.
    """
    result = []
    for node, old, new, left in zip(nodes, before.places, after.places, shades, strict=True):
        bounds = at.bounds(node)
        ended: list[Shade] = []
        if old.dark is not new.dark:
            same = {n.record for n in new.dark}
            ended = [d for d in old.dark if d.record not in same and not _still_dark(d, new.dark)]
        more = [s for d in ended if (s := shade(node, d, at)) is not None]
        kept = [s for s in left if not is_past(s.record, bounds)]
        result.append(_widest([*kept, *more]))
    return result


_MOST_PIECES = 64


def _still_dark(old: Shade, now: Sequence[Shade]) -> bool:
    """Whether all results that were kept back are kept back now, by one record or by several together."""
    if any(old.record.within(n.record) for n in now):
        return True
    left = [old.record]
    for n in now:
        left = [piece for p in left for piece in _pieces(p, n.record)]
        if not left or len(left) > _MOST_PIECES:
            break
    return not left


def _pieces(record: Pattern, other: Pattern) -> list[Pattern]:
    """What a record matches beyond another, cut along the other's tests."""
    if record.apart(other) or (record & other).empty:
        return [record]
    pieces = []
    for column, test in other.tests:
        mine = record.test(column) or ANY
        rest = record.replaced(column, mine - test)
        if not rest.empty:
            pieces.append(rest)
        record = record.replaced(column, mine & test)
    return pieces


def _widest(shades: Sequence[Shade]) -> tuple[Shade, ...]:
    kept: list[Shade] = []
    for s in dict.fromkeys(shades):
        if not any(s.alone == k.alone and s.record.within(k.record) for k in kept):
            kept = [k for k in kept if k.alone != s.alone or not k.record.within(s.record)]
            kept.append(s)
    return tuple(kept)


# --- when a record is over ------------------------------------------------------------------------------


def is_past(record: Pattern, bounds: Bounds) -> bool:
    """Whether bounds say that no later row matches a record."""
    for column, test in record.tests:
        ends = [high for _, high in test.spans]
        known = column in bounds and not test.null
        if known and all(isinstance(e, int) and e <= bounds[column] for e in ends):
            return True
    return False


def is_covered(record: Pattern, bounds: Bounds, patterns: Patterns = ()) -> bool:
    """Whether progress says that no later row matches a record, so that it can be forgotten."""
    return is_past(record, bounds) or any(record.within(p) for p in patterns)


@lru_cache(maxsize=256)
def _first_ends(records: Same[Patterns]) -> Mapping[str, int]:
    """By column, the least bound that some record with a test on it is past."""
    ends: dict[str, int] = {}
    for record in records.it:
        for column, test in record.tests:
            highs = [high for _, high in test.spans]
            if not test.null and all(isinstance(h, int) for h in highs):
                last = max((h for h in highs if isinstance(h, int)), default=START)
                ends[column] = min(last, ends.get(column, last))
    return ends


def not_covered(records: Patterns, bounds: Bounds, patterns: Patterns = ()) -> Patterns:
    """Records that a later row may match; the very same object if that is all of them."""
    if not patterns and all(
        bounds.get(c, START) < e for c, e in _first_ends(Same(records)).items()
    ):
        return records
    left = tuple(r for r in records if not is_covered(r, bounds, patterns))
    return records if len(left) == len(records) else left


def ends_by_itself(record: Pattern, times: Sequence[str]) -> bool:
    """Whether some bound will cover a record: one of its tests is on a time, and not open above."""
    return any(
        column in times and not test.null and all(high is not None for _, high in test.spans)
        for column, test in record.tests
    )
