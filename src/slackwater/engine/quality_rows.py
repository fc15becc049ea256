"""What a low-level task gathers for a quality target, in the one pass over its rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slackwater.engine.batch import Batch
from slackwater.engine.deliver import ROWS, relation
from slackwater.engine.quality import Reader, quality_settings, readers
from slackwater.kernels.column_engine import connect, sql_to_arrow
from slackwater.model.node import Source
from slackwater.semantics.quality.gathered import MAX_GROUPS, Gathered, Rows
from slackwater.semantics.quality.measure import tally
from slackwater.semantics.quality.moments import Moments
from slackwater.semantics.quality.statistics import Bag, merged_bags
from slackwater.semantics.settings import Settings
from slackwater.semantics.window_ids import closed_by

if TYPE_CHECKING:
    from slackwater.engine.low_level import Judged

Mask = NDArray[np.bool_]


class QualityRows:
    """One source in one task; empty where none of its columns has a target that needs rows."""

    def __init__(self, batch: Batch, source: Source):
        self.batch = batch
        self.source = source
        self.settings = [s for s in quality_settings(source) if not s.strict]
        self.readers = {s.column: readers(batch.plan, source, s.column) for s in self.settings}

    def gathered(
        self,
        table: pa.Table,
        data: Mask,
        codes: NDArray[np.int64],
        names: Sequence[str],
        judged: Sequence[Judged],
        ready: dict[int, pa.Table] | None,
    ) -> dict[str, Gathered]:
        """What one chunk of rows tells, by time column."""
        found = {}
        columns = [t.name for t in self.source.times]
        for setting in self.settings:
            verdict = judged[columns.index(setting.column)]
            usable = data & ~verdict.null & ~verdict.future
            bag = self._bag(setting, usable, codes, names, verdict.ticks)
            bound = self.batch.bound(self.source.name, setting.column)
            rows = [
                self._rows(reader, setting, table, usable, verdict.ticks, bound, ready)
                for reader in self.readers[setting.column]
            ]
            found[setting.column] = Gathered(bag, tuple(rows))
        return found

    def _bag(
        self,
        setting: Settings,
        usable: Mask,
        codes: NDArray[np.int64],
        names: Sequence[str],
        ticks: NDArray[np.int64],
    ) -> Bag | None:
        """Delays behind the newest times of each partition after earlier batches."""
        assert setting.target is not None
        state = self.batch.states.get(self.source.name, {}).get("quality", {})
        known = state.get(setting.column, {}).get("adaptation", {})
        granularity = setting.target.granularity
        if known:
            granularity = known["statistics"]["window"]["granularity"]
        parts = []
        for i, name in enumerate(names):
            times = ticks[usable & (codes == i)] if len(names) > 1 else ticks[usable]
            if len(times):
                edges = known.get("edges", {}).get(name, [])
                parts.append(Bag.of(times, edges, granularity))
        return merged_bags(parts)

    def _rows(
        self,
        reader: Reader,
        setting: Settings,
        table: pa.Table,
        usable: Mask,
        ticks: NDArray[np.int64],
        bound: int,
        ready: dict[int, pa.Table] | None,
    ) -> Rows:
        window = reader.consumer.window
        counted = {} if window is None else tally(ticks[usable], closed_by(bound, window), window)
        seen = Moments.ones(int(usable.sum()))
        rows, steps = table, reader.path.steps
        if ready is not None and reader.path.id in ready:
            rows, steps = ready[reader.path.id], ()
            usable = usable & rows["_pass"].to_numpy(zero_copy_only=False)
        elif reader.path.blocked_by is not None:
            return Rows(counted, (seen, seen, *[Moments()] * len(reader.values)))
        rows = rows if usable.all() else rows.filter(pa.array(usable))
        base = relation(steps, f"SELECT * FROM {ROWS}")
        passed = self._moments(rows, base, reader.values, "")[0][1]
        assert setting.target is not None
        groups = {}
        if setting.target.per == "group" and reader.keys:
            key = f"hash({', '.join(reader.keys)})"
            groups = dict(self._moments(rows, base, reader.values, key))
        return Rows(counted, (seen, *passed), groups)

    def _moments(
        self, rows: pa.Table, base: str, values: Sequence[str], key: str
    ) -> list[tuple[int, tuple[Moments, ...]]]:
        """Moments of the rows and of each column of values; by group, of those with the least hash, if asked."""
        items = ["count(*)"]
        for text in values:
            finite = f"FILTER (WHERE isfinite({text}))"
            items += [f"count({text}) {finite}", f"sum({text}) {finite}"]
            items.append(f"sum({text} * {text}) {finite}")
        named = ", ".join(f"{sql} AS c{i}" for i, sql in enumerate(items))
        sql = f"SELECT {key or '0'} AS h, {named} FROM ({base}) AS q"
        if key:
            sql += f" GROUP BY h ORDER BY h LIMIT {MAX_GROUPS}"
        found = sql_to_arrow(connect(self.batch.settings.memory), sql, {ROWS: rows})
        out = []
        for row in found.to_pylist():
            numbers = [row[f"c{i}"] or 0 for i in range(len(items))]
            parts = [Moments.ones(int(numbers[0]))]
            for i in range(len(values)):
                n, total, squares = numbers[1 + 3 * i : 4 + 3 * i]
                parts.append(Moments(int(n), float(total), float(squares)))
            out.append((int(row["h"]), tuple(parts)))
        return out
