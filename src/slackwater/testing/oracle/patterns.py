"""What punctuation excludes, by definition: may a row with these values still come out of an operator?

A question is a row of which only some columns are known; it is excluded if no row that has these values, whatever is
in its other columns, can come any more. Nothing here uses `slackwater.semantics.patterns`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from slackwater.errors import AnalysisError
from slackwater.model.node import Aggregate, Dedup, Filter, Node, Project, Source, Union
from slackwater.model.policy import Punctuated
from slackwater.model.schema import Expr
from slackwater.model.time import TimeColumn, parse_instant
from slackwater.model.window import RowWindow, TimeWindow
from slackwater.semantics.limits import END, START
from slackwater.testing.oracle.expressions import compile_expression
from slackwater.testing.oracle.progress import Arrival, History
from slackwater.testing.oracle.windows import end_of

Row = Mapping[str, Any]
Bounds = Callable[[Node, int], Mapping[str, int]]
"""Bounds of an operator after so many steps."""

MOST_TICKS = 5000
_NAME = re.compile(r"`(.+)`|(\w+)")


class Exclusions:
    """Answers for one query; ``steps`` is always how many steps are over."""

    def __init__(self, histories: Mapping[str, History], bounds: Bounds):
        self.histories = histories
        self.bounds = bounds
        self.any = any(pattern_columns(h.source) for h in histories.values())

    def excluded(self, node: Node, row: Row, steps: int) -> bool:
        """Whether no later row of ``node`` has these values."""
        bounds = self.bounds(node, steps) if steps else {}
        if any(t.name in row and row[t.name] < bounds.get(t.name, START) for t in node.times):
            return True
        if node.times and bounds and all(v >= END for v in bounds.values()):
            return True
        if isinstance(node, Source):
            return self.broken(node, row, steps)
        if isinstance(node, Filter | Dedup):
            return self.excluded(node.child, row, steps)
        if isinstance(node, Project):
            return self.excluded(node.child, _unprojected(node, row), steps)
        if isinstance(node, Union):
            return all(self.excluded(c, _renamed(node, c, row), steps) for c in node.inputs)
        if isinstance(node, Aggregate) and isinstance(node.window, TimeWindow):
            return not node.emit_empty and self._result(node, row, steps)
        if isinstance(node, Aggregate):
            per = node.window.per if isinstance(node.window, RowWindow) else None
            known = {c: v for c, v in row.items() if per is None or c in per}
            return self.ended(node, known, steps)
        return False

    def broken(self, source: Source, row: Row, steps: int) -> bool:
        """Whether a row breaks a pattern that the source has given."""
        said = patterns(self.histories[source.name], steps)
        if source.partition is None:
            return any(_matches(source, p, row) for _, p in said)
        if any(_matches(source, p, row) and names(source, p, by) for by, p in said):
            return True
        known = source.partitions
        parts = {by for by, _ in said} | {
            self.histories[source.name].partition(a.row)
            for a in self.histories[source.name].arrivals
            if a.step < steps
        }
        parts |= set(known) if isinstance(known, tuple) else set()
        if isinstance(known, int) and len(parts) < known:
            return False
        return bool(parts) and all(
            any(by == part and _matches(source, p, row) for by, p in said) for part in parts
        )

    def closed(self, node: Aggregate, key: Mapping[str, Any], wid: int, steps: int) -> bool:
        """Whether no row can enter the group's window any more; ``key`` has the keys that are known."""
        w = node.window
        assert isinstance(w, TimeWindow)
        names = [(_plain(k.expr), k.name) for k in node.keys]
        row = {old: key[new] for old, new in names if old is not None and new in key}
        end = end_of(wid, w)
        if w.range >= 1 << 61:  # all of time is one window
            return self.excluded(node.child, row, steps)
        bound = self.bounds(node.child, steps)[w.on] if steps else START
        if bound >= end:
            return True
        if w.range > MOST_TICKS:
            raise AnalysisError(
                "NOT_IN_ORACLE",
                f"the oracle tries every tick of a window, and {w.range} are too many",
                hint="use integer times in transcripts with patterns",
            )
        return all(
            self.excluded(node.child, {**row, w.on: t}, steps) for t in range(end - w.range, end)
        )

    def ended(self, node: Aggregate, key: Mapping[str, Any], steps: int) -> bool:
        """Whether no row of a group can come, whatever its time."""
        names = [(_plain(k.expr), k.name) for k in node.keys]
        row = {old: key[new] for old, new in names if old is not None and new in key}
        return self.excluded(node.child, row, steps)

    def _result(self, node: Aggregate, row: Row, steps: int) -> bool:
        w = node.window
        assert isinstance(w, TimeWindow)
        time = node.times[0].name
        if time not in row:
            names = [(_plain(k.expr), k.name) for k in node.keys]
            known = {old: row[new] for old, new in names if old is not None and new in row}
            return self.excluded(node.child, known, steps)
        wid, rest = divmod(row[time] + 1 - w.origin, w.slide)
        return rest != 0 or self.closed(node, row, wid - 1, steps)


