"""How a source's bounds advance: a pure function of the state before and the batch's summary.

Each partition has a bound of its own, which follows from its rows by the policy alone. The source's
bound is the least over the partitions that take part: not those that are idle, nor those that lag
too far. It never goes back; a partition that appears or wakes below it finds its older rows late.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from slackwater.errors import ExecutionError
from slackwater.model.node import Source
from slackwater.model.plain import plain
from slackwater.semantics.bounds import END, START, aligned, shift
from slackwater.semantics.partition_names import partition_name
from slackwater.semantics.patterns import Pattern, Patterns
from slackwater.semantics.quality.state import QualityState
from slackwater.semantics.settings import BoundRule, guard_limit, resolve, resolve_source
from slackwater.semantics.source_patterns import MAX_PATTERNS, advance_patterns
from slackwater.semantics.summary import (
    Order,
    PartitionSummary,
    SourceSummary,
    chunk_delay,
    cut_tail,
    greatest,
    merge,
    merge_partition,
)

__all__ = [
    "MAX_PARTITIONS", "MAX_PATTERNS", "BoundRule", "ColumnState", "PartitionState", "PartitionSummary",
    "SourceState", "SourceSummary", "advance", "guard_limit", "initial_state", "merge",
    "merge_partition", "resolve", "resolve_source",
]  # fmt: skip

MAX_PARTITIONS = 10_000
"""More partitions than this are an error: their state is part of every batch's record."""

WHOLE = ""
"""Name of the one partition of a source that has none."""

# States have slots: every task of a batch gets them pickled, and so without the names of their fields.


@dataclass(frozen=True, slots=True)
class PartitionState:
    """What is known of one partition, on one time column.

    ``bound`` is what its own rows say; it may lie below the source's. ``delay`` is the largest delay
    seen and ``delay_time`` the time of the row that set it. ``seen`` is the wall time of its last row.
    ``tail`` holds the last rows, for `BoundedRows`. ``future`` counts implausible times.
    """

    hi: int | None = None
    bound: int = START
    delay: int = 0
    delay_time: int | None = None
    seen: int | None = None
    idle: bool = False
    excluded: bool = False
    tail: tuple[Order, ...] = ()
    future: int = 0


@dataclass(frozen=True, slots=True)
class ColumnState:
    """One time column of a source.

    ``holder`` names the partition that holds the bound back, or says how many have not spoken;
    None if nothing does.
    """

    partitions: Mapping[str, PartitionState] = field(default_factory=dict)
    bound: int = START
    holder: str | None = None
    late: int = 0
    null_time: int = 0

    @property
    def hi(self) -> int | None:
        """The newest plausible time of any partition."""
        return greatest(p.hi for p in self.partitions.values())

    @property
    def behind(self) -> int | None:
        """How far the bound is behind the newest time; None before the first bound, and after the end."""
        return None if self.hi is None or not START < self.bound < END else self.hi - self.bound

    @property
    def awaits_unseen(self) -> bool:
        """Whether the bound waits for partitions of which nothing but their number is known."""
        return self.holder is not None and self.holder not in self.partitions

    @property
    def delay(self) -> tuple[int, int | None, str | None]:
        """The largest delay seen, and the time and partition of the row that set it."""
        best = max(self.partitions.items(), key=lambda p: p[1].delay, default=None)
        if best is None or best[1].delay == 0:
            return 0, None, None
        return best[1].delay, best[1].delay_time, best[0]

    @property
    def future(self) -> int:
        """How many times were implausibly far ahead."""
        return sum(p.future for p in self.partitions.values())


