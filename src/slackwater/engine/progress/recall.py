"""Recall targets of joins on the engine: one slack for all streams below a join, after each batch.

A join whose results wait for a bound (they are sorted, or windows are over them) finds late results too and tells how late
they are; the driver makes of that the slack of the next batch. For this an inner join keeps rows for as long as the
largest delays of late: no longer than with the largest delay as slack. Other joins go by the model of delays.

A join whose results leave at once needs slack only to know how long rows are worth keeping: by the model, too, corrected by what
late rows must have missed so far.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from slackwater.engine.paths.batch import Batch
from slackwater.engine.paths.reports import Bounds, TaskReport, reports_of
from slackwater.engine.plan.plan import Operator, Plan
from slackwater.engine.store.manifest import Manifest
from slackwater.errors import AnalysisError
from slackwater.model.join import Anytime, Tumbling, is_existence
from slackwater.model.node import Join, Source
from slackwater.model.policy import Quality
from slackwater.semantics.bounds import END, START, topological
from slackwater.semantics.join import max_bound, outer_inputs, reaches
from slackwater.semantics.lateness import is_late
from slackwater.semantics.progress import SourceState
from slackwater.semantics.quality.delays import dense
from slackwater.semantics.quality.join_kept import KeptSlack, lost
from slackwater.semantics.quality.join_measured import MeasuredSlack
from slackwater.semantics.quality.join_slack import Emit, RecallTarget, modelled_slack
from slackwater.semantics.quality.recall import StreamDelays
from slackwater.semantics.quality.recall_lateness import LateInterval, ResultLateness
from slackwater.semantics.quality.recall_state import RecallState
from slackwater.semantics.quality.state import Arrived, QualityState
from slackwater.semantics.quality.statistics import StreamStatistics, relative_sync
from slackwater.semantics.settings import BoundRule, resolve_source

INTERVALS = 60
"""Parts of the period by which results are counted."""


@dataclass(frozen=True)
class JoinTarget:
    """A join with a target, and the streams below it; ``measured``: by the lateness of its own results."""

    operator: Operator
    streams: tuple[tuple[Source, BoundRule], ...]
    emit: Emit
    measured: bool

    @property
    def asked(self) -> RecallTarget:
        """The target in ticks of the streams' times."""
        targets = [s.target for _, s in self.streams if s.target is not None]
        first = targets[0]
        assert first.recall is not None and first.over is not None
        interval = max(1, first.over // INTERVALS)
        # The bins of delays may be finer than what counts results: those are of one width for ever.
        return RecallTarget(
            first.recall,
            max(first.over, interval),
            interval,
            first.granularity,
            "controller" if first.method == "pd" else "equal",
            self.emit,
            limit=first.limit,
        )


def recall_settings(source: Source) -> tuple[BoundRule, ...]:
    """The settings of a source's columns that have a recall target."""
    if not any(isinstance(p, Quality) and p.recall is not None for p in source.policies):
        return ()
    return tuple(
        s for s in resolve_source(source) if s.target is not None and s.target.recall is not None
    )


def recall_joins(plan: Plan) -> tuple[JoinTarget, ...]:
    """The topmost joins over streams with a recall target.

    Only a `Join` has a recall: `check_recall` refuses a stream with a target that reaches none, whatever else reads it.
    """
    below = {op.id: _below(op) for op in plan.operators if isinstance(op.node, Join)}
    inner = {id for mine in below.values() for id in _operators(plan, mine)}
    targets = []
    for op in plan.operators:
        if op.id not in below or op.id in inner:
            continue
        sources = [n for n in below[op.id] if isinstance(n, Source)]
        streams = tuple((s, setting) for s in sources for setting in recall_settings(s))
        if not streams:
            continue
        waits = any(plan.operator(p.consumer) is not None for p in plan.paths_from(op.id))
        joins = [n for n in (op.node, *below[op.id]) if isinstance(n, Join)]
        measured = waits and all(not outer_inputs(j.how) and j.memory is None for j in joins)
        targets.append(JoinTarget(op, streams, "ordered" if waits else "immediate", measured))
    return tuple(targets)


def _below(operator: Operator) -> tuple[Any, ...]:
    return tuple(n for n in topological([operator.node]) if n is not operator.node)


def _operators(plan: Plan, nodes: Iterable[Any]) -> set[str]:
    return {op.id for op in plan.operators if any(op.node is n for n in nodes)}


def check_recall(plan: Plan) -> None:
    """Refuse what a recall target cannot mean."""
    joins = recall_joins(plan)
    for target in joins:
        for node in topological([target.operator.node]):
            if isinstance(node, Join) and isinstance(node.within, Anytime):
                stream = target.streams[0][0].given_name
                raise AnalysisError(
                    "BAD_QUALITY",
                    f"recall= on stream '{stream}' does not go with a join at any distance in time: what rows miss does "
                    "not depend on how long it waits",
                    hint="give the join within=sw.band(...), or another policy to the stream",
                    stream=stream,
                )
    for source in plan.sources:
        for setting in recall_settings(source):
            if setting.strict:
                raise AnalysisError(
                    "BAD_QUALITY",
                    f"Quality(strict=True) on stream '{source.given_name}' does not go with recall=",
                    hint="leave strict out: lateness is then judged batch by batch",
                    stream=source.given_name,
                )
            if not any(s is source for j in joins for s, _ in j.streams):
                raise AnalysisError(
                    "BAD_QUALITY",
                    f"stream '{source.given_name}' has a target for recall, but no join reads it",
                    hint="aggregates have an error or a coverage: sw.Quality(error=0.01)",
                    stream=source.given_name,
                )
    for join in joins:
        mine = [n for n in _below(join.operator) if isinstance(n, Source)]
        _check_pairs(join, mine)
        have = {(s.name, setting.column) for s, setting in join.streams}
        lacking = [s.given_name for s in mine if not recall_settings(s)]
        lacking += [
            s.given_name
            for p in plan.paths_to(join.operator.id)
            for s in mine
            if s.name == p.producer and (p.producer, p.time) not in have
        ]
        targets = {(s.target.recall, s.target.over) for _, s in join.streams if s.target}
        if lacking or len(targets) > 1:
            fault = f"'{lacking[0]}' has none" if lacking else "they differ"
            raise AnalysisError(
                "BAD_QUALITY",
                f"all streams of a join share one target for recall, but {fault}",
                hint="give each of them the same sw.Quality(recall=..., over=...)",
                streams=[s.given_name for s in mine],
            )
        if not join.measured and join.asked.method == "controller":
            raise AnalysisError(
                "BAD_QUALITY",
                'method="pd" steers by the recall that a join measures, which needs an inner join whose '
                "results wait for order",
                hint='use emit="ordered", or leave method out',
                streams=[s.given_name for s in mine],
            )
        if not join.measured and any(isinstance(n, Join) for n in _below(join.operator)):
            raise AnalysisError(
                "BAD_QUALITY",
                "a recall target for joins over joins needs inner joins whose results wait for order",
                hint='use emit="ordered", or one sw.joinAll over all streams',
                streams=[s.given_name for s in mine],
            )


def _check_pairs(join: JoinTarget, sources: Sequence[Source]) -> None:
    """Refuse a join whose results are no pairs: what share of them comes says little of what is right."""
    nodes = (join.operator.node, *_below(join.operator))
    kind = next((n.how for n in nodes if isinstance(n, Join) and is_existence(n.how)), None)
    if kind is not None:
        raise AnalysisError(
            "BAD_QUALITY",
            f"a {kind} join has no recall, but the streams below it have a target for one",
            hint='give the streams a fixed policy, such as sw.BoundedDelay("5 seconds")',
            streams=[s.given_name for s in sources],
            how=kind,
        )


# ---- in the tasks ----


class LateResults:
    """What one task of a join tells: its results by time and lateness. ``watch`` is how much longer rows are kept."""

    def __init__(self, batch: Batch, operator: Operator) -> None:
        self.watch = 0
        self.lateness: ResultLateness | None = None
        node = operator.node
        assert isinstance(node, Join)
        for target in recall_joins(batch.plan):
            ids = {target.operator.id, *_operators(batch.plan, _below(target.operator))}
            if not target.measured or operator.id not in ids:
                continue
            known = [_known(batch.states, s, c) for s, c in target.streams]
            self.watch = max((k.watch or 0 for k in known if k is not None), default=0)
            if operator.id == target.operator.id:
                asked = target.asked
                self.lateness = ResultLateness(asked.granularity, asked.interval, asked.period)
                self.clock = _slowest(batch.plan, target, batch.states)
        self.within, self.how = node.within, node.how

    def kept(self, bounds: Sequence[int]) -> list[int]:
        """The bounds by which rows are kept: further back than what is promised."""
        return [b if b <= START or b >= END else max(START + 1, b - self.watch) for b in bounds]

    def record(self, times: Any, bounds: Sequence[int]) -> None:
        """Results of the batch, before which ``bounds`` were in force."""
        if self.lateness is None:
            return
        bound = max_bound(self.within, bounds, self.how)
        late = np.zeros_like(times) if self.clock is None else self.clock - times
        self.lateness.record(times, late, ~is_late(times, bound))

    @property
    def intervals(self) -> Sequence[LateInterval] | None:
        """What the driver gets; None of a join that measures nothing."""
        return None if self.lateness is None else self.lateness.intervals


def _known(
    states: Mapping[str, SourceState], source: Source, setting: BoundRule
) -> QualityState | None:
    state = states.get(source.name)
    return None if state is None else state.quality.get(setting.column)


def _slowest(plan: Plan, target: JoinTarget, states: Mapping[str, SourceState]) -> int | None:
    """How far the slowest partition of the slowest stream has come; None before all have."""
    clocks = []
    for source, setting in target.streams:
        state = states.get(source.name)
        column = None if state is None else state.columns.get(setting.column)
        partitions = () if column is None else column.partitions.values()
        seen = [p.hi for p in partitions if p.hi is not None and not p.idle and not p.excluded]
        if not seen:
            return None
        clocks.append(min(seen) + _shift(plan, target, source, setting))
    return min(clocks)


def _shift(plan: Plan, target: JoinTarget, source: Source, setting: BoundRule) -> int:
    """By how much the join's times of a stream are later than the stream's own."""
    paths = [p for p in plan.paths_from(source.name) if p.consumer == target.operator.id]
    return next((p.shift for p in paths if p.time == setting.column), 0)


# ---- on the driver ----


def recall_adapted(
    plan: Plan,
    base: Manifest | None,
    states: Mapping[str, SourceState],
    bounds: Bounds,
    reports: Sequence[TaskReport],
) -> tuple[dict[str, SourceState], dict[str, RecallState]]:
    """Sources' states with the slack of the next batch, and what the joins remember, by operator.

    ``states`` are those after the batch, delays included.
    """
    out, memory = dict(states), dict[str, RecallState]()
    asked: dict[tuple[str, str], int] = {}
    for target in recall_joins(plan):
        measured = None if base is None else base.statistics.get(target.operator.id)
        before = None if measured is None else measured.recall
        known = {
            (source.name, setting.column): StreamStatistics.from_json(quality.adaptation.statistics)
            for source, setting in target.streams
            if (quality := _known(out, source, setting)) is not None
            and quality.adaptation is not None
        }
        streams = list(known.values())
        if len(known) < len(target.streams) or all(s.newest is None for s in streams):
            continue
        recent = max(s.window_largest for s in streams)
        if target.measured:
            slack, memory[target.operator.id] = _measured(
                plan, target, before, out, bounds, streams, reports
            )
        else:
            slack, memory[target.operator.id] = _modelled(plan, target, before, out, known)
        for source, setting in target.streams:
            state = out[source.name]
            quality = state.quality[setting.column]
            if quality.slack is None:
                continue
            # Another join may have asked for more of the same stream.
            most = max(slack, asked.get((source.name, setting.column), 0))
            asked[source.name, setting.column] = most
            quality = replace(quality, slack=most, watch=max(0, recent - slack))
            out[source.name] = state.with_quality(setting.column, quality)
    return out, memory


def _measured(
    plan: Plan,
    target: JoinTarget,
    before: RecallState | None,
    states: Mapping[str, SourceState],
    bounds: Bounds,
    streams: Sequence[StreamStatistics],
    reports: Sequence[TaskReport],
) -> tuple[int, RecallState]:
    # Other outputs may have come or gone, and with them what the join goes by.
    state = MeasuredSlack.resumed(target.asked, before or RecallState())
    for report in reports_of(reports, target.operator.id):
        for interval in report.figures.recall or ():
            counts = np.array(interval.counts, np.int64)
            state.lateness.put(interval.key, counts, interval.made)
    largest = max(s.largest for s in streams)
    clock = _slowest(plan, target, states)
    reached = min(
        bounds[source.name][setting.column] + _shift(plan, target, source, setting)
        for source, setting in target.streams
    )
    if clock is None or not START < reached < END:
        state.slack = largest if state.reached is None else state.slack
        return state.slack, state.kept
    return state.adapt(clock, reached, largest), state.kept


def _modelled(
    plan: Plan,
    target: JoinTarget,
    before: RecallState | None,
    states: Mapping[str, SourceState],
    known: Mapping[tuple[str, str], StreamStatistics],
) -> tuple[int, RecallState]:
    asked = target.asked
    node = target.operator.node
    assert isinstance(node, Join)
    if isinstance(node.within, Tumbling):
        # A row sees, on the mean, half of its window behind it.
        windows = [node.within.window.slide // 2] * len(node.inputs)
    else:
        windows = [max(0, w) for w in reaches(node.within)]
    ahead = relative_sync({f"{n} {c}": s.sync for (n, c), s in known.items()})
    streams: list[StreamDelays] = []
    latest: list[tuple[int, Arrived]] = []
    for path in plan.paths_to(target.operator.id):
        mine = known.get((path.producer, path.time))
        if mine is not None:
            arrived = states[path.producer].quality[path.time].arrived
            assert arrived is not None
            latest.append((path.input, arrived))
            lead = int(ahead[f"{path.producer} {path.time}"])
            window = windows[path.input]
            rows = mine.rate * asked.period
            streams.append(StreamDelays(mine.window.counts, mine.granularity, window, lead, rows))
    recent = max(s.window_largest for s in known.values())
    clock = min(s.newest for s in known.values() if s.newest is not None)
    if asked.emit == "immediate":
        state = KeptSlack.resumed(asked, before or RecallState())
        missed = [_lost(arrived, windows, i, state.slack) for i, arrived in latest]
        state.arrived(clock, [arrived.rows for _, arrived in latest], missed)
        return state.adapt(streams, recent, clock), state.kept
    first = clock if before is None or before.first is None else before.first
    modelled = modelled_slack(asked, streams, recent, clock - first)
    return modelled.slack, RecallState(modelled.slack, first, modelled.needed, modelled.expected)


def _lost(arrived: Arrived, windows: Sequence[int], i: int, slack: int) -> float:
    """How many rows' worth of results the latest batch's rows of an input missed."""
    if not arrived.late:
        return 0.0
    counts, factor = dense(arrived.late)
    return lost(counts, windows, i, arrived.granularity * factor, slack)
