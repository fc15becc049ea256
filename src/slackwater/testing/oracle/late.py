"""Late rows, by definition: what the oracle says of rows that break a bound or a pattern."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from slackwater.errors import LateRowError
from slackwater.model.node import Aggregate, Node, Source
from slackwater.model.window import TimeWindow
from slackwater.semantics.limits import START
from slackwater.testing.oracle.expressions import compile_expression
from slackwater.testing.oracle.local import shown_at
from slackwater.testing.oracle.patterns import Exclusions, input_row, limits
from slackwater.testing.oracle.progress import History
from slackwater.testing.oracle.types import Row
from slackwater.testing.oracle.window_types import closed_to
from slackwater.testing.oracle.windows import end_of, shifts, windows_holding


class LateRules:
    """The part of the oracle that judges rows; the rest of it holds what this needs."""

    nodes: list[Node]
    steps: int
    _sources: dict[str, History]
    _bounds: dict[int, list[dict[str, int]]]
    _exclusions: Exclusions
    _late_rows: dict[str, list[Row]]
    _late: dict[str, dict[str, int]]

    def _before(self, node: Node, column: str) -> int:
        """The bound in force when this step began."""
        past = self._bounds[id(node)][: self.steps]
        return past[-1][column] if past else START

    def _check_raise(
        self, rows: Mapping[str, Sequence[Mapping[str, Any]]], now: int | None
    ) -> None:
        for name, history in self._sources.items():
            if history.source.late != "raise":
                continue
            for row in rows.get(name, ()):
                if history.is_punctuation(row):
                    continue
                for time in history.source.times:
                    value, b = row.get(time.name), self._source_bound(history.source, time.name)
                    broken = self._exclusions.broken(history.source, row, self.steps)
                    if value is not None and (value < b or broken):
                        raise LateRowError(
                            "LATE_ROW",
                            f"stream '{name}': late on '{time.name}': {dict(row)}",
                            row=dict(row),
                        )

    def _source_bound(self, source: Source, column: str) -> int:
        node = next(n for n in self.nodes if isinstance(n, Source) and n.name == source.name)
        return self._before(node, column)

    def _judge(self, name: str, history: History) -> None:
        """Tell the rows of this step that are late, future or without a time, column by column."""
        source = history.source
        counts = {t.name: 0 for t in source.times}
        self._late_rows[name] = []
        for a in history.arrivals:
            if a.step != self.steps or a.punctuation:
                continue
            reasons = self._reasons(history, a.row)
            for column, (why, _) in reasons.items():
                counts[column] += why == "late"
            if reasons:
                column, (why, by) = next(iter(reasons.items()))
                b = self._source_bound(source, column)
                if why == "late":
                    b = START if by is None else a.row[column] + by
                time = next(t for t in source.times if t.name == column)
                if b > START and time.is_local:
                    b = shown_at(b, source.zone)
                self._late_rows[name].append(
                    {
                        **a.row,
                        "_late_reason": why,
                        "_late_by": by,
                        "_late_bound": None if b <= START else b,
                        "_late_windows": self._missed(source, column, a.row),
                    }
                )
        self._late[name] = counts

    def _reasons(
        self, history: History, row: Mapping[str, Any]
    ) -> dict[str, tuple[str, int | None]]:
        """Why a row of this step is a late row, and by how much; by column, in their order."""
        found: dict[str, tuple[str, int | None]] = {}
        for time, policy in zip(history.source.times, history.source.policies, strict=True):
            value = row.get(time.name)
            limit = history.limit(time, policy, self.steps)
            b = self._source_bound(history.source, time.name)
            if value is None:
                found[time.name] = ("null_time", None)
            elif policy.future == "side" and limit is not None and value > limit:
                found[time.name] = ("future", value - limit)
            else:
                ends = [b] if value < b else []
                broken = self._exclusions.broken(history.source, row, self.steps)
                if broken:
                    ends += limits(history, row, time.name, self.steps)
                if ends or broken:
                    found[time.name] = ("late", max(ends) - value if ends else None)
        return found

    def _missed(self, source: Source, column: str, row: Mapping[str, Any]) -> int:
        """How many windows of the aggregates that read the column directly were closed to the row.

        A window is closed by the bound of the aggregate's input, which behind a union is the least of
        several.
        """
        missed, value = 0, row.get(column)
        for node in self.nodes:
            if value is None or not isinstance(node, Aggregate):
                continue
            w, b = node.window, self._before(node.child, node.window.on)
            for moved in set(shifts(node.child, w.on, source.name, column)):
                if not isinstance(w, TimeWindow):
                    missed += closed_to(value + moved, b, w)
                    continue
                wids = windows_holding(value + moved, w)
                if self._exclusions.any:
                    given = input_row(node.child, source, row)
                    key = tuple(compile_expression(k.expr.sql)(given) for k in node.keys)
                    missed += sum(self._shut(node, wid, key, self.steps) for wid in wids)
                else:
                    missed += sum(end_of(wid, w) <= b for wid in wids)
        return missed

    def _shut(self, node: Aggregate, wid: int, key: tuple[Any, ...], steps: int) -> bool:
        """Whether a group's window is closed after so many steps, by punctuation of any kind."""
        assert isinstance(node.window, TimeWindow)
        if not steps or node.emit_empty:
            bound = self._bounds[id(node.child)][steps - 1][node.window.on] if steps else START
            return end_of(wid, node.window) <= bound
        named = {k.name: v for k, v in zip(node.keys, key, strict=True)}
        return self._exclusions.closed(node, named, wid, steps)