@dataclass(frozen=True, slots=True)
class SourceState:
    """All that a source's progress depends on; durable between batches.

    ``since`` is the first clock reading, from which partitions that never spoke are idle.
    ``orders`` is the greatest order seen by partition. ``patterns`` is what punctuation says of the whole
    source beyond its bounds, ``by_partition`` what each partition says of itself. ``quality`` is by time column.
    """

    columns: Mapping[str, ColumnState] = field(default_factory=dict)
    rows: int = 0
    violations: int = 0
    since: int | None = None
    orders: Mapping[str, Order] = field(default_factory=dict)
    patterns: Patterns = ()
    by_partition: Mapping[str, Patterns] = field(default_factory=dict)
    quality: Mapping[str, QualityState] = field(default_factory=dict)

    @property
    def bounds(self) -> dict[str, int]:
        """Bound by time column."""
        return {name: c.bound for name, c in self.columns.items()}

    def to_json(self) -> dict[str, Any]:
        """Plain lists and dicts."""
        json: dict[str, Any] = plain(replace(self, patterns=(), by_partition={}, quality={}))
        del json["by_partition"]
        json["quality"] = {column: known.to_json() for column, known in self.quality.items()}
        json["patterns"] = [p.to_json() for p in self.patterns]
        json["said"] = {n: [p.to_json() for p in ps] for n, ps in self.by_partition.items()}
        return json

    @classmethod
    def from_json(cls, json: Mapping[str, Any]) -> SourceState:
        """The inverse of `to_json`, also after a passage through JSON text."""
        columns = {}
        for name, c in json["columns"].items():
            partitions = {
                p: PartitionState(**{**s, "tail": tuple(tuple(row) for row in s["tail"])})
                for p, s in c["partitions"].items()
            }
            columns[name] = ColumnState(**{**c, "partitions": partitions})
        orders = {p: tuple(o) for p, o in json["orders"].items()}
        patterns = tuple(Pattern.from_json(p) for p in json.get("patterns", ()))
        by_partition = {
            name: tuple(Pattern.from_json(p) for p in ps)
            for name, ps in json.get("said", {}).items()
        }
        quality = {c: QualityState.from_json(q) for c, q in json.get("quality", {}).items()}
        parts = {"columns": columns, "orders": orders, "patterns": patterns, "quality": quality}
        rest = {name: value for name, value in json.items() if name != "said"}
        return cls(**{**rest, **parts, "by_partition": by_partition})

    def with_quality(self, column: str, known: QualityState) -> SourceState:
        """The state with another one of a time column under a target."""
        return replace(self, quality={**self.quality, column: known})


def initial_state(source: Source) -> SourceState:
    """The state before the first batch: partitions known by name are there, and have not spoken."""
    names: tuple[str, ...] = ()
    if source.partition is None:
        names = (WHOLE,)
    elif isinstance(source.partitions, tuple):
        names = tuple(partition_name(p) for p in source.partitions)
    _check_count(source, len(names))
    return SourceState(
        {t.name: ColumnState({name: PartitionState() for name in names}) for t in source.times}
    )


def advance(
    source: Source,
    settings: Sequence[BoundRule],
    state: SourceState,
    summary: SourceSummary,
    now: int | None,
    *,
    ended: bool = False,
    backlog: bool = False,
) -> SourceState:
    """The state after a batch.

    Parameters
    ----------
    settings
        One per time column, from `resolve_source`.
    now
        Wall time in microseconds when the batch began; None where there is no clock, and then
        nothing becomes idle.
    ended
        No row will ever come: all bounds are at `END`.
    backlog
        Input waits to be read, so silence says nothing and no partition becomes idle.
    """
    since = state.since if state.since is not None else now
    columns: dict[str, ColumnState] = {}
    quality = dict(state.quality)
    for s in settings:
        before = state.columns[s.column]
        partitions = dict(before.partitions)
        known = state.quality.get(s.column)
        slack = None if known is None else known.slack
        judged = _judged(summary, s.column)
        if judged is not None:
            quality[s.column] = judged
        for name, part in summary.columns.get(s.column, {}).items():
            after_rows = _advance_partition(s, partitions.get(name), part, now, slack)
            if judged is not None and judged.bound is not None:
                after_rows = replace(after_rows, bound=judged.bound)
            partitions[name] = after_rows
        _check_count(source, len(partitions))
        after = replace(
            before,
            partitions=partitions,
            late=before.late + summary.late.get(s.column, 0),
            null_time=before.null_time + summary.null_time.get(s.column, 0),
        )
        if ended or before.bound >= END:
            columns[s.column] = replace(after, bound=END, holder=None)
        else:
            own = slack if s.kind == "quality" else None
            columns[s.column] = _advance_column(source, s, after, since, now, backlog, own)
    orders = dict(state.orders)
    for partition, order in summary.orders.items():
        orders[partition] = max(orders.get(partition, order), order)
    patterns, by_partition = advance_patterns(source, state, summary, columns)
    return SourceState(
        columns,
        state.rows + summary.rows,
        state.violations + summary.violations,
        since,
        orders,
        patterns,
        by_partition,
        quality,
    )


def _judged(summary: SourceSummary, column: str) -> QualityState | None:
    """The state that a task which judges rows one by one leaves of a column."""
    gathered = summary.quality.get(column)
    return None if gathered is None else gathered.judged


