"""The rows of one batch of a join, and the combinations of them that hold a new row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from slackwater.kernels.buckets import flat
from slackwater.kernels.joins.band_join import NO_KEY, Ints, Spans, TimeIndex, key_codes, present
from slackwater.kernels.joins.spec import (
    MATCHED_SCHEMA,
    Flags,
    JoinSpec,
    Stored,
    ints,
    state_schema,
    with_time,
)
from slackwater.kernels.windows.pattern_match import closed
from slackwater.model.join import Within
from slackwater.model.names import BUCKET, MATCHED, TIME, key
from slackwater.semantics.closing import Closing
from slackwater.semantics.join import (
    is_met,
    least_met,
    marked_inputs,
    met_from,
    met_with,
    needed_from,
    outer_inputs,
    partners,
)
from slackwater.semantics.lateness import is_late
from slackwater.semantics.limits import END


class Side:
    """One input of a batch: stored rows that may meet new ones, then the new rows."""

    def __init__(self, new: pa.Table, marked: bool, available: int, needed: int) -> None:
        self.new = new
        self.marked = marked
        """Whether it must be known of stored rows that a partner has come."""
        self.available = available
        """Stored rows below this time do not count in this batch."""
        self.needed = needed
        """Rows below this time are not needed after it."""
        self.old_rows = 0
        self.whole = new
        self.times: Ints = ints(new, TIME)
        self.codes: Ints = np.empty(0, dtype=np.int64)
        self.matched: Flags = np.zeros(new.num_rows, dtype=np.bool_)
        self.stays: Flags = np.zeros(new.num_rows, dtype=np.bool_)
        self.gone: Flags = np.zeros(0, dtype=np.bool_)
        """Which rows are new in a place that is not kept."""
        self.unsure: Flags = np.zeros(new.num_rows, dtype=np.bool_)
        """New rows of which nobody can know whether they had a partner."""
        self.waits: Flags = np.zeros(0, dtype=np.bool_)
        """Of the stored rows in ``whole``, whether they are needed after the batch."""

    @property
    def new_times(self) -> Ints:
        return self.times[self.old_rows :]

    @property
    def new_codes(self) -> Ints:
        return self.codes[self.old_rows :]


class Closings(NamedTuple):
    """What each input has closed to rows of the others, before the batch and after it; bounds are counted in."""

    before: Sequence[Closing]
    after: Sequence[Closing]


def gone(spec: JoinSpec, i: int, rows: pa.Table, closings: Sequence[Closing]) -> Flags:
    """Which rows of input i can find no partner any more: all other inputs have closed all that they could meet."""
    mask = np.ones(rows.num_rows, dtype=np.bool_)
    times = ints(rows, TIME)
    keys = [rows.column(key(n)) for n in range(spec.keys)]
    for j, closing in enumerate(closings):
        if j != i and mask.any():
            low, high = partners(spec.within, i, j, times)
            mask &= closed(closing, keys, low, high + 1, high)
    return mask


def may_miss(
    within: Within,
    i: int,
    times: Ints,
    bounds: Sequence[int],
    closing: Closing | None = None,
    keys: Sequence[pa.ChunkedArray | None] = (),
) -> Flags:
    """Which new rows of input i may have had partners that were not kept: their own input had closed all that these could meet.

    ``closing`` is what it had closed beside its bound, ``keys`` are those that this tests.
    """
    late: Flags = is_late(times, met_from(within, i, bounds))
    if not closing:
        return late
    low, high = met_with(within, i, times)
    return late | closed(closing, keys, low, high + 1, high, least_met(within, i))


def unsure(
    spec: JoinSpec, i: int, rows: pa.Table, bounds: Sequence[int], closings: Closings | None = None
) -> Flags:
    """Of which new rows of input i nobody can know whether they had a partner; one with a null key had none."""
    keys = [rows.column(key(n)) for n in range(spec.keys)]
    closing = None if closings is None else closings.before[i]
    late = may_miss(spec.within, i, ints(rows, TIME), bounds, closing, keys)
    for column in keys:
        if column.null_count:
            late = late & flat(column.is_valid()).to_numpy(zero_copy_only=False)
    return late


class Kept(NamedTuple):
    """Per input: new rows to store, and stored rows that found their first partner."""

    keep: tuple[pa.Table, ...]
    matched: tuple[pa.Table, ...]


class JoinBatch:
    """The inputs of a batch, and the combinations of their rows that have a new one."""

    def __init__(
        self,
        spec: JoinSpec,
        new: Sequence[pa.Table],
        stored: Sequence[Stored],
        old_bounds: Sequence[int],
        new_bounds: Sequence[int],
        closings: Closings | None = None,
    ) -> None:
        self.spec = spec
        self._bounds = old_bounds
        self._closings = closings
        self.new = new
        self._stored = stored
        marked = marked_inputs(spec.how)
        self.sides = [
            Side(
                table,
                i in marked,
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
        times = ints(table, TIME)
        mask = (times >= low) & (times <= high)
        return table if mask.all() else table.filter(pa.array(mask))

    def leaving(self, i: int) -> pa.Table:
        """Stored rows of input i that are needed no more, and were needed when the batch began."""
        side, closings = self.sides[i], self._closings
        if closings is None:
            return self.read(i, side.available, side.needed - 1)
        if all(b == a for j, (b, a) in enumerate(zip(*closings, strict=True)) if j != i):
            return self.read(i, 0, -1)
        rows = self.read(i, side.available, END)
        now = gone(self.spec, i, rows, closings.after)
        rows = rows.filter(pa.array(now))
        return rows.filter(pa.array(~gone(self.spec, i, rows, closings.before)))

    def _load(self) -> None:
        """Read the stored rows that new ones may meet, and number the keys of all rows."""
        old = [self.read(i, *self._met(i)) for i in range(self.spec.inputs)]
        tables = [*self.new, *old]
        names = [key(k) for k in range(self.spec.keys)]
        codes = key_codes(
            [[t.column(c) for c in names] for t in tables],
            [t.num_rows for t in tables],
            leading=self.spec.inputs,
        )
        for i, side in enumerate(self.sides):
            side.codes = codes[i]
            side.stays = (side.times >= side.needed) & (side.codes != NO_KEY)
            fleeting = side.times < side.available
            if self._closings is not None:
                side.stays &= ~gone(self.spec, i, side.new, self._closings.after)
                fleeting = fleeting | gone(self.spec, i, side.new, self._closings.before)
            side.gone = fleeting
            if i in outer_inputs(self.spec.how):
                side.unsure = unsure(self.spec, i, side.new, self._bounds, self._closings)
        fresh = [side.codes for side in self.sides]
        for i, side in enumerate(self.sides):
            others = [c for j, c in enumerate(fresh) if j != i]
            code = codes[self.spec.inputs + i]
            meets = present(np.concatenate(others), code)
            table = old[i].filter(pa.array(meets))
            code = code[meets]
            side.waits = ints(table, TIME) >= side.needed
            if self._closings is not None and table.num_rows:
                there = ~gone(self.spec, i, table, self._closings.before)
                table, code = table.filter(pa.array(there)), code[there]
                side.waits = ~gone(self.spec, i, table, self._closings.after)
            side.old_rows = table.num_rows
            side.codes = np.concatenate([code, side.codes])
            side.times = np.concatenate([ints(table, TIME), side.times])
            side.gone = np.concatenate([np.zeros(len(code), dtype=np.bool_), side.gone])
            side.matched = np.zeros(len(side.codes), dtype=np.bool_)
            side.whole = self._whole(i, table)

    def _whole(self, i: int, old: pa.Table) -> pa.Table:
        """Stored and new rows as one table of one chunk, so that taking rows is fast."""
        names = list(self.spec.columns[i])
        side = self.sides[i]
        if not side.marked:
            return pa.concat_tables([old.select(names), side.new.select(names)]).combine_chunks()
        more = [c for c in (TIME, BUCKET) if c not in names]
        rows = side.new.select([*names, *more])
        for field in list(old.schema)[len(side.new.schema) :]:  # what only stored rows have
            rows = rows.append_column(field, pa.nulls(rows.num_rows, field.type))
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

    def joined(self, rows: Mapping[int, Ints], schema: pa.Schema) -> pa.Table:
        """The columns of combinations, with the greatest of their times."""
        columns: list[pa.Array] = []
        for i, side in enumerate(self.sides):
            at = pa.array(rows[i])
            wanted = with_time(self.spec.columns[i])[:-1]
            columns += [side.whole.column(c).take(at) for c in wanted]
            columns.append(pa.array(side.times[rows[i]]))
        times = [side.times[rows[i]] for i, side in enumerate(self.sides)]
        return pa.table([*columns, pa.array(np.maximum.reduce(times))], schema=schema)

    def partnered(self) -> Flags:
        """Which rows of the first of two inputs are in some combination; none is made for it."""
        left, right = self.sides
        met = np.zeros(len(left.codes), dtype=np.bool_)
        every = np.arange(len(left.codes))
        new = np.arange(right.old_rows, len(right.codes))
        # New rows meet old ones, then all rows meet new ones: those that are not kept meet none of their like.
        for rows, others in (
            (every[left.old_rows :], np.arange(right.old_rows)),
            (every, new[~right.gone[new]]),
            (every[~left.gone], new[right.gone[new]]),
        ):
            codes, times = left.codes[rows], left.times[rows]
            other_codes, other_times = right.codes[others], right.times[others]
            if len(rows) > len(other_codes):
                low, high = partners(self.spec.within, 0, 1, times)
                found = TimeIndex(other_codes, other_times).find(codes, low, high)
                met[rows[found.rows]] = True
            else:
                index = TimeIndex(codes, times)
                low, high = partners(self.spec.within, 1, 0, other_times)
                met[rows[index.covered(index.find(other_codes, low, high))]] = True
        return met

    def combinations(self) -> Iterator[dict[int, Ints]]:
        """Row numbers by input, in chunks, of all results of the batch."""
        few = sum(bool(side.gone.any()) for side in self.sides) < 2
        for rows in self._combinations():
            if few:
                yield rows
                continue
            met = is_met([self.sides[i].gone[r] for i, r in rows.items()])
            if met.any():
                yield rows if met.all() else {i: r[met] for i, r in rows.items()}

    def _combinations(self) -> Iterator[dict[int, Ints]]:
        """Row numbers by input, in chunks, of rows that pair and of which one is new.

        The last input that gives a new row drives: those before it give old and new rows, those
        after it only old ones. So each result that has a new row is found once.
        """
        for i, side in enumerate(self.sides):
            if not len(side.new_times):
                continue
            rows = np.flatnonzero(side.new_codes != NO_KEY) + side.old_rows
            others = [j for j in range(self.spec.inputs) if j != i]
            if len(others) == 1:
                yield from self._two(i, rows, others[0])
                continue
            indexes = {j: self._index(j, i) for j in others}
            sizes = {j: self._find(indexes[j], {i: rows}, j).total for j in others}
            others.sort(key=sizes.__getitem__)
            if sizes[others[0]]:
                yield from self._extend({i: rows}, others, indexes)

    def _two(self, i: int, rows: Ints, j: int) -> Iterator[dict[int, Ints]]:
        """Pairs of the new rows of input i with those of input j; the fewer ones are indexed."""
        one, end = self.sides[i], self._end(j, i)
        if len(rows) > end:
            index = self._index(j, i)
            spans = self._find(index, {i: rows}, j)
            for x, y in index.pairs(spans, self.spec.max_pairs):
                yield {i: rows[x], j: y}
            return
        index = TimeIndex(one.codes[rows], one.times[rows])
        spans = self._find(index, {j: np.arange(end)}, i)
        for y, x in index.pairs(spans, self.spec.max_pairs):
            yield {i: rows[x], j: y}

    def _end(self, j: int, driver: int) -> int:
        side = self.sides[j]
        return len(side.codes) if j < driver else side.old_rows

    def _index(self, j: int, driver: int) -> TimeIndex:
        side, end = self.sides[j], self._end(j, driver)
        return TimeIndex(side.codes[:end], side.times[:end])

    def kept(self, row_base: int, marks: Mapping[int, pa.Table]) -> Kept:
        """What to store: new rows that stay, and the ``marks`` by input."""
        keep, row = [], row_base
        for i, side in enumerate(self.sides):
            kept = np.flatnonzero(side.stays)
            table = side.new.take(pa.array(kept))
            if side.marked:
                schema = state_schema(self.spec, i, side.new.schema)
                columns = [*table.columns, pa.array(np.arange(row, row + len(kept)))]
                row += len(kept)
                if MATCHED in schema.names:
                    columns.append(pa.array(side.matched[side.old_rows :][kept]))
                table = pa.table(columns, schema=schema)
            keep.append(table)
        none = MATCHED_SCHEMA.empty_table()
        return Kept(tuple(keep), tuple(marks.get(i, none) for i in range(len(self.sides))))

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
