"""Conditions as records: any AND, OR and NOT of tests on single columns.

SQL's logic has three values. A test is given by the values for which it is true and those for which it is false; for the
others it is null, as a comparison with null is. What is asked of a condition is one of four things, and each goes down
to the tests: that it is true, that it is false, that it is not true (false or null), that it is not false.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from slackwater.errors import AnalysisError
from slackwater.semantics.feedback.columns import Column
from slackwater.semantics.feedback.value import (
    ANY,
    MOST_RECORDS,
    Feedback,
    both,
    simplified,
    too_many,
)
from slackwater.semantics.patterns import Pattern, Patterns, Test

_MOST_ON_THE_WAY = 512
Asked = Literal["true", "false", "not true", "not false"]
_OPPOSITE: dict[Asked, Asked] = {
    "true": "false",
    "false": "true",
    "not true": "not false",
    "not false": "not true",
}


@dataclass(frozen=True)
class Comparison:
    """A test of one column, by the values for which it is true and for which it is false."""

    column: Column
    true: Test
    false: Test

    @classmethod
    def comparing(cls, column: Column, test: Test) -> Comparison:
        """A comparison with a constant: null where the column is."""
        return cls(column, test, Test(ANY.spans) - test)

    @classmethod
    def certain(cls, column: Column, test: Test) -> Comparison:
        """A test that is never null, such as ``IS NULL`` and ``<=>``."""
        return cls(column, test, ANY - test)


@dataclass(frozen=True)
class Constant:
    """A condition that is the same for all rows; None is null."""

    value: bool | None


@dataclass(frozen=True)
class Unknown:
    """A part that is no test of a single column: of no row can be said what it is for that row."""


@dataclass(frozen=True)
class Not:
    """NOT."""

    part: Condition


@dataclass(frozen=True)
class And:
    """AND."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True)
class Or:
    """OR."""

    parts: tuple[Condition, ...]


Condition: TypeAlias = Comparison | Constant | Unknown | Not | And | Or


def ignore(condition: Condition) -> Feedback:
    """Feedback that gives up the rows for which a condition is true."""
    return Feedback.of(records(condition, "true"), columns(condition))


def only(condition: Condition) -> Feedback:
    """Feedback that gives up the rows for which a condition is false or null."""
    return Feedback.of(records(condition, "not true"), columns(condition))


def dropped(condition: Condition) -> Patterns:
    """Records of rows that a filter drops, since its condition is false or null for them.

    Each part of a conjunction counts by itself: one that takes too many records, or whose records have no test, says nothing.
    """
    if isinstance(condition, And):
        return simplified(r for part in condition.parts for r in dropped(part))
    try:
        made = records(condition, "not true")
    except AnalysisError:
        return ()
    return made if len(made) <= MOST_RECORDS and all(r.tests for r in made) else ()


def columns(condition: Condition) -> list[Column]:
    """The columns that a condition tests."""
    if isinstance(condition, Comparison):
        return [condition.column]
    if isinstance(condition, (Constant, Unknown)):
        return []
    parts = (condition.part,) if isinstance(condition, Not) else condition.parts
    return [c for p in parts for c in columns(p)]


def records(condition: Condition, asked: Asked) -> Patterns:
    """Records that together match the rows for which a condition is as asked; with unknown parts, some of those rows."""
    if isinstance(condition, Unknown):
        return ()
    if isinstance(condition, Not):
        return records(condition.part, _OPPOSITE[asked])
    if isinstance(condition, Constant):
        holds = {
            "true": condition.value is True,
            "false": condition.value is False,
            "not true": condition.value is not True,
            "not false": condition.value is not False,
        }
        return (Pattern(()),) if holds[asked] else ()
    if isinstance(condition, Comparison):
        wanted = {
            "true": condition.true,
            "false": condition.false,
            "not true": ANY - condition.true,
            "not false": ANY - condition.false,
        }[asked]
        return simplified([Pattern.of({condition.column.name: wanted})])
    each = [records(p, asked) for p in condition.parts]
    if isinstance(condition, And) == (asked in ("true", "not false")):
        return _joined(each, _both)
    return _joined(each, _either)


def _joined(each: list[Patterns], join: Callable[[Patterns, Patterns], Patterns]) -> Patterns:
    """Records of all parts together: neighbours first, so that what grows is not gone through for each part anew."""
    while len(each) > 1:
        alone = each[-1:] if len(each) % 2 else []
        each = [*(join(each[i], each[i + 1]) for i in range(0, len(each) - 1, 2)), *alone]
    return each[0]


def _both(a: Patterns, b: Patterns) -> Patterns:
    _check(len(a) * len(b))
    return simplified(both(a, b))


def _either(a: Patterns, b: Patterns) -> Patterns:
    _check(len(a) + len(b))
    return simplified((*a, *b))


def _check(count: int) -> None:
    # What is on the way may still become less; but each record is compared with each.
    if count > _MOST_ON_THE_WAY:
        raise too_many(count)
