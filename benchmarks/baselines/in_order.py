"""A whole query in the in-order mode: rows are sorted at the input, and every operator keeps and relies on order.

The input needs the same knowledge of disorder that ours needs (its policy), but it uses it to sort. After that progress is
what operators see in the rows: a filter that lets little through, a source that is silent, or one that is late, holds
all up that comes after. With ``heartbeats`` the input's bounds are told to all operators too.

A stream can be in order of one time column only: a query whose parts need it in two orders cannot be done.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.baselines.buffering import Buffering, checked
from benchmarks.baselines.merge import Merge
from slackwater.errors import AnalysisError
from slackwater.kernels.rows import sort
from slackwater.kernels.windows import partials_step as aggregate
from slackwater.kernels.windows.partials_step import END, AggregateSpec, ints
from slackwater.model.names import TIME
from slackwater.model.node import Aggregate, Dedup, Join, Late, Node, Project, Sort, Source, Union
from slackwater.model.schema import Field
from slackwater.model.window import TimeWindow
from slackwater.semantics.bounds import output_bounds
from slackwater.semantics.limits import START
from slackwater.semantics.progress import advance
from slackwater.testing.executors.kernel_tables import (
    numbered,
    plain,
    query,
    timed,
    to_rows,
    to_table,
    united,
)
from slackwater.testing.executors.kernels import KernelMachine
from slackwater.testing.executors.summaries import is_punctuation, summarize
from slackwater.testing.transcripts.script import Observed

Row = dict[str, Any]
WID = "_wid"


class InOrderMachine(KernelMachine):
    """A query of time windows, joins of two inputs, unions, duplicates, filters and projections, batch by batch."""

    def __init__(self, outputs: Mapping[str, Node], *, heartbeats: bool = False) -> None:
        super().__init__(outputs, "panes")
        self.heartbeats = heartbeats
        self.dropped = 0
        self.frontiers = [START for _ in self.nodes]
        self.merges: dict[int, Merge] = {}
        self.buffers: dict[int, Buffering] = {}
        self.waiting: dict[int, pa.Table] = {}
        self.order = orders(self.nodes)

    @property
    def held_rows(self) -> int:
        """Rows that wait somewhere: to be sorted, merged, reduced, joined, or to leave a join in order."""
        tables = [*self.kept.values(), *self.waiting.values()]
        counts = [int(t.num_rows) for t in tables]
        counts += [m.held_rows for m in self.merges.values()]
        counts += [b.held_rows for b in self.buffers.values()]
        return sum(counts) + sum(j._machine.rows for j in self.joins.values())

    def step(
        self, rows: Mapping[str, Sequence[Row]], now: int | None, end: frozenset[str]
    ) -> Observed:
        """One batch."""
        states, tables = {}, {}
        for name, source in self.sources.items():
            settings, state = self.settings[name], self.states[name]
            batch = list(rows.get(name, ()))
            summary = summarize(source, settings, state, batch, now)
            states[name] = advance(source, settings, state, summary, now, ended=name in end)
            data = [r for r in batch if not is_punctuation(r, settings)]
            late, _ = self._judge(source, data, now)
            self.dropped += len(late)
            tables[name] = self._sorted_input(source, data, states[name].bounds)
        known = self._known(states, now)
        after = self._propagated({n: s.bounds for n, s in states.items()}, known)
        found: list[pa.Table] = []
        before = list(self.frontiers)
        for i, node in enumerate(self.nodes):
            on = self.order[i]
            if isinstance(node, Source):
                found.append(tables[node.name])
            else:
                found.append(self._in_order(node, found, before))
            if on is not None:
                ticks = ints(timed(node, found[i], on), TIME)
                seen = checked(ticks, self.frontiers[i])
                over = self.heartbeats or after[i][on] >= END
                self.frontiers[i] = max(seen, after[i][on] if over else START)
        self.states, self.before = states, after
        at = {id(n): t for n, t in zip(self.nodes, found, strict=True)}
        outputs = {name: to_rows(n, at[id(n)]) for name, n in self.outputs.items()}
        return Observed(outputs, {}, {n: s.bounds for n, s in states.items()})

    # ---- operators ----
    def _in_order(self, node: Node, found: Sequence[pa.Table], before: Sequence[int]) -> pa.Table:
        below = [next(j for j, n in enumerate(self.nodes) if n is c) for c in node.children]
        inputs = [found[j] for j in below]
        reached = [self.frontiers[j] for j in below]
        if isinstance(node, Union):
            return self._merged(node, inputs, reached)
        if isinstance(node, Aggregate):
            return self._buffered(node, inputs[0], reached[0])
        if isinstance(node, Join):
            old = [before[j] for j in below]
            return self._ordered_join(node, inputs, old, reached)
        if isinstance(node, Dedup):
            return self.distinct(node, inputs[0], before[below[0]], ())
        if isinstance(node, Sort):
            return inputs[0]
        return self._run(node, inputs, ())

    def _sorted_input(
        self, source: Source, data: Sequence[Row], bounds: Mapping[str, int]
    ) -> pa.Table:
        on = self._on(source)
        nobody = [frozenset[str]() for _ in data]
        new = timed(source, to_table(source, [r for r in data if r[on] is not None], nobody), on)
        stored = self.waiting.get(id(source), new.schema.empty_table())
        done = sort.step(new, stored, self.states[source.name].bounds[on], bounds[on])
        stored = pa.concat_tables([stored, done.keep])
        self.waiting[id(source)] = stored.filter(pa.array(ints(stored, TIME) >= bounds[on]))
        return numbered(done.ordered.drop_columns([TIME]))

    def _merged(self, node: Union, inputs: Sequence[pa.Table], reached: Sequence[int]) -> pa.Table:
        merge = self.merges.setdefault(id(node), Merge(len(inputs)))
        on = self._on(node)
        sides = [
            timed(node, numbered(united(replace(node, inputs=(c,)), [t])), on)
            for c, t in zip(node.inputs, inputs, strict=True)
        ]
        return numbered(merge.step(sides, reached).drop_columns([TIME]))

    def _buffered(self, node: Aggregate, table: pa.Table, reached: int) -> pa.Table:
        w = node.window
        assert isinstance(w, TimeWindow)
        keys = tuple(Field(k.name, plain(k.expr.type)) for k in node.keys)
        primitives = tuple(replace(p, type=plain(p.type)) for p in node.primitives)
        # Of one extent: all its rows are in the one window of a tumbling kind.
        spec = AggregateSpec(keys, TimeWindow(1, 1, 0, WID), primitives, "panes", True)
        texts = [str(k.expr.duck) for k in node.keys]

        def reduce(rows: pa.Table) -> pa.Table:
            fresh = aggregate.partials(
                query(aggregate.partial_select(spec, texts, "CAST(0 AS BIGINT)", "t"), rows), spec
            )
            empty = aggregate.partials_schema(spec).empty_table()
            return aggregate.step(spec, fresh, empty, -END, END).output

        if id(node) not in self.buffers:
            self.buffers[id(node)] = Buffering(w, reduce)
        done = self.buffers[id(node)].step(timed(node.child, table, w.on), reached)
        tables = [aggregate.output_schema(spec).empty_table()]
        for wid, results in done:
            at = results.column_names.index(WID)
            ids = pa.array(np.full(results.num_rows, wid, np.int64))
            tables.append(results.set_column(at, WID, ids))
        return self._presented(node, pa.concat_tables(tables))

    def _ordered_join(
        self, node: Join, inputs: list[pa.Table], old: Sequence[int], new: Sequence[int]
    ) -> pa.Table:
        """Immediate matching, results held until none older can come."""
        found = self.joins[id(node)].step(inputs, old, new, None)
        for t in node.times:
            nobody = pa.array([False] * found.num_rows, pa.bool_())
            found = found.append_column(f"_out:{t.name}", nobody)
        on = self._on(node)
        rows = timed(node, numbered(found), on)
        rows = pa.concat_tables([self.waiting.get(id(node), rows.schema.empty_table()), rows])
        reached = [{name: v} for name, v in zip(node.on, new, strict=True)]
        ready = ints(rows, TIME) < output_bounds(node, reached, {})[on]
        self.waiting[id(node)] = rows.filter(pa.array(~ready))
        return numbered(rows.filter(pa.array(ready)).sort_by(TIME).drop_columns([TIME]))

    def _on(self, node: Node) -> str:
        on = self.order[next(i for i, n in enumerate(self.nodes) if n is node)]
        assert on is not None
        return on


def orders(nodes: Sequence[Node]) -> list[str | None]:
    """The time column by whose order each node's rows come: the one its consumers need, else its first."""
    found: dict[int, str] = {}
    for node in reversed(nodes):
        _check(node)
        own = found.setdefault(id(node), node.times[0].name) if node.times else None
        for child, name in zip(node.children, _needs(node, own), strict=True):
            if name is not None and found.setdefault(id(child), name) != name:
                raise _refused(f"a stream cannot be in order of {name} and of {found[id(child)]}")
    return [found.get(id(n)) for n in nodes]


def _needs(node: Node, own: str | None) -> list[str | None]:
    if isinstance(node, Aggregate):
        return [node.window.on]
    if isinstance(node, Dedup | Sort):
        return [node.on]
    if isinstance(node, Join):
        return list(node.on)
    if isinstance(node, Project):
        return [next((old for out, old, _ in node.origins if out == own), None)]
    if isinstance(node, Union) and own is not None:
        at = [t.name for t in node.times].index(own)
        return [c.times[at].name for c in node.inputs]
    return [own for _ in node.children]


def _check(node: Node) -> None:
    if isinstance(node, Late) or (isinstance(node, Join) and len(node.inputs) > 2):
        raise _refused(f"{type(node).__name__} is not done in order")
    if isinstance(node, Aggregate) and not isinstance(node.window, TimeWindow):
        raise _refused("only time windows are done in order")


def _refused(why: str) -> AnalysisError:
    return AnalysisError("NOT_IN_ORDER", why, hint="run it in the mode without order")
