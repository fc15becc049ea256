"""Types: Spark's ``simpleString``, Arrow, and the column engine's SQL."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa

from slackwater.errors import AnalysisError
from slackwater.model.duck_sql import quote
from slackwater.model.schema import Field

TIMESTAMP = pa.timestamp("us", "UTC")

_ATOMS: dict[str, tuple[pa.DataType, str]] = {
    "boolean": (pa.bool_(), "BOOLEAN"),
    "tinyint": (pa.int8(), "TINYINT"),
    "smallint": (pa.int16(), "SMALLINT"),
    "int": (pa.int32(), "INTEGER"),
    "bigint": (pa.int64(), "BIGINT"),
    "float": (pa.float32(), "FLOAT"),
    "double": (pa.float64(), "DOUBLE"),
    "string": (pa.string(), "VARCHAR"),
    "binary": (pa.binary(), "BLOB"),
    "date": (pa.date32(), "DATE"),
    "timestamp": (TIMESTAMP, "TIMESTAMPTZ"),
    "timestamp_ntz": (pa.timestamp("us"), "TIMESTAMP"),
    "void": (pa.null(), "NULL"),
}
_DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*,\s*(-?\d+)\s*\)")
_SIZED = re.compile(r"(?:var)?char\(\d+\)")


@dataclass(frozen=True)
class Parsed:
    """A type taken apart: ``kind`` is the atom's name, decimal, struct, array or map."""

    kind: str
    names: tuple[str, ...] = ()
    parts: tuple[Parsed, ...] = ()
    precision: int = 0
    scale: int = 0


@lru_cache(maxsize=4096)
def parse(text: str) -> Parsed:
    """Take a ``simpleString`` apart.

    >>> parse("array<decimal(10,2)>").parts[0].precision
    10
    """
    body = text.strip()
    low = body.lower()
    if low in _ATOMS:
        return Parsed(low)
    if low == "decimal":
        return Parsed("decimal", precision=10, scale=0)
    if m := _DECIMAL.fullmatch(low):
        precision, scale = int(m.group(1)), int(m.group(2))
        if 1 <= precision <= 38 and 0 <= scale <= precision:
            return Parsed("decimal", precision=precision, scale=scale)
    if _SIZED.fullmatch(low):
        return Parsed("string")
    if low.endswith(">"):
        head, _, inner = body.partition("<")
        inner = inner[:-1]
        kind = head.strip().lower()
        if kind == "array":
            return Parsed("array", parts=(parse(inner),))
        if kind == "map":
            pieces = split(inner)
            if len(pieces) == 2:
                return Parsed("map", parts=(parse(pieces[0]), parse(pieces[1])))
        if kind == "struct":
            pairs = [name_and_type(piece) for piece in split(inner)] if inner.strip() else []
            return Parsed(
                "struct", tuple(name for name, _ in pairs), tuple(parse(t) for _, t in pairs)
            )
    raise AnalysisError(
        "UNSUPPORTED_TYPE",
        f"type {text!r} is not supported in columns that Slackwater computes on",
        hint="cast the column to a supported type: " + ", ".join(_ATOMS) + ", decimal, struct, "
        "array, map",
        type=text,
    )


def arrow_type(text: str) -> pa.DataType:
    """The Arrow type of a Spark type.

    >>> arrow_type("decimal(10,2)")
    Decimal128Type(decimal128(10, 2))
    """
    return _arrow(parse(text))


def duck_type(text: str) -> str:
    """The column engine's type of a Spark type.

    >>> duck_type("struct<a:int,b:array<string>>")
    'STRUCT("a" INTEGER, "b" VARCHAR[])'
    """
    return duck_of(parse(text))


def arrow_schema(fields: Iterable[Field]) -> pa.Schema:
    """The Arrow schema of columns."""
    return pa.schema([pa.field(f.name, arrow_type(f.type)) for f in fields])


def cast_table(table: pa.Table, fields: Iterable[Field]) -> pa.Table:
    """The columns named by ``fields``, in their types; a value that does not fit is an error.

    The same object when nothing changes.
    """
    schema = arrow_schema(fields)
    if table.schema.equals(schema):
        return table
    columns = []
    for f in schema:
        column = table.column(f.name)
        columns.append(column if column.type.equals(f.type) else column.cast(f.type))
    return pa.table(columns, schema=schema)


def _arrow(p: Parsed) -> pa.DataType:
    if p.kind == "decimal":
        return pa.decimal128(p.precision, p.scale)
    if p.kind == "array":
        return pa.list_(_arrow(p.parts[0]))
    if p.kind == "map":
        return pa.map_(_arrow(p.parts[0]), _arrow(p.parts[1]))
    if p.kind == "struct":
        return pa.struct([pa.field(n, _arrow(t)) for n, t in zip(p.names, p.parts)])
    return _ATOMS[p.kind][0]


def duck_of(p: Parsed) -> str:
    """The column engine's type of a type that was taken apart."""
    if p.kind == "decimal":
        return f"DECIMAL({p.precision},{p.scale})"
    if p.kind == "array":
        return duck_of(p.parts[0]) + "[]"
    if p.kind == "map":
        return f"MAP({duck_of(p.parts[0])}, {duck_of(p.parts[1])})"
    if p.kind == "struct":
        inner = ", ".join(f"{quote(n)} {duck_of(t)}" for n, t in zip(p.names, p.parts))
        return f"STRUCT({inner})"
    return _ATOMS[p.kind][1]


def split(text: str) -> list[str]:
    """Cut at the commas that lie outside brackets and outside names in backquotes.

    >>> split("a decimal(3,1), `b, <c` bigint")
    ['a decimal(3,1)', ' `b, <c` bigint']
    """
    pieces, depth, start, quoted = [], 0, 0, False
    for at, c in enumerate(text):
        if c == "`":
            quoted = not quoted
        elif quoted:
            continue
        elif c in "<(":
            depth += 1
        elif c in ">)":
            depth -= 1
        elif c == "," and depth == 0:
            pieces.append(text[start:at])
            start = at + 1
    pieces.append(text[start:])
    return pieces


def name_and_type(piece: str) -> tuple[str, str]:
    """A field of a struct."""
    body = piece.strip()
    if body.startswith("`"):
        m = re.match(r"`((?:[^`]|``)*)`\s*:", body)
        if m is not None:
            return m.group(1).replace("``", "`"), body[m.end() :]
    name, _, rest = body.partition(":")
    return name, rest