def pattern_columns(source: Source) -> list[str]:
    """Columns of a source that hold patterns."""
    found = []
    for policy in source.policies:
        field = source.field(policy.column) if isinstance(policy, Punctuated) else None
        if field is not None and field.type.startswith("map<"):
            found.append(field.name)
    return list(dict.fromkeys(found))


def patterns(history: History, steps: int) -> list[tuple[str, Row]]:
    """All patterns given within so many steps, with the partition that gave them."""
    columns = pattern_columns(history.source)
    return [
        (history.partition(a.row), a.row[c])
        for a in history.arrivals
        if a.step < steps
        for c in columns
        if a.row.get(c) is not None and _plausible(history, c, a)
    ]


def _plausible(history: History, column: str, a: Arrival) -> bool:
    for time, policy in zip(history.source.times, history.source.policies, strict=True):
        if isinstance(policy, Punctuated) and policy.column == column:
            limit = history.limit(time, policy, a.step)
            test = a.row[column].get(time.name)
            if test is not None and test["op"] in ("<", "<=") and limit is not None:
                more = test["op"] == "<="
                if _value(test["value"], history.source, time.name) + more > limit:
                    return False
    return True


def limits(history: History, row: Row, column: str, steps: int) -> list[int]:
    """Ends of "``column`` below v" in the patterns that a row breaks."""
    source = history.source
    found = []
    for by, p in patterns(history, steps):
        test = p.get(column)
        own = source.partition is None or names(source, p, by)
        if own and _matches(source, p, row) and test is not None and test["op"] in ("<", "<="):
            found.append(_value(test["value"], source, column) + (test["op"] == "<="))
    return found


def linear(source: Source, time: TimeColumn, pattern: Row) -> int | None:
    """The bound that a pattern is: a test of the time alone."""
    tests = {c: t for c, t in pattern.items() if t["op"] != "*"}
    if set(tests) != {time.name} or tests[time.name]["op"] not in ("<", "<="):
        return None
    test = tests[time.name]
    value: int = _value(test["value"], source, time.name)
    return value + 1 if test["op"] == "<=" else value


def names(source: Source, pattern: Row, partition: str) -> bool:
    """Whether a pattern names the partition that gave it."""
    test = pattern.get(source.partition or "")
    return test is not None and test["op"] == "=" and str(test["value"]) == partition


def _matches(source: Source, pattern: Row, row: Row) -> bool:
    return all(
        t["op"] == "*" or (c in row and _passes(t["op"], t["value"], row[c], source, c))
        for c, t in pattern.items()
    )


def _passes(op: str, text: Any, cell: Any, source: Source, column: str) -> bool:
    if op == "in":
        return cell in [None if v is None else _value(v, source, column) for v in json.loads(text)]
    if cell is None or op == "is null":
        return cell is None and op == "is null"
    if op == "range":
        low, high = (None if v is None else _value(v, source, column) for v in json.loads(text))
        return (low is None or low <= cell) and (high is None or cell < high)
    value = _value(text, source, column)
    answers = {
        "=": cell == value, "<": cell < value, "<=": cell <= value, ">": cell > value,
        ">=": cell >= value,
    }  # fmt: skip
    return bool(answers[op])


def _value(text: Any, source: Source, column: str) -> Any:
    """A test's value as rows hold it."""
    field = source.field(column)
    assert field is not None
    if field.type == "bigint":
        return int(text)
    if field.type in ("timestamp", "timestamp_ntz"):
        time = TimeColumn("", field.type, 1)  # type: ignore[arg-type]
        return parse_instant(str(text), time, source.zone, what="value")
    return str(text)


def _plain(expr: Expr) -> str | None:
    m = _NAME.fullmatch(expr.sql.strip())
    return None if m is None else m[1] or m[2]


def _unprojected(node: Project, row: Row) -> dict[str, Any]:
    """The same row before a projection, as far as it is known."""
    found = {}
    for c in node.columns:
        name = _plain(c.expr)
        if c.name in row and name is not None:
            found[name] = row[c.name]
    for out, name, ticks in node.origins:
        if out in row:
            found[name] = row[out] - ticks
    return found


def input_row(node: Node, source: Source, row: Row) -> dict[str, Any]:
    """A row of the source as it reaches an operator's input ``node``, filters left aside."""
    if isinstance(node, Source):
        return dict(row) if node.name == source.name else {}
    if isinstance(node, Project):
        below = input_row(node.child, source, row)
        return {c.name: compile_expression(c.expr.sql)(below) for c in node.columns if below}
    if isinstance(node, Union):
        for child in node.inputs:
            below = input_row(child, source, row)
            if below:
                pairs = zip(node.schema, child.schema, strict=True)
                return {common.name: below.get(mine.name) for common, mine in pairs}
        return {}
    return input_row(node.children[0], source, row)


def _renamed(node: Union, child: Node, row: Row) -> dict[str, Any]:
    pairs = zip(node.schema, child.schema, strict=True)
    return {mine.name: row[common.name] for common, mine in pairs if common.name in row}
