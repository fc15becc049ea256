"""Aggregates over windows of time: by panes or window ids, by group as rows or partials, at once or spread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from slackwater.engine.operators import smoothing
from slackwater.engine.operators.adaptive import AdaptiveProgram
from slackwater.engine.operators.aggregate import AggregateProgram
from slackwater.engine.operators.groupwise import ClosingAggregate
from slackwater.engine.operators.kinds import AfterBatch, added
from slackwater.engine.operators.program import GroupContext, Program
from slackwater.engine.operators.smoothing import SmoothProgram, is_smooth
from slackwater.engine.operators.window_kind import WindowKind
from slackwater.engine.plan.plan import Operator
from slackwater.engine.store.statistics import OperatorStatistics
from slackwater.errors import ExecutionError
from slackwater.kernels.windows.adaptive import sizes_of
from slackwater.model.codec import from_json, to_json
from slackwater.model.spans import words_of
from slackwater.model.window import TimeWindow
from slackwater.semantics.panes import Panes
from slackwater.semantics.pattern_rules import closable
from slackwater.semantics.windows import keeps_rows


class TimeKind(WindowKind):
    """Windows of time; the window plan of the operator says in which way."""

    def program(self, operator: Operator, context: GroupContext) -> Program:
        program = self._plain(operator, context)
        if not context.has_patterns or not closable(operator.node):
            return program
        if not isinstance(program, AggregateProgram):
            raise ExecutionError(
                "NOT_GROUPWISE",
                f"{type(program).__name__} cannot close single groups, but there is punctuation that does",
                hint='set the option windowPlan to "panes" or "wids"',
            )
        return ClosingAggregate(program)

    def _plain(self, operator: Operator, context: GroupContext) -> Program:
        if keeps_rows(operator.aggregation.plan):
            return AdaptiveProgram(operator)
        if is_smooth(context.batch, operator):
            return SmoothProgram(operator, context)
        return AggregateProgram(operator, context)

    def regroup(self, ledgers: Sequence[Any], count: int) -> list[Any]:
        known = [from_json(smoothing.Ledger, ledger) for ledger in ledgers]
        return [to_json(ledger) for ledger in smoothing.regroup(known, count)]

    def owes(self, ledger: Any) -> bool:
        return smoothing.owes(from_json(smoothing.Ledger, ledger))

    def figures(self, after: AfterBatch) -> dict[str, Any]:
        """Groups that are kept in each way, partials that wait, and what the low-level tables did."""
        figures = [r.figures for r in after.reports]
        groups = [f.groups for f in figures if f.groups is not None]
        held = [f.held for f in figures if f.held is not None]
        low = [asdict(f.low) for f in figures if f.low is not None]
        return {
            **({"groups": added(groups)} if groups else {}),
            **({"held": sum(held)} if held else {}),
            **({"lowTable": added(low)} if low else {}),
        }

    def described(self, operator: Operator, known: OperatorStatistics) -> str:
        spec = operator.aggregation
        assert isinstance(spec.window, TimeWindow)
        text = super().described(operator, known)
        if spec.plan == "panes":
            panes = Panes.of(spec.window)
            width = words_of(operator.node).span(panes.width, spec.window.on)
            text += f", {panes.per_window} panes of {width} per window"
        if keeps_rows(spec.plan):
            sizes = sizes_of(spec)
            some = f" or partials of {sizes.item:g} by group"
            text += f", rows of {sizes.row:g} bytes{some if spec.plan == 'adaptive' else ''}"
        return f"{text} ({_why(operator, known)})"


def _why(operator: Operator, known: OperatorStatistics) -> str:
    """What the cost model says of a window plan, from what was measured."""
    # Only the driver asks: tasks need not import it.
    from slackwater.engine.plan.window_plans import choice, counted_under

    best = choice(operator, {operator.id: known})
    assert best is not None
    why = f"estimated cost: panes {best.panes:.4g}, window ids {best.wids:.4g}; {best.why}"
    if known.partials:
        each = known.rows / known.partials
        each_of = "pane" if counted_under(operator.aggregation, known) == "panes" else "window"
        why += f"; measured: {each:.3g} rows per group and {each_of}"
    if known.seconds and known.rows:
        why += f", {known.seconds / known.rows * 1e9:.3g} ns a row above the scan"
    if best.plan != operator.aggregation.plan:
        why += f"; {operator.aggregation.plan} as asked for, or as its state is stored"
    return why
