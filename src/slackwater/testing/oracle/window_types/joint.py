"""Groups on the windows of several times, by definition.

A box, one window of each time, is closed when no later row can have all of its times below the ends of the box's
windows.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any, NoReturn

from slackwater.errors import AnalysisError
from slackwater.model.node import Aggregate
from slackwater.model.window import JointWindow
from slackwater.semantics.limits import END, START
from slackwater.testing.oracle.expressions import compile_expression
from slackwater.testing.oracle.results import result
from slackwater.testing.oracle.run import Run
from slackwater.testing.oracle.types import Item, Row, Window
from slackwater.testing.oracle.window_types.came import Given, excluded_group
from slackwater.testing.oracle.windows import end_of, time_of, windows_holding

excluded = excluded_group


def results(node: Aggregate, run: Run) -> list[Item]:
    """Combinations of one window of each time that no later row can be in."""
    found = []
    for box in _closed_boxes(node, run):
        row = result(node, None, Window(0, 0), box.key, box.rows)
        del row["window"]
        found.append(Item(row | box.windows, run.steps))
    return found


@dataclass(frozen=True)
class Box:
    """A group on the windows of several times, with its rows."""

    windows: dict[str, Window]
    key: tuple[Any, ...]
    rows: list[Row]


def _closed_boxes(node: Aggregate, run: Run) -> list[Box]:
    """The boxes that this step closes. Each row enters the boxes that were open when it came."""
    assert isinstance(node.window, JointWindow)
    windows, step = node.window.windows, run.steps
    keys = [compile_expression(k.expr.sql) for k in node.keys]

    def closed(box: tuple[int, ...], steps: int) -> bool:
        """Whether a box was closed after so many steps."""
        asked = id(node), box, steps
        if asked not in run.closed:
            run.closed[asked] = _is_closed(box, steps)
        return run.closed[asked]

    def _is_closed(box: tuple[int, ...], steps: int) -> bool:
        limits: dict[str, int] = {}
        for w, wid in zip(windows, box, strict=True):
            limits[w.on] = min(limits.get(w.on, END), end_of(wid, w))
        return not run.may_come(
            node.child, limits, lambda n, c: run.bounds[id(n)][steps - 1][c] if steps else START
        )

    groups: dict[tuple[Any, ...], list[Row]] = {}
    for item in run.items[id(node.child)]:
        held = [windows_holding(time_of(item.row, w.on), w) for w in windows]
        for box in product(*held):
            if not closed(box, item.step):
                groups.setdefault((box, tuple(k(item.row) for k in keys)), []).append(item.row)
    return [
        Box(
            {
                t.name: Window(end_of(wid, w) - w.range, end_of(wid, w))
                for t, w, wid in zip(node.times, windows, box, strict=True)
            },
            key,
            rows,
        )
        for (box, key), rows in groups.items()
        if closed(box, step + 1) and not closed(box, step)
    ]


def bound_of_results(v: int, w: JointWindow) -> NoReturn:
    raise AnalysisError("NOT_IN_ORACLE", "each time has its window", hint="ask Aggregate.windows")


def missed(node: Aggregate, time: int, given: Given, run: Run) -> int:
    return 0
