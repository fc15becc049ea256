"""Joins as the engine asks of them: bounded or not is a question of the program, not of the operator.

The modules of bounded joins take long to import, and few tasks need them: they are imported where they are asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from slackwater.engine.operators.join import JoinProgram
from slackwater.engine.operators.kinds import Kind, Report, measured
from slackwater.engine.operators.program import GroupContext, Program
from slackwater.engine.plan.plan import Operator
from slackwater.engine.store.manifest import Run
from slackwater.model.node import Join


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

    def figures(
        self, operator: Operator, reports: Sequence[Report], runs: Sequence[Run], known: Report
    ) -> dict[str, Any]:
        """What a bounded join did, and how a join keeps its target for recall."""
        return {**_bounded(measured(reports, "join")), **_recall(known)}


def _bounded(figures: Sequence[Report]) -> dict[str, Any]:
    """What a bounded join did, over all groups."""
    if not figures:
        return {}
    passes: dict[str, int] = {}
    for f in figures:
        for reason, count in f["passes"].items():
            passes[reason] = passes.get(reason, 0) + count
    total = {
        name: sum(sum(f[key]) if isinstance(f[key], list) else f[key] for f in figures)
        for name, key in JOIN_FIGURES.items()
    }
    sides = {
        name: [sum(f[key][side] for f in figures) for side in (0, 1)]
        for name, key in JOIN_SIDES.items()
    }
    age = max(f["owed_age"] for f in figures) // 1000
    return {"join": {**total, **sides, "owedAgeMs": age, "passes": passes}}


def _recall(known: Report) -> dict[str, Any]:
    """The slack, what is needed and expected of it, what was measured."""
    names = ("slack", "needed", "expected", "estimated")
    return {"recall": {n: known["recall"][n] for n in names}} if "recall" in known else {}


JOIN_FIGURES = {
    "owedRows": "owed_rows", "owedBytes": "owed_bytes", "delayedResults": "delayed_results",
    "overdueRows": "overdue_rows", "residentBytes": "resident_bytes", "blocks": "blocks",
    "productiveBlocks": "productive_blocks", "readBytes": "read_bytes", "reads": "reads",
    "seeks": "seeks", "writtenBytes": "written_bytes", "promoted": "promoted", "evicted": "evicted",
}  # fmt: skip
JOIN_SIDES = {"frequency": "frequency", "worth": "worth", "residentBySide": "resident_bytes"}
