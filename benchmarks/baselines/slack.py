"""Slack: an operator waits for so many rows or so much time, and what comes later is lost.

A row that is late for some of its windows is left out of all of them (``"consistent"``), or just of those that are
closed (``"generous"``).
"""

from __future__ import annotations

import heapq
from dataclasses import replace
from typing import Literal, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from slackwater.kernels.column_engine import connect, sql_to_arrow
from slackwater.kernels.windows import partials_step as aggregate
from slackwater.kernels.windows.partials_step import END, AggregateSpec, Ints, ints
from slackwater.model.duck_sql import quote
from slackwater.model.names import TIME
from slackwater.model.window import TimeWindow
from slackwater.semantics.limits import START
from slackwater.semantics.window_ids import wid_range

Reading = Literal["consistent", "generous"]
WID = "_wid"


class Slack(Protocol):
    """What progress an operator infers from the rows it sees."""

    def advance(self, times: Ints) -> Ints:
        """More rows; after each of them the time before which a row is late."""
        ...


class ByTime:
    """``ticks`` behind the newest row."""

    def __init__(self, ticks: int) -> None:
        self.ticks = ticks
        self.newest = START + ticks

    def advance(self, times: Ints) -> Ints:
        """The running maximum, less the slack."""
        newest = np.maximum(np.maximum.accumulate(times), self.newest)
        if len(newest):
            self.newest = int(newest[-1])
        return np.asarray(newest - self.ticks)


class ByCount:
    """``rows`` wait, and the oldest of them leaves when one more comes: the newest that left is the limit."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.waiting: list[int] = []
        self.left = START

    def advance(self, times: Ints) -> Ints:
        """The newest time that has left after each row."""
        found = []
        # Which row leaves depends on all before it: there is no way around one after the other.
        for time in times.tolist():
            if len(self.waiting) < self.rows:
                heapq.heappush(self.waiting, time)
            else:
                self.left = max(self.left, heapq.heappushpop(self.waiting, time))
            found.append(self.left)
        return np.asarray(found, np.int64)


class Released(NamedTuple):
    """Rows in order, and how many rows of the batch were late and are lost."""

    rows: pa.Table
    late: int


class SlackSort:
    """BSort: rows leave in order of time once the slack has passed."""

    def __init__(self, slack: Slack) -> None:
        self.slack = slack
        self.held: pa.Table | None = None
        self.limit = START

    @property
    def held_rows(self) -> int:
        """Rows that wait."""
        return 0 if self.held is None else int(self.held.num_rows)

    def step(self, new: pa.Table, *, end: bool = False) -> Released:
        """More rows; those that may leave. At the ``end`` all do."""
        times = ints(new, TIME)
        limits = self.slack.advance(times)
        good = times >= limits
        rows = new.filter(pa.array(good))
        rows = rows if self.held is None else pa.concat_tables([self.held, rows])
        self.limit = END if end else int(limits[-1]) if len(limits) else self.limit
        leaving = ints(rows, TIME) <= self.limit
        self.held = rows.filter(pa.array(~leaving))
        ready = rows.filter(pa.array(leaving))
        order = np.argsort(ints(ready, TIME), kind="stable")
        return Released(ready.take(pa.array(order)), int(np.count_nonzero(~good)))


class SlackAggregate:
    """Windows that close by slack. It holds partial aggregates of open windows.

    ``spec`` says what to compute of rows with columns ``_k0``..., `TIME` and the arguments; its plan does not matter.
    """

    def __init__(self, spec: AggregateSpec, slack: Slack, reading: Reading = "consistent") -> None:
        self.window = spec.sliding
        # A row goes into windows one by one: for the kernel an id is a tumbling window of one tick.
        self.spec = replace(spec, window=TimeWindow(1, 1, 0, WID), plan="panes")
        self.slack = slack
        self.reading = reading
        self.state = aggregate.partials_schema(self.spec).empty_table()
        self.closed = -END
        self.lost = 0
        """How often a row missed a window."""
        self.closed_at: dict[int, int] = {}
        """The number of the row, from 0, that closed the windows up to this one."""
        self.seen = 0

    @property
    def held_rows(self) -> int:
        """Partial aggregates that are kept."""
        return int(self.state.num_rows)

    def step(self, new: pa.Table, *, end: bool = False) -> pa.Table:
        """More rows; the results of windows that are closed after them."""
        times = ints(new, TIME)
        limits = self.slack.advance(times)
        closed = (limits - self.window.origin) // self.window.slide - 1
        first, last = wid_range(times, self.window)
        count = np.maximum(last - first, 0)
        from_ = np.maximum(first, closed + 1)
        room = np.maximum(last - from_, 0)
        if self.reading == "consistent":
            room = np.where(first <= closed, 0, room)
        self.lost += int((count - room).sum())
        self._note(closed)
        fresh = self._reduced(new, from_, room)
        to = END if end else int(closed[-1]) if len(closed) else self.closed
        done = aggregate.step(self.spec, fresh, self.state, self.closed, to)
        self.closed = max(self.closed, to)
        state = aggregate.merge_partials(self.spec, [self.state, done.keep])
        self.state = state.filter(pa.array(ints(state, "_pane") > self.closed))
        return done.output

    def _note(self, closed: Ints) -> None:
        known = np.concatenate([[self.closed], closed])
        for at in np.flatnonzero(known[1:] > np.maximum.accumulate(known)[:-1]).tolist():
            self.closed_at[int(closed[at])] = self.seen + at
        self.seen += len(closed)

    def _reduced(self, new: pa.Table, first: Ints, room: Ints) -> pa.Table:
        if not room.any():
            return aggregate.partials_schema(self.spec).empty_table()
        places = np.repeat(np.arange(len(room)), room)
        within = np.arange(len(places)) - np.repeat(np.cumsum(room) - room, room)
        rows = new.take(pa.array(places)).append_column(WID, pa.array(first[places] + within))
        keys = [quote(n) for n in self.spec.key_names]
        sql = aggregate.partial_select(self.spec, keys, quote(WID), "input")
        return aggregate.partials(sql_to_arrow(connect(), sql, {"input": rows}), self.spec)
