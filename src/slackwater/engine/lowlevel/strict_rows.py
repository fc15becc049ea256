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

from slackwater.engine.lowlevel.quality_rows import UsableRows, feed
from slackwater.engine.paths.batch import Batch
from slackwater.engine.paths.steps import carrying
from slackwater.engine.plan.plan import Path
from slackwater.engine.progress.quality import (
    Reader,
    adaptation,
    durable,
    quality_settings,
    readers,
)
from slackwater.model.names import FLOOR
from slackwater.model.node import Source
from slackwater.semantics.limits import START
from slackwater.semantics.quality.gathered import Gathered
from slackwater.semantics.quality.strict import judge
from slackwater.semantics.window_ids import first_open

Mask = NDArray[np.bool_]
Ints = NDArray[np.int64]


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
        self.judged: dict[str, Gathered] = {}

    def judge(
        self, table: pa.Table, ticks: Ints, usable: Mask, ready: dict[int, pa.Table] | None
    ) -> Ints:
        """The bound that each row was judged by; rows are in order of arrival."""
        assert self.setting is not None
        column = self.setting.column
        known = self.batch.quality(self.source.name, column)
        adapting = adaptation(self.batch.plan, self.source, self.setting, known)
        chunk = UsableRows(table, usable, ready)
        feeds = [feed(self.batch, r, chunk) for r in self.readers]
        bound = self.batch.bound(self.source.name, column)
        judged = judge(adapting, ticks[usable], feeds, bound)
        bounds = np.full(len(ticks), START)
        bounds[usable] = judged.bounds
        self.bounds = bounds
        self.judged = {column: Gathered(judged=durable(adapting, judged.bound))}
        return bounds

    def floored(self, path: Path, table: pa.Table) -> tuple[Path, pa.Table]:
        """Rows with the first window that each may enter, and the path that carries it along."""
        reader = next((r for r in self.readers if r.path.id == path.id), None)
        if reader is None or reader.consumer.window is None or self.bounds is None:
            return path, table
        floors = first_open(self.bounds, reader.consumer.window)
        table = table.append_column(FLOOR, pa.array(floors, pa.int64()))
        return replace(path, steps=carrying(path.steps, FLOOR)), table


def in_order(
    table: pa.Table, ready: dict[int, pa.Table], keys: Sequence[NDArray[np.generic]]
) -> tuple[pa.Table, dict[int, pa.Table]]:
    """Rows by the columns that give the order of arrival, the first counting most."""
    places = pa.array(np.lexsort(tuple(reversed(keys))))
    return table.take(places), {path: t.take(places) for path, t in ready.items()}
