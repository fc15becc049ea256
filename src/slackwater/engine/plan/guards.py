"""Guards on the paths of a plan, for one batch: steps that drop the rows which feedback has given up.

Where they act is said by `semantics.feedback_rules`; here it is put into steps. Darkness and what an output ignores are
*hard*: each matching row is dropped. All other guards are thrift and may be left out: where a row lacks what a record tests, none
is put up, and where Spark evaluates the steps of a path, tasks pass over those that stand behind the first step.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import chain
from typing import Any

from slackwater.engine.plan.plan import Path, Plan
from slackwater.engine.plan.stations import Station, members, shown_at, stations
from slackwater.engine.plan.steps import NEVER, FilterStep, GuardStep, Step
from slackwater.kernels.listed import Listed
from slackwater.kernels.translate import records as sql
from slackwater.model.join import is_existence
from slackwater.model.node import Join, Late, Node, Source
from slackwater.model.same import Same
from slackwater.model.schema import Expr
from slackwater.semantics.feedback_rules import Layout, Place, Shade, agreed
from slackwater.semantics.join import outer_inputs
from slackwater.semantics.patterns import Pattern, Patterns

Written = tuple[Expr, tuple[Listed, ...]]
"""A condition, and the lists that its text names."""
Placed = tuple[int, GuardStep]
"""How many of a path's steps are done in front of a guard, and the guard."""


@dataclass(frozen=True)
class Guards:
    """The guards of each path, by its id, in order; and how many records there are, by place.

    ``scans`` is by input what no path of any of its streams needs.
    """

    paths: Mapping[int, tuple[Placed, ...]] = field(default_factory=dict)
    records: Mapping[str, int] = field(default_factory=dict)
    scans: Mapping[int, Patterns] = field(default_factory=dict)

    def __reduce__(self) -> tuple[Any, ...]:
        # Tasks of each batch are sent the same records, up to thousands: they are written and read once. Of the texts, which are
        # as long, tasks need that for the column engine; Spark gets its own before there are tasks.
        scans = {i: _packed(Same(records)) for i, records in self.scans.items()}
        paths = {i: tuple((at, _bare(g)) for at, g in p) for i, p in self.paths.items()}
        return _unpickled, (paths, self.records, scans)

    def of(self, path: Path) -> tuple[Placed, ...]:
        """Those of a path."""
        return self.paths.get(path.id, ())

    def guarded(self, path: Path, *, soft: bool = True, moving: bool = True) -> Path:
        """A path with its guards as steps; without those that are soft, or that move with each batch, if so asked."""
        chosen = [
            (a, g) for a, g in self.of(path) if (soft or not g.soft) and (moving or not g.moving)
        ]
        return with_guards(path, chosen)

    def and_also(self, other: Guards) -> Guards:
        """These guards, and behind them those of other feedback."""
        ids = dict.fromkeys((*self.paths, *other.paths))
        paths = {
            i: tuple(sorted((*self.paths.get(i, ()), *other.paths.get(i, ())), key=lambda p: p[0]))
            for i in ids
        }
        counts = dict(self.records)
        for place, count in other.records.items():
            counts[place] = counts.get(place, 0) + count
        inputs = dict.fromkeys((*self.scans, *other.scans))
        scans = {i: (*self.scans.get(i, ()), *other.scans.get(i, ())) for i in inputs}
        return Guards(paths, counts, scans)

    def behind_sources(self, plan: Plan) -> Guards:
        """Those on what operators give out: their tasks need no others, and may be sent thousands of records."""
        if not self.paths:
            return self
        first = {p.id for p in plan.paths if isinstance(plan.node(p.producer), Source | Late)}
        paths = {i: placed for i, placed in self.paths.items() if i not in first}
        return Guards(paths, self.records)

    def as_moving(self) -> Guards:
        """The same, of limits that move with each batch."""
        moved = {
            i: tuple((a, replace(g, moving=True)) for a, g in p) for i, p in self.paths.items()
        }
        return replace(self, paths=moved)


@lru_cache(maxsize=16)
def _packed(records: Same[Patterns]) -> bytes:
    return pickle.dumps(records.it, pickle.HIGHEST_PROTOCOL)


@lru_cache(maxsize=16)
def _unpacked(data: bytes) -> Patterns:
    records: Patterns = pickle.loads(data)
    return records


def _unpickled(
    paths: Mapping[int, tuple[Placed, ...]], counts: Mapping[str, int], scans: Mapping[int, bytes]
) -> Guards:
    whole = {
        i: tuple((at, replace(g, condition=sql.negated(g.match))) for at, g in p)
        for i, p in paths.items()
    }
    return Guards(whole, counts, {i: _unpacked(data) for i, data in scans.items()})


