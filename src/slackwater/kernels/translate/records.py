"""Records of feedback as SQL: the condition that is true for the rows of an operator that match one, never null.

The same condition in the words of both engines. A request holds names and codes of values alone: names are quoted, and
values are written here, each by the type of its column.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import cast

from slackwater.kernels.listed import MOST_COLUMNS, Listed, Range, apart
from slackwater.model.duck_sql import quote
from slackwater.model.node import Node
from slackwater.model.schema import Expr
from slackwater.model.spark_sql import quoted
from slackwater.model.time import TimeColumn
from slackwater.semantics.feedback import order
from slackwater.semantics.feedback.columns import parted, struct_fields
from slackwater.semantics.patterns import Pattern, Patterns, Span, Test, Value, following

_MADE = ("window", "greatest", "least")
"""Kinds of times that are no plain column: their ticks are compared."""


def can_test(node: Node, record: Pattern) -> bool:
    """Whether the rows of an operator have all that a record tests."""
    return all(tested_columns(node, c) is not None for c in record.columns)


def tested_columns(node: Node, column: str) -> tuple[str, ...] | None:
    """The columns of an operator's rows that a test on ``column`` reads; None if they have none."""
    time = _made_time(node, column)
    if time is not None:
        names = [p.name for p in time.parts] if time.parts else [time.name]
        return tuple(names) if all(node.field(n) is not None for n in names) else None
    name, _ = parted(node, column)
    field = node.field(name)
    if field is None or _typed(node, column) is None:
        return None
    return (name,)


def has_sound_values(node: Node, record: Pattern) -> bool:
    """Whether the limits of a record that was read from a file are codes of its columns' types."""
    for column, test in record.tests:
        type = "bigint" if _made_time(node, column) is not None else _typed(node, column)
        kind = str if type == "string" else int
        values = [v for span in test.spans for v in span if v is not None]
        if any(not isinstance(v, kind) or isinstance(v, bool) for v in values):
            return False
        if any(isinstance(v, str) and not _is_text(v) for v in values):
            return False
    return True


def _is_text(value: str) -> bool:
    """Whether engines can hold a text: it has no half characters."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def columns_of(node: Node, records: Patterns) -> frozenset[str]:
    """The columns that records on an operator's output read."""
    return frozenset(c for r in records for t in r.columns for c in tested_columns(node, t) or ())


def matching(node: Node, records: Patterns) -> Expr:
    """The condition that is true for rows of an operator that match one of the records, which it can test."""
    return Expr(_any(node, records, False, None), "boolean", _any(node, records, True, None))


def listing(node: Node, records: Patterns) -> tuple[Expr, tuple[Listed, ...]]:
    """As `matching`; where there are many ranges, the text for the column engine names lists that must be there when it is run."""
    lists: list[Listed] = []
    duck = _any(node, records, True, lists)
    return Expr(_any(node, records, False, None), "boolean", duck), tuple(lists)


def _any(node: Node, records: Patterns, duck: bool, lists: list[Listed] | None) -> str:
    parts: list[str] = []
    if lists is not None:
        records = _boxed(node, records, parts, lists)
    groups: dict[_Shape, list[Pattern]] = {}
    for record in records:
        groups.setdefault(_shape(node, record), []).append(record)
    for shape, alike in groups.items():
        parts += _alike(node, shape, alike, duck, lists)
    return f"({' OR '.join(parts) or 'FALSE'})"


def _boxed(
    node: Node, records: Patterns, parts: list[str], lists: list[Listed]
) -> tuple[Pattern, ...]:
    """The records that are left when those with a range on each of the same columns are lists."""
    groups: dict[tuple[str, ...] | None, list[Pattern]] = {}
    for record in records:
        groups.setdefault(record.columns if _is_box(node, record) else None, []).append(record)
    left = list(groups.pop(None, []))
    for columns, alike in groups.items():
        boxes = [tuple(cast(Range, test.spans[0]) for _, test in r.tests) for r in alike]
        ordered = apart(boxes) if len(alike) >= _MANY_RANGES else None
        if columns is None or ordered is None:
            left += alike
            continue
        first, rows = ordered
        order = [first, *(i for i in range(len(columns)) if i != first)]
        lists.append(Listed([tuple(row[i] for i in order) for row in rows]))
        texts = [_tested(node, columns[i], True)[0] for i in order]
        there = " AND ".join(f"{text} IS NOT NULL" for text in texts)
        parts.append(f"({there} AND {lists[-1].call(texts)})")
    return tuple(left)


