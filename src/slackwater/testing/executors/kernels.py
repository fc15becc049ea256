"""Transcripts on the kernels: columns, incremental state, the semantics layer's bounds; no Spark.

Times are int64 here, timestamps as microseconds. One task, one group of buckets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.engine.operators.program import Arrival
from slackwater.engine.plan.plan import Operator
from slackwater.engine.plan.steps import PaceStep
from slackwater.errors import AnalysisError, LateRowError
from slackwater.kernels.rows import dedup, sort
from slackwater.kernels.windows import adaptive, joint
from slackwater.kernels.windows import partials_step as aggregate
from slackwater.kernels.windows.by_tuple import hidden
from slackwater.kernels.windows.counting import counted_rows, counted_select
from slackwater.kernels.windows.partials_step import AggregateSpec, partial_select
from slackwater.kernels.windows.pattern_match import matching
from slackwater.model.aggregate import Primitive
from slackwater.model.duck_sql import quote
from slackwater.model.names import TIME
from slackwater.model.node import (
    Aggregate,
    Dedup,
    Filter,
    Join,
    Late,
    Lookup,
    Node,
    Outpaced,
    Pace,
    Project,
    Sort,
    Source,
    Union,
)
from slackwater.model.registry import Registry
from slackwater.model.schema import Field
from slackwater.model.unnamed_time import UNNAMED
from slackwater.model.window import ByTuple, JointWindow, SessionWindow, TimeWindow
from slackwater.semantics.bounds import marks_of, propagate, topological
from slackwater.semantics.frontier import Points
from slackwater.semantics.lateness import (
    dedup_frontier,
    dedup_memory,
)
from slackwater.semantics.limits import START
from slackwater.semantics.pace import Marks, limit
from slackwater.semantics.pattern_rules import propagate_patterns
from slackwater.semantics.patterns import Patterns
from slackwater.semantics.progress import SourceState, advance, initial_state, resolve_source
from slackwater.semantics.window_ids import last_complete
from slackwater.semantics.windows import (
    TimePlan,
    WindowPlan,
    extents,
    keeps_rows,
    needs_rows,
    plan_of,
)
from slackwater.testing.executors.kernel_join import KernelJoin, Punctuated, frontier_at, holds_now
from slackwater.testing.executors.kernel_late import LateJudge
from slackwater.testing.executors.kernel_tables import (
    PLACE,
    cast,
    entering,
    flag,
    numbered,
    plain,
    query,
    ticks_of,
    timed,
    to_rows,
    to_table,
    united,
)
from slackwater.testing.executors.program_machine import ProgramMachine
from slackwater.testing.executors.summaries import is_punctuation, summarize
from slackwater.testing.transcripts.script import Observed, Transcript

Row = dict[str, Any]
Plan = TimePlan


def distinct(transcript: Transcript, plans: Sequence[Plan]) -> list[Plan]:
    """Those of the plans by which the aggregates of a transcript are computed in different ways, the first of each."""
    first: dict[tuple[WindowPlan, ...], Plan] = {}
    for plan in plans:
        first.setdefault(_machine(transcript, plan).ways, plan)
    return list(first.values())


def _machine(transcript: Transcript, plan: Plan) -> KernelMachine:
    return KernelMachine({n: o.node for n, o in transcript.outputs.items()}, plan)


def kernels(plan: Plan) -> Callable[[Transcript], list[Observed]]:
    """The executor that runs aggregates by the given plan."""

    def execute(transcript: Transcript) -> list[Observed]:
        machine = _machine(transcript, plan)
        seen: list[Observed] = []
        for step in transcript.batches:
            try:
                seen.append(machine.step(step.rows, step.now, step.end))
            except LateRowError as e:
                return [*seen, Observed.failed(e)]
        return seen

    return execute


class KernelMachine(LateJudge):
    """A query on the kernels, batch by batch.

    Tables carry the place of a row in the batch (``_i``) and, for each time column ``t``, whether the
    row is kept out of the operators that progress on it (``_out:t``).
    """

    def __init__(self, outputs: Mapping[str, Node], plan: Plan):
        self.outputs = outputs
        self.plan: Plan = plan
        self.nodes = topological(list(outputs.values()))
        self.sources = {n.name: n for n in self.nodes if isinstance(n, Source)}
        self.settings = {n: resolve_source(s) for n, s in self.sources.items()}
        self.states = {n: initial_state(s) for n, s in self.sources.items()}
        self.kept: dict[int, pa.Table] = {}
        self.programs: dict[int, ProgramMachine] = {}
        self.joins = {id(n): KernelJoin(n) for n in self.nodes if isinstance(n, Join)}
        self.held: dict[int, tuple[int, ...]] = {}
        self.marks: dict[int, int] = {}
        self.in_force: dict[int, int] = {}
        self.before = propagate(self.nodes, {n: s.bounds for n, s in self.states.items()})
        # Patterns of every node before and after the batch that is running.
        self.groupwise = any(s.patterns for found in self.settings.values() for s in found)
        self.stated: list[Patterns] = [() for _ in self.nodes]
        self.stated_after: list[Patterns] = self.stated
        for node in self.nodes:
            if isinstance(node, Lookup):
                raise AnalysisError(
                    "NOT_IN_KERNELS",
                    "relations are not the kernels' work: rows meet them on paths of the engine",
                    hint="use the local executor",
                )
            if isinstance(node, Aggregate) and node.emit_empty:
                raise AnalysisError(
                    "NOT_IN_KERNELS", "emit_empty is not the kernels' work", hint="use the oracle"
                )

    @property
    def ways(self) -> tuple[WindowPlan, ...]:
        """How each aggregate is computed."""
        return tuple(self._way(n) for n in self.nodes if isinstance(n, Aggregate))

    def _way(self, node: Aggregate) -> WindowPlan:
        """How an aggregate is computed: time windows keep rows for groups by keys, and only where all groups close at once."""
        alone = isinstance(node.window, TimeWindow) and not node.keys
        as_panes = keeps_rows(self.plan) and (self.groupwise or alone)
        return plan_of(node.window, "panes" if as_panes else self.plan)

    def step(
        self, rows: Mapping[str, Sequence[Row]], now: int | None, end: frozenset[str]
    ) -> Observed:
        """One batch: all rows, then the new bounds, through the whole plan."""
        before = {n: s.bounds for n, s in self.states.items()}
        self.in_force = marks_of(self.nodes, before, self._holds(), self._known(self.states, now))
        late: dict[str, list[Row]] = {}
        tables: dict[int, pa.Table] = {}
        states = {}
        for name, source in self.sources.items():
            settings, state = self.settings[name], self.states[name]
            batch = list(rows.get(name, ()))
            summary = summarize(source, settings, state, batch, now)
            states[name] = advance(source, settings, state, summary, now, ended=name in end)
            data = [r for r in batch if not is_punctuation(r, settings)]
            late[name], outs = self._judge(source, data, now)
            for node in self.nodes:
                if isinstance(node, Source) and node.name == name:
                    tables[id(node)] = to_table(node, data, outs)
        known = self._known(states, now)
        after = self._propagated({n: s.bounds for n, s in states.items()}, known)
        stated = {n: s.patterns for n, s in states.items()}
        self.stated_after = propagate_patterns(self.nodes, after, stated)
        for node in self.nodes:
            if isinstance(node, Late):
                tables[id(node)] = to_table(node, late[node.source.name], None)
            elif isinstance(node, Join):
                done = self._join(node, [tables[id(c)] for c in node.children], after, now)
                tables[id(node)] = done
                if node.memory is not None:  # what it owes holds back what it promises
                    after = self._propagated({n: s.bounds for n, s in states.items()}, known)
            elif not isinstance(node, Source):
                inputs = [tables[id(c)] for c in node.children]
                tables[id(node)] = self._run(node, inputs, after)
        found = {
            name: to_rows(
                node, entering(tables[id(node)], node.times[0].name if node.times else UNNAMED)
            )
            for name, node in self.outputs.items()
        }
        sources = {n: s.bounds for n, s in states.items()}
        self.marks = marks_of(self.nodes, sources, self._holds(), known)
        self.states, self.before, self.stated = states, after, self.stated_after
        self.held = holds_now(self.joins)
        return Observed(found, late, {n: s.bounds for n, s in states.items()})

    def _propagated(
        self, sources: Mapping[str, Mapping[str, int]], known: Marks
    ) -> list[dict[str, int]]:
        return propagate(self.nodes, sources, self._holds(), known)

    def _holds(self) -> dict[int, Sequence[int]]:
        holds = [
            (i, self.joins[id(n)].hold) for i, n in enumerate(self.nodes) if id(n) in self.joins
        ]
        return {i: hold for i, hold in holds if hold is not None}

    def _known(self, states: Mapping[str, SourceState], now: int | None) -> Marks:
        newest = {
            name: {c: START if s.hi is None else s.hi for c, s in state.columns.items()}
            for name, state in states.items()
        }
        return Marks(newest, self.marks, now)

    def _join(
        self,
        node: Join,
        inputs: list[pa.Table],
        after: Sequence[Mapping[str, int]],
        now: int | None,
    ) -> pa.Table:
        below = [
            (next(i for i, n in enumerate(self.nodes) if n is c), on)
            for c, on in zip(node.inputs, node.on, strict=True)
        ]
        old = [self.before[i][on] for i, on in below]
        new = [after[i][on] for i, on in below]
        rows = [entering(t, on) for t, on in zip(inputs, node.on, strict=True)]
        stated_after = [
            Punctuated(self.stated[i], self.stated_after[i], (self.before[i], after[i]))
            for i, _ in below
        ]
        found = self.joins[id(node)].step(rows, old, new, now, stated_after)
        for t in node.times:
            nobody = pa.array([False] * found.num_rows, pa.bool_())
            found = found.append_column(f"_out:{t.name}", nobody)
        return numbered(found)

    def _run(
        self,
        node: Node,
        inputs: list[pa.Table],
        after: Sequence[Mapping[str, int]],
    ) -> pa.Table:
        return RUNS[type(node)](self, node, inputs, after)

    def below(self, node: Node) -> int:
        """The place of a node's first child among all nodes."""
        return next(i for i, n in enumerate(self.nodes) if n is node.children[0])

    def aggregated(
        self,
        node: Aggregate,
        table: pa.Table,
        old: int,
        new: int,
        child: int,
        after: Sequence[Mapping[str, int]],
    ) -> pa.Table:
        """The results of an aggregate whose input is node number ``child``, between two bounds of that input."""
        keys = tuple(Field(k.name, plain(k.expr.type)) for k in node.keys)
        primitives = tuple(replace(p, type=plain(p.type)) for p in node.primitives)
        way = self._way(node)
        if not isinstance(node.window, TimeWindow) or self.groupwise or keeps_rows(way):
            more = (self.stated[child], self.stated_after[child], self._frontiers(node, after))
            return self._by_program(node, keys, primitives, table, (old, new, *more))
        spec = AggregateSpec(keys, node.window, primitives, way, True)
        sql = aggregate.partial_select(
            spec, [str(k.expr.duck) for k in node.keys], ticks_of(node.child, node.window.on), "t"
        )
        fresh = aggregate.partials(query(sql, entering(table, node.window.on)), spec)
        closed, close_to = last_complete(old, node.window), last_complete(new, node.window)
        stored = self.kept.get(id(node), aggregate.partials_schema(spec).empty_table())
        done = aggregate.step(spec, fresh, stored, closed, close_to)
        stored = aggregate.merge_partials(spec, [stored, done.keep])
        first = aggregate.needed(spec, max(closed, close_to))
        self.kept[id(node)] = stored.filter(pc.greater_equal(stored["_pane"], first))
        return self._presented(node, done.output)

    def _by_program(
        self,
        node: Aggregate,
        keys: tuple[Field, ...],
        primitives: tuple[Primitive, ...],
        table: pa.Table,
        progress: tuple[int, int, Patterns, Patterns, tuple[Points, Points]],
    ) -> pa.Table:
        """A type of window with a program of its own; ``progress`` is the end of an `Arrival`."""
        w = node.window
        extra = hidden(w) if isinstance(w, ByTuple) else ()
        spec = AggregateSpec(
            keys,
            w,
            primitives,
            self._way(node),
            True,
            extra,
        )
        if id(node) not in self.programs:
            fields = tuple(replace(f, type=plain(f.type)) for f in node.schema)
            operator = Operator("", replace(node, schema=fields, primitives=primitives), 1, spec)
            self.programs[id(node)] = ProgramMachine(operator)
        texts, ticks = [str(k.expr.duck) for k in node.keys], ticks_of(node.child, w.on)
        rows = entering(table, w.on)
        if isinstance(w, JointWindow):
            ends = [ticks_of(node.child, one.on) for one in w.windows]
            fresh = aggregate.partials(
                query(joint.partial_select(spec, texts, ends, "t"), rows), spec
            )
        elif needs_rows(w):
            fresh = counted_rows(query(counted_select(spec, texts, ticks, "t"), rows), spec)
        elif keeps_rows(spec.plan):
            fresh = adaptive.rows(query(adaptive.rows_select(spec, texts, ticks, "t"), rows), spec)
        else:
            fresh = aggregate.partials(query(partial_select(spec, texts, ticks, "t"), rows), spec)
        # Two halves, as from two tasks, in the wrong order.
        half = fresh.num_rows // 2
        halves = [fresh.slice(half), fresh.slice(0, half)]
        output = self.programs[id(node)].step([Arrival(halves, *progress)])
        items = [quote(k.name) for k in node.keys]
        items += [] if isinstance(w, SessionWindow | JointWindow) else [quote("wid")]
        for time in node.times:
            items += [quote(time.name), f"false AS {flag(time.name)}"]
        items += [f"{cast(o.expr)} AS {quote(o.name)}" for o in node.outputs]
        return numbered(query(f"SELECT {', '.join(items)} FROM t", output))

    def _frontiers(
        self, node: Aggregate, after: Sequence[Mapping[str, int]]
    ) -> tuple[Points, Points]:
        """Points before and after, for a group-by on several times."""
        if not isinstance(node.window, JointWindow):
            return (), ()
        old = frontier_at(node, self.nodes, self.before, self.held)
        return old, frontier_at(node, self.nodes, after, holds_now(self.joins))

    def _presented(self, node: Aggregate, output: pa.Table) -> pa.Table:
        """The output with the user's columns, computed from the primitives."""
        names = {f"_k{i}": k.name for i, k in enumerate(node.keys)}
        names |= {p.name: p.column for p in node.primitives}
        output = output.rename_columns([names.get(c, c) for c in output.column_names])
        wids = output["_wid"].combine_chunks()
        starts, ends = extents(wids.to_numpy(), node.window)
        window = pa.StructArray.from_arrays([pa.array(starts), pa.array(ends)], ["start", "end"])
        output = output.append_column("_window", window)
        items = [f"{quote(k.name)}" for k in node.keys]
        items += ['_wid AS "wid"', '_window AS "window"', f"false AS {flag('window')}"]
        items += [f"{cast(o.expr)} AS {quote(o.name)}" for o in node.outputs]
        return numbered(query(f"SELECT {', '.join(items)} FROM t ORDER BY _wid", output))

    def distinct(self, node: Dedup, table: pa.Table, old: int, usable: Patterns) -> pa.Table:
        """The rows of a batch that a dedup lets through; ``usable`` are the patterns that close keys."""
        rows = timed(node.child, entering(table, node.on), node.on)
        if usable and rows.num_rows:
            rows = rows.filter(pa.array(~matching(usable, rows, node.on)[0]))
        empty = rows.schema.empty_table().select([*node.subset, TIME])
        stored = self.kept.get(id(node), empty)
        done = dedup.step(
            rows, stored, node.subset, within=node.within, frontier=dedup_frontier(old, node)
        )
        stored = pa.concat_tables([stored, done.state.select(stored.column_names)])
        # The kernel must not need more than the semantics layer says.
        self.kept[id(node)] = stored.filter(pc.greater_equal(stored[TIME], dedup_memory(old, node)))
        return numbered(done.kept.drop_columns([TIME]))

    def ordered(self, node: Sort, table: pa.Table, old: int, new: int) -> pa.Table:
        """The rows that leave a sort between two bounds."""
        rows = timed(node.child, entering(table, node.on), node.on)
        stored = self.kept.get(id(node), rows.schema.empty_table())
        done = sort.step(rows, stored, old, new)
        stored = pa.concat_tables([stored, done.keep])
        self.kept[id(node)] = stored.filter(pc.greater_equal(stored[TIME], max(old, new)))
        return numbered(done.ordered.drop_columns([TIME]))


