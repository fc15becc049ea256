"""What one batch showed of a source: small, mergeable in any order, and JSON."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from slackwater.semantics.patterns import Pattern, Patterns, merged
from slackwater.semantics.quality.gathered import Gathered
from slackwater.semantics.quality.gathered import merged as merged_quality
from slackwater.semantics.settings import BoundRule

Order = tuple[Any, ...]
"""Values of the order columns: how rows arrived."""

Chunk = tuple[Order, Order, int, int]
"""First and last order, greatest and least time of rows that lie together."""


@dataclass(frozen=True)
class PartitionSummary:
    """One (source, time column, partition) in one batch.

    Times further ahead than the future guard allows are *implausible*: they are counted in ``future``
    and appear nowhere else; the same holds for implausible punctuation.

    Parameters
    ----------
    rows
        Rows of the partition, punctuation included, whatever their time.
    hi, lo
        Greatest and least plausible time, or None.
    future
        Number of implausible times.
    punct
        Greatest plausible punctuation, or None.
    delay
        Largest delay of a row behind the greatest time that came before it *among the rows of one
        task*, by order of arrival, and the time of that row; None without order.
    chunks
        What is needed to find delays across tasks: (first order, last order, hi, lo) of runs of rows
        that lie together in the order of arrival; see `chunk_delay`.
    tail
        For `BoundedRows`: the last n rows with a plausible time, as (order..., time), oldest first.
    rest_hi
        Greatest plausible time of the rows before the tail.
    """

    rows: int = 0
    hi: int | None = None
    lo: int | None = None
    future: int = 0
    punct: int | None = None
    delay: int | None = None
    delay_time: int | None = None
    tail: tuple[Order, ...] = ()
    rest_hi: int | None = None
    chunks: tuple[Chunk, ...] = ()


@dataclass(frozen=True)
class SourceSummary:
    """One source in one batch.

    ``columns`` is by time column and partition (see `partition_name`; ``""`` without partitions). ``rows`` counts data rows. ``late`` and ``null_time`` are by time column. ``violations`` are
    rows whose order is at or below the greatest of earlier batches; ``orders`` is the greatest order
    of this batch by partition; ``patterns`` is punctuation that is more than a bound, by partition; ``quality``
    is what quality targets need to know, by time column. ``unfit`` counts patterns that the stream's scheme does not declare,
    by their form.
    """

    columns: Mapping[str, Mapping[str, PartitionSummary]] = field(default_factory=dict)
    rows: int = 0
    late: Mapping[str, int] = field(default_factory=dict)
    null_time: Mapping[str, int] = field(default_factory=dict)
    violations: int = 0
    orders: Mapping[str, Order] = field(default_factory=dict)
    patterns: Mapping[str, Patterns] = field(default_factory=dict)
    quality: Mapping[str, Gathered] = field(default_factory=dict)
    unfit: Mapping[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Plain lists and dicts; empty parts are left out."""
        columns = {c: {p: _packed(s) for p, s in ps.items()} for c, ps in self.columns.items()}
        parts = {
            "columns": columns,
            "rows": self.rows,
            "late": dict(self.late),
            "null_time": dict(self.null_time),
            "violations": self.violations,
            "orders": {p: list(o) for p, o in self.orders.items()},
            "patterns": {p: [x.to_json() for x in ps] for p, ps in self.patterns.items() if ps},
            "quality": {c: g.to_json() for c, g in self.quality.items()},
            "unfit": dict(self.unfit),
        }
        return {k: v for k, v in parts.items() if v}

    @classmethod
    def from_json(cls, json: Mapping[str, Any]) -> SourceSummary:
        """The inverse of `to_json`."""
        columns = {
            c: {p: _unpacked(s) for p, s in ps.items()} for c, ps in json.get("columns", {}).items()
        }
        return cls(
            columns,
            json.get("rows", 0),
            dict(json.get("late", {})),
            dict(json.get("null_time", {})),
            json.get("violations", 0),
            {p: tuple(o) for p, o in json.get("orders", {}).items()},
            {
                p: tuple(Pattern.from_json(x) for x in ps)
                for p, ps in json.get("patterns", {}).items()
            },
            {c: Gathered.from_json(g) for c, g in json.get("quality", {}).items()},
            dict(json.get("unfit", {})),
        )


