"""Transcripts on the kernels: columns, incremental state, the semantics layer's bounds; no Spark.

Times are int64 here, timestamps as microseconds. One task, one group of buckets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.engine.plan import Operator
from slackwater.engine.program import Arrival
from slackwater.engine.punctuation import column_origin
from slackwater.errors import AnalysisError, LateRowError
from slackwater.kernels import aggregate, dedup, sort
from slackwater.kernels.aggregate import AggregateSpec, partial_select
from slackwater.kernels.by_tuple import hidden
from slackwater.kernels.column_engine import connect, quote, sql_to_arrow
from slackwater.kernels.counting import counted_rows, counted_select
from slackwater.kernels.group_close import is_closed
from slackwater.kernels.pattern_match import matching
from slackwater.kernels.types import arrow_type
from slackwater.model.aggregate import Primitive
from slackwater.model.node import (
    Aggregate,
    Dedup,
    Filter,
    Late,
    Node,
    Project,
    Sort,
    Source,
    Union,
)
from slackwater.model.schema import Expr, Field
from slackwater.model.window import ByTuple, SessionWindow, TimeWindow
from slackwater.semantics.bounds import START, propagate, topological
from slackwater.semantics.lateness import (
    dedup_frontier,
    dedup_memory,
    enters,
    late_by,
    late_row_error,
    reason,
    window_readers,
)
from slackwater.semantics.pattern_rules import closing, plain_column, propagate_patterns
from slackwater.semantics.patterns import Pattern, Patterns
from slackwater.semantics.progress import advance, guard_limit, initial_state, resolve_source
from slackwater.semantics.window_ids import last_complete, wid_range
from slackwater.semantics.windows import extents, missed, needs_rows, plan_of
from slackwater.testing.program_machine import ProgramMachine
from slackwater.testing.summaries import is_punctuation, summarize
from slackwater.testing.transcripts import Observed, Transcript

Row = dict[str, Any]
Plan = Literal["panes", "wids"]
PLACE = "_i"


def kernels(plan: Plan) -> Callable[[Transcript], list[Observed]]:
    """The executor that runs aggregates by the given plan."""

    def execute(transcript: Transcript) -> list[Observed]:
        machine = KernelMachine({n: o.node for n, o in transcript.outputs.items()}, plan)
        seen: list[Observed] = []
        for step in transcript.batches:
            try:
                seen.append(machine.step(step.rows, step.now, step.end))
            except LateRowError as e:
                return [*seen, Observed({}, {}, {}, e.condition)]
        return seen

    return execute


class KernelMachine:
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
        self.before = propagate(self.nodes, {n: s.bounds for n, s in self.states.items()})
        # Patterns of every node before and after the batch that is running.
        self.groupwise = any(s.patterns for found in self.settings.values() for s in found)
        self.said: list[Patterns] = [() for _ in self.nodes]
        self.says: list[Patterns] = self.said
        for node in self.nodes:
            if isinstance(node, Aggregate) and node.emit_empty:
                raise AnalysisError(
                    "NOT_IN_KERNELS", "emit_empty is not the kernels' work", hint="use the oracle"
                )

    def step(
        self, rows: Mapping[str, Sequence[Row]], now: int | None, end: frozenset[str]
    ) -> Observed:
        """One batch: all rows, then the new bounds, through the whole plan."""
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
                    tables[id(node)] = _table(node, data, outs)
        after = propagate(self.nodes, {n: s.bounds for n, s in states.items()})
        said = {n: s.patterns for n, s in states.items()}
        self.says = propagate_patterns(self.nodes, after, said)
        for node in self.nodes:
            if isinstance(node, Late):
                tables[id(node)] = _table(node, late[node.source.name], None)
            elif not isinstance(node, Source):
                inputs = [tables[id(c)] for c in node.children]
                tables[id(node)] = self._run(node, inputs, after)
        found = {
            name: _rows(
                node,
                _entering(tables[id(node)], node.times[0].name) if node.times else tables[id(node)],
            )
            for name, node in self.outputs.items()
        }
        self.states, self.before, self.said = states, after, self.says
        return Observed(found, late, {n: s.bounds for n, s in states.items()})

    def _judge(
        self, source: Source, rows: Sequence[Row], now: int | None
    ) -> tuple[list[Row], list[frozenset[str]]]:
        """The late rows, and for every row the columns on which it is kept out."""
        late, outs = [], []
        for row in rows:
            first = True
            out = []
            for s in self.settings[source.name]:
                bound, limit = self.states[source.name].bounds[s.column], guard_limit(s, now)
                time = row.get(s.column)
                why = reason(time, bound, limit, side=s.future == "side")
                broken = [p for p in self.states[source.name].patterns if p.matches(row)]
                if why is None and broken:
                    why, bound = "late", START
                if why == "late":
                    bound = max([bound, *limits(broken, s.column)])
                if why is None:
                    continue
                if why == "late" and source.late == "raise":
                    raise late_row_error(source.name, s.column, row, bound)
                if not enters(why, source.late):
                    out.append(s.column)
                if first:
                    first = False
                    late.append(
                        {
                            **row,
                            "_late_reason": why,
                            "_late_by": None
                            if why == "late" and bound <= START
                            else late_by(time, bound, limit, why),
                            "_late_bound": None if bound <= START else bound,
                            "_late_windows": self._missed(source, s.column, row),
                        }
                    )
            outs.append(frozenset(out))
        return late, outs

    def _missed(self, source: Source, column: str, row: Row) -> int:
        time = row.get(column)
        if time is None:
            return 0
        total = 0
        for node, moved in window_readers(list(self.outputs.values()), source, column):
            child = next(i for i, n in enumerate(self.nodes) if n is node.child)
            bound = self.before[child][node.window.on]
            ticks = np.array([time + moved], np.int64)
            count = int(missed(ticks, bound, node.window)[0])
            if isinstance(node.window, TimeWindow) and self.said[child]:
                found = closing(node, self.said[child], bound)
                wids = np.arange(*wid_range(time + moved, node.window), dtype=np.int64)
                keys = [_column(source, row, node, k.expr, len(wids)) for k in node.keys]
                count = int(is_closed(node.window, found, keys, wids).sum())
            total += count
        return total

    def _run(
        self,
        node: Node,
        inputs: list[pa.Table],
        after: Sequence[Mapping[str, int]],
    ) -> pa.Table:
        if isinstance(node, Filter):
            sql = f"SELECT * FROM t WHERE {node.condition.duck} ORDER BY {PLACE}"
            return _numbered(_sql(sql, inputs[0]))
        if isinstance(node, Project):
            items = [f"{_cast(c.expr)} AS {quote(c.name)}" for c in node.columns]
            items += [f"{_flag(old)} AS {_flag(out)}" for out, old, _ in node.origins]
            return _numbered(_sql(f"SELECT {', '.join(items)} FROM t ORDER BY {PLACE}", inputs[0]))
        if isinstance(node, Union):
            return _numbered(_united(node, inputs))
        child = next(i for i, n in enumerate(self.nodes) if n is node.children[0])
        if isinstance(node, Aggregate):
            on = node.window.on
            bounds = (self.before[child][on], after[child][on])
            return self._aggregate(node, inputs[0], *bounds, child)
        if isinstance(node, Dedup):
            usable = [p for p in self.said[child] if set(p.columns) <= set(node.subset)]
            return self._dedup(node, inputs[0], self.before[child][node.on], tuple(usable))
        assert isinstance(node, Sort)
        return self._sort(node, inputs[0], self.before[child][node.on], after[child][node.on])

    def _aggregate(
        self, node: Aggregate, table: pa.Table, old: int, new: int, child: int
    ) -> pa.Table:
        keys = tuple(Field(k.name, _plain(k.expr.type)) for k in node.keys)
        primitives = tuple(replace(p, type=_plain(p.type)) for p in node.primitives)
        if not isinstance(node.window, TimeWindow) or self.groupwise:
            patterns = (self.said[child], self.says[child])
            return self._by_program(node, keys, primitives, table, (old, new, *patterns))
        spec = AggregateSpec(keys, node.window, primitives, self.plan, True)
        sql = aggregate.partial_select(
            spec, [str(k.expr.duck) for k in node.keys], _ticks(node.child, node.window.on), "t"
        )
        fresh = aggregate.partials(_sql(sql, _entering(table, node.window.on)), spec)
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
        progress: tuple[int, int, Patterns, Patterns],
    ) -> pa.Table:
        """A type of window with a program of its own; ``progress`` is the end of an `Arrival`."""
        w = node.window
        extra = hidden(w) if isinstance(w, ByTuple) else ()
        spec = AggregateSpec(keys, w, primitives, plan_of(w, self.plan), True, extra)
        if id(node) not in self.programs:
            fields = tuple(replace(f, type=_plain(f.type)) for f in node.schema)
            operator = Operator("", replace(node, schema=fields, primitives=primitives), 1, spec)
            self.programs[id(node)] = ProgramMachine(operator)
        texts, ticks = [str(k.expr.duck) for k in node.keys], _ticks(node.child, w.on)
        rows = _entering(table, w.on)
        if needs_rows(w):
            fresh = counted_rows(_sql(counted_select(spec, texts, ticks, "t"), rows), spec)
        else:
            fresh = aggregate.partials(_sql(partial_select(spec, texts, ticks, "t"), rows), spec)
        # Two halves, as from two tasks, in the wrong order.
        half = fresh.num_rows // 2
        halves = [fresh.slice(half), fresh.slice(0, half)]
        output = self.programs[id(node)].step([Arrival(halves, *progress)])
        items = [quote(k.name) for k in node.keys]
        items += [] if isinstance(w, SessionWindow) else [quote("wid")]
        items += [quote("window"), f"false AS {_flag('window')}"]
        items += [f"{_cast(o.expr)} AS {quote(o.name)}" for o in node.outputs]
        return _numbered(_sql(f"SELECT {', '.join(items)} FROM t", output))

    def _presented(self, node: Aggregate, output: pa.Table) -> pa.Table:
        """The output with the user's columns, computed from the primitives."""
        names = {f"_k{i}": k.name for i, k in enumerate(node.keys)}
        output = output.rename_columns([names.get(c, c) for c in output.column_names])
        wids = output["_wid"].combine_chunks()
        starts, ends = extents(wids.to_numpy(), node.window)
        window = pa.StructArray.from_arrays([pa.array(starts), pa.array(ends)], ["start", "end"])
        output = output.append_column("_window", window)
        items = [f"{quote(k.name)}" for k in node.keys]
        items += ['_wid AS "wid"', '_window AS "window"', f"false AS {_flag('window')}"]
        items += [f"{_cast(o.expr)} AS {quote(o.name)}" for o in node.outputs]
        return _numbered(_sql(f"SELECT {', '.join(items)} FROM t ORDER BY _wid", output))

    def _dedup(self, node: Dedup, table: pa.Table, old: int, usable: Patterns) -> pa.Table:
        rows = _timed(node.child, _entering(table, node.on), node.on)
        if usable and rows.num_rows:
            rows = rows.filter(pa.array(~matching(usable, rows, node.on)[0]))
        empty = rows.schema.empty_table().select([*node.subset, "_time"])
        stored = self.kept.get(id(node), empty)
        done = dedup.step(
            rows, stored, node.subset, within=node.within, frontier=dedup_frontier(old, node)
        )
        stored = pa.concat_tables([stored, done.state.select(stored.column_names)])
        # The kernel must not need more than the semantics layer says.
        self.kept[id(node)] = stored.filter(
            pc.greater_equal(stored["_time"], dedup_memory(old, node))
        )
        return _numbered(done.kept.drop_columns(["_time"]))

    def _sort(self, node: Sort, table: pa.Table, old: int, new: int) -> pa.Table:
        rows = _timed(node.child, _entering(table, node.on), node.on)
        stored = self.kept.get(id(node), rows.schema.empty_table())
        done = sort.step(rows, stored, old, new)
        stored = pa.concat_tables([stored, done.keep])
        self.kept[id(node)] = stored.filter(pc.greater_equal(stored["_time"], max(old, new)))
        return _numbered(done.ordered.drop_columns(["_time"]))


