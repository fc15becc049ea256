"""A run of the oracle with feedback: rows are dropped where, and from the batch on that, the rules say.

The plan is taken apart first: on each edge stands a filter that lets all pass, so that a guard on that edge has a place of
its own. A guard may be lazy: of the rows that match it drops each by chance. What comes out is then one of the inputs that a
correct reaction upstream could leave. Darkness is never lazy.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from slackwater.engine.plan.filters import by_filters
from slackwater.model.node import Filter, Late, Node, Source
from slackwater.model.schema import Expr, Named
from slackwater.semantics import feedback_rules
from slackwater.semantics.bounds import topological
from slackwater.semantics.feedback import order
from slackwater.semantics.feedback_rules import Layout, Place, Reached, Shade, missing, newest
from slackwater.semantics.limits import START
from slackwater.semantics.patterns import Pattern, Patterns
from slackwater.testing.feedback import frozen
from slackwater.testing.oracle.join_node import JoinNode
from slackwater.testing.oracle.nodes import Oracle
from slackwater.testing.oracle.types import Item, Row
from slackwater.testing.oracle.windows import time_of

TRUE = Expr("true", "boolean")
Rows = Mapping[str, Sequence[Mapping[str, Any]]]


@dataclass(frozen=True)
class Case:
    """A query, its batches, for each batch the records that each output asserts, what the clock shows in it, and the rows of
    relations.
    """

    outputs: Mapping[str, Node]
    batches: Sequence[Rows]
    records: Sequence[Mapping[str, Patterns]]
    clock: Sequence[int] | None = None
    tables: Sequence[Rows] = ()

    def versions(self, batch: int) -> Rows:
        """The rows of relations in a batch."""
        return self.tables[batch] if self.tables else {}

    def now(self, batch: int) -> int | None:
        return None if self.clock is None else self.clock[batch]


class _Marking(JoinNode):
    """A join that remembers which of its results have no partner."""

    def __init__(self, node: Any):
        super().__init__(node)
        self.alone: set[int] = set()

    def _result(self, rows: Any, outputs: Sequence[Named]) -> Row:
        row = super()._result(rows, outputs)
        if self.node.how == "left_anti" or any(r is None for r in rows):
            self.alone.add(id(row))
        return row


@dataclass
class _Role:
    """What an operator of the taken apart plan stands for: an operator, one of its inputs, or an output."""

    node: Node
    index: int
    port: int | None = None


@dataclass
class Guarded(Oracle):
    """The run; ``lazy`` is the chance that a guard lets a row pass that it could drop."""

    case: Case
    rng: random.Random
    lazy: float = 0.0
    layouts: list[Layout] = field(default_factory=list)
    reached: list[Reached] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.plan = topological(list(self.case.outputs.values()))
        self.roles: dict[int, _Role] = {}
        self.copies: dict[int, Node] = {}
        outputs = {}
        for i, (name, node) in enumerate(self.case.outputs.items()):
            outputs[name] = self._gate(node, -1 - i)
        super().__init__(outputs)
        self.joins = {key: _Marking(join.node) for key, join in self.joins.items()}
        empty = tuple(Place(ports=tuple(() for _ in n.children)) for n in self.plan)
        self.layout = Layout(empty, tuple(() for _ in outputs))
        self.shades: list[tuple[Shade, ...]] = [() for _ in self.plan]
        self.gone: set[tuple[int, int]] = set()
        filters = by_filters(self.plan, ansi=True, zone="UTC")
        self.by_filters = {i: f.records for i, f in filters.items()}

    def _gate(self, node: Node, index: int, port: int | None = None) -> Node:
        gate = Filter(node.schema, node.times, self._copy(node), TRUE)
        self.roles[id(gate)] = _Role(node, index, port)
        self.copies[id(gate)] = gate  # kept, so that no other gets its id
        return gate

    def _copy(self, node: Node) -> Node:
        if id(node) not in self.copies:
            index = next(i for i, n in enumerate(self.plan) if n is node)
            below = [
                self._copy(c) if isinstance(node, Late) else self._gate(c, index, port)
                for port, c in enumerate(node.children)
            ]
            copy = node if isinstance(node, Source) else node.with_children(*below)
            self.copies[id(node)] = copy
            self.roles[id(copy)] = _Role(node, index)
        return self.copies[id(node)]

    def batch(self, rows: Rows, records: Mapping[str, Patterns]) -> None:
        """One batch, with the records that are in force in it."""
        wanted = [(node, records.get(name, ())) for name, node in self.case.outputs.items()]
        layout = feedback_rules.laid_out(self.plan, wanted, by_filters=self.by_filters)
        at = self._reached()
        self.shades = feedback_rules.shades_after(self.plan, self.layout, layout, self.shades, at)
        self.layout = layout
        for join in self.joins.values():
            assert isinstance(join, _Marking)
            join.alone.clear()
        n = len(self.layouts)
        end = n == len(self.case.batches) - 1
        self.step(rows, self.case.now(n), end, self.case.versions(n))
        self.layouts.append(layout)
        self.reached.append(self._reached())

    def _reached(self) -> Reached:
        sources: dict[str, dict[str, int]] = {}
        for name, history in self.histories.items():
            times = {}
            for time, policy in zip(history.source.times, history.source.policies, strict=True):
                known = [
                    a.row[time.name]
                    for a in history.arrivals
                    if history.plausible(a.row.get(time.name), time, policy, a.step)
                ]
                times[time.name] = max(known, default=START)
            sources[name] = times
        bounds = {
            id(n): dict(self.bounds[id(self.copies[id(n)])][-1])
            if self.bounds[id(self.copies[id(n)])]
            else {t.name: START for t in n.times}
            for n in self.plan
        }
        return Reached(sources, lambda n: bounds[id(n)])

    def leaving(self, node: Node, items: list[Item]) -> list[Item]:
        role = self.roles[id(node)]
        if role.index < 0:
            return self._passing(node, role, self.layout.outputs[-1 - role.index], items)
        place = self.layout.places[role.index]
        if role.port is not None:
            return self._passing(node, role, place.ports[role.port], items)
        # An operator knows of the results that it keeps back: they are dropped on the way to others.
        dark = [*place.dark, *self.shades[role.index]]
        marked: Any = self.joins.get(id(node))
        for i in items:
            alone = marked is not None and id(i.row) in marked.alone
            hidden = any(
                matches(role.node, d.record, i.row) and (alone or not d.alone) for d in dark
            )
            if hidden or self._guards(role, place.guard, i):
                self.gone.add((id(node), id(i)))
        return items

    def _passing(self, gate: Node, role: _Role, records: Patterns, items: list[Item]) -> list[Item]:
        (below,) = gate.children
        there = [i for i in items if (id(below), id(i)) not in self.gone]
        return [i for i in there if not self._guards(role, records, i)]

    def _implausible(self) -> bool:
        return any(
            a.row.get(t.name) is not None and not h.plausible(a.row[t.name], t, p, a.step)
            for h in self.histories.values()
            for a in h.arrivals
            for t, p in zip(h.source.times, h.source.policies, strict=True)
        )

    def _guards(self, role: _Role, records: Patterns, item: Item) -> bool:
        hit = any(matches(role.node, r, item.row) for r in records)
        if not hit or self.rng.random() < self.lazy:
            return False
        if not self._implausible():
            return True
        # A time that is not plausible would be missed for longer than anyone waits.
        last = newest(role.node, self._reached())
        return all(
            (v := value_of(role.node, name, item.row)) is None or v <= time
            for name, time in last.items()
        )


def value_of(node: Node, column: str, row: Row) -> Any:
    """A value of a row as records test it."""
    time = next((t for t in node.times if t.name == column), None)
    if time is not None and time.kind in ("window", "greatest", "least"):
        return None if row.get(column, 0) is None else time_of(row, column)
    found = node.field(column)
    if found is not None:
        value = row[column]
        if isinstance(value, tuple):
            return value.end - 1  # type: ignore[attr-defined]
        return order.code(value, found.type)
    name, _, part = column.rpartition(".")
    whole = row[name]
    return None if whole is None else getattr(whole, part)


def matches(node: Node, record: Pattern, row: Row) -> bool:
    """Whether a row of an operator's output matches a record."""
    return all(t.matches(value_of(node, c, row)) for c, t in record.tests)


