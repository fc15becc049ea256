"""What of an output can be tested, and under which name a record has it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slackwater.errors import AnalysisError
from slackwater.model.node import Node
from slackwater.model.schema import Field
from slackwater.model.time import TimeColumn
from slackwater.semantics.feedback.order import code, is_testable
from slackwater.semantics.patterns import Pattern, Test, Value

_STRUCT = re.compile(r"struct<(.*)>")
_FIELD = re.compile(r"(\w+):([^:]+)")


@dataclass(frozen=True)
class Column:
    """A column that a record tests, under its ``name`` there.

    ``ends`` marks the window of an aggregate's results, which is tested by the time of the result: the last tick of the
    window, one before its end. Users write that as a test of ``window.end``. What is ``inner`` is a field of a struct,
    and a dot parts the two names.
    """

    name: str
    type: str
    ends: bool = False
    inner: bool = False

    @property
    def parts(self) -> tuple[str, ...]:
        """The names that users write, a struct's before its field's."""
        if self.ends:
            return self.name, "end"
        return tuple(self.name.rsplit(".", 1)) if self.inner else (self.name,)

    @property
    def written(self) -> str:
        """The name that users write."""
        return ".".join(self.parts)

    def value(self, row: Mapping[str, Any], zone: str = "UTC") -> Value | None:
        """The code of the column's value in a row."""
        name, *fields = self.parts
        found = row.get(name)
        for field in fields:
            found = _part(found, field)
        value = code(found, self.type, zone)
        return value - 1 if self.ends and isinstance(value, int) else value


def _part(value: Any, field: str) -> Any:
    if value is None:
        return None
    return value[field] if isinstance(value, Mapping) else getattr(value, field)


@dataclass(frozen=True)
class Columns:
    """The columns of an output; ``zone`` is that of the session, in which times without a zone are read."""

    fields: tuple[Field, ...]
    times: tuple[TimeColumn, ...] = ()
    zone: str = "UTC"

    @classmethod
    def of(cls, node: Node, zone: str = "UTC") -> Columns:
        """The columns of an operator's output."""
        return cls(node.schema, node.times, zone)

    def names(self) -> list[str]:
        """All that can be tested, as users write it."""
        found = []
        for f in self.fields:
            found += [f"{f.name}.{n}" for n, _ in struct_fields(f.type)] or [f.name]
        return found

    def column(self, parts: Sequence[str]) -> Column:
        """The column of that name, or the field of a struct; names ignore case, as Spark's do."""
        field = next((f for f in self.fields if f.name.lower() == parts[0].lower()), None)
        if field is None or len(parts) > 2:
            raise AnalysisError(
                "COLUMN_NOT_FOUND",
                f"there is no column '{'.'.join(parts)}'",
                hint=f"the output's columns are: {', '.join(self.names())}",
                name=".".join(parts),
            )
        inner = dict(struct_fields(field.type))
        if len(parts) == 1:
            if inner:
                raise AnalysisError(
                    "BAD_FEEDBACK",
                    f"column '{field.name}' is {field.type}, which has no single value to test",
                    hint=f"test a field: {', '.join(f'{field.name}.{n}' for n in inner)}",
                    name=field.name,
                )
            return self._checked(Column(field.name, field.type))
        part = next((n for n in inner if n.lower() == parts[1].lower()), None)
        if part is None:
            raise AnalysisError(
                "COLUMN_NOT_FOUND",
                f"column '{field.name}' has no field '{parts[1]}'",
                hint=f"its fields are: {', '.join(inner) or 'none, it is no struct'}",
                name=".".join(parts),
            )
        if any(f.name == f"{field.name}.{part}" for f in self.fields):
            raise AnalysisError(
                "BAD_FEEDBACK",
                f"'{field.name}.{part}' is a column, and a field of column '{field.name}', which a record cannot tell apart",
                hint="rename one of them in the output: .withColumnRenamed(...)",
                name=f"{field.name}.{part}",
            )
        window = any(t.name == field.name and t.kind == "window" for t in self.times)
        ends = window and part == "end"
        name = field.name if ends else f"{field.name}.{part}"
        return self._checked(Column(name, inner[part], ends, not ends))

    def _checked(self, column: Column) -> Column:
        if not is_testable(column.type):
            raise AnalysisError(
                "BAD_FEEDBACK",
                f"column '{column.written}' is {column.type}, which feedback cannot test",
                hint="test a number, text, boolean, date or time; compute one from it as a column of its own",
                name=column.written,
            )
        return column


def struct_fields(type: str) -> list[tuple[str, str]]:
    """Fields of a struct that are of plain types; none of any other type, or if a name has other signs than letters and digits.

    >>> struct_fields("struct<start:timestamp,end:timestamp>"), struct_fields("struct<p:decimal(5,2)>"), struct_fields("int")
    ([('start', 'timestamp'), ('end', 'timestamp')], [('p', 'decimal(5,2)')], [])
    >>> struct_fields("struct<a:array<struct<b:int,d:int>>,c:int>"), struct_fields("struct<a b:int,c:int>")
    ([('c', 'int')], [])
    """
    m = _STRUCT.fullmatch(type)
    if m is None:
        return []
    plain = []
    for part in _parts(m[1]):
        if any(sign in part for sign in "<>"):
            continue
        one = _FIELD.fullmatch(part)
        if one is None:
            return []  # where a name ends cannot be told
        plain.append((one[1], one[2]))
    return plain


def _parts(text: str) -> list[str]:
    """A list's parts: commas inside brackets do not end one."""
    parts, depth = [""], 0
    for sign in text:
        depth += (sign in "<(") - (sign in ">)")
        if sign == "," and not depth:
            parts.append("")
        else:
            parts[-1] += sign
    return parts


def parted(node: Node, column: str) -> tuple[str, str]:
    """A record's column as one of an operator's output, and the part of its name behind that, with the dot."""
    if "." not in column or node.field(column) or any(t.name == column for t in node.times):
        return column, ""
    name, _, field = column.rpartition(".")
    return name, f".{field}"


def joined(node: Node, name: str, part: str) -> str | None:
    """The inverse of `parted`: what a record calls a part of an operator's column; None if a column has that very name.

    >>> from slackwater.model.node import Source
    >>> from slackwater.model.schema import Field
    >>> s = Source((Field("s", "struct<a:int,b:int>"), Field("s.a", "int")), (), "s")
    >>> joined(s, "s", ".b"), joined(s, "s", ".a"), joined(s, "s.a", "")
    ('s.b', None, 's.a')
    """
    whole = name + part
    return whole if parted(node, whole) == (name, part) else None


def settled(node: Node, record: Pattern) -> Pattern:
    """A record on an operator's output with the end of a window as the time of the result, which it is there."""
    ends = {f"{t.name}.end": t.name for t in node.times if t.kind == "window"}
    windows = {end: name for end, name in ends.items() if parted(node, end) == (name, ".end")}
    if not any(c in windows for c in record.columns):
        return record
    plain = Pattern.of({c: t for c, t in record.tests if c not in windows})
    for c, t in record.tests:
        if c in windows:
            plain &= Pattern.of({windows[c]: moved(t, -1)})
    return plain


def moved(test: Test, ticks: int) -> Test:
    """The test that ``t + ticks`` passes for each t that passes; of whole numbers."""
    if not ticks:
        return test

    def by(v: Value | None) -> Value | None:
        return v + ticks if isinstance(v, int) else None

    return Test(tuple((by(low), by(high)) for low, high in test.spans), test.null)