def _table(node: Node, rows: Sequence[Row], outs: Sequence[frozenset[str]] | None) -> pa.Table:
    columns: dict[str, Any] = {
        f.name: pa.array([r.get(f.name) for r in rows], arrow_type(_plain(f.type)))
        for f in node.schema
    }
    for t in node.times:
        flags = [t.name in o for o in outs] if outs is not None else [False] * len(rows)
        columns[f"_out:{t.name}"] = pa.array(flags, pa.bool_())
    return _numbered(pa.table(columns))


def limits(patterns: Sequence[Pattern], column: str) -> list[int]:
    """Ends of the tests "``column`` below v"."""
    tests = [p.test(column) for p in patterns]
    return [t.limit for t in tests if t is not None and isinstance(t.limit, int)]


def _column(source: Source, row: Row, node: Aggregate, key: Expr, count: int) -> pa.ChunkedArray:
    """A late row's group column as often as asked; null where it is not just a column of the source."""
    name = column_origin(node.child, plain_column(key) or "", source)
    values = [None if name is None else row.get(name)] * count
    return pa.chunked_array([pa.array(values, arrow_type(_plain(key.type)))])


def _united(node: Union, inputs: Sequence[pa.Table]) -> pa.Table:
    """Inputs one after the other, under the names of the first."""
    names = [f.name for f in node.schema] + [f"_out:{t.name}" for t in node.times]
    tables = []
    for child, table in zip(node.inputs, inputs, strict=True):
        mine = [f.name for f in child.schema]
        mine += [f"_out:{t.name}" for t in child.times[: len(node.times)]]
        tables.append(table.select(mine).rename_columns(names))
    return pa.concat_tables([t.cast(tables[0].schema) for t in tables])


