"""Time windows, by definition: a window is found by trying."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from slackwater.errors import AnalysisError
from slackwater.model.node import Aggregate
from slackwater.model.window import TimeWindow
from slackwater.semantics.limits import END, START
from slackwater.testing.oracle.columns import ungrouped
from slackwater.testing.oracle.expressions import compile_expression
from slackwater.testing.oracle.results import hashable, result
from slackwater.testing.oracle.run import Run
from slackwater.testing.oracle.types import Item, Row, Window
from slackwater.testing.oracle.window_types.came import Given
from slackwater.testing.oracle.windows import end_of, first_not_reached, time_of, windows_holding

if TYPE_CHECKING:
    from slackwater.testing.oracle.patterns import Exclusions

MOST_TICKS = 5000


def results(node: Aggregate, run: Run) -> list[Item]:
    w = node.window
    assert isinstance(w, TimeWindow)
    before, after = run.before(node.child, w.on), run.after(node.child, w.on)
    groups: dict[tuple[int, tuple[Any, ...]], list[Row]] = {}
    keys = [compile_expression(k.expr.sql) for k in node.keys]
    past = run.bounds[id(node.child)]
    for item in run.items[id(node.child)]:
        if w.on not in item.kept_out:
            # A window takes a row only while it is open, that is, not closed when the row came.
            closed = past[item.step - 1][w.on] if item.step else START
            for wid in windows_holding(time_of(item.row, w.on), w):
                if end_of(wid, w) <= closed:
                    continue
                key = (wid, tuple(hashable(k(item.row)) for k in keys))
                groups.setdefault(key, []).append(item.row)
    if node.emit_empty and not node.keys and groups:
        ids = [wid for wid, _ in groups]
        last = max(ids) if after >= END else max(max(ids), first_not_reached(after, w))
        for wid in range(min(ids), last + 1):
            groups.setdefault((wid, ()), [])
    items = []
    for (wid, key), rows in sorted(groups.items(), key=lambda g: g[0][0]):
        # Closed by this step's bound, and not by an earlier one.
        now = before < end_of(wid, w) and end_of(wid, w) <= after
        if run.exclusions.any:
            now = not _shut(run, node, wid, key, run.steps)
            now = now and _shut(run, node, wid, key, run.steps + 1)
        if now:
            extent = Window(end_of(wid, w) - w.range, end_of(wid, w))
            items.append(Item(result(node, wid, extent, key, rows), run.steps))
    return items


def bound_of_results(v: int, w: TimeWindow) -> int:
    return v if v in (START, END) else end_of(first_not_reached(v, w), w) - 1


def missed(node: Aggregate, time: int, given: Given, run: Run) -> int:
    w = node.window
    assert isinstance(w, TimeWindow)
    wids = windows_holding(time, w)
    if run.exclusions.any:
        row = given()
        key = tuple(compile_expression(k.expr.sql)(row) for k in node.keys)
        return sum(_shut(run, node, wid, key, run.steps) for wid in wids)
    bound = run.before(node.child, w.on)
    return sum(end_of(wid, w) <= bound for wid in wids)


def _shut(run: Run, node: Aggregate, wid: int, key: tuple[Any, ...], steps: int) -> bool:
    """Whether a group's window is closed after so many steps, by punctuation of any kind."""
    assert isinstance(node.window, TimeWindow)
    if not steps or node.emit_empty:
        bound = run.bounds[id(node.child)][steps - 1][node.window.on] if steps else START
        return end_of(wid, node.window) <= bound
    named = {k.name: v for k, v in zip(node.keys, key, strict=True)}
    return _closed(run.exclusions, node, named, wid, steps)


def excluded(node: Aggregate, row: Mapping[str, Any], steps: int, ask: Exclusions) -> bool:
    w = node.window
    assert isinstance(w, TimeWindow)
    if node.emit_empty:
        return False
    time = node.times[0].name
    if time not in row:
        return ask.ended(node, row, steps)
    wid, rest = divmod(row[time] + 1 - w.origin, w.slide)
    return rest != 0 or _closed(ask, node, row, wid - 1, steps)


def _closed(ask: Exclusions, node: Aggregate, key: Mapping[str, Any], wid: int, steps: int) -> bool:
    """Whether no row can enter the group's window any more; ``key`` has the keys that are known."""
    w = node.window
    assert isinstance(w, TimeWindow)
    row = ungrouped(node, key)
    end = end_of(wid, w)
    if w.range >= 1 << 61:  # all of time is one window
        return ask.excluded(node.child, row, steps)
    bound = ask.bounds(node.child, steps)[w.on] if steps else START
    if bound >= end:
        return True
    if w.range > MOST_TICKS:
        raise AnalysisError(
            "NOT_IN_ORACLE",
            f"the oracle tries every tick of a window, and {w.range} are too many",
            hint="use integer times in transcripts with patterns",
        )
    return all(ask.excluded(node.child, {**row, w.on: t}, steps) for t in range(end - w.range, end))
