"""Summaries of batches of plain rows: what the engine's low level computes in columns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from slackwater.model.node import Source
from slackwater.semantics.lateness import Verdict, is_beyond, judge
from slackwater.semantics.partition_names import partition_name
from slackwater.semantics.pattern_text import pattern_of
from slackwater.semantics.patterns import Pattern, Patterns
from slackwater.semantics.progress import (
    BoundRule,
    PartitionSummary,
    SourceState,
    SourceSummary,
    guard_limit,
)
from slackwater.semantics.source_patterns import linear_limit, plausible
from slackwater.semantics.summary import Order, cut_tail, greatest

Row = Mapping[str, Any]


def is_punctuation(row: Row, settings: Sequence[BoundRule]) -> bool:
    """Whether a row is punctuation and not data."""
    return any(
        s.punctuation and not s.data and row.get(s.punctuation) is not None for s in settings
    )


def summarize(
    source: Source,
    settings: Sequence[BoundRule],
    state: SourceState,
    rows: Sequence[Row],
    now: int | None,
) -> SourceSummary:
    """The summary of one batch of a source, judged by the state in force when it began."""
    by: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by[partition_name(row.get(source.partition)) if source.partition else ""].append(row)
    data = [r for r in rows if not is_punctuation(r, settings)]
    columns = {
        s.column: {name: _partition(source, settings, s, part, now) for name, part in by.items()}
        for s in settings
    }
    late, null_time = {}, {}
    for s in settings:
        verdicts = [judged(state, s, r, now) for r in data]
        late[s.column] = sum(v.late for v in verdicts)
        null_time[s.column] = sum(v.null for v in verdicts)
    orders: dict[str, Order] = {}
    violations = 0
    if source.order:
        for name, part in by.items():
            places = [tuple(r[c] for c in source.order) for r in part]
            before = state.orders.get(name)
            violations += sum(before is not None and p <= before for p in places)
            orders[name] = max(places)
    stated = {name: _patterns(source, settings, part, now)[0] for name, part in by.items()}
    return SourceSummary(columns, len(data), late, null_time, violations, orders, stated)


def _patterns(
    source: Source,
    settings: Sequence[BoundRule],
    rows: Sequence[Row],
    now: int | None,
    on: BoundRule | None = None,
) -> tuple[Patterns, list[int], int]:
    """Patterns that are more than bounds; the bounds on column ``on``, and how many were implausible."""
    types = {f.name: f.type for f in source.schema}
    mine = [s for s in settings if s.patterns]
    found: list[Pattern] = []
    bounds: list[int] = []
    implausible = 0
    for column in dict.fromkeys(s.punctuation for s in mine):
        for row in rows:
            if row.get(column) is None:
                continue
            p = pattern_of(
                {c: (t["op"], t["value"]) for c, t in row[column].items()}, types, source.zone
            )
            odd = [s for s in mine if not plausible(p, s, now)]
            if odd:
                implausible += on == odd[0]
                continue
            linear = {s.column: v for s in mine if (v := linear_limit(p, s)) is not None}
            bounds += [v for c, v in linear.items() if on is not None and c == on.column]
            found += [] if linear else [p]
    return tuple(found), bounds, implausible


def judged(state: SourceState, s: BoundRule, row: Row, now: int | None) -> Verdict:
    """The verdict on a row, on the column of ``s``."""
    tests = [p.test(s.column) for p in state.patterns if p.matches(row)]
    ends = [t.limit if t is not None and isinstance(t.limit, int) else None for t in tests]
    bound, limit = state.columns[s.column].bound, guard_limit(s, now)
    return judge(row.get(s.column), bound, limit, side=s.future == "side", patterns=ends)


def _partition(
    source: Source,
    all_settings: Sequence[BoundRule],
    s: BoundRule,
    rows: list[Row],
    now: int | None,
) -> PartitionSummary:
    limit = guard_limit(s, now)

    def good_time(v: int | None) -> bool:
        return v is not None and not is_beyond(v, limit)

    timed = [r for r in rows if not is_punctuation(r, all_settings) and r.get(s.column) is not None]
    good = [r for r in timed if good_time(r[s.column])]
    times: list[int] = [r[s.column] for r in good]
    puncts = [v for r in rows if s.punctuation and (v := r.get(s.punctuation)) is not None]
    implausible = 0
    if s.patterns:
        puncts, implausible = _patterns(source, all_settings, rows, now, s)[1:]
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
        len(timed) - len(good) + sum(not good_time(v) for v in puncts) + implausible,
        max((v for v in puncts if good_time(v)), default=None),
        delay,
        delay_time,
        tail,
        rest_hi,
    )
