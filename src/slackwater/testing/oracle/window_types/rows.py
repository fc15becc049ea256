"""Row windows, by definition: rows are counted as they came."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from slackwater.model.node import Aggregate
from slackwater.model.window import RowWindow, TimeWindow
from slackwater.semantics.limits import END, START
from slackwater.testing.oracle.run import Run
from slackwater.testing.oracle.types import Item, Row
from slackwater.testing.oracle.types import Window as Extent
from slackwater.testing.oracle.window_types.came import (
    Came,
    Completing,
    Given,
    completed_results,
    in_order,
)
from slackwater.testing.oracle.windows import end_of, windows_holding

if TYPE_CHECKING:
    from slackwater.testing.oracle.patterns import Exclusions


def results(node: Aggregate, run: Run) -> list[Item]:
    assert isinstance(node.window, RowWindow)
    return completed_results(node, run, completed, node.window.per)


def completed(
    w: RowWindow, came: Sequence[Came], bounds: Sequence[int], key_names: Sequence[str]
) -> list[Completing]:
    before, after = ([START, *bounds])[-2:]
    step, ending = len(bounds) - 1, after >= END > before
    counted = TimeWindow(w.range, w.slide, 0, "")
    places = [list(key_names).index(p) for p in w.per]
    parts: dict[tuple[Any, ...], list[Came]] = {}
    for c in came:
        parts.setdefault(tuple(c.key[i] for i in places), []).append(c)
    found = []
    for mine in parts.values():
        groups: dict[tuple[int, tuple[Any, ...]], list[Row]] = {}
        for number, c in enumerate(in_order(mine, w.order)):
            if w.passing is None or c.row[w.passing]:
                for wid in windows_holding(number, counted):
                    groups.setdefault((wid, c.key), []).append(c.row)
        total, earlier = len(mine), sum(c.step < step for c in mine)
        for (wid, key), rows in groups.items():
            end = end_of(wid, counted)
            if earlier < end and (end <= total or ending):
                found.append(Completing(wid, Extent(end - w.range, end), key, rows))
    return found


def excluded(node: Aggregate, row: Row, steps: int, ask: Exclusions) -> bool:
    assert isinstance(node.window, RowWindow)
    # Of another key, rows are counted for all of its values together.
    known = {c: v for c, v in row.items() if c in node.window.per}
    return ask.ended(node, known, steps)


def bound_of_results(v: int, w: RowWindow) -> int:
    return v if v <= START or v >= END else START


def missed(node: Aggregate, time: int, given: Given, run: Run) -> int:
    return 0