def _is_box(node: Node, record: Pattern) -> bool:
    """Whether each test is one range of whole numbers without null, and no row has more of them than a list takes."""
    return len(record.tests) <= MOST_COLUMNS and all(
        not test.null and len(test.spans) == 1 and _is_whole(node, c) and _fits(test.spans)
        for c, test in record.tests
    )


def _is_whole(node: Node, column: str) -> bool:
    """Whether what is tested of a column are the whole numbers that its codes are."""
    type = "bigint" if _made_time(node, column) is not None else _typed(node, column) or "string"
    return type != "string" and type not in order.FLOATS and not type.startswith("decimal")


def _fits(spans: Sequence[Span]) -> bool:
    """Whether no range is empty for numbers of 64 bits."""
    return all(
        not (isinstance(low, int) and low >= 1 << 63)
        and not (isinstance(high, int) and high <= -(1 << 63))
        for low, high in spans
    )


def no_later(node: Node, limits: Sequence[tuple[str, int]]) -> Expr | None:
    """The condition that no time of a row is above its limit; null counts as none. None if rows lack such a time."""
    if any(tested_columns(node, name) is None for name, _ in limits):
        return None
    texts = []
    for duck in (False, True):
        parts = [f"coalesce({_ticks(node, n, duck)} <= {v}, TRUE)" for n, v in limits]
        texts.append(" AND ".join(parts) or "TRUE")
    return Expr(f"({texts[0]})", "boolean", f"({texts[1]})")


def negated(expr: Expr) -> Expr:
    """NOT, of a condition that is never null."""
    return Expr(f"NOT {expr.sql}", "boolean", f"NOT {expr.duck}")


def both(one: Expr, other: Expr) -> Expr:
    """AND."""
    return Expr(f"({one.sql} AND {other.sql})", "boolean", f"({one.duck} AND {other.duck})")


def either(parts: Sequence[Expr]) -> Expr:
    """OR."""
    texts = [" OR ".join(str(p.duck) if duck else p.sql for p in parts) for duck in (False, True)]
    return Expr(f"({texts[0]})", "boolean", f"({texts[1]})")


def null_time(names: Sequence[str]) -> Expr:
    """The condition that one of some columns is null."""
    texts = [" OR ".join(f"{q(n)} IS NULL" for n in names) for q in (quoted, quote)]
    return Expr(f"({texts[0]})", "boolean", f"({texts[1]})")


# --- values ---------------------------------------------------------------------------------------------


_Tests = tuple[tuple[str, Test], ...]
_Shape = tuple[tuple[str, ...], _Tests]
"""The columns of which a record takes one whole number each, and its other tests."""

_MANY = 4
"""From so many records of one shape on they are one list: engines look that up, and take long to read as many conditions."""


_MANY_RANGES = 16
"""From so many ranges on, the column engine searches a list: it would read and test each condition."""


def _shape(node: Node, record: Pattern) -> _Shape:
    points = [c for c, t in record.tests if _point(node, c, t) is not None]
    return tuple(points), tuple((c, t) for c, t in record.tests if c not in points)


def _point(node: Node, column: str, test: Test) -> int | None:
    """The one number that passes a test, of a column whose codes are what is compared."""
    type = "bigint" if _made_time(node, column) is not None else _typed(node, column) or ""
    if test.null or len(test.spans) != 1 or type in order.FLOATS or type.startswith("decimal"):
        return None
    low, high = test.spans[0]
    return low if isinstance(low, int) and high == low + 1 else None


