"""The progress record of a batch: what ``lastProgress`` shows beyond Spark's own fields.

Its JSON schema is ``docs/progress.schema.json``; every Spark test validates against it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from slackwater.engine.clock import wall_micros
from slackwater.engine.operators.registry import kind_of
from slackwater.engine.progress.record import quality_record
from slackwater.model.node import Source
from slackwater.model.time import TimeColumn, iso
from slackwater.semantics.bounds import END, START
from slackwater.semantics.local_time import instant_of
from slackwater.semantics.progress import ColumnState, SourceState

if TYPE_CHECKING:
    from slackwater.engine.driver.loop import Query
    from slackwater.engine.paths.batch import Batch
    from slackwater.engine.store.manifest import Manifest


def progress_record(
    query: Query,
    batch: Batch,
    done: Manifest,
    found: list[dict[str, Any]],
    times: dict[str, float],
) -> dict[str, Any]:
    """All that is known of a batch when it commits."""
    plan = query.plan
    summaries = next(d["progress"]["summaries"] for d in found if "progress" in d)
    streams = {
        s.name: {
            **_stream(s, SourceState.from_json(done.sources[s.name]), summaries[s.name]),
            **quality_record(plan, s, done.sources[s.name].get("quality", {})),
        }
        for s in plan.sources
    }
    operators = {op.id: _operator(query, op.id, done, found) for op in plan.operators}
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
        "sink": next((s.describe() for s in query.sinks.values()), {}),
        "sinks": [s.describe() for s in query.sinks.values()],
    }


def _stream(source: Source, state: SourceState, summary: dict[str, Any]) -> dict[str, Any]:
    late = summary.get("late", {})
    return {
        "numInputRows": summary.get("rows", 0),
        "totalRows": state.rows,
        "late": {c: late.get(c, 0) for c in state.columns},
        "totalLate": {c: s.late for c, s in state.columns.items()},
        "nullTime": {c: s.null_time for c, s in state.columns.items()},
        "future": {c: s.future for c, s in state.columns.items()},
        "orderViolations": state.violations,
        "patterns": len(state.patterns),
        "bounds": {t.name: _column(t, state.columns[t.name], source.zone) for t in source.times},
    }


def _column(time: TimeColumn, state: ColumnState, zone: str) -> dict[str, Any]:
    delay, at, partition = state.delay
    behind = None if state.hi is None or not START < state.bound < END else state.hi - state.bound
    return {
        "bound": show(time, state.bound, zone),
        "ticks": None if state.bound <= START else state.bound,
        "newest": show(time, state.hi, zone),
        "behind": behind,
        "holder": state.holder,
        "partitions": len(state.partitions),
        "idle": sorted(n for n, p in state.partitions.items() if p.idle),
        "excluded": sorted(n for n, p in state.partitions.items() if p.excluded),
        "maxDelay": {"ticks": delay, "time": show(time, at, zone), "partition": partition},
        "silent": _silent(state),
    }


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


def _reduction(known: dict[str, Any]) -> float | None:
    """Rows per partial aggregate since the query began; None where it is not measured yet."""
    return round(known["rows"] / known["partials"], 3) if known.get("partials") else None


def _operator(query: Query, id: str, done: Manifest, found: list[dict[str, Any]]) -> dict[str, Any]:
    operator = query.plan.operator(id)
    assert operator is not None
    states = [d["operators"][id] for d in found if id in d["operators"]]
    runs = {r.name: r for g in [*done.runs.get(id, []), done.tables.get(id, [])] for r in g}
    bounds = done.bounds.get(id, {})
    return {
        "kind": type(operator.node).__name__,
        "plan": operator.spec.plan if operator.spec is not None else None,
        "rowsPerPartial": _reduction(done.statistics[id]),
        "rowsIn": sum(s["in"] for s in states),
        "rowsOut": sum(s["out"] for s in states),
        "seconds": round(sum(s.get("seconds", 0.0) for s in states), 6),
        "late": sum(s["late"] for s in states),
        "compacted": sum(s["compacted"] for s in states),
        "state": {
            "rows": sum(r.rows for r in runs.values()),
            "bytes": sum(r.bytes for r in runs.values()),
            "runs": len(runs),
            "peakRows": done.statistics[id]["peakRows"],
            "peakBytes": done.statistics[id]["peakBytes"],
        },
        "bounds": {
            t.name: show(t, bounds.get(t.name), query.plan.zone) for t in operator.node.times
        },
        **kind_of(operator).figures(operator, states, list(runs.values()), done.statistics[id]),
    }
