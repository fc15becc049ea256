"""What batches measured of a query's operators, and the choice of window plans from it.

Statistics are sums over the batches of a checkpoint and stand in its manifests. They may choose the plan of
an aggregate when a query starts, but never change the plan of state that is stored: partial aggregates per
pane and per window are different rows, so as long as an aggregate has state its plan stays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from slackwater.engine.plan.operators.aggregate import can_adapt
from slackwater.engine.plan.plan import Operator, Plan
from slackwater.engine.plan.sources import has_patterns, reads_strictly
from slackwater.engine.store.manifest import Manifest
from slackwater.engine.store.statistics import OperatorStatistics, Statistics
from slackwater.kernels.windows.adaptive import sizes_of, unit
from slackwater.kernels.windows.partials_step import AggregateSpec
from slackwater.model.node import Aggregate
from slackwater.model.window import TimeWindow
from slackwater.semantics.adaptive import worth_it
from slackwater.semantics.cost import Measured, PlanChoice, choose_plan
from slackwater.semantics.windows import keeps_rows

FEW = 2.0
"""Most rows per partial with which rows are sent as they are: more would make the shuffle larger, whatever they save."""

SINGLE = 1.05
"""Most rows per partial with which no group is worth reducing: hardly any has two rows in a pane."""


def choice(operator: Operator, statistics: Statistics) -> PlanChoice | None:
    """What the cost model says of an aggregate over time windows, with what is known of it."""
    spec = operator.spec
    if spec is None or not isinstance(spec.window, TimeWindow):
        return None
    known = statistics.get(operator.id)
    if known is None or not known.partials:
        return choose_plan(spec.window)
    counted = counted_under(spec, known)
    measured = Measured(known.rows, known.partials, counted)
    best = choose_plan(spec.window, measured=measured)
    each = known.rows / known.partials
    if counted == "wids":
        each *= spec.window.range / spec.window.slide
    assert isinstance(operator.node, Aggregate)
    sizes = sizes_of(spec)
    if each <= FEW and can_adapt(operator.node) and worth_it(sizes, each):
        why = f"{each:.3g} rows of {sizes.row:g} bytes are smaller than a partial of {sizes.item:g}"
        return replace(best, plan="buffered" if each <= SINGLE else "adaptive", why=why)
    return best


def counted_under(spec: AggregateSpec, known: OperatorStatistics) -> str:
    """The plan whose partials were counted: aggregates that keep rows count those of panes or windows, too."""
    assert known.plan is not None
    return unit(spec).plan if keeps_rows(known.plan) else known.plan


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
        if best is not None and not fixed:
            kept = holds_state(operator.id, last) and operator.id in stored
            chosen: Any = stored[operator.id] if kept else best.plan
            if keeps_rows(chosen) and patterns:
                chosen = "panes"
            operator = replace(operator, spec=replace(operator.aggregation, plan=chosen))
        operators.append(operator)
    return replace(plan, operators=tuple(operators))