def merge(parts: Iterable[SourceSummary], settings: Iterable[BoundRule] = ()) -> SourceSummary:
    """One summary of several tasks' parts of a batch; neither their order nor nesting matters.

    ``settings`` (see `resolve_source`) say how many rows a tail needs; without them tails are joined
    uncut, which is as exact but larger.
    """
    tails = {s.column: s.rows for s in settings}
    grouped: dict[str, dict[str, list[PartitionSummary]]] = defaultdict(lambda: defaultdict(list))
    late: dict[str, int] = defaultdict(int)
    null_time: dict[str, int] = defaultdict(int)
    unfit: dict[str, int] = defaultdict(int)
    orders: dict[str, Order] = {}
    patterns: dict[str, list[Pattern]] = defaultdict(list)
    quality: dict[str, list[Gathered]] = defaultdict(list)
    rows = violations = 0
    for part in parts:
        rows += part.rows
        violations += part.violations
        for column, partitions in part.columns.items():
            for partition, summary in partitions.items():
                grouped[column][partition].append(summary)
        for column, n in part.late.items():
            late[column] += n
        for column, n in part.null_time.items():
            null_time[column] += n
        for form, n in part.unfit.items():
            unfit[form] += n
        for partition, order in part.orders.items():
            orders[partition] = max(orders.get(partition, order), order)
        for partition, own in part.patterns.items():
            patterns[partition] += own
        for column, gathered in part.quality.items():
            quality[column].append(gathered)
    columns = {
        column: {p: merge_partition(s, tails.get(column)) for p, s in sorted(by.items())}
        for column, by in sorted(grouped.items())
    }
    said_all = {p: merged(patterns[p]) for p in sorted(patterns)}
    merged_qualities = {c: merged_quality(g) for c, g in sorted(quality.items())}
    return SourceSummary(
        columns, rows, dict(late), dict(null_time), violations, orders, said_all, merged_qualities,
        dict(sorted(unfit.items())),
    )  # fmt: skip


def merge_partition(parts: Iterable[PartitionSummary], tail: int | None = None) -> PartitionSummary:
    """One summary of several parts of a partition; a tail keeps ``tail`` rows, None = all."""
    parts = list(parts)
    last, before = cut_tail((row for p in parts for row in p.tail), tail)
    delays = [(p.delay, p.delay_time) for p in parts if p.delay is not None]
    # The same delay may be set by several rows: the one of least time stands for them.
    delay, delay_time = max(delays, key=lambda d: (d[0], -(d[1] or 0)), default=(None, None))
    return PartitionSummary(
        sum(p.rows for p in parts),
        greatest(p.hi for p in parts),
        min((p.lo for p in parts if p.lo is not None), default=None),
        sum(p.future for p in parts),
        greatest(p.punct for p in parts),
        delay,
        delay_time,
        last,
        greatest([before, *(p.rest_hi for p in parts)]),
        tuple(sorted(c for p in parts for c in p.chunks)),
    )


def chunk_delay(chunks: Iterable[Chunk]) -> tuple[int, int | None]:
    """Largest delay between rows of different chunks, and the time that set it.

    Exact where the chunks lie apart in the order of arrival; of two that overlap it is not known which
    rows came first, so the larger difference counts: never too small.

    >>> chunk_delay([((0,), (9,), 50, 10), ((10,), (19,), 70, 30)])
    (20, 30)
    >>> chunk_delay([((0,), (12,), 50, 10), ((10,), (19,), 70, 30)])
    (60, 10)
    """
    ordered = sorted(chunks)
    best, time = 0, None
    # Greatest time of all chunks that begin before: any of their rows may precede.
    newest: int | None = None
    for _, _, hi, lo in ordered:
        if newest is not None and newest - lo > best:
            best, time = newest - lo, lo
        newest = hi if newest is None else max(newest, hi)
    # A chunk that begins before another ends may also hold rows that came after the other's.
    for i, (_, last, _, lo) in enumerate(ordered):
        for first, _, hi, _ in ordered[i + 1 :]:
            if first > last:
                break
            if hi - lo > best:
                best, time = hi - lo, lo
    return best, time


def cut_tail(rows: Iterable[Order], tail: int | None) -> tuple[tuple[Order, ...], int | None]:
    """The last ``tail`` rows by order (None = all), and the greatest time of those before them."""
    ordered = sorted(rows)
    cut = 0 if tail is None else max(0, len(ordered) - tail)
    return tuple(ordered[cut:]), greatest(row[-1] for row in ordered[:cut])


def greatest(values: Iterable[int | None]) -> int | None:
    """The greatest that is not None."""
    return max((v for v in values if v is not None), default=None)


def _packed(s: PartitionSummary) -> list[Any]:
    packed = [
        s.rows, s.hi, s.lo, s.future, s.punct, s.delay, s.delay_time,
        [list(row) for row in s.tail], s.rest_hi,
        [[list(f), list(e), hi, lo] for f, e, hi, lo in s.chunks],
    ]  # fmt: skip
    empty = _EMPTY
    while len(packed) > 1 and packed[-1] == empty[len(packed) - 1]:
        packed.pop()
    return packed


_EMPTY: list[Any] = [0, None, None, 0, None, None, None, [], None, []]


def _unpacked(packed: list[Any]) -> PartitionSummary:
    full = [*packed, *_EMPTY[len(packed) :]]
    full[7] = tuple(tuple(row) for row in full[7])
    full[9] = tuple((tuple(f), tuple(e), hi, lo) for f, e, hi, lo in full[9])
    return PartitionSummary(*full)
