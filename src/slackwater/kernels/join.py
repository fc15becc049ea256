"""Joins of two or more streams, batch by batch: each result once, when its last row has arrived.

A batch joins its new rows with each other and with the stored rows, then says which new rows to store.
Stored rows never change: that one of an outer input found its first partner later is a row of a table of
its own. ``semantics.join`` says which rows are still needed; a stored row below that is not
looked at, whether it is still there or not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.errors import AnalysisError
from slackwater.kernels.band_join import (
    MAX_PAIRS,
    NO_KEY,
    Ints,
    Spans,
    TimeIndex,
    key_codes,
    present,
)
from slackwater.kernels.buckets import flat
from slackwater.model.join import How, Within
from slackwater.semantics.join import needed_from, outer_inputs, partners

TIME, BUCKET, ROW, MATCHED = "_time", "_bucket", "_row", "_matched"
MATCHED_SCHEMA = pa.schema([(ROW, pa.int64()), (TIME, pa.int64()), (BUCKET, pa.int16())])
"""Stored rows of an outer input that found a partner after they were stored."""

Flags = npt.NDArray[np.bool_]
Stored: TypeAlias = Callable[[int, int], pa.Table]
"""Stored rows with low <= time <= high; more rows do no harm."""
Predicate: TypeAlias = Callable[[pa.Table], "pa.BooleanArray | pa.ChunkedArray"]
"""Which rows of a chunk of joined columns satisfy a further condition; null is no."""


@dataclass(frozen=True)
class JoinSpec:
    """``keys`` columns ``_k0``… must be equal, times lie ``within``; ``columns[i]`` of input i come out.

    ``max_pairs`` bounds the rows of a chunk of output, and of what is held between two inputs.
    """

    within: Within
    keys: int
    columns: tuple[tuple[str, ...], ...]
    how: How = "inner"
    max_pairs: int = MAX_PAIRS

    def __post_init__(self) -> None:
        if self.how != "inner" and len(self.columns) != 2:
            raise AnalysisError(
                "JOIN_INPUTS",
                f"a {self.how} join takes two inputs, not {len(self.columns)}",
                hint="join the streams two by two",
                how=self.how,
            )

    @property
    def inputs(self) -> int:
        """Number of inputs."""
        return len(self.columns)


class Kept(NamedTuple):
    """Per input: new rows to store, and stored rows that found their first partner."""

    keep: tuple[pa.Table, ...]
    matched: tuple[pa.Table, ...]


def column_name(i: int, name: str) -> str:
    """Name of column ``name`` of input i in the output.

    >>> column_name(1, "price")
    '_1.price'
    """
    return f"_{i}.{name}"


def state_schema(spec: JoinSpec, i: int, rows: pa.Schema) -> pa.Schema:
    """Schema of stored rows of input i, from that of its new rows."""
    if i not in outer_inputs(spec.how):
        return rows
    return rows.append(pa.field(ROW, pa.int64())).append(pa.field(MATCHED, pa.bool_()))


def output_schema(spec: JoinSpec, rows: Sequence[pa.Schema]) -> pa.Schema:
    """Columns of the output: those of each input, the time of each, the result's time."""
    fields = [
        pa.field(column_name(i, c), rows[i].field(c).type)
        for i, columns in enumerate(spec.columns)
        for c in _with_time(columns)
    ]
    return pa.schema([*fields, pa.field(TIME, pa.int64())])


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
        Rows of each input with ``_time``, ``_bucket``, ``_k0``… and other columns; maybe no rows.
    stored
        Stored rows of each input by time. Rows that the old bounds say are not needed are ignored.
    predicate
        Part of the join condition, beside keys and times.
    matched
        For outer joins: what earlier batches returned as ``matched``, by input and time.
    row_base
        Rows stored for outer inputs are numbered from here on; numbers never recur within an operator.
    """
    return JoinStep(_Batch(spec, new, stored, old_bounds, new_bounds), predicate, matched, row_base)


class JoinStep:
    """The results of a batch in chunks; what to store is known when all of them were taken."""

    def __init__(
        self,
        batch: _Batch,
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
                flags = side.found[side.old_rows :][kept]
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
                batch.sides[i].found[rows[i]] = True
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
            wanted = _with_time(self._batch.spec.columns[i])[:-1]
            columns += [side.whole.column(c).take(at) for c in wanted]
            columns.append(pa.array(side.times[rows[i]]))
        times = [side.times[rows[i]] for i, side in enumerate(self._batch.sides)]
        return pa.table([*columns, pa.array(np.maximum.reduce(times))], schema=self.schema)

    def _padded(self, i: int, table: pa.Table) -> pa.Table:
        """Rows of input i with nulls for the other one."""
        columns: list[pa.Array] = []
        for j, names in enumerate(self._batch.spec.columns):
            for name in _with_time(names):
                kind = self.schema.field(column_name(j, name)).type
                nulls = pa.nulls(table.num_rows, kind)
                columns.append(table.column(name) if i == j else nulls)
        return pa.table([*columns, table.column(TIME)], schema=self.schema)

    def _unmatched_new(self, i: int) -> pa.Table:
        side = self._batch.sides[i]
        return side.new.filter(pa.array(~side.stays & ~side.found[side.old_rows :]))

    def _unmatched_stored(self, i: int) -> pa.Table:
        """Stored rows that are needed no more and never met a partner; notes those that just did."""
        side = self._batch.sides[i]
        found = side.whole.slice(0, side.old_rows).filter(pa.array(side.found[: side.old_rows]))
        found_ids = _ints(found, ROW)
        if len(found_ids):
            fresh = ~_bools(found, MATCHED) & (_ints(found, TIME) >= side.needed)
            times = _ints(found, TIME)
            fresh &= ~np.isin(found_ids, self._earlier(i, int(times.min()), int(times.max())))
            marks = found.filter(pa.array(fresh)).select(MATCHED_SCHEMA.names)
            self._marks[i] = marks.cast(MATCHED_SCHEMA)
        low, high = side.available, side.needed - 1
        if low > high:
            return side.new.schema.empty_table()
        leaving = self._batch.read(i, low, high)
        alone = ~_bools(leaving, MATCHED)
        if alone.any():
            ids = _ints(leaving, ROW)
            alone &= ~np.isin(ids, found_ids)
            alone &= ~np.isin(ids, self._earlier(i, low, high))
        return leaving.filter(pa.array(alone))

    def _earlier(self, i: int, low: int, high: int) -> Ints:
        return _ints(self._matched[i](low, high), ROW)


class _Side:
    """One input of a batch: stored rows that may meet new ones, then the new rows."""

    def __init__(self, new: pa.Table, outer: bool, available: int, needed: int) -> None:
        self.new = new
        self.outer = outer
        self.available = available
        """Stored rows below this time do not count in this batch."""
        self.needed = needed
        """Rows below this time are not needed after it."""
        self.old_rows = 0
        self.whole = new
        self.times: Ints = _ints(new, TIME)
        self.codes: Ints = np.empty(0, dtype=np.int64)
        self.found: Flags = np.zeros(new.num_rows, dtype=np.bool_)
        self.stays: Flags = np.zeros(new.num_rows, dtype=np.bool_)

    @property
    def new_times(self) -> Ints:
        return self.times[self.old_rows :]

    @property
    def new_codes(self) -> Ints:
        return self.codes[self.old_rows :]


class _Batch:
    """The inputs of a batch, and the combinations of their rows that have a new one."""

    def __init__(
        self,
        spec: JoinSpec,
        new: Sequence[pa.Table],
        stored: Sequence[Stored],
        old_bounds: Sequence[int],
        new_bounds: Sequence[int],
    ) -> None:
        self.spec = spec
        self.new = new
        self._stored = stored
        outer = outer_inputs(spec.how)
        self.sides = [
            _Side(
                table,
                i in outer,
                needed_from(spec.within, i, old_bounds),
                needed_from(spec.within, i, new_bounds),
            )
            for i, table in enumerate(new)
        ]
        self._load()

    def read(self, i: int, low: int, high: int) -> pa.Table:
        """Stored rows of input i with low <= time <= high."""
        schema = state_schema(self.spec, i, self.new[i].schema)
        if low > high:
            return schema.empty_table()
        table = self._stored[i](low, high).select(schema.names)
        if not table.schema.equals(schema):
            table = table.cast(schema)
        times = _ints(table, TIME)
        mask = (times >= low) & (times <= high)
        return table if mask.all() else table.filter(pa.array(mask))

    def _load(self) -> None:
        """Read the stored rows that new ones may meet, and number the keys of all rows."""
        old = [self.read(i, *self._met(i)) for i in range(self.spec.inputs)]
        tables = [*self.new, *old]
        names = [f"_k{k}" for k in range(self.spec.keys)]
        codes = key_codes(
            [[t.column(c) for c in names] for t in tables], [t.num_rows for t in tables]
        )
        for i, side in enumerate(self.sides):
            side.codes = codes[i]
            side.stays = (side.times >= side.needed) & (side.codes != NO_KEY)
        fresh = [side.codes for side in self.sides]
        for i, side in enumerate(self.sides):
            others = [c for j, c in enumerate(fresh) if j != i]
            code = codes[self.spec.inputs + i]
            meets = present(np.concatenate(others), code)
            table = old[i].filter(pa.array(meets))
            side.old_rows = table.num_rows
            side.codes = np.concatenate([code[meets], side.codes])
            side.times = np.concatenate([_ints(table, TIME), side.times])
            side.found = np.zeros(len(side.codes), dtype=np.bool_)
            side.whole = self._whole(i, table)

    def _whole(self, i: int, old: pa.Table) -> pa.Table:
        """Stored and new rows as one table of one chunk, so that taking rows is fast."""
        names = list(self.spec.columns[i])
        side = self.sides[i]
        if not side.outer:
            return pa.concat_tables([old.select(names), side.new.select(names)]).combine_chunks()
        more = [c for c in (TIME, BUCKET) if c not in names]
        rows = side.new.select([*names, *more])
        missing = pa.nulls(rows.num_rows, pa.int64()), pa.nulls(rows.num_rows, pa.bool_())
        rows = rows.append_column(ROW, missing[0]).append_column(MATCHED, missing[1])
        return pa.concat_tables([old.select(rows.column_names), rows]).combine_chunks()

    def _met(self, j: int) -> tuple[int, int]:
        """The span of times of input j that new rows of other inputs may meet."""
        low, high = [], []
        for i, side in enumerate(self.sides):
            if i != j and len(side.times):
                first, _ = partners(self.spec.within, i, j, int(side.times.min()))
                _, last = partners(self.spec.within, i, j, int(side.times.max()))
                low.append(first)
                high.append(last)
        if not low:
            return 0, -1
        return max(min(low), self.sides[j].available), max(high)

    def combinations(self) -> Iterator[dict[int, Ints]]:
        """Row numbers by input, in chunks.

        The last input that gives a new row drives: those before it give old and new rows, those
        after it only old ones. So each result that has a new row is found once.
        """
        for i, side in enumerate(self.sides):
            if not len(side.new_times):
                continue
            rows = np.flatnonzero(side.new_codes != NO_KEY) + side.old_rows
            others = [j for j in range(self.spec.inputs) if j != i]
            indexes = {j: self._index(j, i) for j in others}
            start = {i: rows}
            if len(others) > 1:
                sizes = {j: self._find(indexes[j], start, j).total for j in others}
                others.sort(key=sizes.__getitem__)
                if not sizes[others[0]]:
                    continue
            yield from self._extend(start, others, indexes)

    def _index(self, j: int, driver: int) -> TimeIndex:
        side = self.sides[j]
        end = len(side.codes) if j < driver else side.old_rows
        return TimeIndex(side.codes[:end], side.times[:end])

    def _find(self, index: TimeIndex, rows: Mapping[int, Ints], j: int) -> Spans:
        """Partners among the rows of input j that suit all rows of a result so far."""
        spans = [partners(self.spec.within, i, j, self.sides[i].times[r]) for i, r in rows.items()]
        low = np.maximum.reduce([first for first, _ in spans])
        high = np.minimum.reduce([last for _, last in spans])
        i, r = next(iter(rows.items()))
        return index.find(self.sides[i].codes[r], low, high)

    def _extend(
        self, rows: dict[int, Ints], others: Sequence[int], indexes: Mapping[int, TimeIndex]
    ) -> Iterator[dict[int, Ints]]:
        if not others:
            yield rows
            return
        j, rest = others[0], others[1:]
        spans = self._find(indexes[j], rows, j)
        for x, y in indexes[j].pairs(spans, self.spec.max_pairs):
            yield from self._extend({**{i: r[x] for i, r in rows.items()}, j: y}, rest, indexes)


def _with_time(columns: Sequence[str]) -> list[str]:
    return [*(c for c in columns if c != TIME), TIME]


def _ints(table: pa.Table, name: str) -> Ints:
    return np.asarray(flat(table.column(name)).to_numpy(zero_copy_only=False), dtype=np.int64)


def _bools(table: pa.Table, name: str) -> Flags:
    return np.asarray(
        pc.fill_null(flat(table.column(name)), False).to_numpy(zero_copy_only=False), dtype=np.bool_
    )
