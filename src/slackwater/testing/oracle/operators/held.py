"""Rows that wait for a partner in a relation, by definition: what becomes of each is looked up from its first step on."""

from __future__ import annotations

from typing import Any, NamedTuple

from slackwater.model.names import MATCHED
from slackwater.model.node import Held
from slackwater.semantics.limits import END, START
from slackwater.testing.oracle.operators import common
from slackwater.testing.oracle.operators.lookup import shifts as shifts
from slackwater.testing.oracle.relations import alone, partners, shown
from slackwater.testing.oracle.run import Run
from slackwater.testing.oracle.types import Item
from slackwater.testing.oracle.windows import time_of

excluded = common.not_excluded
may_come = common.may_come_by_bounds
input_row = common.no_row


class Outcome(NamedTuple):
    """The step at which a row leaves, and as what; None as long as it waits."""

    step: int
    rows: list[dict[str, Any]]


def outcome(node: Held, run: Run, item: Item) -> Outcome | None:
    """What has become of a row that came at a step, up to this one.

    The version of its own step had no partner for it. Each later one is tried before the bound of its step counts.
    """
    for step in range(item.step, run.steps + 1):
        pairs = partners(node, run, item.row, step) if step > item.step else []
        if pairs:
            pairs = pairs[:1] if node.how == "left_semi" else pairs
            return Outcome(step, [{**shown(node, p), MATCHED: True} for p in pairs])
        bound = run.bounds[id(node.child)][step][node.on]
        if bound >= END or bound > time_of(item.row, node.on) + node.hold:
            return Outcome(step, [{**shown(node, alone(node, item.row)), MATCHED: False}])
    return None


def _came(node: Held, run: Run) -> list[Item]:
    return [i for i in run.items[id(node.child)] if node.on not in i.kept_out]


def bounds(node: Held, run: Run) -> dict[str, int]:
    (below,) = run.below(node)
    waiting = [time_of(i.row, node.on) for i in _came(node, run) if not outcome(node, run, i)]
    past = run.bounds[id(node)]
    made = {}
    for out, name in node.origins:
        if name == node.on:
            # A late row that waits breaks no promise: only those that were on time count.
            least = min([below[name], *waiting])
            made[out] = max(least, past[-1][out]) if past else least
        else:
            made[out] = below[name] if below[name] >= END else START
    return made


def items(node: Held, run: Run) -> list[Item]:
    known = [outcome(node, run, i) for i in _came(node, run)]
    return [Item(r, run.steps) for o in known if o and o.step == run.steps for r in o.rows]