def _numbered(table: pa.Table) -> pa.Table:
    """The table with its rows' places as they stand."""
    if PLACE in table.column_names:
        table = table.drop_columns([PLACE])
    return table.append_column(PLACE, pa.array(range(table.num_rows), pa.int64()))


def _entering(table: pa.Table, on: str) -> pa.Table:
    return table.filter(pc.invert(table[f"_out:{on}"]))


def _timed(child: Node, table: pa.Table, on: str) -> pa.Table:
    sql = f"SELECT *, {_ticks(child, on)} AS _time FROM t ORDER BY {PLACE}"
    return _sql(sql, table)


def _ticks(child: Node, on: str) -> str:
    """The time of a row as BIGINT; that of a result is the last tick of its window."""
    time = next(t for t in child.times if t.name == on)
    return f'{quote(on)}."end" - 1' if time.kind == "window" else quote(on)


def _sql(sql: str, table: pa.Table) -> pa.Table:
    return sql_to_arrow(connect(), sql, {"t": table})


def _cast(e: Expr) -> str:
    simple = {"bigint": "BIGINT", "double": "DOUBLE", "boolean": "BOOLEAN", "string": "VARCHAR"}
    type = simple.get(_plain(e.type))
    return f"({e.duck})" if type is None else f"CAST(({e.duck}) AS {type})"


def _flag(column: str) -> str:
    return quote(f"_out:{column}")


def _plain(type: str) -> str:
    """Times are integers here."""
    return type.replace("timestamp", "bigint")


def _rows(node: Node, table: pa.Table) -> list[Row]:
    rows: list[Row] = table.select([f.name for f in node.schema]).to_pylist()
    return rows
