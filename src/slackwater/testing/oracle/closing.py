"""Windows that a step completes, by definition: what the oracle says of aggregates."""

from __future__ import annotations

from typing import Any

from slackwater.model.node import Aggregate
from slackwater.model.window import RowWindow, TimeWindow
from slackwater.semantics.limits import END, START
from slackwater.testing.oracle.aggregates import aggregate
from slackwater.testing.oracle.expressions import compile_expression
from slackwater.testing.oracle.joint import closed_boxes
from slackwater.testing.oracle.late import LateRules
from slackwater.testing.oracle.types import Item, Row, Window
from slackwater.testing.oracle.window_types import Came, completed
from slackwater.testing.oracle.windows import end_of, first_not_reached, time_of, windows_holding


class Closing(LateRules):
    """The part of the oracle that closes windows; the rest of it holds what this needs."""

    _items: dict[int, list[Item]]

    def _completed(self, node: Aggregate) -> list[Item]:
        """Results of the types of windows that have definitions of their own."""
        w, child = node.window, node.child
        keys = [compile_expression(k.expr.sql) for k in node.keys]
        bounds = [b[w.on] for b in self._bounds[id(child)]]
        came = [
            Came(
                i.row,
                time_of(i.row, w.on),
                tuple(hashable(k(i.row)) for k in keys),
                i.step,
                bounds[i.step - 1] if i.step else START,
            )
            for i in self._items[id(child)]
            if w.on not in i.kept_out
        ]
        names = [k.name for k in node.keys]
        found = []
        for group, ended in self._ended_groups(node, came):
            # For a group that punctuation has ended, the stream has.
            own = [END if e else b for e, b in zip(ended, bounds, strict=True)]
            open_ones = [c for c in group if not (c.step and ended[c.step - 1])]
            found += completed(w, open_ones, own, names)
        return [Item(self._result(node, f.wid, f.extent, f.key, f.rows), self.steps) for f in found]

    def _ended_groups(
        self, node: Aggregate, came: list[Came]
    ) -> list[tuple[list[Came], list[bool]]]:
        """Rows that are in windows together, and after which steps punctuation had ended them."""
        steps = range(1, self.steps + 2)
        if not self._exclusions.any:
            return [(came, [False for _ in steps])]
        per = node.window.per if isinstance(node.window, RowWindow) else None
        groups: dict[tuple[Any, ...], list[Came]] = {}
        for c in came:
            named = zip(node.keys, c.key, strict=True)
            part = tuple((k.name, v) for k, v in named if per is None or k.name in per)
            groups.setdefault(part, []).append(c)
        return [
            (rows, [self._exclusions.ended(node, dict(part), n) for n in steps])
            for part, rows in groups.items()
        ]

    def _closed_windows(self, node: Aggregate) -> list[Item]:
        w = node.window
        assert isinstance(w, TimeWindow)
        before, after = self._before(node.child, w.on), self._bounds[id(node.child)][-1][w.on]
        groups: dict[tuple[int, tuple[Any, ...]], list[Row]] = {}
        keys = [compile_expression(k.expr.sql) for k in node.keys]
        past = self._bounds[id(node.child)]
        for item in self._items[id(node.child)]:
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
            if self._exclusions.any:
                now = not self._shut(node, wid, key, self.steps)
                now = now and self._shut(node, wid, key, self.steps + 1)
            if now:
                extent = Window(end_of(wid, w) - w.range, end_of(wid, w))
                items.append(Item(self._result(node, wid, extent, key, rows), self.steps))
        return items

    def _closed_boxes(self, node: Aggregate) -> list[Item]:
        """Combinations of one window of each time that no later row can be in."""
        found = []
        items = self._items[id(node.child)]
        for box in closed_boxes(node, items, self.steps, lambda n: self._bounds[id(n)]):
            row = self._result(node, None, Window(0, 0), box.key, box.rows)
            del row["window"]
            found.append(Item(row | box.windows, self.steps))
        return found

    def _result(
        self,
        node: Aggregate,
        wid: int | None,
        extent: Window,
        key: tuple[Any, ...],
        rows: list[Row],
    ) -> Row:
        row: Row = {k.name: v for k, v in zip(node.keys, key, strict=True)}
        values = {**row, **{p.column: aggregate(p, rows) for p in node.primitives}}
        if wid is not None:
            row["wid"] = wid
        row["window"] = extent
        for out in node.outputs:
            row[out.name] = compile_expression(out.expr.sql)(values)
        return row


def hashable(value: Any) -> Any:
    """A value that may be part of a key."""
    return tuple(value) if isinstance(value, list) else value
