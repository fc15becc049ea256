"""The low level: raw rows of a source, judged, summarised, and sent along the source's paths.

Rows are judged against the bounds in force when the batch began, by `semantics.lateness`. The summary (what the
progress policy must know of the batch, and exact counts) goes to every group task.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from slackwater.engine.lowlevel.arrival import arrival_summaries, sortable
from slackwater.engine.lowlevel.punctuation import Punctuation
from slackwater.engine.lowlevel.quality_rows import Observed, QualityRows
from slackwater.engine.lowlevel.strict_rows import StrictRows, in_order
from slackwater.engine.paths.batch import Batch
from slackwater.engine.paths.delivery import Delivery
from slackwater.engine.paths.reports import SourceReport
from slackwater.engine.paths.wire import Message, pack_control, routes
from slackwater.engine.plan.guards import Placed, left_over
from slackwater.engine.plan.plan import Path
from slackwater.model.codec import to_json
from slackwater.model.names import BARE, PASS, ROWS
from slackwater.model.node import LATE_FIELDS, Late, Source
from slackwater.model.time import TimeColumn
from slackwater.model.window import TimeWindow
from slackwater.semantics.bounds import END, START
from slackwater.semantics.lateness import (
    REASONS,
    Verdicts,
    is_beyond,
    judge_column,
    usable_times,
)
from slackwater.semantics.local_time import instant_of
from slackwater.semantics.partition_names import partition_name
from slackwater.semantics.settings import BoundRule, guard_limit, resolve_source
from slackwater.semantics.summary import PartitionSummary, SourceSummary, merge
from slackwater.semantics.window_chains import join_readers, window_readers
from slackwater.semantics.window_ids import closed_by, windows_missed
from slackwater.semantics.windows import missed

Mask = NDArray[np.bool_]


class SourceTask:
    """One source in one low-level task."""

    def __init__(self, batch: Batch, source: Source, delivery: Delivery, observed: Observed):
        self.batch = batch
        self.source = source
        self.delivery = delivery
        self.settings = resolve_source(source)
        self.paths = list(batch.plan.paths_from(source.name))
        self.late_names = [
            n for n, m in zip(batch.plan.names, batch.plan.nodes, strict=True)
            if isinstance(m, Late) and m.source is source
        ]  # fmt: skip
        self.punctuation = Punctuation(batch, source, self.settings)
        self.quality = QualityRows(batch, source, observed)
        self.strict = StrictRows(batch, source)
        self.waiting: list[tuple[pa.Table, dict[int, pa.Table]]] = []
        self.summaries: list[SourceSummary] = []
        self.sample: str | None = None
        self.left_out: str | None = None
        """A condition on rows: of those that are on time, the scan has left out all for which it is true."""

    # ---- rows ----
    def rows(self, table: pa.Table, ready: dict[int, pa.Table] | None = None) -> None:
        """Take a chunk of raw rows. ``ready`` has the rows of paths that Spark evaluated already:
        per path a table in step with ``table`` whose last column `PASS` is its filter.
        Where lateness is judged row by row, rows wait for `finish`.
        """
        if self.strict.setting is not None:
            self.waiting.append((table, ready or {}))
        else:
            self._rows(table, ready)

    def finish(self) -> None:
        """All rows are here: judge those that waited, in order of arrival."""
        if not self.waiting:
            return
        table = pa.concat_tables([t for t, _ in self.waiting])
        ready = {
            path: pa.concat_tables([r[path] for _, r in self.waiting])
            for path in self.waiting[0][1]
        }
        self.waiting = []
        self._rows(*in_order(table, ready, [sortable(table[c]) for c in self.source.order]))

    def _rows(self, table: pa.Table, ready: dict[int, pa.Table] | None) -> None:
        n = table.num_rows
        bare = None
        if BARE in table.column_names:
            bare = table[BARE].to_numpy(zero_copy_only=False).astype(bool)
            table = table.drop_columns([BARE])
        data = self._data_mask(table)
        judged = [
            self._judge(table, t, s) for t, s in zip(self.source.times, self.settings, strict=True)
        ]
        if self.strict.setting is not None:
            judged = self._strictly(table, data, judged, ready)
        self.summaries.append(self._summarise(table, data, judged, ready))
        if self.source.late == "raise":
            self._sample(table, data, judged)
        plausible = ~np.logical_or.reduce([v.future for v in judged])
        for path in self.paths:
            admitted = data & self._admitted(path, judged)
            rows = table
            placed = near = self.batch.guards.of(path)
            if bare is not None:
                admitted = self._without(bare, admitted, placed)
            if placed:
                admitted = self._spared(table, admitted, placed, judged, plausible)
                tested = {g.match.duck for at, g in placed if not at and g.soft}
                placed = tuple((at, g) for at, g in placed if at or not g.soft)
                near = left_over(path, placed, tested)
            if ready is not None and path.id in ready:
                rest = path.behind_first
                done = len(path.steps) - len(rest.steps)
                placed = tuple((at - done, g) for at, g in placed if at >= done and not g.soft)
                near = placed
                rows = ready[path.id]
                admitted = admitted & rows[PASS].to_numpy(zero_copy_only=False)
                rows = rows.drop_columns([PASS])
                path = rest
            path, rows = self.strict.floored(path, rows)
            self._send(path, rows, admitted, placed, near, plausible)
        if self.late_names and n:
            self._send_late(table, data, judged)

    def _without(self, bare: Mask, admitted: Mask, placed: Sequence[Placed]) -> Mask:
        """The rows that are not bare; the others are counted where a guard on the source's own rows drops them."""
        guard = next((g for at, g in placed if not at and g.soft), None)
        if guard is not None:
            self.delivery.drop(guard.place, int((admitted & bare).sum()))
        return admitted & ~bare

    def _spared(
        self,
        table: pa.Table,
        admitted: Mask,
        placed: Sequence[Placed],
        judged: Sequence[Verdicts],
        plausible: Mask,
    ) -> Mask:
        """The rows that soft guards on the source's own rows let pass."""
        for at, guard in placed:
            if at or not guard.soft:
                continue
            asked = admitted & plausible
            if guard.match.duck == self.left_out:
                asked &= np.logical_or.reduce([v.late | v.null for v in judged])
            if asked.any():
                sql = f"SELECT {guard.match.duck} AS {PASS} FROM {ROWS}"
                hit = self.delivery.queried(sql, _those(table, asked))[PASS]
                gone = np.zeros(len(admitted), bool)
                gone[asked] = hit.to_numpy(zero_copy_only=False).astype(bool)
                self.delivery.drop(guard.place, int(gone.sum()))
                admitted = admitted & ~gone
        return admitted

    def _send(
        self,
        path: Path,
        rows: pa.Table,
        admitted: Mask,
        placed: Sequence[Placed],
        near: Sequence[Placed],
        plausible: Mask,
    ) -> None:
        """``near`` are the guards that are left for rows whose times are plausible."""
        if not placed:
            self.delivery.send(path, _those(rows, admitted))
            return
        hard = [(at, g) for at, g in placed if not g.soft]
        far = admitted & ~plausible
        if far.any() and hard != list(near):
            self.delivery.send_guarded(path, _those(rows, far), hard)
            admitted = admitted & plausible
        self.delivery.send_guarded(path, _those(rows, admitted), near)

    def _data_mask(self, table: pa.Table) -> Mask:
        """Rows that are data: a punctuation row is not, unless the policy says so."""
        mask = np.ones(table.num_rows, bool)
        for setting in self.settings:
            if setting.kind == "punctuated" and not setting.data:
                mask &= pc.is_null(table[setting.punctuation]).to_numpy(zero_copy_only=False)
        return mask

    def _judge(self, table: pa.Table, time: TimeColumn, setting: BoundRule) -> Verdicts:
        ticks, null = ticks_of(table[time.name])
        return judge_column(
            ticks,
            null,
            self.batch.bound(self.source.name, time.name),
            guard_limit(setting, self.batch.now),
            side=setting.future == "side",
            patterns=self.punctuation.broken(table, time.name),
        )

    def _strictly(
        self,
        table: pa.Table,
        data: Mask,
        judged: list[Verdicts],
        ready: dict[int, pa.Table] | None,
    ) -> list[Verdicts]:
        """The verdicts with each row judged by the bound of its own moment."""
        assert self.strict.setting is not None
        at = self.settings.index(self.strict.setting)
        v = judged[at]
        bounds = self.strict.judge(table, v.ticks, data & v.plausible, ready)
        limit = guard_limit(self.strict.setting, self.batch.now)
        side = self.strict.setting.future == "side"
        strict = judge_column(v.ticks, v.null, bounds, limit, side=side)
        return [*judged[:at], strict, *judged[at + 1 :]]

    def _admitted(self, path: Path, judged: list[Verdicts]) -> Mask:
        at = next((i for i, t in enumerate(self.source.times) if t.name == path.time), 0)
        return judged[at].entering(self.source.late)

    # ---- what was seen ----
    def _summarise(
        self,
        table: pa.Table,
        data: Mask,
        judged: list[Verdicts],
        ready: dict[int, pa.Table] | None = None,
    ) -> SourceSummary:
        codes, names = self._partitions(table)
        punctuation = self.punctuation.read(table, codes, names)
        columns = {}
        for setting, verdict in zip(self.settings, judged, strict=True):
            summaries = self._columns(table, data, codes, names, setting, verdict)
            columns[setting.column] = punctuation.added(setting, summaries)
        arrival = arrival_summaries(self.source, self.settings, table, data, codes, names, judged,
                                    self.batch.states.get(self.source.name))  # fmt: skip
        for column, partitions in arrival.columns.items():
            for name, part in partitions.items():
                base = columns[column][name]
                columns[column][name] = PartitionSummary(
                    base.rows, base.hi, base.lo, base.future, base.punct,
                    part.delay, part.delay_time, part.tail, part.rest_hi, part.chunks,
                )  # fmt: skip
        pairs = list(zip(self.settings, judged, strict=True))
        return SourceSummary(
            columns,
            int(data.sum()),
            {s.column: int((v.late & data).sum()) for s, v in pairs},
            {s.column: int((v.null & data).sum()) for s, v in pairs},
            arrival.violations,
            arrival.orders,
            punctuation.patterns,
            {
                **self.quality.gathered(table, data, codes, names, judged, ready),
                **self.strict.judged,
            },
            punctuation.unfit,
        )

    def _partitions(self, table: pa.Table) -> tuple[NDArray[np.int64], list[str]]:
        if self.source.partition is None:
            return np.zeros(table.num_rows, np.int64), [""]
        column = table[self.source.partition].cast(pa.string()).combine_chunks()
        encoded = column.dictionary_encode(null_encoding="encode")
        names = [partition_name(value) for value in encoded.dictionary.to_pylist()]
        return encoded.indices.to_numpy().astype(np.int64), names

    def _columns(
        self,
        table: pa.Table,
        data: Mask,
        codes: NDArray[np.int64],
        names: list[str],
        setting: BoundRule,
        verdict: Verdicts,
    ) -> dict[str, PartitionSummary]:
        usable = data & verdict.plausible
        n = len(names)
        rows = np.bincount(codes, minlength=n)
        future = np.bincount(codes[verdict.future & data], minlength=n)
        high = np.full(n, START)
        low = np.full(n, END)
        np.maximum.at(high, codes[usable], verdict.ticks[usable]) if n > 1 else None
        np.minimum.at(low, codes[usable], verdict.ticks[usable]) if n > 1 else None
        if n == 1 and usable.any():
            chosen = verdict.ticks if usable.all() else verdict.ticks[usable]
            high[0], low[0] = chosen.max(), chosen.min()
        puncts = np.full(n, START)
        implausible = np.zeros(n, np.int64)
        if setting.kind == "punctuated" and not setting.patterns:
            values, null = ticks_of(table[setting.punctuation])
            limit = guard_limit(setting, self.batch.now)
            beyond = ~null & is_beyond(values, limit)
            implausible = np.bincount(codes[beyond & ~data], minlength=n)
            here = ~null & ~beyond
            np.maximum.at(puncts, codes[here], values[here])
        return {
            name: PartitionSummary(
                int(rows[i]),
                int(high[i]) if high[i] > START else None,
                int(low[i]) if low[i] < END else None,
                int(future[i] + implausible[i]),
                int(puncts[i]) if puncts[i] > START else None,
            )
            for i, name in enumerate(names)
            if rows[i]
        }

    def _sample(self, table: pa.Table, data: Mask, judged: list[Verdicts]) -> None:
        for setting, verdict in zip(self.settings, judged, strict=True):
            late_rows = np.flatnonzero(verdict.late & data)
            if len(late_rows) and self.sample is None:
                row = table.slice(int(late_rows[0]), 1).to_pylist()[0]
                self.sample = json.dumps([setting.column, {k: str(v) for k, v in row.items()}])

    # ---- late rows as a stream ----
    def _send_late(self, table: pa.Table, data: Mask, judged: list[Verdicts]) -> None:
        """Rows that are late, without a time, or sent aside as future; each once, by its first fault."""
        n = table.num_rows
        reason = np.zeros(n, np.int8)
        by = np.zeros(n, np.int64)
        bound = np.full(n, START)
        missed = np.zeros(n, np.int64)
        for time, setting, verdict in zip(self.source.times, self.settings, judged, strict=True):
            places = np.flatnonzero(data & (reason == 0) & (verdict.reasons > 0))
            if not len(places):
                continue
            faults, limit = verdict.take(places), guard_limit(setting, self.batch.now)
            reason[places] = faults.reasons
            by[places] = faults.late_by(limit)
            ends = faults.judged_by(limit)
            if setting.zone is not None:
                known = ends > START
                ends[known] = instants_of(ends[known], setting.zone)
            bound[places] = ends
            windows = self._missed(time.name, table, verdict.ticks)[places]
            missed[places] = np.where(faults.late, windows, 0)
        chosen = reason > 0
        if not chosen.any():
            return
        rows = table.filter(pa.array(chosen))
        kind = np.array(REASONS, object)[reason[chosen]]
        integer = self.source.times[0].is_integer
        none = bound[chosen] == START
        bounds = pa.array(bound[chosen], pa.int64(), mask=none)
        if not integer:
            bounds = bounds.cast(pa.timestamp("us")).cast(pa.timestamp("us", tz="UTC"))
        extra = [
            pa.array(kind, pa.string()),
            pa.array(by[chosen], pa.int64(), mask=none),
            bounds,
            pa.array(missed[chosen], pa.int64()),
        ]
        for field, values in zip(LATE_FIELDS, extra, strict=True):
            rows = rows.append_column(field.name, values)
        for name in self.late_names:
            for path in self.batch.plan.paths_from(name):
                self.delivery.send_guarded(path, rows, self.batch.guards.of(path))

    def _missed(self, column: str, table: pa.Table, ticks: NDArray[np.int64]) -> NDArray[np.int64]:
        """Windows that each row comes too late for, over the aggregates that read this stream, and joins in which it may miss partners."""
        total = np.zeros(len(ticks), np.int64)
        outputs = [o.node for o in self.batch.plan.outputs]
        for node, moved in window_readers(outputs, self.source, column):
            bound = self.batch.bound(self.batch.plan.name_of(node.child), node.window.on)
            if self.strict.bounds is not None and isinstance(node.window, TimeWindow):
                closed = closed_by(self.strict.bounds + moved, node.window)
                total += windows_missed(ticks + moved, closed, node.window)
                continue
            linear = missed(ticks + moved, bound, node.window)
            total += np.maximum(linear, self.punctuation.missed(node, moved, table, ticks))
        for join, i, moved in join_readers(outputs, self.source, column):
            total += self.punctuation.may_miss(join, i, moved, table, ticks)
        return total

    def report(self) -> SourceReport:
        """What every group task must know of this source."""
        return SourceReport(self.source.name, merge(self.summaries, self.settings), self.sample)


def _those(rows: pa.Table, mask: Mask) -> pa.Table:
    return rows if mask.all() else rows.filter(pa.array(mask))


def ticks_of(column: pa.ChunkedArray) -> tuple[NDArray[np.int64], Mask]:
    """A time column as int64 ticks and the mask of its nulls, unusable times among them."""
    null = column.is_null().to_numpy(zero_copy_only=False)
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", tz=column.type.tz)).cast(pa.int64())
    values = column.cast(pa.int64())
    if null.any():
        values = values.fill_null(0)
    return usable_times(values.to_numpy(), null)


def instants_of(local: NDArray[np.int64], zone: str) -> NDArray[np.int64]:
    """The instants of local times. Bounds are few, whatever the number of rows they were held against."""
    known, places = np.unique(local, return_inverse=True)
    return np.array([instant_of(int(t), zone) for t in known], np.int64)[places]


def broadcast_summaries(batch: Batch, tasks: Iterable[SourceTask]) -> list[Message]:
    """The summaries of a task, addressed to every group of level 1."""
    blobs = [pack_control("summary", to_json(t.report())) for t in tasks]
    return [(route, blob) for blob in blobs for route in routes(batch.groups)]
