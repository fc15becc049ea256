"""Quality targets on the engine: who reads a stream under one, and the slack after each batch.

The tasks of a batch gather what they see (`quality_rows`); the driver turns it into the slack that the next batch is
judged by. Everything a slack depends on is in the manifest, so a restart goes on as if nothing had happened.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from slackwater.engine.paths.reports import Progress
from slackwater.engine.plan.plan import Operator, Path, Plan
from slackwater.engine.plan.read_columns import Columns
from slackwater.engine.plan.steps import from_relations
from slackwater.engine.progress.recall import check_recall, recall_settings
from slackwater.errors import AnalysisError
from slackwater.model.aggregate import Primitive
from slackwater.model.join import is_existence
from slackwater.model.node import Aggregate, Join, Source
from slackwater.model.window import TimeWindow
from slackwater.semantics.bounds import END, START
from slackwater.semantics.progress import SourceState
from slackwater.semantics.quality.adapt import Adaptation
from slackwater.semantics.quality.gathered import Gathered
from slackwater.semantics.quality.measure import stride
from slackwater.semantics.quality.moments import Moments
from slackwater.semantics.quality.state import Arrived, QualityState
from slackwater.semantics.quality.statistics import Bag, Observations, next_edges
from slackwater.semantics.quality.target import Consumer
from slackwater.semantics.quality.threshold import Asked
from slackwater.semantics.settings import BoundRule, resolve_source
from slackwater.semantics.window_ids import closed_by

QUANTILES = ("percentile", "percentile_disc", "percentile_approx")
NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")


@dataclass(frozen=True)
class Reader:
    """A consumer of a stream, the path to it, and the SQL of the values whose moments it needs."""

    path: Path
    consumer: Consumer
    values: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()


def quality_settings(source: Source) -> tuple[BoundRule, ...]:
    """The settings of a source's columns that have a quality target; that of a recall is set by `quality_joins`."""
    return tuple(s for s in resolve_source(source) if s.target is not None)


def readers(plan: Plan, source: Source, column: str) -> tuple[Reader, ...]:
    """The operators that rows of a source reach by a time column before any other."""
    reading = []
    plan = plan.unshared
    for path in plan.paths_from(source.name):
        operator = plan.operator(path.consumer)
        # A join has a recall. For whatever else holds rows, each row counts by itself.
        if operator is None or path.time != column or isinstance(operator.node, Join):
            continue
        reading.append(_reader(path, operator))
    names = [r.path.consumer for r in reading]
    # Several paths may lead into one operator.
    return tuple(
        replace(r, consumer=replace(r.consumer, name=f"{names[i]}#{names[:i].count(names[i])}"))
        for i, r in enumerate(reading)
    )


def _reader(path: Path, operator: Operator) -> Reader:
    node = operator.node
    if not isinstance(node, Aggregate):
        return Reader(path, Consumer(None))
    window = node.window
    own = None
    # The model of errors is that of windows of time; for any other type each row counts by itself.
    if isinstance(window, TimeWindow):
        # On the source's own times: a projection may have moved them.
        own = replace(window, origin=window.origin - path.shift, on=path.time)
    values: list[str] = []
    asked = tuple(a for p in node.primitives for a in _asked(p, values))
    keys = tuple(str(k.expr.duck) for k in node.keys if k.expr.duck is not None)
    return Reader(path, Consumer(own, asked, len(values)), tuple(values), keys)


def _asked(primitive: Primitive, values: list[str]) -> list[Asked]:
    """What an aggregate's error depends on; columns of values that it needs are added to ``values``."""
    if primitive.function == "count":
        return [Asked("count")]
    if primitive.function in QUANTILES:
        return [Asked("quantile", share=float(p)) for p in _shares(primitive.params[0])]
    if primitive.function in ("sum", "avg") and len(primitive.args) == 1:
        argument = primitive.args[0]
        if argument.duck is not None and argument.type.startswith(NUMBERS):
            text = f"CAST({argument.duck} AS DOUBLE)"
            if text not in values:
                values.append(text)
            return [Asked(primitive.function, values.index(text))]
    return [Asked("other")]


def _shares(percentages: Any) -> tuple[Any, ...]:
    return tuple(percentages) if isinstance(percentages, (tuple, list)) else (percentages,)


def check(plan: Plan) -> None:
    """Refuse what a quality target cannot mean."""
    for source in plan.sources:
        for setting in quality_settings(source):
            reading = readers(plan, source, setting.column)
            joins = [
                op.node for p in plan.paths_from(source.name)
                if (op := plan.operator(p.consumer)) is not None and isinstance(op.node, Join)
            ]  # fmt: skip
            if joins and not reading and setting not in recall_settings(source):
                raise AnalysisError(
                    "BAD_QUALITY",
                    f"stream '{source.given_name}' has a target for aggregates, but a join reads it",
                    hint='give it a fixed policy, such as sw.BoundedDelay("5 seconds")'
                    if any(is_existence(j.how) for j in joins)
                    else 'joins have a recall: sw.Quality(recall=0.95, over="60 seconds")',
                    stream=source.given_name,
                )
            if not any(plan.operator(p.consumer) for p in plan.paths_from(source.name)):
                raise AnalysisError(
                    "BAD_QUALITY",
                    f"stream '{source.given_name}' has a quality target, but nothing that waits for rows reads "
                    "it: rows leave as they come",
                    hint="give the target to a result: s.groupBy(sw.window(...)).agg(...).withQuality(...)",
                    stream=source.given_name,
                )
            _check_relations(plan, source, setting, reading)
            if setting.strict and any(r.consumer.window is None for r in reading):
                raise AnalysisError(
                    "BAD_QUALITY",
                    f"Quality(strict=True) on stream '{source.given_name}' is for time windows, but "
                    "another operator reads the stream",
                    hint="leave strict out: lateness is then judged batch by batch",
                    stream=source.given_name,
                )
    check_recall(plan)