def _advance_partition(
    s: BoundRule,
    before: PartitionState | None,
    part: PartitionSummary,
    now: int | None,
    slack: int | None = None,
) -> PartitionState:
    """One partition after a batch in which it spoke: its own bound, by the policy."""
    before = before or PartitionState()
    hi = greatest([before.hi, part.hi])
    delay, delay_time = before.delay, before.delay_time
    tail = before.tail
    bound: int | None = None
    if s.kind == "max_delay":
        # Behind the newest of earlier batches; inside the batch only arrival order can tell.
        if before.hi is not None and part.lo is not None and before.hi - part.lo > delay:
            delay, delay_time = before.hi - part.lo, part.lo
        if part.delay is not None and part.delay > delay:
            delay, delay_time = part.delay, part.delay_time
        across, across_time = chunk_delay(part.chunks)
        if across > delay:
            delay, delay_time = across, across_time
        bound = None if hi is None else hi - delay
    elif s.kind == "delay":
        bound = None if hi is None else hi - s.delay
    elif s.kind == "ordered":
        bound = hi
    elif s.kind == "quality":
        bound = None if hi is None or slack is None or s.strict else hi - slack
    elif s.kind == "latency":
        bound = None  # rows say nothing: see _advance_column
    elif s.kind == "punctuated":
        bound = part.punct
    else:
        tail, passed = cut_tail([*before.tail, *part.tail], s.rows)
        bound = greatest([passed, part.rest_hi])
    if bound is not None and s.step:
        bound = aligned(bound, s.step)
    own = before.bound if bound is None else max(before.bound, shift(bound, 0))
    return PartitionState(
        hi=hi,
        bound=own,
        delay=delay,
        delay_time=delay_time,
        seen=now if part.rows and now is not None else before.seen,
        idle=False,
        excluded=before.excluded,
        tail=tail,
        future=before.future + part.future,
    )


def _advance_column(
    source: Source,
    s: BoundRule,
    column: ColumnState,
    since: int | None,
    now: int | None,
    backlog: bool,
    slack: int | None = None,
) -> ColumnState:
    """The source's bound from its partitions'."""
    if s.kind == "latency":
        reach = None if now is None or backlog else s.bound_at(now, s.delay)
        if reach is not None:
            column = replace(
                column, bound=max(column.bound, aligned(reach, s.step) if s.step else reach)
            )
        merged = dict(sorted(column.partitions.items()))
        return replace(column, partitions=merged, holder=None)
    silent = _idle(s, since, now, backlog)
    unnamed = 0
    if isinstance(source.partitions, int) and source.partition is not None:
        unnamed = max(0, source.partitions - len(column.partitions))
    if not column.partitions and not unnamed:
        unnamed = 1  # not even the number of partitions is known: wait for the first
    active: dict[str, PartitionState] = {}
    idle: dict[str, PartitionState] = {}
    for name, p in column.partitions.items():
        is_idle = _idle(s, p.seen if p.seen is not None else since, now, backlog)
        (idle if is_idle else active)[name] = replace(p, idle=is_idle, excluded=False)
    waiting = unnamed if unnamed and not silent else 0

    if s.lag is not None and active:
        newest = max(p.bound for p in active.values())
        for name, p in active.items():
            # A partition that has no bound yet is not behind, it is unknown.
            if p.bound > START and newest - p.bound > s.lag:
                active[name] = replace(p, excluded=True)

    bound, holder = column.bound, None
    taking_part = {name: p for name, p in active.items() if not p.excluded}
    if waiting:
        holder = f"<{waiting} not seen>"
    elif taking_part:
        holder = min(sorted(taking_part), key=lambda name: taking_part[name].bound)
        bound = max(bound, taking_part[holder].bound)
    elif now is not None:
        # All are idle: the bound follows the clock, as far behind it as rows may be.
        own = column.delay[0] if s.kind == "max_delay" else slack or s.delay
        reach = s.bound_at(now, _ceil_ticks(s) + own)
        if reach is not None:
            bound = max(bound, aligned(reach, s.step) if s.step else reach)
    # Names in a fixed order, so that tasks and driver agree to the byte.
    merged = dict(sorted({**active, **idle}.items()))
    return replace(column, partitions=merged, bound=bound, holder=holder)


def _idle(s: BoundRule, seen: int | None, now: int | None, backlog: bool) -> bool:
    if s.idle is None or now is None or seen is None or backlog:
        return False
    return now - seen >= s.idle


def _ceil_ticks(s: BoundRule) -> int:
    return -(-(s.idle or 0) // (s.unit or 1))


def _check_count(source: Source, count: int) -> None:
    if count > MAX_PARTITIONS:
        raise ExecutionError(
            "TOO_MANY_PARTITIONS",
            f"stream '{source.name}' has {count} partitions in column '{source.partition}', "
            f"more than {MAX_PARTITIONS}",
            hint="partition= names the source's partition (a few per machine), not a key of the data",
            stream=source.name,
            limit=MAX_PARTITIONS,
        )
