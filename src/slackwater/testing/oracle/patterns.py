"""What punctuation excludes, by definition: may a row with these values still come out of an operator?

A question is a row of which only some columns are known; it is excluded if no row that has these values, whatever is
in its other columns, can come any more. Nothing here uses `slackwater.semantics.patterns`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from slackwater.model.node import Aggregate, Node, Source
from slackwater.model.policy import Punctuated
from slackwater.model.time import TimeColumn, parse_instant
from slackwater.semantics.limits import END, START
from slackwater.testing.oracle.columns import ungrouped
from slackwater.testing.oracle.operators.registry import OPERATORS
from slackwater.testing.oracle.progress import ArrivedRow, History, told_apart

Row = Mapping[str, Any]
Bounds = Callable[[Node, int], Mapping[str, int]]
"""Bounds of an operator after so many steps."""


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
        return OPERATORS[type(node)].excluded(node, dict(row), steps, self)

    def broken(self, source: Source, row: Row, steps: int) -> bool:
        """Whether a row breaks a pattern that the source has given."""
        stated = patterns(self.histories[source.name], steps)
        if source.partition is None:
            return any(_matches(source, p, row) for _, p in stated)
        if any(_matches(source, p, row) and names(source, p, by) for by, p in stated):
            return True
        known = source.partitions
        parts = {by for by, _ in stated} | {
            self.histories[source.name].partition(a.row)
            for a in self.histories[source.name].arrivals
            if a.step < steps
        }
        parts |= set(map(told_apart, known)) if isinstance(known, tuple) else set()
        if isinstance(known, int) and len(parts) < known:
            return False
        return bool(parts) and all(
            any(by == part and _matches(source, p, row) for by, p in stated) for part in parts
        )

    def ended(self, node: Aggregate, key: Mapping[str, Any], steps: int) -> bool:
        """Whether no row of a group can come, whatever its time."""
        return self.excluded(node.child, ungrouped(node, key), steps)


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


def _plausible(history: History, column: str, a: ArrivedRow) -> bool:
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
    if test is None or test["op"] not in ("=", "is null"):
        return False
    return told_apart(test["value"] if test["op"] == "=" else None) == partition


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


def input_row(node: Node, source: Source, row: Row) -> dict[str, Any]:
    """A row of the source as it reaches an operator's input ``node``, filters left aside."""

    def below(child: Node) -> dict[str, Any]:
        return input_row(child, source, row)

    return OPERATORS[type(node)].input_row(node, source, dict(row), below)
