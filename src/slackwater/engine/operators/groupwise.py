"""Group-wise punctuation in stateful operators: programs around programs that close, and free, single groups.

A kind of operator puts them around its program only where patterns hold at the input; without punctuation of that kind
nothing changes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from slackwater.engine.operators.aggregate import AggregateProgram
from slackwater.engine.operators.program import MAIN, Arrival, Program, State, StateStep
from slackwater.engine.operators.results import present
from slackwater.kernels.windows.group_close import close_groups, dead_partials, is_closed
from slackwater.kernels.windows.partials_step import AggregateSpec
from slackwater.kernels.windows.pattern_match import matched_keys, matching
from slackwater.kernels.windows.sealing import Proven
from slackwater.model.names import TIME
from slackwater.model.node import Aggregate, Dedup
from slackwater.model.window import TimeWindow
from slackwater.semantics.limits import END, LEAST, MOST, START
from slackwater.semantics.pattern_rules import Closing, closing, finishing
from slackwater.semantics.patterns import Patterns


class _Wrapper(Program):
    """What is the same with and without patterns."""

    def __init__(self, inner: Program):
        self.inner = inner
        self.parts = inner.parts

    def first_needed(self, part: str, bounds: Sequence[int]) -> int:
        return self.inner.first_needed(part, bounds)

    def proven(self) -> Sequence[Proven]:
        return self.inner.proven()


class ClosingAggregate(_Wrapper):
    """Windows of single groups, closed by patterns besides the bound."""

    def __init__(self, inner: AggregateProgram):
        super().__init__(inner)
        self.program = inner
        self.after = Closing()

    def step(self, inputs: Sequence[Arrival], state: State) -> StateStep:
        (rows,) = inputs
        node, spec = self.program.node, self.program.spec
        before = closing(node, rows.before, rows.old)
        self.after = after = closing(node, rows.after, rows.new)
        fresh = tuple(p for p in rows.after if p not in rows.before)
        new = closing(node, fresh, rows.new)
        done = self.program.step(inputs, state)
        outputs = [_not_closed(node, t, before) for t in done.tables]
        keep = done.kept[MAIN]
        if not new:
            return replace(done, output=outputs)
        closed = close_groups(spec, pa.concat_tables([state(START, END), keep]), before, after, new)
        outputs.append(present(node, closed.output))
        useful = closed.pool.filter(pa.array(self._useful(closed.pool, closed.dead, rows.new)))
        if 2 * useful.num_rows <= closed.pool.num_rows:
            # Half of the state is of no more use: writing the rest once costs less than keeping all.
            return replace(done, output=outputs, keep=useful, rewritten=frozenset([MAIN]))
        return replace(done, output=outputs, keep=_alive(spec, keep, after))

    def _useful(self, pool: pa.Table, dead: np.ndarray, bound: int) -> np.ndarray:
        first = self.inner.first_needed(MAIN, [bound])
        return np.asarray(~dead & (pool["_pane"].to_numpy() >= first))

    def compact(self, part: str, rows: pa.Table, first: int) -> pa.Table:
        return _alive(self.program.spec, self.inner.compact(part, rows, first), self.after)


def _alive(spec: AggregateSpec, rows: pa.Table, after: Closing) -> pa.Table:
    return rows.filter(pa.array(~dead_partials(spec, rows, after))) if after else rows


def _not_closed(node: Aggregate, output: pa.Table, before: Closing) -> pa.Table:
    """Results that the bound closes now, without those that a pattern closed earlier."""
    if not before or output.num_rows == 0:
        return output
    assert isinstance(node.window, TimeWindow)
    fixed = [f.name for f in node.schema if f.name not in {o.name for o in node.outputs}]
    keys = [output[k.name] for k in node.keys]
    gone = is_closed(node.window, before, keys, output[fixed[-2]].to_numpy())
    return output.filter(pa.array(~gone))


class Finished(_Wrapper):
    """Windows of any type: a group that a pattern names has come to its end, as if the stream had."""

    def __init__(self, inner: Program, node: Aggregate, make: Callable[[], Program]):
        super().__init__(inner)
        self.node = node
        self.make = make
        self.after = Closing()

    def step(self, inputs: Sequence[Arrival], state: State) -> StateStep:
        (rows,) = inputs
        before = finishing(self.node, rows.before)
        self.after = after = finishing(self.node, rows.after)
        tables = [self._part(t, before, False) for t in rows.tables]
        late = sum(t.num_rows for t in rows.tables) - sum(t.num_rows for t in tables)

        def living(low: int, high: int, part: str = MAIN) -> pa.Table:
            return self._part(state(low, high, part), after, False)

        def ending(low: int, high: int, part: str = MAIN) -> pa.Table:
            return self._part(self._part(state(low, high, part), before, False), after, True)

        kept = [self._part(t, after, False) for t in tables]
        done = self.inner.step([replace(rows, tables=kept)], living)
        done = replace(done, late=done.late + late)
        if before.tests == after.tests:
            return done
        outputs = list(done.tables)
        ended = [self._part(t, after, True) for t in tables]
        last = self.make().step([replace(rows, tables=ended, new=END)], ending)
        outputs = [*last.tables, *outputs]
        return self._freed(replace(done, output=outputs), state)

    def _freed(self, done: StateStep, state: State) -> StateStep:
        """The step, with those parts written anew of which at least half belongs to groups that have ended."""
        keep, rewritten = dict(done.kept), set()
        for name in self.parts:
            stored = state(LEAST, MOST, name)
            alive = self._part(stored, self.after, False)
            if stored.num_rows and 2 * alive.num_rows <= stored.num_rows:
                keep[name] = pa.concat_tables([alive, *([keep[name]] if name in keep else [])])
                rewritten.add(name)
        return replace(done, keep=keep, rewritten=frozenset(rewritten))

    def _part(self, table: pa.Table, ended: Closing, which: bool) -> pa.Table:
        """Rows of groups that have ended, or of those that have not."""
        if not ended.tests:
            return table.slice(0, 0) if which else table
        names = [f"_k{i}" for i in range(len(self.node.keys))]
        keys = [table[n] if n in table.column_names else None for n in names]
        mask = matched_keys(ended, keys, table.num_rows)
        return table.filter(pa.array(mask if which else ~mask))

    def compact(self, part: str, rows: pa.Table, first: int) -> pa.Table:
        return self._part(self.inner.compact(part, rows, first), self.after, False)


class ForgettingDedup(_Wrapper):
    """First rows: a key that a pattern names is forgotten, and its rows, should some come, are late."""

    def __init__(self, inner: Program, node: Dedup):
        super().__init__(inner)
        self.node = node
        self.after: Patterns = ()

    def step(self, inputs: Sequence[Arrival], state: State) -> StateStep:
        (rows,) = inputs
        before, self.after = self._usable(rows.before), self._usable(rows.after)
        tables, late = [], 0
        for table in rows.tables:
            mask = self._matching(before, table)
            late += int(mask.sum())
            tables.append(table.filter(pa.array(~mask)) if mask.any() else table)
        done = self.inner.step([replace(rows, tables=tables)], state)
        done = replace(done, late=done.late + late)
        if not any(p not in before for p in self.after):
            return done
        pool = pa.concat_tables([state(START, END), done.kept[MAIN]])
        gone = self._matching(self.after, pool)
        if 2 * int(gone.sum()) < pool.num_rows:
            return done
        first = self.inner.first_needed(MAIN, [rows.new])
        useful = ~gone & (pool[TIME].to_numpy() >= first)
        return replace(done, keep=pool.filter(pa.array(useful)), rewritten=frozenset([MAIN]))

    def compact(self, part: str, rows: pa.Table, first: int) -> pa.Table:
        rows = self.inner.compact(part, rows, first)
        return rows.filter(pa.array(~self._matching(self.after, rows)))

    def _usable(self, patterns: Patterns) -> Patterns:
        return tuple(p for p in patterns if set(p.columns) <= set(self.node.subset))

    def _matching(self, patterns: Patterns, table: pa.Table) -> np.ndarray:
        if not patterns or table.num_rows == 0:
            return np.zeros(table.num_rows, bool)
        return matching(patterns, table, self.node.on)[0]
