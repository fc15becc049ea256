"""Aggregates, by definition: what they say is for their windows to say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slackwater.model.node import Aggregate
from slackwater.model.window import TimeWindow
from slackwater.semantics.limits import END
from slackwater.testing.oracle.operators import common
from slackwater.testing.oracle.operators.common import Coming
from slackwater.testing.oracle.run import Limits, Run
from slackwater.testing.oracle.types import Item, Row
from slackwater.testing.oracle.window_types.registry import WINDOWS
from slackwater.testing.oracle.windows import end_of

if TYPE_CHECKING:
    from slackwater.testing.oracle.patterns import Exclusions

shifts = common.no_shifts
input_row = common.no_row


def bounds(node: Aggregate, run: Run) -> dict[str, int]:
    (below,) = run.below(node)
    pairs = zip(node.times, node.windows, strict=True)
    return {t.name: WINDOWS[type(w)].bound_of_results(below[w.on], w) for t, w in pairs}


def items(node: Aggregate, run: Run) -> list[Item]:
    return WINDOWS[type(node.window)].results(node, run)


def excluded(node: Aggregate, row: Row, steps: int, ask: Exclusions) -> bool:
    return WINDOWS[type(node.window)].excluded(node, row, steps, ask)


def may_come(node: Aggregate, limits: Limits, ask: Coming) -> bool:
    # Its results that are below the limits: those of the last windows that are come last.
    rows: dict[str, int] = {}
    for time, w in zip(node.times, node.windows, strict=True):
        if time.name in limits:
            assert isinstance(w, TimeWindow)
            wid = (limits[time.name] - w.origin) // w.slide + 1
            while end_of(wid, w) - 1 >= limits[time.name]:
                wid -= 1
            rows[w.on] = min(rows.get(w.on, END), end_of(wid, w))
    return ask.below(node.child, rows)