def _check_relations(
    plan: Plan, source: Source, setting: BoundRule, reading: Sequence[Reader]
) -> None:
    """The error of an aggregate is known from values that rows had when they came; a relation's are of the batch's version."""
    if setting.target is None or setting.target.error is None:
        return
    for reader in reading:
        operator = plan.unshared.operator(reader.path.consumer)
        node = None if operator is None else operator.node
        if not reader.path.lookups or not isinstance(node, Aggregate):
            continue
        theirs = from_relations(reader.path.steps)
        over = Columns(texts=(a for p in node.primitives for a in p.args))
        column = next((name for name in sorted(theirs) if name in over), None)
        if column is not None:
            raise AnalysisError(
                "BAD_QUALITY",
                f"Quality(error=...) on stream '{source.given_name}' is for aggregates over the stream's columns, and "
                f"'{column}' is one of a relation",
                hint='use sw.Quality(coverage=0.99), or a fixed policy, such as sw.BoundedDelay("5 seconds")',
                stream=source.given_name,
                column=column,
            )


def adaptation(
    plan: Plan,
    source: Source,
    setting: BoundRule,
    known: QualityState | None,
    observations: Observations | None = None,
    bag: Bag | None = None,
) -> Adaptation:
    """The adaptation of a column as a batch finds it; ``known`` is its part of the source's state.

    With ``observations`` its statistics have seen the rows of ``bag``.
    """
    assert setting.target is not None
    consumers = [r.consumer for r in readers(plan, source, setting.column)]
    before = None if known is None else known.adaptation
    if before is None:
        fresh = Adaptation.fresh(setting.target, consumers)
        if observations is not None:
            fresh.statistics = observations.of(fresh.statistics.to_json(), bag)
        return fresh
    statistics = None if observations is None else observations.of(before.statistics, bag)
    return Adaptation.resumed(before, setting.target, consumers, statistics)


def durable(adapting: Adaptation, bound: int | None = None) -> QualityState:
    """What a column's part of the source's state holds; ``bound`` where rows are judged one by one."""
    # Delays are behind earlier batches, so before the second batch nothing is known of them.
    known = bound is not None or adapting.first is not None
    return QualityState(adapting.slack if known else None, adapting.kept, bound)


def adapted(
    plan: Plan, before: Mapping[str, SourceState], progress: Progress
) -> dict[str, SourceState]:
    """The sources' states after a batch, with the slack that the next one is judged by.

    ``before`` are the states that the batch began with, ``progress`` is what its tasks agreed on.
    """
    states, observations = dict(progress.states), Observations()
    for source in plan.sources:
        for setting in quality_settings(source):
            gathered = progress.summaries[source.name].quality.get(setting.column)
            state = states[source.name]
            known = state.quality.get(setting.column)
            if setting.strict or gathered is None:
                # What arrived did so in an earlier batch, which counted it.
                if known is not None and known.arrived is not None:
                    known = replace(known, arrived=Arrived())
                    states[source.name] = state.with_quality(setting.column, known)
                continue
            bag = gathered.bag
            before_rows = None if known is None else known.adaptation
            first = before_rows is None or before_rows.statistics["newest"] is None
            adapting = adaptation(plan, source, setting, known, observations, bag)
            old, column = before.get(source.name), state.columns[setting.column]
            bound = START if old is None else old.bounds.get(setting.column, START)
            _batch(adapting, gathered, bound, column.bound, first=first)
            for name, part in column.partitions.items():
                if part.hi is not None:
                    edges, reach = adapting.edges.get(name, []), adapting.statistics.reach
                    adapting.edges[name] = next_edges(edges, part.hi, reach)
            known = durable(adapting)
            if setting.target is not None and setting.target.recall is not None:
                known = replace(known, arrived=_arrived(gathered))
            states[source.name] = state.with_quality(setting.column, known)
    return states


def _batch(
    adapting: Adaptation, gathered: Gathered, bound: int, after: int, *, first: bool
) -> None:
    """Take a batch whose rows are in the statistics: the windows that it closed, and the next slack."""
    if gathered.bag is None or gathered.bag.newest is None:
        return
    for at, rows in enumerate(gathered.consumers):
        state, window = adapting.states[at], adapting.consumers[at].window
        state.coverage.add(rows.tally)
        if adapting.by_needs:
            state.needs.add(rows.late, gathered.bag.granularity)
        state.latest = list(rows.moments)
        if rows.groups:
            state.groups = _group_shares(rows.moments[1], rows.groups)
        if window is not None and START < bound < after < END:
            last = closed_by(after, window)
            edge = last - stride(window) + 1
            adapting.closed(at, closed_by(bound, window) + 1, last, after + adapting.slack, edge)
    adapting.took()
    if not first:
        adapting.adapt()


def _arrived(gathered: Gathered) -> Arrived:
    """Rows of the latest batch, and those behind the batch before."""
    bag = gathered.bag
    if bag is None:
        return Arrived()
    return Arrived(bag.rows, bag.granularity, tuple(sorted(bag.last.items())))


def _group_shares(passed: Moments, groups: Mapping[int, tuple[Moments, ...]]) -> list[list[float]]:
    """Per group of the sample: its share of the rows, then the spread of each column of values."""
    return [
        [ms[0].rows / passed.rows, *(m.spread for m in ms[1:])]
        for ms in groups.values()
        if passed.rows and ms[0].rows
    ]
