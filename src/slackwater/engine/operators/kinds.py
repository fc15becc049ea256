"""What the engine asks of a kind of operator, besides its place in the plan and what it needs of rows.

One stateless `Kind` answers for all operators of a node type, or of a type of window; `registry` lists them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slackwater.engine.operators.program import GroupContext, Program
from slackwater.engine.paths.reports import OperatorReport
from slackwater.engine.plan.plan import Operator, Plan
from slackwater.engine.store.manifest import Run
from slackwater.engine.store.statistics import OperatorStatistics
from slackwater.errors import ExecutionError


@dataclass(frozen=True)
class AfterBatch:
    """An operator after a batch: the ``reports`` of all groups, the ``runs`` of its state, its statistics (``known``)."""

    operator: Operator
    reports: Sequence[OperatorReport]
    runs: Sequence[Run]
    known: OperatorStatistics


class Kind(ABC):
    """One kind of operator; only `program` must be given. The other answers are those of an operator without ledgers."""

    @abstractmethod
    def program(self, operator: Operator, context: GroupContext) -> Program:
        """How the operator runs on a group of a batch."""

    def regroup(self, ledgers: Sequence[Any], count: int) -> list[Any]:
        """The ledgers of the groups for another number of groups."""
        raise _no_ledger(self)

    def owes(self, ledger: Any) -> bool:
        """Whether a group has work left that needs no new input."""
        raise _no_ledger(self)

    def keeps_blocks(self, operator: Operator) -> bool:
        """Whether its tasks let their executor keep blocks between batches (`store.kept`)."""
        return False

    def figures(self, after: AfterBatch) -> dict[str, Any]:
        """What the progress record says of this kind alone."""
        return {}

    def described(self, operator: Operator, known: OperatorStatistics) -> str:
        """The operator in one line, for ``explain``; ``known`` is what a running query has measured of it."""
        return f"{type(operator.node).__name__} on {operator.on}"

    def details(self, plan: Plan, operator: Operator, known: OperatorStatistics) -> list[str]:
        """More lines for ``explain``."""
        return []


def added(figures: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """The sum over all groups, name by name."""
    return {name: sum(f[name] for f in figures) for name in figures[0]}


def _no_ledger(kind: Kind) -> ExecutionError:
    name = type(kind).__name__
    return ExecutionError(
        "NO_LEDGER",
        f"the manifest has a ledger of an operator whose kind ({name}) puts no work off",
        hint="report this: a kind of operator that keeps a ledger must say how it is regrouped",
        kind=name,
    )
