"""``explain()``: the query's tree, then what runs where, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from slackwater.engine.driver.job import jvm_fusible_plan
from slackwater.engine.lowlevel.fused import fusible
from slackwater.engine.lowlevel.inputs import Input, SplitInput, split_inputs
from slackwater.engine.plan.placing import Waiting, fixed_slack, tree_of
from slackwater.engine.plan.plan import Path, Plan
from slackwater.engine.plan.window_plans import choice
from slackwater.kernels.windows.adaptive import sizes_of, unit
from slackwater.model.node import Aggregate, SharedPanes, SharedSort
from slackwater.model.render import render
from slackwater.model.window import TimeWindow
from slackwater.semantics.panes import Panes
from slackwater.semantics.slack.placement import memory, optimal, unshared
from slackwater.semantics.slack.routes import Routes, describe, held, routes_of
from slackwater.semantics.state_bounds import freed_by
from slackwater.semantics.windows import context_class, keeps_rows

_CLASSES = {
    "CF": "a row tells its windows (CF)",
    "FCF": "rows before it tell a row's windows (FCF)",
    "FCA": "rows after it tell a row's windows (FCA)",
}


def explain_streams(streams: Mapping[str, Any], *, extended: bool = False) -> str:
    """The plan of results that have not been started."""
    from slackwater.surface.start import plan_of

    plan, inputs = plan_of(streams, {})
    return explain_plan(plan, inputs, extended=extended)


def explain_plan(
    plan: Plan,
    inputs: Sequence[Input],
    *,
    extended: bool = False,
    statistics: Mapping[str, Mapping[str, Any]] | None = None,
) -> str:
    """The plan as text, with what a running query has measured."""
    lines = ["== Query =="]
    for output in plan.outputs:
        lines.append(f"output {output.name}")
        lines.extend("  " + line for line in render(output.node, policies=True))
    lines.append("")
    lines.append("== Plan ==")
    splits = split_inputs(plan, inputs)
    for source in plan.sources:
        lines.append(f"level 0, stream {source.name}: {_source(plan, inputs, splits, source)}")
        for path in plan.paths_from(source.name):
            lines.extend("  " + line for line in _path(plan, path, source.input in splits))
    for operator in sorted(plan.operators, key=lambda op: op.level):
        lines.append(
            f"level {operator.level}, {operator.id}: {_operator(operator, statistics or {})}"
        )
        lines.append(f"  state: {freed_by(operator.node)}")
        if isinstance(operator.node, Aggregate):
            lines.extend(f"  {p.name} = {p.call}: {p.traits}" for p in operator.node.primitives)
        known = (statistics or {}).get(operator.id, {})
        lines.extend(f"  {line}" for line in _readers(plan, operator, known))
        for path in (p for name in operator.producers for p in plan.paths_from(name)):
            lines.extend("  " + line for line in _path(plan, path, True))
    if extended:
        lines.append("")
        lines.append("== Paths ==")
        lines.extend(f"{p.id}: {p.producer} -> {p.consumer}, time {p.time}" for p in plan.paths)
    return "\n".join(lines)


def _source(plan: Plan, inputs: Sequence[Input], splits: Mapping[int, Any], source: Any) -> str:
    item = inputs[source.input]
    fused = fusible(plan, source)
    if source.input in splits:
        how = "scan and partial aggregation in one pass" if fused else "scan"
        return f"splits of {item.path}, column engine (DuckDB): {how}"
    if isinstance(item, SplitInput):
        blocked = next((p.blocked_by for p in plan.paths if p.blocked_by is not None), None)
        why = f"{blocked.sql} stays in Spark: {blocked.why}" if blocked else item.by_rows
        return f"files of {item.path} as rows, row engine (Spark SQL): {why}"
    if jvm_fusible_plan(plan, inputs) is not None:
        return "rows, row engine (Spark SQL): partial aggregation in the JVM"
    return "rows, row engine (Spark SQL), then columns"


def _path(plan: Plan, path: Path, columns: bool) -> list[str]:
    if not path.steps:
        return [f"-> {path.consumer}"]
    blocked = path.blocked_by
    if blocked is None:
        engine = "column engine" if columns else "row engine"
        return [f"-> {len(path.steps)} row step(s) in the {engine} -> {path.consumer}"]
    return [
        f"-> {len(path.steps)} row step(s) in the row engine -> {path.consumer}",
        f"   because {blocked.sql}: {blocked.why}",
    ]


def _readers(plan: Plan, operator: Any, known: Mapping[str, Any]) -> list[str]:
    """The operators that share a state, and how each uses it."""
    if isinstance(operator.node, SharedSort):
        return _chain(plan, operator, known)
    if not isinstance(operator.node, SharedPanes):
        return []
    lines = []
    for name, node in operator.node.readers:
        assert isinstance(node.window, TimeWindow)
        panes = Panes.of(node.window)
        each = panes.width // operator.spec.sliding.range
        lines.append(
            f"read by {name}: {panes.per_window} panes per window, each {each} of the store's"
        )
    return lines


def _chain(plan: Plan, operator: Any, known: Mapping[str, Any]) -> list[str]:
    """Where the rows of several sorts wait, in ticks; where a slack is not known, who reads them."""
    found = Waiting.from_json(known["waiting"]) if "waiting" in known else None
    slack: dict[str, int | None] = {n: fixed_slack(plan, n) for n in operator.producers}
    if found is not None:
        slack.update({n: found.reports.current.get(n) for n, k in slack.items() if k is None})
    sure = {n: k for n, k in slack.items() if k is not None}
    if len(sure) < len(operator.producers):
        return [f"read by {n}" for n in operator.producers]
    tree = tree_of(operator, sure, found.selectivity if found is not None else {})
    routes: Routes = routes_of(tree, optimal(tree))
    if found is not None and set(found.routes) == set(sure):
        routes = found.routes
    lines = describe(tree, routes)
    if found is not None:
        lines += [f"{n} lets through {s.value:.3g}" for n, s in found.selectivity.items()]
    now, apart = held(tree, routes), memory(tree, unshared(tree))
    return [*lines, f"{now:.4g} ticks of rows are held, by themselves {apart:.4g}"]


def _operator(operator: Any, statistics: Mapping[str, Mapping[str, Any]]) -> str:
    node = operator.node
    if isinstance(node, SharedSort):
        filters = {c.sql for filters in node.filters for c in filters}
        if filters:
            return f"slack buffers on {node.on} for {len(node.readers)} sorts behind {len(filters)} filter(s)"
        return f"one chain of slack buffers on {node.on} for {len(node.readers)} sorts of the same rows"
    if not isinstance(node, Aggregate):
        return f"{type(node).__name__} on {operator.on}"
    if isinstance(node, SharedPanes):
        return (
            f"one store of panes of {operator.spec.sliding.range} ticks for {len(node.readers)} aggregates "
            "over the same rows"
        )
    text = f"aggregate by {operator.spec.plan}, {_CLASSES[context_class(node.window)]}"
    if isinstance(node.window, TimeWindow) and operator.spec.plan == "panes":
        panes = Panes.of(node.window)
        text += f", {panes.per_window} panes of {panes.width} ticks per window"
    if keeps_rows(operator.spec.plan):
        sizes = sizes_of(operator.spec)
        some = f" or partials of {sizes.item:g} by group"
        text += f", rows of {sizes.row:g} bytes{some if operator.spec.plan == 'adaptive' else ''}"
    best = choice(operator, statistics)
    if best is None:
        return text
    why = f"estimated cost: panes {best.panes:.4g}, window ids {best.wids:.4g}; {best.why}"
    known = statistics.get(operator.id, {})
    if known.get("partials"):
        each = known["rows"] / known["partials"]
        counted = unit(operator.spec).plan if keeps_rows(known["plan"]) else known["plan"]
        each_of = "pane" if counted == "panes" else "window"
        why += f"; measured: {each:.3g} rows per group and {each_of}"
    if known.get("seconds") and known.get("rows"):
        why += f", {known['seconds'] / known['rows'] * 1e9:.3g} ns a row above the scan"
    if best.plan != operator.spec.plan:
        why += f"; {operator.spec.plan} as asked for, or as its state is stored"
    return f"{text} ({why})"
