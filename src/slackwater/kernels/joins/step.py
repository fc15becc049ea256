"""Joins of two or more streams, batch by batch: each result once, when its last row has arrived.

A batch joins its new rows with each other and with the stored rows, then says which new rows to store.
Stored rows never change: that one of an outer input found its first partner later is a row of a table of
its own. ``semantics.join`` says which rows are still needed; a stored row below that is not looked at, whether it is
still there or not. Joins that ask whether a partner exists are in `existence`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from slackwater.kernels.buckets import flat
from slackwater.kernels.joins.batch import Closings, JoinBatch, Kept, gone, unsure
from slackwater.kernels.joins.existence import ExistenceStep, without_marked
from slackwater.kernels.joins.results import BatchResults
from slackwater.kernels.joins.spec import (
    MATCHED_SCHEMA,
    JoinSpec,
    Predicate,
    Stored,
    among,
    bools,
    column_name,
    ints,
    output_schema,
    state_schema,
    with_time,
)
from slackwater.model.join import is_existence
from slackwater.model.names import BUCKET, MATCHED, ROW, TIME
from slackwater.semantics.join import outer_inputs

__all__ = [
    "BUCKET", "MATCHED", "MATCHED_SCHEMA", "ROW", "TIME", "Closings", "ExistenceStep", "JoinSpec", "JoinStep", "Kept",
    "Predicate", "Stored", "among", "column_name", "output_schema", "gone", "state_schema", "step",
    "unsure",
]  # fmt: skip


def step(
    spec: JoinSpec,
    new: Sequence[pa.Table],
    stored: Sequence[Stored],
    old_bounds: Sequence[int],
    new_bounds: Sequence[int],
    predicate: Predicate | None = None,
    matched: Sequence[Stored] = (),
    row_base: int = 0,
    closings: Closings | None = None,
) -> JoinStep | ExistenceStep:
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
        For inputs in `marked_inputs`: what earlier batches returned as ``matched``, by input and time.
    row_base
        Rows stored for such inputs are numbered from here on; a number never recurs within a bucket.
    closings
        What punctuation of the inputs has closed, if it is more than bounds on their times.
    """
    if is_existence(spec.how):
        waiting = [without_marked(stored[0], matched[0]), *stored[1:]]
        batch = JoinBatch(spec, new, waiting, old_bounds, new_bounds, closings)
        return ExistenceStep(batch, predicate, row_base)
    batch = JoinBatch(spec, new, stored, old_bounds, new_bounds, closings)
    return JoinStep(batch, predicate, matched, row_base)


class JoinStep(BatchResults):
    """Combinations of rows, and rows of outer inputs that found no partner."""

    def __init__(
        self,
        batch: JoinBatch,
        predicate: Predicate | None,
        matched: Sequence[Stored],
        row_base: int,
    ) -> None:
        super().__init__(batch, predicate, row_base)
        self._matched = matched

    def _chunks(self) -> Iterator[pa.Table]:
        batch = self._batch
        for rows in batch.combinations():
            chunk = batch.joined(rows, self.schema)
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
            side = batch.sides[i]
            # Stored, they look like rows that have met one.
            side.matched[side.old_rows :] |= side.unsure
            for table in (self._unmatched_new(i), self._unmatched_stored(i)):
                for piece in self._slices(table):
                    yield self._padded(i, piece)

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
        met = side.matched[: side.old_rows]
        partnered = side.whole.slice(0, side.old_rows).filter(pa.array(met))
        if partnered.num_rows:
            times = ints(partnered, TIME)
            earlier = self._matched[i](int(times.min()), int(times.max()))
            fresh = ~bools(partnered, MATCHED) & side.waits[met] & ~among(partnered, earlier)
            marks = partnered.filter(pa.array(fresh)).select(MATCHED_SCHEMA.names)
            self._marks[i] = marks.cast(MATCHED_SCHEMA)
        leaving = self._batch.leaving(i)
        leaving = leaving.filter(pa.array(~bools(leaving, MATCHED)))
        if leaving.num_rows:
            times = ints(leaving, TIME)
            earlier = self._matched[i](int(times.min()), int(times.max()))
            leaving = leaving.filter(pa.array(~among(leaving, partnered)))
            leaving = leaving.filter(pa.array(~among(leaving, earlier)))
        return leaving
