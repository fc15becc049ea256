"""Joins whose results leave in order of the first input's time, for plans that need order.

`OutputBuffered` (OPOB) matches at once and holds results until none older can come. `InputBuffered` (OPIB) holds rows
until all their partners are there, and makes results in order. Both take the tables that `kernels.join` takes:
time, keys, and more; both are exact. ``held_rows`` is what they keep at a moment, for the comparison of memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from slackwater.kernels.joins import step as join
from slackwater.kernels.joins.band_join import MAX_PAIRS, Ints, TimeIndex, key_codes, present
from slackwater.kernels.joins.spec import JoinSpec, column_name, ints, output_schema
from slackwater.model.names import TIME
from slackwater.semantics.join import needed_from, partners, time_bounds
from slackwater.semantics.limits import START

LEFT_TIME = column_name(0, TIME)


class OutputBuffered:
    """Immediate matching, ordered output."""

    def __init__(self, spec: JoinSpec, schemas: Sequence[pa.Schema]) -> None:
        self.spec = spec
        self.stored = [s.empty_table() for s in schemas]
        self.waiting = output_schema(spec, schemas).empty_table()
        self.bounds = (START, START)

    @property
    def held_rows(self) -> int:
        """Rows and results that are kept."""
        return sum(int(t.num_rows) for t in (*self.stored, self.waiting))

    def step(self, new: Sequence[pa.Table], bounds: tuple[int, int]) -> pa.Table:
        """A batch; the results that may leave, in order."""
        done = join.step(self.spec, new, [_reader(t) for t in self.stored], self.bounds, bounds)
        results = pa.concat_tables([self.waiting, *done.output])
        for i, more in enumerate(done.finish().keep):
            whole = pa.concat_tables([self.stored[i], more])
            self.stored[i] = _from(whole, needed_from(self.spec.within, i, bounds))
        self.bounds = bounds
        safe = ints(results, LEFT_TIME) < time_bounds(self.spec.within, bounds)[0]
        self.waiting = results.filter(pa.array(~safe))
        return results.filter(pa.array(safe)).sort_by(LEFT_TIME)


class InputBuffered:
    """Delayed matching: a row of the first input waits until its partners and all older rows are there."""

    def __init__(self, spec: JoinSpec, schemas: Sequence[pa.Schema]) -> None:
        self.spec = spec
        self.schema = output_schema(spec, schemas)
        self.stored = [s.empty_table() for s in schemas]
        self.safe = START

    @property
    def held_rows(self) -> int:
        """Rows that are kept."""
        return sum(t.num_rows for t in self.stored)

    def step(self, new: Sequence[pa.Table], bounds: tuple[int, int]) -> pa.Table:
        """A batch; its results, in order."""
        left, right = (pa.concat_tables([s, n]) for s, n in zip(self.stored, new, strict=True))
        # Late rows of the first input would break the order: like all that need order, this drops them.
        left = _from(left, self.safe)
        self.safe = max(self.safe, time_bounds(self.spec.within, bounds)[0])
        complete = ints(left, TIME) < self.safe
        ready = left.filter(pa.array(complete)).sort_by(TIME)
        results = self._joined(ready, right)
        low, _ = partners(self.spec.within, 0, 1, self.safe)
        self.stored = [left.filter(pa.array(~complete)), _from(right, low)]
        return results

    def _joined(self, left: pa.Table, right: pa.Table) -> pa.Table:
        names = [f"__sw_k{k}" for k in range(self.spec.keys)]
        codes = key_codes(
            [[t.column(c) for c in names] for t in (left, right)], [left.num_rows, right.num_rows]
        )
        low, high = partners(self.spec.within, 0, 1, ints(left, TIME))
        found = list(find_pairs(codes[0], codes[1], ints(right, TIME), low, high))
        rows = [np.concatenate([np.empty(0, np.int64), *p]) for p in zip(*found)] or [
            np.empty(0, np.int64)
        ] * 2
        columns: list[pa.Array] = []
        for table, own, at in zip((left, right), self.spec.columns, rows, strict=True):
            taken = table.take(pa.array(at))
            columns += [taken.column(c) for c in (*(c for c in own if c != TIME), TIME)]
        times = np.maximum(ints(left, TIME)[rows[0]], ints(right, TIME)[rows[1]])
        return pa.table([*columns, pa.array(times)], schema=self.schema).sort_by(LEFT_TIME)


def _reader(table: pa.Table) -> join.Stored:
    return lambda low, high: table


def _from(table: pa.Table, first: int) -> pa.Table:
    return table.filter(pa.array(ints(table, TIME) >= first))


def find_pairs(
    codes_a: Ints,
    codes_b: Ints,
    times_b: Ints,
    low: Ints,
    high: Ints,
    max_pairs: int = MAX_PAIRS,
) -> Iterator[tuple[Ints, Ints]]:
    """All (x, y) with equal codes and ``low[x] <= times_b[y] <= high[x]``, in bounded chunks."""
    rows = np.flatnonzero(present(codes_a, codes_b))
    index = TimeIndex(codes_b[rows], times_b[rows])
    for x, y in index.pairs(index.find(codes_a, low, high), max_pairs):
        yield x, rows[y]