def _alike(
    node: Node,
    shape: _Shape,
    records: Sequence[Pattern],
    duck: bool,
    lists: list[Listed] | None,
) -> list[str]:
    columns, others = shape
    if not columns or len(records) < _MANY:
        return [_record(node, r, duck, lists) for r in records]
    texts = [_tested(node, c, duck)[0] for c in columns]
    rows = [[_point(node, c, t) for c in columns if (t := r.test(c))] for r in records]
    parts = [_test(node, c, t, duck, lists) for c, t in others]
    parts += [f"{text} IS NOT NULL" for text in texts]
    if len(columns) == 1:
        one = [_literal(row[0], "bigint", duck) for row in rows if row[0] is not None]
        parts.append(f"{texts[0]} IN ({', '.join(one)})")
    else:
        # Digits, signs and commas alone: no two rows have one text.
        kind = "VARCHAR" if duck else "STRING"
        key = f"concat_ws(',', {', '.join(f'CAST({text} AS {kind})' for text in texts)})"
        parts.append(f"{key} IN ({', '.join(repr(','.join(map(str, row))) for row in rows)})")
    return [f"({' AND '.join(parts)})"]


def _record(node: Node, record: Pattern, duck: bool, lists: list[Listed] | None) -> str:
    return "(" + " AND ".join(_test(node, c, t, duck, lists) for c, t in record.tests) + ")"


def _test(node: Node, column: str, test: Test, duck: bool, lists: list[Listed] | None) -> str:
    text, type = _tested(node, column, duck)
    many = lists is not None and len(test.spans) >= _MANY_RANGES
    if many and lists is not None and _is_whole(node, column) and _fits(test.spans):
        lists.append(Listed([(cast(Range, span),) for span in test.spans]))
        inside = lists[-1].call([text])
        return f"({text} IS NULL OR {inside})" if test.null else f"({text} IS NOT NULL AND {inside})"  # fmt: skip
    holes = _holes(test, type)
    if holes:
        listed = ", ".join(_literal(h, type, duck) for h in holes)
        most = f"{text} IS NOT NULL AND {text} NOT IN ({listed})"
        return f"({text} IS NULL OR ({most}))" if test.null else f"({most})"
    points = [s for s in test.spans if s[0] is not None and s[1] == following(s[0])]
    if type in order.FLOATS or type.startswith("decimal") or len(points) < _MANY:
        points = []
    parts = [
        p
        for low, high in test.spans
        if (low, high) not in points and (p := _span(text, type, low, high, duck))
    ]
    if points:
        listed = ", ".join(_literal(low, type, duck) for low, _ in points if low is not None)
        parts.append(f"{text} IN ({listed})")
    every = any(s == (None, None) for s in test.spans)
    if test.null:
        return f"({' OR '.join([f'{text} IS NULL', *parts])})" if not every else "TRUE"
    if every:
        return f"({text} IS NOT NULL)"
    return f"({text} IS NOT NULL AND ({' OR '.join(parts) or 'FALSE'}))"


def _holes(test: Test, type: str) -> list[Value]:
    """The values that a test leaves out, if these are many and all others pass: what a filter by a list drops."""
    spans = test.spans
    if len(spans) < _MANY or type in order.FLOATS or type.startswith("decimal"):
        return []
    if spans[0][0] is not None or spans[-1][1] is not None:
        return []
    gaps = [(a[1], b[0]) for a, b in pairwise(spans)]
    held = [low for low, high in gaps if low is not None and high == following(low)]
    return held if len(held) == len(gaps) else []


def _tested(node: Node, column: str, duck: bool) -> tuple[str, str]:
    """What is tested, as its codes are compared, and its type."""
    made = _made_time(node, column)
    if made is not None:
        return ticks(made, duck), "bigint"
    type = _typed(node, column) or ""
    return _value(node, column, type, duck), type


def _span(text: str, type: str, low: Value | None, high: Value | None, duck: bool) -> str:
    """Values from ``low`` to below ``high``; empty if all are."""
    known = order.limits(type)
    ends = []
    if low is not None and not (known is not None and isinstance(low, int) and low <= known[0]):
        if isinstance(low, int) and known is not None and low > known[1]:
            return "FALSE"
        ends.append(f"{text} {_above(low, type, duck)}")
    if high is not None and not (known is not None and isinstance(high, int) and high > known[1]):
        if isinstance(high, int) and known is not None and high <= known[0]:
            return "FALSE"
        ends.append(f"{text} {_below(high, type, duck)}")
    return f"({' AND '.join(ends)})" if ends else f"{text} IS NOT NULL"


