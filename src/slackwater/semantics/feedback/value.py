"""Feedback as a value: an intent, and records of the rows that it is about. It never travels with the data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from slackwater.errors import AnalysisError
from slackwater.semantics.feedback.columns import Column
from slackwater.semantics.patterns import Pattern, Patterns, Test, Value, merged

Intent = Literal["assumed"]
"""Assumed: the consumer will ignore these rows, so nobody needs to make them."""

MOST_RECORDS = 64
ANY = Test(((None, None),), True)
"""The test that every value passes, and null."""


@dataclass(frozen=True)
class Feedback:
    """What a consumer says of an output's rows: those that match one of the records.

    A record is a conjunction of tests, each on one column. ``columns`` are those that are tested.
    """

    records: Patterns
    columns: tuple[Column, ...]
    intent: Intent = "assumed"

    @classmethod
    def of(cls, records: Iterable[Pattern], columns: Iterable[Column]) -> Feedback:
        """Feedback of these records, which may overlap or match nothing; of ``columns`` only what is tested is kept."""
        kept = simplified(records)
        if any(not r.tests for r in kept):
            raise AnalysisError(
                "BAD_FEEDBACK",
                "feedback without a test says that no row is wanted at all",
                hint="test at least one column; an output that nobody needs is ended by query.remove(...)",
            )
        if not kept:
            raise AnalysisError(
                "BAD_FEEDBACK",
                "feedback that no row can match says nothing",
                hint="look at its tests: together no value passes them",
            )
        if len(kept) > MOST_RECORDS:
            raise too_many(len(kept))
        tested = {c for r in kept for c in r.columns}
        by_name = {c.name: c for c in columns if c.name in tested}
        return cls(kept, tuple(by_name[n] for n in sorted(by_name)))

    def column(self, name: str) -> Column:
        """A tested column by its name in the records."""
        return next(c for c in self.columns if c.name == name)

    def matches(self, row: Mapping[str, Any], zone: str = "UTC") -> bool:
        """Whether a row, as users see it, is given up."""
        values = {c.name: c.value(row, zone) for c in self.columns}
        return any(r.matches(values) for r in self.records)

    def to_json(self) -> dict[str, Any]:
        """Plain lists and dicts."""
        return {
            "intent": self.intent,
            "records": [r.to_json() for r in self.records],
            "columns": [[c.name, c.type, c.ends, c.inner] for c in self.columns],
        }

    @classmethod
    def from_json(cls, json: Mapping[str, Any]) -> Feedback:
        """The inverse of `to_json`."""
        if json["intent"] != "assumed":
            raise AnalysisError(
                "BAD_FEEDBACK",
                f"feedback of intent {json['intent']!r} is not known",
                hint="this version knows assumed feedback only",
                intent=json["intent"],
            )
        records = tuple(Pattern.from_json(r) for r in json["records"])
        return cls(records, tuple(Column(*c) for c in json["columns"]))

    def __str__(self) -> str:
        from slackwater.semantics.feedback.text import written

        return written(self)


def too_many(count: int) -> AnalysisError:
    """The error of a condition that takes more records than may be sent."""
    return AnalysisError(
        "TOO_MANY_RECORDS",
        f"the condition takes {count} records, {MOST_RECORDS} at most may be sent",
        hint="use fewer ORs of tests on different columns, or compute the condition as a column and test that",
        records=count,
    )


def simplified(records: Iterable[Pattern]) -> Patterns:
    """Records that match the same rows: none that is empty or within another, tests that all values pass left out,
    those that differ in one column made one.
    """
    plain = [Pattern(tuple((c, t) for c, t in r.tests if t != ANY)) for r in records if not r.empty]
    return merged(largest(merged(plain)))


def largest(records: Sequence[Pattern]) -> list[Pattern]:
    """Records without those that lie within another; of two that are the same rows, the first stays.

    Records that are far apart on a column are not compared, so that a thousand of them take no million comparisons.
    """
    distinct = list(dict.fromkeys(records))
    column = _telling(distinct)
    bounded = [i for i, r in enumerate(distinct) if _reach(r, column) is not None]
    wide = [i for i, r in enumerate(distinct) if _reach(r, column) is None]
    lows = sorted(bounded, key=lambda i: _reach(distinct[i], column)[0])  # type: ignore[index]
    over: set[int] = set()

    def compare(i: int, j: int) -> None:
        """Two records of which neither is over yet, the first of them first."""
        one, other = distinct[i], distinct[j]
        if i in over or j in over or one.apart(other):
            return
        if other.within(one):
            over.add(j)
        elif one.within(other):
            over.add(i)

    for n, i in enumerate(wide):
        for j in (*wide[n + 1 :], *bounded):
            compare(min(i, j), max(i, j))
    open_yet: list[int] = []
    for i in lows:
        low, _ = _reach(distinct[i], column)  # type: ignore[misc]
        open_yet = [j for j in open_yet if _ends_behind(distinct[j], column, low)]
        for j in open_yet:
            compare(min(i, j), max(i, j))
        open_yet.append(i)
    return [r for i, r in enumerate(distinct) if i not in over]


_Key = tuple[bool, int | str]


def _telling(records: Sequence[Pattern]) -> str:
    """The column by which most records are told apart: ranges with two ends tell more than those with one."""
    counts: Counter[str] = Counter()
    for record in records:
        for column in record.columns:
            reach = _reach(record, column)
            if reach is not None:
                counts[column] += 1 + (reach[0][0] and reach[1] is not None)
    return max(sorted(counts), key=lambda c: counts[c], default="")


def _reach(record: Pattern, column: str) -> tuple[_Key, Value | None] | None:
    """From where to where a record's values of a column lie; None where null passes, or any value."""
    test = record.test(column)
    if test is None or test.null or not test.spans:
        return None
    low, high = test.spans[0][0], test.spans[-1][1]
    if low is None and high is None:
        return None
    return (low is not None, 0 if low is None else low), high


def _ends_behind(record: Pattern, column: str, low: _Key) -> bool:
    """Whether values of a record reach to one that begins at ``low``, or behind."""
    reach = _reach(record, column)
    assert reach is not None
    high = reach[1]
    return high is None or not low[0] or (True, high) > low


def both(some: Patterns, others: Patterns) -> Patterns:
    """What matches a record of either side."""
    pairs = (p & q for p in some for q in others if not p.apart(q))
    return tuple(largest([p for p in pairs if not p.empty]))
