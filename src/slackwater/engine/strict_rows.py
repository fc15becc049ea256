"""Lateness judged row by row on the engine: one task has all rows of a batch, in order of arrival.

The bound moves inside the batch, so a row may be too late for a window that closes in the very batch it came in. It
then stays out of that window, and enters those that were open when it came: each row carries the first window that it
may enter (`FLOOR`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slackwater.engine.batch import Batch
from slackwater.engine.deliver import FLOOR, ROWS, carrying, relation
from slackwater.engine.plan import Path
from slackwater.engine.quality import Reader, adaptation, durable, quality_settings, readers
from slackwater.kernels.column_engine import connect, quote, sql_to_arrow
from slackwater.model.node import Source
from slackwater.semantics.limits import START
from slackwater.semantics.quality.gathered import Gathered
from slackwater.semantics.quality.strict import Feed, judge

Mask = NDArray[np.bool_]
Ints = NDArray[np.int64]

ROW = "__sw_row"


class StrictRows:
    """One column of a source under ``Quality(strict=True)``, in the one task that reads the source."""

    def __init__(self, batch: Batch, source: Source):
        self.batch = batch
        self.source = source
        self.setting = next((s for s in quality_settings(source) if s.strict), None)
        self.readers: tuple[Reader, ...] = ()
        if self.setting is not None:
            self.readers = readers(batch.plan, source, self.setting.column)
        self.bounds: Ints | None = None
        self.found: dict[str, Gathered] = {}

    def judge(
        self, table: pa.Table, ticks: Ints, usable: Mask, ready: dict[int, pa.Table] | None
    ) -> Ints:
        """The bound that each row was judged by; rows are in order of arrival."""
        assert self.setting is not None
        column = self.setting.column
        known = self.batch.states.get(self.source.name, {}).get("quality", {}).get(column, {})
        found = adaptation(self.batch.plan, self.source, self.setting, known)
        feeds = [self._feed(r, table, usable, ready) for r in self.readers]
        bound = self.batch.bound(self.source.name, column)
        judged = judge(found, ticks[usable], feeds, bound)
        bounds = np.full(len(ticks), START)
        bounds[usable] = judged.bounds
        self.bounds = bounds
        self.found = {column: Gathered(judged=durable(found, judged.bound))}
        return bounds

    def _feed(
        self, reader: Reader, table: pa.Table, usable: Mask, ready: dict[int, pa.Table] | None
    ) -> Feed:
        """Which of the usable rows reach a consumer, and their values."""
        rows, steps = table, reader.path.steps
        passed = np.zeros(table.num_rows, bool)
        values = [np.full(table.num_rows, np.nan) for _ in reader.values]
        kept = usable
        if ready is not None and reader.path.id in ready:
            rows, steps = ready[reader.path.id], ()
            kept = usable & rows["_pass"].to_numpy(zero_copy_only=False)
        rows = rows.append_column(ROW, pa.array(np.arange(table.num_rows)))
        base = relation(carrying(steps, ROW), f"SELECT * FROM {ROWS}")
        items = ", ".join([quote(ROW), *(f"{v} AS v{i}" for i, v in enumerate(reader.values))])
        sql = f"SELECT {items} FROM ({base}) AS q"
        rows = rows if kept.all() else rows.filter(pa.array(kept))
        found = sql_to_arrow(connect(self.batch.settings.memory), sql, {ROWS: rows})
        at = found[ROW].to_numpy()
        passed[at] = True
        for i, column in enumerate(values):
            column[at] = found[f"v{i}"].to_numpy(zero_copy_only=False)
        return Feed(passed[usable], [v[usable] for v in values])

    def floored(self, path: Path, table: pa.Table) -> tuple[Path, pa.Table]:
        """Rows with the first window that each may enter, and the path that carries it along."""
        reader = next((r for r in self.readers if r.path.id == path.id), None)
        if reader is None or reader.consumer.window is None or self.bounds is None:
            return path, table
        w = reader.consumer.window
        floors = np.where(self.bounds <= START, START, (self.bounds - w.origin) // w.slide)
        table = table.append_column(FLOOR, pa.array(floors, pa.int64()))
        return replace(path, steps=carrying(path.steps, FLOOR)), table


def in_order(
    table: pa.Table, ready: dict[int, pa.Table], keys: Sequence[NDArray[np.generic]]
) -> tuple[pa.Table, dict[int, pa.Table]]:
    """Rows by the columns that give the order of arrival, the first counting most."""
    places = pa.array(np.lexsort(tuple(reversed(keys))))
    return table.take(places), {path: t.take(places) for path, t in ready.items()}