def _above(low: Value, type: str, duck: bool) -> str:
    # The next value of a text has a zero character behind it, which no literal should hold.
    if isinstance(low, str) and low.endswith("\0"):
        return f"> {_literal(low[:-1], type, duck)}"
    return f">= {_literal(low, type, duck)}"


def _below(high: Value, type: str, duck: bool) -> str:
    if isinstance(high, str) and high.endswith("\0"):
        return f"<= {_literal(high[:-1], type, duck)}"
    return f"< {_literal(high, type, duck)}"


def _literal(code: Value, type: str, duck: bool) -> str:
    if isinstance(code, str):
        raw = code.encode().hex()
        return f"decode(from_hex('{raw}'))" if duck else f"decode(unhex('{raw}'), 'UTF-8')"
    if type in order.FLOATS:
        value = order.value_of(code, type)
        shown = "NaN" if math.isnan(value) else repr(value).replace("inf", "Infinity")
        return f"CAST('{shown}' AS {'DOUBLE' if type == 'double' else 'FLOAT'})"
    if type.startswith("decimal"):
        return f"CAST('{order.value_of(code, type):f}' AS {type})"
    if code == -(1 << 63):
        return f"({code + 1}{'' if duck else 'L'} - 1)"
    return str(code) if duck else f"{code}L"


def _value(node: Node, column: str, type: str, duck: bool) -> str:
    """A column, or a field of a struct, in what its codes are compared with."""
    name, part = parted(node, column)
    field = part[1:]
    if duck:
        text = f"struct_extract({quote(name)}, '{_escaped(field)}')" if part else quote(name)
    else:
        text = f"{quoted(name)}.{quoted(field)}" if part else quoted(name)
    if type == "boolean":
        return f"CAST({text} AS INTEGER)" if duck else f"CAST({text} AS INT)"
    if type == "date":
        return f"({text} - DATE '1970-01-01')" if duck else f"unix_date({text})"
    if type == "timestamp":
        return f"epoch_us({text})" if duck else f"unix_micros({text})"
    if type == "timestamp_ntz":
        return f"epoch_us({text})" if duck else _local(text)
    return text


def _escaped(text: str) -> str:
    return text.replace("'", "''")


def _typed(node: Node, column: str) -> str | None:
    """The type of what is tested; None if it cannot be."""
    name, part = parted(node, column)
    field = node.field(name)
    if field is None:
        return None
    type = dict(struct_fields(field.type)).get(part[1:]) if part else field.type
    return type if type is not None and order.is_testable(type) else None


# --- times ----------------------------------------------------------------------------------------------


def _made_time(node: Node, column: str) -> TimeColumn | None:
    return next((t for t in node.times if t.name == column and t.kind in _MADE), None)


def _ticks(node: Node, column: str, duck: bool) -> str:
    time = next((t for t in node.times if t.name == column), None)
    if time is not None:
        return ticks(time, duck)
    return _value(node, column, _typed(node, column) or "", duck)


def ticks(time: TimeColumn, duck: bool) -> str:
    """The ticks of a time, of any kind."""
    q = quote if duck else quoted
    if time.parts:
        whole = [ticks(p, duck) for p in time.parts]
        filled = [f"coalesce({', '.join([one, *whole])})" for one in whole]
        return f"{time.kind}({', '.join(filled)})"
    if time.kind == "window":
        end = f"struct_extract({quote(time.name)}, 'end')" if duck else f"{q(time.name)}.`end`"
        return f"({_instant(end, time.integer, time.local, duck)} - 1)"
    return _instant(q(time.name), time.kind == "long", time.is_local, duck)


def _instant(text: str, integer: bool, local: bool, duck: bool) -> str:
    if integer:
        return f"CAST({text} AS BIGINT)"
    if duck:
        return f"epoch_us({text})"
    if local:
        return _local(text)
    return f"unix_micros({text})"


def _local(text: str) -> str:
    """Ticks of a local time in Spark: days and the part of the day, which no zone changes."""
    seconds = f"(hour({text}) * 3600L + minute({text}) * 60L)"
    part = f"CAST(extract(SECOND FROM {text}) * 1000000 AS BIGINT)"
    return f"(unix_date(CAST({text} AS DATE)) * 86400000000L + {seconds} * 1000000L + {part})"
