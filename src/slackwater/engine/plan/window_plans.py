"""What batches measured of a query's operators, and the choice of window plans from it.

Statistics are sums over the batches of a checkpoint and stand in its manifests. They may choose the plan of
an aggregate when a query starts, but never change the plan of state that is stored: partial aggregates per
pane and per window are different rows, so as long as an aggregate has state its plan stays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from slackwater.engine.plan.operators.aggregate import can_adapt
from slackwater.engine.plan.plan import Operator, Plan
from slackwater.engine.plan.sources import has_patterns, reads_strictly
from slackwater.engine.store.manifest import Manifest, Run
from slackwater.kernels.windows.adaptive import sizes_of, unit
from slackwater.model.node import Aggregate
from slackwater.model.window import TimeWindow
from slackwater.semantics.adaptive import worth_it
from slackwater.semantics.cost import Measured, PlanChoice, choose_plan
from slackwater.semantics.windows import keeps_rows

FEW = 2.0
"""Most rows per partial with which rows are sent as they are: more would make the shuffle larger, whatever they save."""

SINGLE = 1.05
"""Most rows per partial with which no group is worth reducing: hardly any has two rows in a pane."""

Statistics = dict[str, dict[str, Any]]
"""By operator: ``rows`` that came, ``partials`` (groups of complete panes, or windows), the ``plan`` they were
counted under, the ``results`` it gave and the ``seconds`` its tasks took, and the most state it had (``peakRows``,
``peakBytes``).
"""


def gathered(
    plan: Plan,
    base: Manifest | None,
    found: Sequence[Mapping[str, Any]],
    summaries: Mapping[str, Mapping[str, Any]],
    runs: Mapping[str, list[list[Run]]],
) -> Statistics:
    """The statistics after a batch: those before it, and what its tasks report."""
    out: Statistics = {}
    for operator in plan.operators:
        state = list({r.name: r for g in runs.get(operator.id, []) for r in g}.values())
        before = base.statistics.get(operator.id, {}) if base is not None else {}
        out[operator.id] = {
            "peakRows": max(before.get("peakRows", 0), sum(r.rows for r in state)),
            "peakBytes": max(before.get("peakBytes", 0), sum(r.bytes for r in state)),
        }
        mine = [d["operators"][operator.id] for d in found if operator.id in d["operators"]]
        same = operator.spec is None or before.get("plan", operator.spec.plan) == operator.spec.plan
        for name, key in (("results", "out"), ("seconds", "seconds")):
            now = sum(s.get(key, 0) for s in mine)
            out[operator.id][name] = round((before.get(name, 0) if same else 0) + now, 6)
        if operator.spec is None or not isinstance(operator.spec.window, TimeWindow):
            continue
        partials = sum(s.get("statistics", {}).get("partials", 0) for s in mine)
        out[operator.id].update(
            plan=operator.spec.plan,
            rows=(before.get("rows", 0) if same else 0) + _rows(plan, operator, found, summaries),
            partials=(before.get("partials", 0) if same else 0) + partials,
        )
    return out


def _rows(
    plan: Plan,
    operator: Operator,
    found: Sequence[Mapping[str, Any]],
    summaries: Mapping[str, Mapping[str, Any]],
) -> int:
    """Rows of a batch that set out for an operator; filters on the way are not counted off."""
    rows = 0
    for path in plan.paths_to(operator.id):
        if path.producer in summaries:
            rows += int(summaries[path.producer].get("rows", 0))
        rows += sum(d["operators"].get(path.producer, {}).get("out", 0) for d in found)
        # Of aggregates that share their state, each is a producer, but not an operator.
        done = [state for d in found for state in d["operators"].values()]
        rows += sum(state.get("readers", {}).get(path.producer, 0) for state in done)
    return rows


def choice(operator: Operator, statistics: Mapping[str, Mapping[str, Any]]) -> PlanChoice | None:
    """What the cost model says of an aggregate over time windows, with what is known of it."""
    if operator.spec is None or not isinstance(operator.spec.window, TimeWindow):
        return None
    known = statistics.get(operator.id, {})
    if not known.get("partials"):
        return choose_plan(operator.spec.window)
    # Aggregates that keep rows count partials of panes or windows, too.
    counted = unit(operator.spec).plan if keeps_rows(known["plan"]) else known["plan"]
    measured = Measured(known["rows"], known["partials"], counted)
    best = choose_plan(operator.spec.window, measured=measured)
    each = known["rows"] / known["partials"]
    if counted == "wids":
        each *= operator.spec.window.range / operator.spec.window.slide
    assert isinstance(operator.node, Aggregate)
    sizes = sizes_of(operator.spec)
    if each <= FEW and can_adapt(operator.node) and worth_it(sizes, each):
        why = f"{each:.3g} rows of {sizes.row:g} bytes are smaller than a partial of {sizes.item:g}"
        return replace(best, plan="buffered" if each <= SINGLE else "adaptive", why=why)
    return best


def holds_state(operator: str, last: Manifest | None) -> bool:
    """Whether state of an operator is stored."""
    return last is not None and (
        any(last.runs.get(operator, [])) or bool(last.tables.get(operator))
    )


def settled(plan: Plan, wanted: str, stored: Mapping[str, str], last: Manifest | None) -> Plan:
    """The plan with which a query starts.

    ``wanted`` is the option ``windowPlan``; ``stored`` the window plans of the checkpoint. With ``"auto"`` an
    aggregate that has state keeps its plan, any other gets the one that the cost model prefers.
    """
    if wanted != "auto":
        return plan
    operators = []
    patterns = has_patterns(plan.sources)
    for operator in plan.operators:
        best = choice(operator, {} if last is None else last.statistics)
        fixed = reads_strictly(plan, operator)
        if best is not None and operator.spec is not None and not fixed:
            kept = holds_state(operator.id, last) and operator.id in stored
            chosen: Any = stored[operator.id] if kept else best.plan
            if keeps_rows(chosen) and patterns:
                chosen = "panes"
            operator = replace(operator, spec=replace(operator.spec, plan=chosen))
        operators.append(operator)
    return replace(plan, operators=tuple(operators))
