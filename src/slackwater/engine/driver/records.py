"""The progress record of a batch: what ``lastProgress`` shows beyond Spark's own fields.

Its JSON schema is ``docs/progress.schema.json``; every Spark test validates against it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from slackwater.engine.clock import wall_micros
from slackwater.engine.operators.kinds import AfterBatch
from slackwater.engine.operators.registry import kind_of
from slackwater.engine.paths.reports import TaskReport, progress_of, reports_of
from slackwater.engine.progress.record import quality_record
from slackwater.engine.store.statistics import OperatorStatistics
from slackwater.model.node import Source
from slackwater.model.same import Same
from slackwater.model.time import TimeColumn, iso
from slackwater.semantics.apart import apart
from slackwater.semantics.bounds import END, START
from slackwater.semantics.feedback.value import Feedback
from slackwater.semantics.local_time import instant_of
from slackwater.semantics.progress import ColumnState, SourceState
from slackwater.semantics.quality.statistics import Observations
from slackwater.semantics.summary import SourceSummary

if TYPE_CHECKING:
    from slackwater.engine.driver.feedback import Arranged
    from slackwater.engine.driver.loop import Query
    from slackwater.engine.paths.batch import Batch
    from slackwater.engine.plan.plan import Plan
    from slackwater.engine.store.feedback_log import FeedbackState
    from slackwater.engine.store.manifest import Manifest


def progress_record(
    query: Query,
    batch: Batch,
    done: Manifest,
    reports: list[TaskReport],
    times: dict[str, float],
) -> dict[str, Any]:
    """All that is known of a batch when it commits."""
    plan = query.plan
    summaries = progress_of(reports).summaries
    observations = Observations()
    streams = {
        s.name: {
            **_stream(s, done.sources[s.name], summaries[s.name]),
            **quality_record(plan, s, done.sources[s.name].quality, observations),
        }
        for s in plan.sources
    }
    operators = {op.id: _operator(query, op.id, done, reports) for op in plan.operators}
    outputs = {
        name: {
            "rows": sum(f.rows for f in done.outputs.get(name, [])),
            "files": sum(1 for f in done.outputs.get(name, []) if f.name),
            "bytes": sum(f.bytes for f in done.outputs.get(name, [])),
        }
        for name in query.sinks
    }
    # Streams that differ in slack alone read the same rows.
    alike = {(s.input, s.twin or s.name): s.name for s in plan.sources}
    rows = sum(streams[name]["numInputRows"] for name in alike.values())
    return {
        "batchId": done.batch,
        "ordinal": done.ordinal,
        "timestamp": iso(wall_micros()),
        "clock": iso(batch.now),
        "numInputRows": rows,
        "partitionGroups": done.groups,
        "final": done.final,
        "durationMs": {k: round(v * 1000) for k, v in times.items()},
        "streams": streams,
        "operators": operators,
        "outputs": outputs,
        "stateOperators": [
            {
                "operatorName": name,
                "numRowsTotal": op["state"]["rows"],
                "memoryUsedBytes": op["state"]["bytes"],
                "numRowsUpdated": op["rowsIn"],
                "numRowsDroppedByWatermark": op["late"],
            }
            for name, op in operators.items()
        ],
        **({"contracts": list(query.warnings)} if query.warnings else {}),
        "sink": next((s.describe() for s in query.sinks.values()), {}),
        "sinks": [s.describe() for s in query.sinks.values()],
    }


def feedback_log(
    plan: Plan, record: Mapping[str, Any], batch: Arranged, dropped: Mapping[str, int]
) -> dict[str, Any]:
    """Rows in, dropped and out of the operators that are to be counted; rows that go several ways go out on each."""
    log: dict[str, Any] = {}
    for node, name in zip(plan.nodes, plan.names, strict=True):
        if not node.reacting.log:
            continue
        ways = sum(1 for _ in plan.paths_from(name))
        gone = dropped.get(name, 0)
        if isinstance(node, Source):
            rows = record["streams"][name]["numInputRows"]
            unread = batch.unread.dropped.get(name, 0)
            out = ways * (rows - unread) - (gone - unread)
        else:
            # Where operators share their state, that is what is counted.
            holder = next(o for o in plan.operators if name in (o.id, *o.producers))
            rows = record["operators"][holder.id]["rowsIn"]
            own = holder.producers == (name,)
            out = ways * record["operators"][holder.id]["rowsOut"] - gone if own else None
        log[name] = {"rowsIn": rows, "rowsDropped": gone, "rowsOut": out}
    return log


def feedback_record(
    batch: Arranged,
    kept: FeedbackState,
    dropped: Mapping[str, int],
    clock: int | None,
    log: Mapping[str, Any],
) -> dict[str, Any]:
    """What stands, and what was dropped where; nothing while there is no feedback, and no operator is logged."""
    acts = kept.standing or kept.shades or kept.sealed or batch.by_filters or log
    if not acts and not dropped and not batch.refused:
        return {}
    names = dict.fromkeys([*batch.guards.records, *batch.beyond, *dropped])
    return {
        "standing": [
            {
                "id": s.id,
                "output": s.output,
                "name": s.name,
                "records": _text(Same(s.feedback)),
                "sinceBatch": s.batch,
                "until": s.until if clock is None or s.until is None else iso(s.until),
            }
            for s in kept.standing
        ],
        **(
            {"filters": [{"operator": n, "records": _text(Same(f))} for n, f in batch.by_filters]}
            if batch.by_filters
            else {}
        ),
        "places": {
            name: {
                "records": batch.guards.records.get(name, 0),
                "rowsDropped": dropped.get(name, 0),
                "totalRowsDropped": kept.dropped.get(name, 0),
                **({"recordsBeyond": batch.beyond[name]} if name in batch.beyond else {}),
            }
            for name in names
        },
        "notRead": {
            "rows": batch.unread.rows,
            "bytes": batch.unread.bytes,
            "streams": {
                name: {"rows": rows, "bytes": batch.unread.spared[name]}
                for name, rows in batch.unread.dropped.items()
            },
        },
        "dark": {name: len(shades) for name, shades in kept.shades.items()},
        "refused": [{"file": name, "reason": why} for name, why in batch.refused],
        **({"log": dict(log)} if log else {}),
    }


@lru_cache(maxsize=256)
def _text(feedback: Same[Feedback]) -> str:
    """Feedback as people read it, written once: it stands for many batches."""
    return str(feedback.it)


def _stream(source: Source, state: SourceState, summary: SourceSummary) -> dict[str, Any]:
    return {
        "numInputRows": summary.rows,
        "totalRows": state.rows,
        "late": {c: summary.late.get(c, 0) for c in state.columns},
        "totalLate": {c: s.late for c, s in state.columns.items()},
        "nullTime": {c: s.null_time for c, s in state.columns.items()},
        "future": {c: s.future for c, s in state.columns.items()},
        "orderViolations": state.violations,
        "patterns": len(state.patterns),
        **_kept_values(state),
        **({"schemeViolations": dict(summary.unfit)} if summary.unfit else {}),
        "bounds": {t.name: _column(t, state.columns[t.name], source.zone) for t in source.times},
    }


def _kept_values(state: SourceState) -> dict[str, int]:
    """How many values and ranges of values closed one by one stand in the checkpoint; nothing without patterns."""
    patterns = (*state.patterns, *(p for own in state.by_partition.values() for p in own))
    tests = [t for p in patterns for _, t in p.tests]
    ranges = sum(None not in span for t in tests for span in t.spans)
    return {"values": ranges + sum(t.null for t in tests)} if patterns else {}


def _column(time: TimeColumn, state: ColumnState, zone: str) -> dict[str, Any]:
    delay, at, partition = state.delay
    return {
        "bound": show(time, state.bound, zone),
        "ticks": None if state.bound <= START else state.bound,
        "newest": show(time, state.hi, zone),
        "behind": state.behind,
        "holder": state.holder,
        **_apart(state),
        "partitions": len(state.partitions),
        "idle": sorted(n for n, p in state.partitions.items() if p.idle),
        "excluded": sorted(n for n, p in state.partitions.items() if p.excluded),
        "maxDelay": {"ticks": delay, "time": show(time, at, zone), "partition": partition},
        "silent": _silent(state),
    }


def _apart(state: ColumnState) -> dict[str, Any]:
    one = apart(state)
    return {"apart": {"partition": one.partition, "ahead": one.ahead}} if one is not None else {}


def _silent(state: ColumnState) -> dict[str, Any] | None:
    """The partition without a row for longest, and since when; None where no clock was read."""
    known = [(p.seen, name) for name, p in state.partitions.items() if p.seen is not None]
    if not known:
        return None
    since, name = min(known)
    return {"partition": name, "since": iso(since)}


def show(time: TimeColumn, ticks: int | None, zone: str) -> str | int | None:
    """A time for people: ISO text in UTC (local times are of ``zone``), or the number itself for integer columns."""
    if ticks is None or ticks <= START:
        return None
    if ticks >= END:
        return "end"
    if time.is_integer:
        return ticks
    return iso(instant_of(ticks, zone) if time.is_local else ticks)


def _reduction(known: OperatorStatistics) -> float | None:
    """Rows per partial aggregate since the query began; None where it is not measured yet."""
    return round(known.rows / known.partials, 3) if known.partials else None


def _operator(query: Query, id: str, done: Manifest, reports: list[TaskReport]) -> dict[str, Any]:
    operator = query.plan.operator(id)
    assert operator is not None
    mine, known = reports_of(reports, id), done.statistics[id]
    runs = {r.name: r for g in [*done.runs.get(id, []), done.tables.get(id, [])] for r in g}
    bounds = done.bounds.get(id, {})
    return {
        "kind": type(operator.node).__name__,
        "plan": operator.spec.plan if operator.spec is not None else None,
        "rowsPerPartial": _reduction(known),
        "rowsIn": sum(r.rows_in for r in mine),
        "rowsOut": sum(r.rows_out for r in mine),
        "seconds": round(sum(r.seconds for r in mine), 6),
        "late": sum(r.late for r in mine),
        "compacted": sum(r.compacted for r in mine),
        "state": {
            "rows": sum(r.rows for r in runs.values()),
            "bytes": sum(r.bytes for r in runs.values()),
            "runs": len(runs),
            "peakRows": known.peak_rows,
            "peakBytes": known.peak_bytes,
        },
        "bounds": {
            t.name: show(t, bounds.get(t.name), query.plan.zone) for t in operator.node.times
        },
        **kind_of(operator).figures(AfterBatch(operator, mine, list(runs.values()), known)),
    }
