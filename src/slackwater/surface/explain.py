"""``explain()``: the query's tree, then what runs where, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from slackwater.engine.driver.feedback import guard_lines
from slackwater.engine.driver.passes import Shown, passed
from slackwater.engine.lowlevel.inputs import Input, SplitInput
from slackwater.engine.operators.registry import kind_of
from slackwater.engine.plan.plan import Path, Plan
from slackwater.engine.plan.reading import (
    FusedScan,
    JvmPartials,
    Rows,
    RowsWithSteps,
    Scan,
    described,
    unknown,
)
from slackwater.engine.progress.record import warmup_lines
from slackwater.engine.store.statistics import OperatorStatistics, Statistics
from slackwater.model.node import Node, Source
from slackwater.model.render import render
from slackwater.semantics.bounds import topological
from slackwater.semantics.contracts.findings import edges
from slackwater.semantics.progress import SourceState
from slackwater.semantics.state_bounds import freed_by
from slackwater.surface.check import edge_lines
from slackwater.surface.relation_uses import relation_lines


def explain_streams(streams: Mapping[str, Any], *, extended: bool = False) -> str:
    """The plan of results that have not been started."""
    from slackwater.surface.start import plan_of

    plan, inputs = plan_of(streams, {})
    nodes = [s._node for s in streams.values()]
    plan = passed(plan, Shown(inputs))
    guards = guard_lines(plan, None, "source")
    return explain_query(plan, inputs, nodes, extended=extended, feedback=guards)


def explain_query(
    plan: Plan,
    inputs: Sequence[Input],
    outputs: Sequence[Node],
    *,
    extended: bool = False,
    statistics: Statistics | None = None,
    feedback: Sequence[str] = (),
    relations: Sequence[str] | None = None,
    states: Mapping[str, SourceState] | None = None,
) -> str:
    """The plan, and the scheme on every edge of the query as it was written, with these ``outputs``.

    ``feedback`` says what feedback stands, and what guards it has put up.
    """
    text = explain_plan(plan, inputs, extended=extended, statistics=statistics, states=states)
    if feedback:
        text = "\n".join([text, "", "== Feedback ==", *feedback])
    lines = relation_lines(plan) if relations is None else relations
    if lines:
        text = "\n".join([text, "", "== Relations ==", *lines])
    schemes = edge_lines(edges(outputs, topological(outputs)))
    return "\n".join([text, "", "== Contracts ==", *schemes])


def explain_plan(
    plan: Plan,
    inputs: Sequence[Input],
    *,
    extended: bool = False,
    statistics: Statistics | None = None,
    states: Mapping[str, SourceState] | None = None,
) -> str:
    """The plan as text, with what a running query has measured, and knows of its streams."""
    lines = ["== Query =="]
    for output in plan.outputs:
        lines.append(f"output {output.name}")
        lines.extend("  " + line for line in render(output.node, policies=True))
    lines.append("")
    lines.append("== Plan ==")
    for source in plan.sources:
        reading = plan.readings[source.input]
        lines.append(f"level 0, stream {source.name}: {_source(plan, inputs, source)}")
        lines.append(f"  reading: {described(reading)}")
        state = (states or {}).get(source.name)
        quality = {} if state is None else state.quality
        lines.extend(f"  quality of {line}" for line in warmup_lines(plan, source, quality))
        for path in plan.paths_from(source.name):
            lines.extend("  " + line for line in _path(path, reading.by_columns))
    for operator in sorted(plan.operators, key=lambda op: op.level):
        kind = kind_of(operator)
        known = (statistics or {}).get(operator.id, OperatorStatistics())
        lines.append(f"level {operator.level}, {operator.id}: {kind.described(operator, known)}")
        lines.append(f"  state: {freed_by(operator.node)}")
        lines.extend(f"  {line}" for line in kind.details(plan, operator, known))
        for path in (p for name in operator.producers for p in plan.paths_from(name)):
            lines.extend("  " + line for line in _path(path, True))
    if extended:
        lines.append("")
        lines.append("== Paths ==")
        lines.extend(f"{p.id}: {p.producer} -> {p.consumer}, time {p.time}" for p in plan.paths)
    return "\n".join(lines)


def _source(plan: Plan, inputs: Sequence[Input], source: Source) -> str:
    item, reading = inputs[source.input], plan.readings[source.input]
    match reading:
        case FusedScan() | Scan():
            assert isinstance(item, SplitInput)
            fused = isinstance(reading, FusedScan)
            how = "scan and partial aggregation in one pass" if fused else "scan"
            return f"splits of {item.path}, column engine (DuckDB): {how}"
        case Rows() | RowsWithSteps() | JvmPartials() if isinstance(item, SplitInput):
            blocked = next((p.blocked_by for p in plan.paths if p.blocked_by is not None), None)
            why = f"{blocked.sql} stays in Spark: {blocked.why}" if blocked else item.by_rows
            return f"files of {item.path} as rows, row engine (Spark SQL): {why}"
        case JvmPartials():
            return "rows, row engine (Spark SQL): partial aggregation in the JVM"
        case Rows() | RowsWithSteps():
            return "rows, row engine (Spark SQL), then columns"
        case _:
            raise unknown(reading)


def _path(path: Path, columns: bool) -> list[str]:
    if not path.steps:
        return [f"-> {path.consumer}"]
    blocked = path.blocked_by
    if blocked is None:
        engine = "column engine" if columns or path.lookups else "row engine"
        return [f"-> {len(path.steps)} row step(s) in the {engine} -> {path.consumer}"]
    return [
        f"-> {len(path.steps)} row step(s) in the row engine -> {path.consumer}",
        f"   because {blocked.sql}: {blocked.why}",
    ]
