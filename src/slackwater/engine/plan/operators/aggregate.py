"""An aggregate in the plan: its kernel gives primitives, of which the user's columns are made."""

from __future__ import annotations

from slackwater.engine.plan.operators import common
from slackwater.engine.plan.read_columns import Columns
from slackwater.engine.plan.steps import ProjectStep, Step
from slackwater.kernels.windows.by_tuple import hidden
from slackwater.kernels.windows.partials_step import AggregateSpec
from slackwater.model.node import Aggregate
from slackwater.model.schema import Field, Named, column
from slackwater.model.window import ByTuple, TimeWindow, is_all_time
from slackwater.semantics.cost import choose_plan
from slackwater.semantics.windows import besides_time, keeps_rows, plan_of

results = common.own_name


def raw_fields(node: Aggregate) -> tuple[Field, ...]:
    """Keys and windows, then primitives."""
    return (*_fixed(node), *(Field(p.column, p.type) for p in node.primitives))


def finishing(node: Aggregate) -> tuple[Step, ...]:
    """Keys and windows as they are, and the user's columns."""
    kept = (Named(f.name, column(f.name, f.type)) for f in _fixed(node))
    return (ProjectStep((*kept, *node.outputs)),)


def times(node: Aggregate) -> tuple[str, ...]:
    """The time that its windows are on."""
    return (node.window.on,)


def reads(node: Aggregate, input: int) -> Columns:
    """Times, keys, arguments of its aggregates, and what its windows read besides."""
    return columns_of(node)


def columns_of(*nodes: Aggregate) -> Columns:
    """The columns that several aggregates over the same rows read."""
    windows = [w for n in nodes for w in n.windows]
    names = [c for w in windows for c in (w.on, *besides_time(w))]
    keys = [k.expr for n in nodes for k in n.keys]
    return Columns(names, [*keys, *(a for n in nodes for p in n.primitives for a in p.args)])


def spec(
    node: Aggregate, wanted: str, *, ansi: bool, patterns: bool, strict: bool
) -> AggregateSpec:
    """What its kernel computes.

    ``wanted`` is the window plan that the user asks for. With ``patterns`` punctuation may close single groups, for which
    there must be partials of all of them. Rows that are judged ``strict``ly say which windows they may enter: a
    pane could not tell.
    """
    w = node.window
    if strict and isinstance(w, TimeWindow):
        wanted = "wids"
    if keeps_rows(wanted) and (not can_adapt(node) or patterns):
        wanted = "auto"
    if wanted == "auto" and isinstance(w, TimeWindow):
        wanted = choose_plan(w).plan
    return AggregateSpec(
        tuple(Field(k.name, k.expr.type) for k in node.keys),
        w,
        node.primitives,
        plan_of(w, wanted),  # type: ignore[arg-type]
        ansi,
        hidden(w) if isinstance(w, ByTuple) else (),
    )


def can_adapt(node: Aggregate) -> bool:
    """Whether an aggregate has groups over windows of time, each of which may be kept in its own way."""
    w = node.window
    return isinstance(w, TimeWindow) and bool(node.keys) and not is_all_time(w)


def _fixed(node: Aggregate) -> list[Field]:
    """Columns that are not the user's aggregates."""
    made = {o.name for o in node.outputs}
    return [f for f in node.schema if f.name not in made]
