"""From progress records to series of numbers, at most `BINS` points each."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from slackwater.surface.held import ahead_of_others

BINS = 240
Record = dict[str, Any]
Values = list[float | None]


@dataclass(frozen=True)
class Bin:
    """Consecutive batches drawn as one point: those of a long history share a point."""

    records: tuple[Record, ...]

    @property
    def last(self) -> Record:
        """The newest of them."""
        return self.records[-1]

    @property
    def label(self) -> str:
        """Which batches, and when."""
        first, last = self.records[0], self.records[-1]
        batches = f"batch {first['batchId']}"
        if first is not last:
            batches = f"batches {first['batchId']} to {last['batchId']}"
        return f"{batches}, {time_of_day(last['timestamp'])} UTC"

    def total(self, value: Callable[[Record], float]) -> float:
        """The sum over its batches."""
        return sum(value(r) for r in self.records)


def bins(records: Sequence[Record], limit: int = BINS) -> list[Bin]:
    """Cut the history into at most ``limit`` bins of equally many batches (the last may have fewer)."""
    size = max(1, -(-len(records) // limit))
    return [Bin(tuple(records[i : i + size])) for i in range(0, len(records), size)]


def time_of_day(text: str | None) -> str:
    """HH:MM:SS of an ISO text.

    >>> time_of_day("2026-01-31T12:34:56.789000Z")
    '12:34:56'
    """
    return text[11:19] if text else ""


def ticks(value: str | int | None) -> int | None:
    """A time of a record as a number: microseconds, or the column's own unit; None at the ends of time.

    >>> ticks("1970-01-01T00:00:01.500000Z"), ticks(7), ticks("end"), ticks(None)
    (1500000, 7, None, None)
    """
    if value is None or isinstance(value, int):
        return value
    try:
        moment = dt.datetime.strptime(value, "%Y-%m-%dT%H:%M:%S.%fZ").replace(
            tzinfo=dt.timezone.utc
        )
    except ValueError:
        return None
    return (moment - _EPOCH) // dt.timedelta(microseconds=1)


_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)


@dataclass(frozen=True)
class Progress:
    """Event time of one column of one stream: ``unit`` divides ticks into what is drawn."""

    stream: str
    column: str
    is_clock: bool
    newest: Values
    bound: Values
    behind: Values
    holder: list[str]
    idle: list[str]
    ahead: list[str]

    @property
    def unit(self) -> float:
        """Ticks per unit of the axis: seconds for timestamps, else the column's own unit."""
        return 1e6 if self.is_clock else 1.0


def progress_of(points: Sequence[Bin], stream: str, column: str) -> Progress:
    """The progress of a stream's time column over the bins."""
    bounds = [p.last["streams"].get(stream, {}).get("bounds", {}).get(column) for p in points]
    shown = [f["newest"] for f in bounds if f and f["newest"] is not None]
    is_clock = not shown or not isinstance(shown[-1], int)
    unit = 1e6 if is_clock else 1.0

    def scaled(name: str) -> Values:
        numbers = [ticks(f[name]) if f else None for f in bounds]
        return [None if n is None else n / unit for n in numbers]

    # Within a bin the greatest distance counts: it is what someone would look for.
    behind: Values = []
    for p in points:
        seen = [r["streams"].get(stream, {}).get("bounds", {}).get(column) for r in p.records]
        numbers = [
            s["behind"] for s in seen if s and s["behind"] is not None and s["bound"] != "end"
        ]
        behind.append(max(0, *numbers) / unit if numbers else None)
    return Progress(
        stream,
        column,
        is_clock,
        scaled("newest"),
        scaled("bound"),
        behind,
        [_holder(f) for f in bounds],
        [", ".join(f["idle"]) if f else "" for f in bounds],
        [f["apart"]["partition"] if f and ahead_of_others(f) else "" for f in bounds],
    )


def _holder(figures: dict[str, Any] | None) -> str:
    if figures is None or figures["bound"] == "end":
        return ""
    if figures["holder"] is None:
        return "nobody"
    if figures["holder"] == "":  # the one partition of a stream that has none
        return "the stream itself"
    return str(figures["holder"])


def increments(points: Sequence[Bin], total: Callable[[Record], float]) -> Values:
    """How much a running total grew in each bin; a total that fell (another query) counts as grown from 0."""
    grown: Values = []
    before = 0.0
    for p in points:
        now = total(p.last)
        grown.append(now - before if now >= before else now)
        before = now
    return grown
