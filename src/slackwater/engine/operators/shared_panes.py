"""Aggregates that share one store of panes (see `sharing`), as the group task sees them.

Input ``i`` has the bounds of reader ``i``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from slackwater.engine.operators.aggregate import owns_all, with_empty
from slackwater.engine.operators.kinds import AfterBatch, added
from slackwater.engine.operators.program import Arrival, GroupContext, Program, State, StateStep
from slackwater.engine.operators.results import present
from slackwater.engine.operators.window_kind import WindowKind
from slackwater.engine.operators.window_program import WindowProgram
from slackwater.engine.plan.plan import Operator, Plan
from slackwater.engine.store.statistics import OperatorStatistics
from slackwater.kernels.windows import partials_step as aggregate
from slackwater.kernels.windows import shared_panes
from slackwater.kernels.windows.partials_step import AggregateSpec
from slackwater.model.node import Aggregate, SharedPanes
from slackwater.model.spans import words_of
from slackwater.model.window import TimeWindow
from slackwater.semantics.panes import Panes
from slackwater.semantics.window_ids import closed_by


class SharedPanesProgram(WindowProgram):
    """A store of panes and the aggregates that read it."""

    def __init__(self, operator: Operator, context: GroupContext):
        assert isinstance(operator.node, SharedPanes)
        super().__init__(operator)
        self.owns_all = owns_all(context)
        self.readers = operator.node.readers
        self.store = shared_panes.Store(
            self.spec, tuple(_reader_spec(self.spec, node) for _, node in self.readers)
        )

    def first_needed(self, part: str, bounds: Sequence[int]) -> int:
        return shared_panes.needed(self.store, self._closed(bounds))

    def _closed(self, bounds: Sequence[int]) -> list[int]:
        pairs = zip(bounds, self.store.readers, strict=True)
        return [closed_by(bound, reader.sliding) for bound, reader in pairs]

    def step(self, inputs: Sequence[Arrival], state: State) -> StateStep:
        closed = self._closed([a.old for a in inputs])
        close_to = self._closed([a.new for a in inputs])
        fresh = aggregate.merge_partials(self.spec, [t for a in inputs for t in a.tables])
        done = shared_panes.step(
            self.store, fresh, lambda low, high: state(low, high), closed, close_to
        )
        results = {}
        for i, (name, node) in enumerate(self.readers):
            output = done.outputs[i]
            if node.emit_empty and self.owns_all:
                output = with_empty(output, self.store.readers[i], closed[i], close_to[i])
            results[name] = present(node, output)
        return StateStep([], done.keep, done.late, readers=results)


def _reader_spec(store: AggregateSpec, node: Aggregate) -> AggregateSpec:
    return AggregateSpec(store.keys, node.window, node.primitives, "panes", store.ansi)


class SharedPanesKind(WindowKind):
    """A store of panes, and the aggregates over the same rows that read it."""

    def program(self, operator: Operator, context: GroupContext) -> Program:
        return SharedPanesProgram(operator, context)

    def figures(self, after: AfterBatch) -> dict[str, Any]:
        """Results of each aggregate."""
        return {"readers": added([r.readers for r in after.reports])}

    def described(self, operator: Operator, known: OperatorStatistics) -> str:
        assert isinstance(operator.node, SharedPanes)
        width = words_of(operator.node).span(operator.aggregation.sliding.range, operator.on)
        return (
            f"one store of panes of {width} for "
            f"{len(operator.node.readers)} aggregates over the same rows"
        )

    def details(self, plan: Plan, operator: Operator, known: OperatorStatistics) -> list[str]:
        """The primitives, and how each aggregate uses the store."""
        assert isinstance(operator.node, SharedPanes)
        lines = super().details(plan, operator, known)
        for name, node in operator.node.readers:
            assert isinstance(node.window, TimeWindow)
            panes = Panes.of(node.window)
            each = panes.width // operator.aggregation.sliding.range
            lines.append(
                f"read by {name}: {panes.per_window} panes per window, each {each} of the store's"
            )
        return lines
