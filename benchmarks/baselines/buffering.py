"""Window aggregates over rows in order that keep the rows of the current extent.

They see progress in the rows alone: the first row at or beyond a window's end closes it, and in a lull ``told`` does, a
bound from outside. Rows have a column `TIME`; a row older than one before it is refused.

`Buffering` scans the rows of each extent anew. `Running` keeps totals beside the rows, and makes those of an extent from
the one before it. `Negative` is the same as two operators: the first says which rows enter and, with a sign, which leave;
the second only adds.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.kernels.windows.partials_step import Ints, ints
from slackwater.model.names import TIME
from slackwater.model.window import TimeWindow
from slackwater.semantics.limits import START, clamp
from slackwater.semantics.window_ids import closed_by, extent, wid_range

SIGN = "_sign"
COUNT = "_n"
Results = list[tuple[int, pa.Table]]
"""Window ids, in order, each with its rows."""


class NotInOrderError(ValueError):
    """A row is older than one before it, which an operator of the in-order kind cannot take."""


def checked(times: Ints, frontier: int) -> int:
    """The frontier after these times: the newest. They must not fall, nor lie before the frontier."""
    if not len(times):
        return frontier
    if int(times[0]) < frontier or bool((np.diff(times) < 0).any()):
        raise NotInOrderError(f"times fall, or lie before {frontier}: sort the input first")
    return int(times[-1])


class Buffer:
    """Rows in order, from the start of the first open window on."""

    def __init__(self, window: TimeWindow) -> None:
        self.window = window
        self.rows: pa.Table | None = None
        self.frontier = START

    @property
    def held_rows(self) -> int:
        """Rows that are kept."""
        return 0 if self.rows is None else int(self.rows.num_rows)

    @property
    def held_bytes(self) -> int:
        """Their bytes."""
        return 0 if self.rows is None else int(self.rows.nbytes)

    def add(self, new: pa.Table, told: int) -> tuple[pa.Table, Ints, int]:
        """All rows with their times, and the last window that is complete now."""
        self.frontier = max(checked(ints(new, TIME), self.frontier), told)
        rows = new if self.rows is None else pa.concat_tables([self.rows, new]).combine_chunks()
        return rows, ints(rows, TIME), closed_by(self.frontier, self.window)

    def keep(self, rows: pa.Table, times: Ints, closed: int) -> None:
        """Of these rows, those that a window after ``closed`` holds."""
        first = clamp(extent(closed + 1, self.window)[0])
        # A copy, so that what is left out is freed.
        self.rows = rows.take(pa.array(np.arange(np.searchsorted(times, first), len(times))))


class Extent(NamedTuple):
    """A complete window with rows: their places, [low, high)."""

    wid: int
    low: int
    high: int


def extents(times: Ints, window: TimeWindow, after: int, closed: int) -> Iterator[Extent]:
    """The windows in (after, closed] that hold some of the times, which rise."""
    if not len(times):
        return
    wid = max(after + 1, wid_range(int(times[0]), window)[0])
    while wid <= closed:
        low, high = np.searchsorted(times, extent(wid, window))
        if low < high:
            yield Extent(wid, int(low), int(high))
        elif high == len(times):
            return
        wid += 1
        if high < len(times) and low == high:
            wid = max(wid, wid_range(int(times[high]), window)[0])


class Buffering:
    """The plain one: ``reduce`` makes the results of an extent from all its rows."""

    def __init__(self, window: TimeWindow, reduce: Callable[[pa.Table], pa.Table]) -> None:
        self.buffer = Buffer(window)
        self.reduce = reduce
        self.closed = START

    @property
    def held_rows(self) -> int:
        """Rows that are kept."""
        return self.buffer.held_rows

    @property
    def held_bytes(self) -> int:
        """Their bytes."""
        return self.buffer.held_bytes

    def step(self, new: pa.Table, told: int = START) -> Results:
        """More rows; the results of windows that are over."""
        rows, times, closed = self.buffer.add(new, told)
        found = [
            (e.wid, self.reduce(rows.slice(e.low, e.high - e.low)))
            for e in extents(times, self.buffer.window, self.closed, closed)
        ]
        self.closed = max(self.closed, closed)
        self.buffer.keep(rows, times, self.closed)
        return found


class Move(NamedTuple):
    """Rows that enter and that leave on the way to window ``wid``; None: to the one that is open."""

    wid: int | None
    entering: pa.Table
    leaving: pa.Table


class Mover:
    """Which rows enter and leave from one window to the next."""

    def __init__(self, window: TimeWindow) -> None:
        self.buffer = Buffer(window)
        self.closed = START
        self.inside = 0
        """How many of the rows kept have entered."""

    def moves(self, new: pa.Table, told: int = START) -> Iterator[Move]:
        """More rows, as moves. Each must be made before the next is asked for."""
        rows, times, closed = self.buffer.add(new, told)
        first, entered = 0, self.inside
        for e in extents(times, self.buffer.window, self.closed, closed):
            yield _move(rows, e.wid, (first, entered), (e.low, e.high))
            first, entered = e.low, e.high
        self.closed = max(self.closed, closed)
        low = int(np.searchsorted(times, clamp(extent(self.closed + 1, self.buffer.window)[0])))
        if entered < len(times) or first < low:
            yield _move(rows, None, (first, entered), (low, len(times)))
        self.buffer.keep(rows, times, self.closed)
        self.inside = self.buffer.held_rows


def _move(rows: pa.Table, wid: int | None, old: tuple[int, int], new: tuple[int, int]) -> Move:
    """From the rows at [old) to those at [new); neither end falls."""
    enter, leave = max(old[1], new[0]), min(old[1], new[0])
    return Move(wid, rows.slice(enter, new[1] - enter), rows.slice(old[0], leave - old[0]))


class Totals:
    """Per group how many rows there are, and of each column how many values and their sum."""

    def __init__(self, keys: Sequence[str], columns: Sequence[str]) -> None:
        self.keys, self.columns = list(keys), list(columns)
        self.groups: pa.Table | None = None

    @property
    def held_bytes(self) -> int:
        """Bytes of the totals."""
        return 0 if self.groups is None else int(self.groups.nbytes)

    def add(self, rows: pa.Table, signs: pa.Array) -> None:
        """Rows with +1, or -1 for those that leave. Groups that have none left go."""
        if not rows.num_rows:
            return
        parts = {k: rows[k] for k in self.keys} | {COUNT: signs}
        for c in self.columns:
            parts[f"_n_{c}"] = pc.if_else(rows[c].is_valid(), signs, 0)
            parts[f"_sum_{c}"] = pc.multiply(pc.fill_null(rows[c], 0), signs)
        more = pa.table(parts)
        whole = more if self.groups is None else pa.concat_tables([self.groups, more])
        names = [n for n in whole.column_names if n not in self.keys]
        done = whole.group_by(self.keys, use_threads=False).aggregate([(n, "sum") for n in names])
        done = done.select([*self.keys, *(f"{n}_sum" for n in names)])
        done = done.rename_columns([*self.keys, *names]).cast(whole.schema)
        self.groups = done.filter(pc.greater(pc.fill_null(done[COUNT], 0), 0))

    def results(self) -> pa.Table:
        """Keys, ``_n``, and of each column ``_n_c`` and ``_sum_c``, null if it had no value."""
        assert self.groups is not None
        table = self.groups
        for c in self.columns:
            at = table.column_names.index(f"_sum_{c}")
            some = pc.greater(table[f"_n_{c}"], 0)
            value = pc.if_else(some, table[f"_sum_{c}"], pa.scalar(None, pa.int64()))
            table = table.set_column(at, f"_sum_{c}", value)
        return table


def _signs(rows: pa.Table, sign: int) -> pa.Array:
    return pa.array(np.full(rows.num_rows, sign, np.int64))


class Running:
    """Rows, and the totals of the extent that is open; the next extent's come from them.

    Of windows that do not overlap nothing has to leave, so no row is kept: totals begin anew.
    """

    def __init__(self, window: TimeWindow, keys: Sequence[str], columns: Sequence[str]) -> None:
        self.mover = Mover(window)
        self.totals = Totals(keys, columns)
        self.overlap = window.range > window.slide
        self.open = START

    @property
    def held_rows(self) -> int:
        """Rows that are kept."""
        return self.mover.buffer.held_rows

    @property
    def held_bytes(self) -> int:
        """Bytes of rows and totals."""
        return self.mover.buffer.held_bytes + self.totals.held_bytes

    def step(self, new: pa.Table, told: int = START) -> Results:
        """More rows; the results of windows that are over."""
        if not self.overlap:
            return list(self._apart(new, told))
        found = []
        for move in self.mover.moves(new, told):
            self.totals.add(move.entering, _signs(move.entering, 1))
            self.totals.add(move.leaving, _signs(move.leaving, -1))
            if move.wid is not None:
                found.append((move.wid, self.totals.results()))
        return found

    def _apart(self, new: pa.Table, told: int) -> Iterator[tuple[int, pa.Table]]:
        """One window at a time."""
        buffer, times = self.mover.buffer, ints(new, TIME)
        buffer.frontier = max(checked(times, buffer.frontier), told)
        wids, ends = wid_range(times, buffer.window)
        inside = wids < ends
        rows, wids = new.filter(pa.array(inside)), wids[inside]
        cuts = np.append(np.flatnonzero(np.diff(wids, prepend=np.int64(START))), len(wids))
        for low, high in itertools.pairwise(cuts.tolist()):
            if int(wids[low]) > self.open:
                yield from self._ended()
                self.open = int(wids[low])
            some = rows.slice(low, high - low)
            self.totals.add(some, _signs(some, 1))
        if closed_by(buffer.frontier, buffer.window) >= self.open:
            yield from self._ended()

    def _ended(self) -> Iterator[tuple[int, pa.Table]]:
        if self.totals.groups is not None:
            yield self.open, self.totals.results()
            self.totals.groups = None


class Negative:
    """Two operators: one that keeps rows and sends each twice, with 1 and later with -1; one that adds."""

    def __init__(self, window: TimeWindow, keys: Sequence[str], columns: Sequence[str]) -> None:
        self.mover = Mover(window)
        self.totals = Totals(keys, columns)
        self.sent_rows = 0

    @property
    def held_rows(self) -> int:
        """Rows that are kept."""
        return self.mover.buffer.held_rows

    @property
    def held_bytes(self) -> int:
        """Bytes of rows and totals."""
        return self.mover.buffer.held_bytes + self.totals.held_bytes

    def step(self, new: pa.Table, told: int = START) -> Results:
        """More rows; the results of windows that are over."""
        found = []
        for rows, wid in self.signed(new, told):
            self.sent_rows += rows.num_rows
            self.totals.add(rows, rows[SIGN])
            if wid is not None:
                found.append((wid, self.totals.results()))
        return found

    def signed(self, new: pa.Table, told: int) -> Iterator[tuple[pa.Table, int | None]]:
        """What the first operator sends: rows with their signs, and after them maybe that a window is over."""
        for move in self.mover.moves(new, told):
            parts = [
                rows.append_column(SIGN, _signs(rows, sign))
                for rows, sign in ((move.entering, 1), (move.leaving, -1))
            ]
            yield pa.concat_tables(parts).combine_chunks(), move.wid