def _bare(guard: GuardStep) -> GuardStep:
    """A guard as it is sent: its condition is made of what it matches, where it arrives."""
    return replace(guard, condition=NEVER, match=replace(guard.match, sql=""))


def left_over(
    path: Path, placed: Sequence[Placed], tested: Collection[str | None]
) -> tuple[Placed, ...]:
    """The guards of a path for rows that were held against some conditions where it begins, and match none.

    Filters change no column, so that behind them alone the same text means the same.
    """
    return tuple(
        (at, g)
        for at, g in placed
        if g.match.duck not in tested or not all(isinstance(s, FilterStep) for s in path.steps[:at])
    )


def with_guards(path: Path, placed: Sequence[Placed]) -> Path:
    """A path with guards as steps."""
    if not placed:
        return path
    steps: list[Step] = list(path.steps)
    for at, guard in reversed(placed):
        steps.insert(at, guard)
    return replace(path, steps=tuple(steps))


NO_GUARDS = Guards()


@dataclass(frozen=True)
class Wanted:
    """What a batch is to drop.

    ``shades`` are what operators are still dark for after records that ended, by the order of the plan's nodes. ``ignored`` is
    what each output ignores, in its own columns. ``over`` leaves out records that no later row of a node can match. Without
    ``sources``, no guard stands on the rows of a stream: they are dropped right in front of the first operator.
    """

    layout: Layout
    shades: Sequence[tuple[Shade, ...]]
    ignored: Mapping[str, Patterns]
    over: Callable[[Node, Patterns], Patterns]
    sources: bool = True


def guards(plan: Plan, wanted: Wanted) -> Guards:
    """The guards of a batch."""
    written = stations(plan)
    soft = {id: _soft(plan, chain, wanted) for id, chain in written.items()}
    found: dict[int, tuple[Placed, ...]] = {}
    counts: dict[str, int] = {}
    for path in plan.paths:
        placed = [*_hard(plan, path, written[path.id][0], wanted), *_ignored(plan, path, wanted)]
        placed += _steps(plan, path, _agreed([soft[i] for i in members(plan, path)]))
        if placed:
            found[path.id] = tuple((at, g) for at, g, _ in sorted(placed, key=lambda p: p[0]))
        for _, guard, count in placed:
            counts[guard.place] = max(counts.get(guard.place, 0), count)
    return Guards(found, counts, _scans(plan, soft) if wanted.sources else {})


def _scans(plan: Plan, soft: Mapping[int, _BySteps]) -> dict[int, Patterns]:
    by_input: dict[int, list[Patterns]] = {}
    for source in plan.sources:
        for path in plan.unshared.paths_from(source.name):
            node, records = soft[path.id].get(0, (source, ()))
            by_input.setdefault(source.input, []).append(records if node is source else ())
    agreements = {i: agreed(each) for i, each in by_input.items()}
    return {i: records for i, records in agreements.items() if records}


_Made = tuple[int, GuardStep, int]
_BySteps = Mapping[int, tuple[Node, Patterns]]


def _soft(plan: Plan, chain: Sequence[Station], wanted: Wanted) -> _BySteps:
    """What nobody needs of the rows of a path, by how many steps are done."""
    index = {id(n): i for i, n in enumerate(plan.nodes)}
    found: dict[int, tuple[Node, Patterns]] = {}
    for station in chain:
        if isinstance(station.node, Late):
            continue  # such rows have times of all kinds
        place = wanted.layout.places[index[id(station.node)]]
        records = place.guard
        if isinstance(chain[0].node, Source) and not wanted.sources:
            if station is chain[-1] and station.reader is not None:
                records = _joined(
                    records, _in_front(place) if station.node.reacting.exploit else ()
                )
            elif isinstance(station.node, Source):
                continue
        if station.reader is not None:
            reader = wanted.layout.places[index[id(station.reader)]]
            records = _joined(records, reader.ports[station.port] if reader.ports else ())
        usable = _testable(Same(station.node), Same(wanted.over(station.node, records)))
        if usable:
            node, before = found.get(station.steps, (station.node, ()))
            found[station.steps] = (node, _joined(before, usable))
    return found


def _in_front(place: Place) -> Patterns:
    """What readers ignore of rows that came that far, but for what they filter themselves."""
    if not place.filtered:
        return place.asserted
    return tuple(r for r in place.asserted if not any(r.within(f) for f in place.filtered))


# What is known of records is remembered by the very object: from batch to batch it is mostly the same, and may be thousands.


