"""Feedback as a value: an intent, and records of the rows that it is about. It never travels with the data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from slackwater.errors import AnalysisError
from slackwater.semantics.feedback.columns import Column
from slackwater.semantics.patterns import Pattern, Patterns, Test, merged

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
    """Records without those that lie within another."""
    kept: list[Pattern] = []
    for record in dict.fromkeys(records):
        if any(not record.apart(k) and record.within(k) for k in kept):
            continue
        kept = [k for k in kept if k.apart(record) or not k.within(record)]
        kept.append(record)
    return kept


def both(some: Patterns, others: Patterns) -> Patterns:
    """What matches a record of either side."""
    pairs = (p & q for p in some for q in others if not p.apart(q))
    return tuple(largest([p for p in pairs if not p.empty]))
