"""Operators that put work off: what they still owe (ledgers), and what they may promise meanwhile (holds).

A ledger is the control state of an operator's group, plain values in the manifest; its form is the operator's own
affair. A hold says how far the inputs of an operator count as arrived: rows that wait to be joined, and results that
wait to come out, hold back every bound above.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from slackwater.engine.operators.registry import kind_of
from slackwater.engine.paths.batch import Batch
from slackwater.engine.plan.plan import Plan
from slackwater.semantics.bounds import END

Ledgers = Mapping[str, Sequence[Any]]
"""By operator, one per group."""


def regrouped(plan: Plan, ledgers: Ledgers, count: int) -> dict[str, list[Any]]:
    """The ledgers for another number of groups. Operators that the query no longer has are left out."""
    moved: dict[str, list[Any]] = {}
    for operator in plan.operators:
        mine = list(ledgers.get(operator.id, ()))
        if mine and len(mine) != count:
            mine = kind_of(operator).regroup(mine, count)
        if mine:
            moved[operator.id] = mine
    return moved


def owes(plan: Plan, ledgers: Ledgers) -> bool:
    """Whether some operator has work left that needs no new input."""
    return any(
        kind_of(op).owes(ledger) for op in plan.operators for ledger in ledgers.get(op.id, ())
    )


def holds_of(
    batch: Batch, promises: Mapping[str, Sequence[Sequence[int]]]
) -> dict[str, tuple[int, ...]]:
    """What each operator may promise of its inputs: the least over its groups, and never less than before.

    A late row that is admitted may be older than what was promised; it breaks no promise, since only rows that
    were on time count.
    """
    holds = {op: tuple(h) for op, h in batch.holds.items()}
    for id, groups in promises.items():
        operator = batch.plan.operator(id)
        assert operator is not None
        least = [min(h) for h in zip(*groups, strict=True)]
        children = [batch.plan.name_of(c) for c in operator.node.children]
        before = batch.holds.get(id, [END] * len(children))
        promised = [
            min(batch.bound(child, on), hold)
            for child, on, hold in zip(children, operator.columns, before, strict=True)
        ]
        holds[id] = tuple(max(a, b) for a, b in zip(least, promised, strict=True))
    return holds