Inputs = list[pa.Table]
Bounds = Sequence[Mapping[str, int]]
Runs = Callable[[KernelMachine, Any, Inputs, Bounds], pa.Table]
"""Gives what comes out of a node in a batch, from its inputs and the bounds of all nodes after the batch."""


def _filter(machine: KernelMachine, node: Filter, inputs: Inputs, after: Bounds) -> pa.Table:
    sql = f"SELECT * FROM t WHERE {node.condition.duck} ORDER BY {PLACE}"
    return numbered(query(sql, inputs[0]))


def _project(machine: KernelMachine, node: Project, inputs: Inputs, after: Bounds) -> pa.Table:
    items = [f"{cast(c.expr)} AS {quote(c.name)}" for c in node.columns]
    items += [f"{flag(old)} AS {flag(out)}" for out, old, _ in node.origins]
    return numbered(query(f"SELECT {', '.join(items)} FROM t ORDER BY {PLACE}", inputs[0]))


def _union(machine: KernelMachine, node: Union, inputs: Inputs, after: Bounds) -> pa.Table:
    return numbered(united(node, inputs))


def _pace(machine: KernelMachine, node: Pace, inputs: Inputs, after: Bounds) -> pa.Table:
    place = next(i for i, n in enumerate(machine.nodes) if n is node)
    step = PaceStep(node, isinstance(node, Outpaced), limit(node, machine.in_force[place]))
    test = step.passes(ticks_of(node.child, node.on), str(step.limit))
    return numbered(query(f"SELECT * FROM t WHERE {test} ORDER BY {PLACE}", inputs[0]))


def _aggregate(machine: KernelMachine, node: Aggregate, inputs: Inputs, after: Bounds) -> pa.Table:
    child, on = machine.below(node), node.window.on
    bounds = (machine.before[child][on], after[child][on])
    return machine.aggregated(node, inputs[0], *bounds, child, after)


def _dedup(machine: KernelMachine, node: Dedup, inputs: Inputs, after: Bounds) -> pa.Table:
    child = machine.below(node)
    usable = [p for p in machine.stated[child] if set(p.columns) <= set(node.subset)]
    return machine.distinct(node, inputs[0], machine.before[child][node.on], tuple(usable))


def _sort(machine: KernelMachine, node: Sort, inputs: Inputs, after: Bounds) -> pa.Table:
    child = machine.below(node)
    bounds = (machine.before[child][node.on], after[child][node.on])
    return machine.ordered(node, inputs[0], *bounds)


RUNS: Registry[Runs] = Registry(
    __name__,
    {
        Filter: _filter,
        Project: _project,
        Union: _union,
        Dedup: _dedup,
        Sort: _sort,
        Pace: _pace,
        Outpaced: _pace,
        Aggregate: _aggregate,
    },
)
"""How nodes run on the kernels; sources, late rows and joins have more to do with a batch than their inputs."""
