"""Patterns as users write them: an operation and a value per column, read by the column's type."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping
from typing import Any

from slackwater.errors import ExecutionError, SlackwaterError
from slackwater.model.time import TimeColumn, parse_instant
from slackwater.semantics.patterns import Pattern, Test, Value, following

OPERATIONS = ("=", "in", "<", "<=", ">", ">=", "range", "is null", "*")
_SHOWN = 3
WHOLE = ("tinyint", "smallint", "int", "bigint")
PATTERN_TYPES = (*WHOLE, "string", "boolean", "date", "timestamp", "timestamp_ntz")


def pattern_of(
    tests: Mapping[str, tuple[str | None, Any]],
    types: Mapping[str, str],
    zone: str = "UTC",
) -> Pattern:
    """The pattern of operations and values by column, in columns of these types.

    ``in`` takes a JSON list and ``range`` one of two ([low, high), null for no end); values of a set or a range are written
    as those of ``=`` are. ``*`` says nothing about its column.

    >>> p = pattern_of({"k": ("=", "a"), "ts": ("<", "10")}, {"k": "string", "ts": "bigint"})
    >>> p.matches({"k": "a", "ts": 9}), p.matches({"k": "a", "ts": 10})
    (True, False)
    """
    pattern: dict[str, Test] = {}
    for name, (op, value) in tests.items():
        column = next((c for c in types if c.lower() == str(name).lower()), None)
        if column is None:
            raise _bad(
                f"column '{name}' does not exist", f"use the stream's columns: {', '.join(types)}"
            )
        test = _test(column, op, value, types[column], zone)
        if test is not None:
            pattern[column] = test
    if not pattern:
        raise _bad(
            "a pattern without a test says that no row comes any more",
            "give at least one column a test; a stream ends by endOfStream=True or query.end()",
        )
    return Pattern.of(pattern)


def _test(column: str, op: str | None, given: Any, type: str, zone: str) -> Test | None:
    op = " ".join(str(op).lower().split())
    if op == "*":
        return None
    if type not in PATTERN_TYPES:
        raise _bad(
            f"column '{column}' is {type}, which punctuation cannot test",
            f"use columns of these types: {', '.join(PATTERN_TYPES)}",
        )
    if op == "is null":
        return Test((), True)

    def value(item: Any) -> Value:
        try:
            return plain(item, type, zone)
        except (ValueError, TypeError, SlackwaterError) as e:
            raise _bad(
                f"{item!r} is not a value of column '{column}' ({type})",
                "write it as Spark would show it",
            ) from e

    if op in ("in", "range"):
        return _several(column, op, given, value)
    if op == "=":
        return Test.among([value(given)])
    if op == "<":
        return Test.below(value(given))
    if op == "<=":
        return Test.below(following(value(given)))
    if op == ">=":
        return Test(((value(given), None),))
    if op == ">":
        return Test(((following(value(given)), None),))
    raise _bad(f"operation {op!r} on '{column}' is not known", f"use: {', '.join(OPERATIONS)}")


def _several(column: str, op: str, given: Any, value: Any) -> Test:
    try:
        items = json.loads(given) if isinstance(given, str) else list(given)
    except (ValueError, TypeError):
        items = None
    if not isinstance(items, list) or (op == "range" and len(items) != 2):
        wanted = '["a", "b"]' if op == "in" else "[low, high], null for no end"
        raise _bad(f"'{op}' on '{column}' got {given!r}", f"give a JSON list: {wanted}")
    if op == "in":
        return Test.among(None if i is None else value(i) for i in items)
    low, high = (None if i is None else value(i) for i in items)
    return Test.of([(low, high)])


def plain(value: Any, type: str, zone: str = "UTC") -> Value:
    """A value of a column as patterns hold it."""
    if value is None:
        raise ValueError("null")
    if type == "string":
        return str(value)
    if type in WHOLE:
        if isinstance(value, float) and not value.is_integer():
            raise ValueError(value)
        return int(value)
    if type == "boolean":
        return ("false", "true").index(str(value).lower())
    if type == "date":
        day = value if isinstance(value, dt.date) else dt.date.fromisoformat(str(value))
        return day.toordinal() - dt.date(1970, 1, 1).toordinal()
    if isinstance(value, int):
        return value
    time = TimeColumn("", "timestamp_ntz" if type == "timestamp_ntz" else "timestamp", 1)
    return parse_instant(value, time, zone, what="value of a pattern")


def shown(pattern: Pattern) -> str:
    """A pattern for people; of many values the first few.

    >>> shown(Pattern.of({"k": Test.among(["a", None]), "ts": Test.below(9), "n": Test(((3, None),))}))
    "{k: 'a' or null, n: >= 3, ts: < 9}"
    """
    return f"{{{', '.join(f'{c}: {_shown(t)}' for c, t in pattern.tests)}}}"


def _shown(test: Test) -> str:
    parts = [_span(low, high) for low, high in test.spans[:_SHOWN]]
    parts += [f"{len(test.spans) - _SHOWN} more"] if len(test.spans) > _SHOWN else []
    return " or ".join([*parts, *(["null"] if test.null else [])])


def _span(low: Value | None, high: Value | None) -> str:
    if low is not None and high == following(low):
        return repr(low)
    if low is None or high is None:
        return "anything" if low is high else f"< {high!r}" if low is None else f">= {low!r}"
    return f"{low!r} to {high!r}"


def _bad(message: str, hint: str) -> ExecutionError:
    return ExecutionError("BAD_PUNCTUATION", f"punctuation: {message}", hint=hint)