@lru_cache(maxsize=256)
def _testable(node: Same[Node], records: Same[Patterns]) -> Patterns:
    """The records that rows of an operator can be tested for."""
    return tuple(r for r in records.it if sql.can_test(node.it, r))


@lru_cache(maxsize=256)
def _read(node: Same[Node], records: Same[Patterns]) -> frozenset[str]:
    """The columns that records read."""
    return sql.columns_of(node.it, records.it)


@lru_cache(maxsize=256)
def _without(node: Same[Node], records: Same[Patterns], lacking: frozenset[str]) -> Patterns:
    """The records that read none of the columns that are ``lacking``."""
    return tuple(r for r in records.it if not sql.columns_of(node.it, (r,)) & lacking)


def _joined(some: Patterns, more: Patterns) -> Patterns:
    return tuple(dict.fromkeys((*some, *more))) if some and more else some or more


def _agreed(each: Sequence[_BySteps]) -> _BySteps:
    """What the readers of a path that they share have in common."""
    if len(each) == 1:
        return each[0]
    return {
        at: (node, common)
        for at, (node, _) in each[0].items()
        if (common := agreed([one.get(at, (node, ()))[1] for one in each]))
    }


def _steps(plan: Plan, path: Path, mine: _BySteps) -> list[_Made]:
    made = []
    for at, (node, records) in mine.items():
        if at > len(path.steps):
            continue  # a store has these filters in itself
        there = shown_at(plan, path, at)
        lacking = frozenset(c for c in _read(Same(node), Same(records)) if c not in there)
        usable = _without(Same(node), Same(records), lacking) if lacking else records
        if usable:
            match, lists = _matching(Same(node), Same(usable))
            name = plan.name_of(node)
            guard = GuardStep(sql.negated(match), match, name, name, lists=lists)
            made.append((at, guard, len(usable)))
    return made


def _hard(plan: Plan, path: Path, first: Station, wanted: Wanted) -> list[_Made]:
    """What the operator at the beginning of a path keeps back."""
    node = first.node
    index = next(i for i, n in enumerate(plan.nodes) if n is node)
    place = wanted.layout.places[index]
    # What the query filters itself need not be kept back once more.
    own = place.dark
    if place.filtered:
        own = tuple(d for d in own if not any(d.record.within(r) for r in place.filtered))
    shades = wanted.shades[index]
    dark = tuple(dict.fromkeys((*own, *shades))) if own and shades else own or shades
    if not dark:
        return []
    match, lists = _hidden(Same(node), Same(dark))
    name = plan.name_of(node)
    guard = GuardStep(sql.negated(match), match, name, name, False, lists=lists)
    return [(first.steps, guard, len(dark))]


@lru_cache(maxsize=64)
def _matching(node: Same[Node], records: Same[Patterns]) -> Written:
    """The condition of records, written once."""
    return sql.listing(node.it, records.it)


@lru_cache(maxsize=64)
def _hidden(node: Same[Node], dark: Same[tuple[Shade, ...]]) -> Written:
    """The condition of results that an operator keeps back."""
    alone = [
        (a, tuple(_tested(node.it, s.record) for s in dark.it if s.alone == a))
        for a in (False, True)
    ]
    parts = [_hiding(node.it, records, a) for a, records in alone if records]
    if len(parts) == 1:
        return parts[0]
    return sql.either([p for p, _ in parts]), tuple(
        chain.from_iterable(lists for _, lists in parts)
    )


def _tested(node: Node, record: Pattern) -> Pattern:
    # A row that lacks a time is hidden whatever that is: up to which time goes by the operator's bound then.
    return Pattern(
        tuple((c, t) for c, t in record.tests if sql.tested_columns(node, c) is not None)
    )


def _hiding(node: Node, records: Patterns, alone: bool) -> Written:
    match, lists = sql.listing(node, records)
    if not alone or not isinstance(node, Join):
        return match, lists
    others = [n for i, n in enumerate(node.time_names) if outer_inputs(node.how) != (i,)]
    if is_existence(node.how) or not others or any(node.field(n) is None for n in others):
        return match, lists  # which rows are alone cannot be told from what comes out
    return sql.both(match, sql.null_time(others)), lists


def _ignored(plan: Plan, path: Path, wanted: Wanted) -> list[_Made]:
    name = path.consumer.removeprefix("out:")
    records = wanted.ignored.get(name, ()) if path.consumer != name else ()
    if not records:
        return []
    node = next(o.node for o in plan.outputs if o.name == name)
    match, lists = _matching(Same(node), Same(records))
    name = plan.name_of(node)
    guard = GuardStep(sql.negated(match), match, name, path.consumer, False, lists=lists)
    return [(len(path.steps), guard, len(records))]
