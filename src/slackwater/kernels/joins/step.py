"""Joins of two or more streams, batch by batch: each result once, when its last row has arrived.

A batch joins its new rows with each other and with the stored rows, then says which new rows to store.
Stored rows never change: that one of an outer input found its first partner later is a row of a table of
its own. ``semantics.join`` says which rows are still needed; a stored row below that is not
looked at, whether it is still there or not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from slackwater.kernels.buckets import flat
from slackwater.kernels.joins.band_join import Ints
from slackwater.kernels.joins.batch import JoinBatch
from slackwater.kernels.joins.spec import (
    MATCHED_SCHEMA,
    Flags,
    JoinSpec,
    Predicate,
    Stored,
    bools,
    column_name,
    ints,
    output_schema,
    state_schema,
    with_time,
)
from slackwater.kernels.order import group_codes
from slackwater.model.names import BUCKET, MATCHED, ROW, TIME
from slackwater.semantics.join import outer_inputs

__all__ = [
    "BUCKET", "MATCHED", "MATCHED_SCHEMA", "ROW", "TIME", "JoinSpec", "JoinStep", "Kept", "Predicate",
    "Stored", "column_name", "output_schema", "state_schema", "step",
]  # fmt: skip


class Kept(NamedTuple):
    """Per input: new rows to store, and stored rows that found their first partner."""

    keep: tuple[pa.Table, ...]
    matched: tuple[pa.Table, ...]


def step(
    spec: JoinSpec,
    new: Sequence[pa.Table],
    stored: Sequence[Stored],
    old_bounds: Sequence[int],
    new_bounds: Sequence[int],
    predicate: Predicate | None = None,
    matched: Sequence[Stored] = (),
    row_base: int = 0,
) -> JoinStep:
    """Join one batch: all new rows first, then the bounds from old to new.

    Parameters
    ----------
    new
        Rows of each input with `TIME`, `BUCKET`, the keys and other columns; maybe no rows.
    stored
        Stored rows of each input by time. Rows that the old bounds say are not needed are ignored.
    predicate
        Part of the join condition, beside keys and times.
    matched
        For outer joins: what earlier batches returned as ``matched``, by input and time.
    row_base
        Rows stored for outer inputs are numbered from here on; a number never recurs within a bucket.
    """
    return JoinStep(
        JoinBatch(spec, new, stored, old_bounds, new_bounds), predicate, matched, row_base
    )


class JoinStep:
    """The results of a batch in chunks; what to store is known when all of them were taken."""

    def __init__(
        self,
        batch: JoinBatch,
        predicate: Predicate | None,
        matched: Sequence[Stored],
        row_base: int,
    ) -> None:
        self._batch = batch
        self._predicate = predicate
        self._matched = matched
        self._row_base = row_base
        self._done = False
        self._marks: dict[int, pa.Table] = {}
        self.schema = output_schema(batch.spec, [t.schema for t in batch.new])
        """Schema of the chunks."""
        self.output: Iterator[pa.Table] = self._chunks()
        """Chunks of results, in no particular order."""

    def finish(self) -> Kept:
        """What to store; call it when ``output`` is exhausted."""
        if not self._done:
            raise RuntimeError("finish() before all chunks of the output were taken")
        keep, row = [], self._row_base
        for i, side in enumerate(self._batch.sides):
            kept = np.flatnonzero(side.stays)
            table = side.new.take(pa.array(kept))
            if side.outer:
                ids = np.arange(row, row + len(kept))
                row += len(kept)
                flags = side.matched[side.old_rows :][kept]
                columns = [*table.columns, pa.array(ids), pa.array(flags)]
                table = pa.table(columns, schema=state_schema(self._batch.spec, i, side.new.schema))
            keep.append(table)
        marks = [
            self._marks.get(i, MATCHED_SCHEMA.empty_table()) for i in range(len(self._batch.sides))
        ]
        return Kept(tuple(keep), tuple(marks))

    def _chunks(self) -> Iterator[pa.Table]:
        batch = self._batch
        for rows in batch.combinations():
            chunk = self._joined(rows)
            if self._predicate is not None:
                mask = flat(self._predicate(chunk)).fill_null(False)
                chunk = chunk.filter(mask)
                true = mask.to_numpy(zero_copy_only=False)
                rows = {i: r[true] for i, r in rows.items()}
            for i in outer_inputs(batch.spec.how):
                batch.sides[i].matched[rows[i]] = True
            if chunk.num_rows:
                yield chunk
        for i in outer_inputs(batch.spec.how):
            for table in (self._unmatched_new(i), self._unmatched_stored(i)):
                # Slices, for the sake of those who count on the size of a chunk.
                for at in range(0, table.num_rows, batch.spec.max_pairs):
                    yield self._padded(i, table.slice(at, batch.spec.max_pairs))
        self._done = True

    def _joined(self, rows: Mapping[int, Ints]) -> pa.Table:
        columns: list[pa.Array] = []
        for i, side in enumerate(self._batch.sides):
            at = pa.array(rows[i])
            wanted = with_time(self._batch.spec.columns[i])[:-1]
            columns += [side.whole.column(c).take(at) for c in wanted]
            columns.append(pa.array(side.times[rows[i]]))
        times = [side.times[rows[i]] for i, side in enumerate(self._batch.sides)]
        return pa.table([*columns, pa.array(np.maximum.reduce(times))], schema=self.schema)

    def _padded(self, i: int, table: pa.Table) -> pa.Table:
        """Rows of input i with nulls for the other one."""
        columns: list[pa.Array] = []
        for j, names in enumerate(self._batch.spec.columns):
            for name in with_time(names):
                kind = self.schema.field(column_name(j, name)).type
                nulls = pa.nulls(table.num_rows, kind)
                columns.append(table.column(name) if i == j else nulls)
        return pa.table([*columns, table.column(TIME)], schema=self.schema)

    def _unmatched_new(self, i: int) -> pa.Table:
        side = self._batch.sides[i]
        return side.new.filter(pa.array(~side.stays & ~side.matched[side.old_rows :]))

    def _unmatched_stored(self, i: int) -> pa.Table:
        """Stored rows that are needed no more and never met a partner; notes those that just did."""
        side = self._batch.sides[i]
        partnered = side.whole.slice(0, side.old_rows).filter(
            pa.array(side.matched[: side.old_rows])
        )
        if partnered.num_rows:
            times = ints(partnered, TIME)
            earlier = self._matched[i](int(times.min()), int(times.max()))
            fresh = ~bools(partnered, MATCHED) & (times >= side.needed) & ~_same(partnered, earlier)
            marks = partnered.filter(pa.array(fresh)).select(MATCHED_SCHEMA.names)
            self._marks[i] = marks.cast(MATCHED_SCHEMA)
        low, high = side.available, side.needed - 1
        if low > high:
            return side.new.schema.empty_table()
        leaving = self._batch.read(i, low, high)
        leaving = leaving.filter(pa.array(~bools(leaving, MATCHED)))
        if leaving.num_rows:
            leaving = leaving.filter(pa.array(~_same(leaving, partnered)))
            leaving = leaving.filter(pa.array(~_same(leaving, self._matched[i](low, high))))
        return leaving


def _same(rows: pa.Table, others: pa.Table) -> Flags:
    """Which stored rows are among others: a number is one of its bucket, as buckets move between tasks."""
    n = rows.num_rows
    parts = [np.concatenate([ints(rows, c), ints(others, c)]) for c in (ROW, BUCKET)]
    codes = group_codes(parts, n + others.num_rows).codes
    return np.isin(codes[:n], codes[n:])
