"""Windows by tuple, by definition."""

from __future__ import annotations

from typing import Any

from slackwater.model.node import Aggregate
from slackwater.model.window import ByTuple
from slackwater.semantics.limits import END, START
from slackwater.testing.oracle.run import Run
from slackwater.testing.oracle.types import Item
from slackwater.testing.oracle.types import Window as Extent
from slackwater.testing.oracle.window_types.came import (
    Came,
    Completing,
    Given,
    by_group,
    completed_results,
    excluded_group,
    in_order,
)

excluded = excluded_group


def results(node: Aggregate, run: Run) -> list[Item]:
    return completed_results(node, run, completed)


def _of_group(
    w: ByTuple, key: tuple[Any, ...], mine: list[Came], before: int, after: int
) -> list[Completing]:
    if w.over == "arrival":
        arrived = in_order(mine, w.order)
        chosen = {
            c.time for i, c in enumerate(arrived, 1) if i % w.every == 0 and c.time >= c.bound
        }
    else:
        chosen = set()
        for t in {c.time for c in mine}:
            below = sum(c.time < t for c in mine)
            here = sum(c.time == t for c in mine)
            if any(rank % w.every == 0 for rank in range(below + 1, below + here + 1)):
                chosen.add(t)
    found = []
    for t in sorted(chosen):
        if before <= t < after:
            rows = [c.row for c in mine if t - w.range < c.time <= t and t >= c.bound]
            found.append(Completing(t, Extent(t - w.range, t), key, rows))
    return found


completed = by_group(_of_group)


def bound_of_results(v: int, w: ByTuple) -> int:
    return v if v <= START or v >= END else v - 1


def missed(node: Aggregate, time: int, given: Given, run: Run) -> int:
    w = node.window
    assert isinstance(w, ByTuple)
    bound = run.before(node.child, w.on)
    return int(time < bound)