class OutOfRange(AssertionError):
    """Results that feedback does not allow."""


def check(case: Case, rng: random.Random, lazy: float) -> Guarded:
    """Run a case with and without feedback; at each operator, and each output, the results must be in range.

    A row that is missing must match a record that acted, and be no newer than what that record may have dropped: after
    the end of a record nothing stays dark for longer than it has to.
    """
    run, reference = Guarded(case, rng, lazy), Oracle(case.outputs)
    for n, (rows, records) in enumerate(zip(case.batches, case.records, strict=True)):
        run.batch(rows, records)
        reference.step(rows, case.now(n), n == len(case.batches) - 1, case.versions(n))
        if run.late_rows != reference.late_rows:
            raise OutOfRange(f"late rows differ in batch {n}")
    for index, node in enumerate(run.plan):
        mine = run.copies[id(node)]
        if run.bounds[id(mine)] != reference.bounds[id(node)]:
            raise OutOfRange(f"progress differs at {type(node).__name__}")
        asserted = [layout.places[index].asserted for layout in run.layouts]
        got = [i for i in run.items[id(mine)] if (id(mine), id(i)) not in run.gone]
        _compare(run, node, got, reference.items[id(node)], asserted)
    for name, node in case.outputs.items():
        asserted = [records.get(name, ()) for records in case.records]
        _compare(run, node, run.items[id(run.outputs[name])], reference.items[id(node)], asserted)
    return run


def _compare(
    run: Guarded, node: Node, got: list[Item], wanted: list[Item], asserted: Sequence[Patterns]
) -> None:
    where = f"{type(node).__name__} {[f.name for f in node.schema]}"
    left = [frozen(i.row) for i in got]
    lost = []
    for item in wanted:
        key = frozen(item.row)
        if key in left:
            left.remove(key)
        else:
            lost.append(item.row)
    if left:
        raise OutOfRange(f"{where}: rows that were not there before: {left}")
    last = len(asserted) - 1
    until: dict[Pattern, int] = {r: n for n, records in enumerate(asserted) for r in records}
    for row in lost:
        hit = [(r, n) for r, n in until.items() if matches(node, r, row)]
        if not hit:
            raise OutOfRange(f"{where}: {row} is missing, and nobody gave it up")
        if not any(n == last or _reached_by(run, node, r, row, n) for r, n in hit):
            raise OutOfRange(f"{where}: {row} is missing, although its record has ended")


def _reached_by(run: Guarded, node: Node, record: Pattern, row: Row, batch: int) -> bool:
    """Whether a row may be missing by what a record dropped up to a batch."""
    last = missing(node, (record,), run.reached[batch])
    values = {c: value_of(node, c, row) for c in last}
    return all(v is None or v <= last[c] for c, v in values.items())
