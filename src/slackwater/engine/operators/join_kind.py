"""Joins as the engine asks of them: bounded or not is a question of the program, not of the operator.

The modules of bounded joins take long to import, and few tasks need them: they are imported where they are asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from slackwater.engine.operators.join import JoinProgram
from slackwater.engine.operators.kinds import AfterBatch, Kind
from slackwater.engine.operators.program import GroupContext, Program
from slackwater.engine.plan.plan import Operator
from slackwater.model.node import Join
from slackwater.semantics.join_delay import ResultDelay, delay_of
from slackwater.semantics.quality.recall_state import RecallState

if TYPE_CHECKING:
    from slackwater.kernels.joins.bounded.stats import Stats


def is_bounded(node: Join) -> bool:
    """Whether the state of a join is blocks and a ledger."""
    return node.memory is not None


class JoinKind(Kind):
    """Rows of several streams that match."""

    def program(self, operator: Operator, context: GroupContext) -> Program:
        assert isinstance(operator.node, Join)
        if not is_bounded(operator.node):
            return JoinProgram(operator, context)
        from slackwater.engine.operators.bounded_join import BoundedJoinProgram

        return BoundedJoinProgram(operator, context)

    def regroup(self, ledgers: Sequence[Any], count: int) -> list[Any]:
        from slackwater.engine.operators.bounded_join import regroup

        return regroup(ledgers, count)

    def owes(self, ledger: Any) -> bool:
        from slackwater.engine.operators.bounded_join import owes

        return owes(ledger)

    def keeps_blocks(self, operator: Operator) -> bool:
        assert isinstance(operator.node, Join)
        return is_bounded(operator.node)

    def figures(self, after: AfterBatch) -> dict[str, Any]:
        """What a bounded join did, and how a join keeps its target for recall."""
        stats = [r.figures.join for r in after.reports if r.figures.join is not None]
        return {**_bounded(stats), **_recall(after.known.recall)}


def _bounded(stats: Sequence[Stats]) -> dict[str, Any]:
    """What a bounded join did, over all groups."""
    if not stats:
        return {}
    passes: dict[str, int] = {}
    for s in stats:
        for reason, count in s.passes.items():
            passes[reason] = passes.get(reason, 0) + count
    total = {name: sum(figure(s) for s in stats) for name, figure in JOIN_FIGURES.items()}
    sides = {
        name: [sum(pair(s)[side] for s in stats) for side in (0, 1)]
        for name, pair in JOIN_SIDES.items()
    }
    age = max(s.owed_age for s in stats) // 1000
    delay = delay_of(s.delays for s in stats)
    waited = {} if delay is None else {"delayMs": _delay(delay)}
    return {"join": {**total, **sides, "owedAgeMs": age, "passes": passes, **waited}}


def _delay(delay: ResultDelay) -> dict[str, float]:
    return {"mean": round(delay.mean / 1000, 3), "p95": delay.p95 / 1000}


def _recall(known: RecallState | None) -> dict[str, Any]:
    """The slack, what is needed and expected of it, what was measured."""
    if known is None:
        return {}
    return {
        "recall": {
            "slack": known.slack,
            "needed": known.needed,
            "expected": known.expected,
            "estimated": known.estimated,
        }
    }


JOIN_FIGURES: dict[str, Callable[[Stats], int]] = {
    "owedRows": lambda s: sum(s.owed_rows),
    "owedBytes": lambda s: sum(s.owed_bytes),
    "delayedResults": lambda s: s.delayed_results,
    "overdueRows": lambda s: s.overdue_rows,
    "residentBytes": lambda s: sum(s.resident_bytes),
    "blocks": lambda s: sum(s.blocks),
    "productiveBlocks": lambda s: s.productive_blocks,
    "readBytes": lambda s: s.read_bytes,
    "passReadBytes": lambda s: s.pass_read_bytes,
    "keptBytes": lambda s: s.kept_bytes,
    "reads": lambda s: s.reads,
    "seeks": lambda s: s.seeks,
    "writtenBytes": lambda s: s.written_bytes,
    "promoted": lambda s: s.promoted,
    "evicted": lambda s: s.evicted,
}
JOIN_SIDES: dict[str, Callable[[Stats], list[int]]] = {
    "frequency": lambda s: s.frequency,
    "worth": lambda s: s.worth,
    "residentBySide": lambda s: s.resident_bytes,
}
