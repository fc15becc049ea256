"""Summaries of batches of plain rows: what the engine's low level computes in columns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from slackwater.model.node import Source
from slackwater.semantics.progress import (
    PartitionSummary,
    Settings,
    SourceState,
    SourceSummary,
    guard_limit,
)
from slackwater.semantics.summary import Order, cut_tail, greatest

Row = Mapping[str, Any]


def is_punctuation(row: Row, settings: Sequence[Settings]) -> bool:
    """Whether a row is punctuation and not data."""
    return any(
        s.punctuation and not s.data and row.get(s.punctuation) is not None for s in settings
    )


def summarize(
    source: Source,
    settings: Sequence[Settings],
    state: SourceState,
    rows: Sequence[Row],
    now: int | None,
) -> SourceSummary:
    """The summary of one batch of a source, judged by the state in force when it began."""
    by: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        name = row.get(source.partition) if source.partition else ""
        by["" if name is None else str(name)].append(row)
    data = [r for r in rows if not is_punctuation(r, settings)]
    columns = {
        s.column: {
            name: _partition(source, settings, s, part, guard_limit(s, now))
            for name, part in by.items()
        }
        for s in settings
    }
    late, null_time = {}, {}
    for s in settings:
        times = [r.get(s.column) for r in data]
        late[s.column] = sum(
            t is not None and t < state.columns[s.column].bound and not _aside(s, t, now)
            for t in times
        )
        null_time[s.column] = sum(t is None for t in times)
    orders: dict[str, Order] = {}
    violations = 0
    if source.order:
        for name, part in by.items():
            places = [tuple(r[c] for c in source.order) for r in part]
            before = state.orders.get(name)
            violations += sum(before is not None and p <= before for p in places)
            orders[name] = max(places)
    return SourceSummary(columns, len(data), late, null_time, violations, orders)


def _aside(s: Settings, time: int, now: int | None) -> bool:
    limit = guard_limit(s, now)
    return s.future == "side" and limit is not None and time > limit


def _partition(
    source: Source,
    all_settings: Sequence[Settings],
    s: Settings,
    rows: list[Row],
    limit: int | None,
) -> PartitionSummary:
    def plausible(v: int | None) -> bool:
        return v is not None and (limit is None or v <= limit)

    timed = [r for r in rows if not is_punctuation(r, all_settings) and r.get(s.column) is not None]
    good = [r for r in timed if plausible(r[s.column])]
    times: list[int] = [r[s.column] for r in good]
    puncts = [v for r in rows if s.punctuation and (v := r.get(s.punctuation)) is not None]
    delay = delay_time = None
    tail: tuple[Order, ...] = ()
    rest_hi = None
    if source.order:
        places = [(*(r[c] for c in source.order), r[s.column]) for r in good]
        newest: int | None = None
        for *_, t in sorted(places):
            if newest is not None and newest - t > (delay or 0):
                delay, delay_time = newest - t, t
            newest = greatest([newest, t])
        if s.kind == "rows":
            tail, rest_hi = cut_tail(places, s.rows)
    return PartitionSummary(
        len(rows),
        max(times, default=None),
        min(times, default=None),
        len(timed) - len(good) + sum(not plausible(v) for v in puncts),
        max((v for v in puncts if plausible(v)), default=None),
        delay,
        delay_time,
        tail,
        rest_hi,
    )
