"""Semi and anti joins, batch by batch: left rows, chosen by whether a partner exists.

A left row waits until its first partner comes, or until none can come any more. Then it is done with: a new row is not
stored, a stored one is marked, and `without_marked` hides it from the batches to come. Without a further condition no pair
is made: it is enough to know which rows lie in some row's span.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from slackwater.kernels.buckets import flat
from slackwater.kernels.joins.batch import JoinBatch
from slackwater.kernels.joins.results import BatchResults
from slackwater.kernels.joins.spec import (
    MATCHED_SCHEMA,
    Predicate,
    Stored,
    among,
    pair_schema,
    with_time,
)
from slackwater.model.names import TIME


def without_marked(stored: Stored, marked: Stored) -> Stored:
    """Stored rows that have met no partner; ``marked`` are those that did after they were stored."""

    def read(low: int, high: int) -> pa.Table:
        rows = stored(low, high)
        return rows.filter(pa.array(~among(rows, marked(low, high)))) if rows.num_rows else rows

    return read


class ExistenceStep(BatchResults):
    """Left rows that have a partner, or that will have none."""

    def __init__(self, batch: JoinBatch, predicate: Predicate | None, row_base: int) -> None:
        super().__init__(batch, predicate, row_base)
        self._pair = pair_schema(batch.spec, [t.schema for t in batch.new])

    def _chunks(self) -> Iterator[pa.Table]:
        batch, left = self._batch, self._batch.sides[0]
        self._meet()
        met = left.whole.filter(pa.array(left.matched))
        met_old = left.matched[: left.old_rows]
        stored = met.slice(0, int(np.count_nonzero(met_old)))
        waits = left.waits[met_old]
        self._marks[0] = (
            stored.filter(pa.array(waits)).select(MATCHED_SCHEMA.names).cast(MATCHED_SCHEMA)
        )
        met_new = left.matched[left.old_rows :] | left.unsure
        if batch.spec.how == "left_semi":
            leaving = [met]
        else:
            leaving = [
                left.new.filter(pa.array(~left.stays & ~met_new)),
                self._given_up(stored),
            ]
        left.stays &= ~met_new
        for table in leaving:
            for piece in self._slices(table):
                yield self._shown(piece)

    def _meet(self) -> None:
        """Note which left rows have found a partner in this batch."""
        batch, left = self._batch, self._batch.sides[0]
        if self._predicate is None:
            left.matched = batch.partnered()
            return
        for rows in batch.combinations():
            # The first partner decides, so the others of a row need not be asked about.
            open_ = np.flatnonzero(~left.matched[rows[0]])
            if len(open_):
                asked = {i: r[open_] for i, r in rows.items()}
                true = flat(self._predicate(batch.joined(asked, self._pair))).fill_null(False)
                left.matched[asked[0][true.to_numpy(zero_copy_only=False)]] = True

    def _given_up(self, met: pa.Table) -> pa.Table:
        """Stored rows that are needed no more and are not among those that ``met`` a partner just now."""
        leaving = self._batch.leaving(0)
        return leaving.filter(pa.array(~among(leaving, met)))

    def _shown(self, rows: pa.Table) -> pa.Table:
        names = with_time(self._batch.spec.columns[0])
        columns = [rows.column(name) for name in names]
        return pa.table([*columns, rows.column(TIME)], schema=self.schema)
