"""Which stored types of parquet files are read as which declared types, and with which values.

The rules are those of Spark's parquet reader, found by trying every pair. Spark reads what is stored, not what it
stands for: an integer of 32 bits that is declared ``tinyint`` gives its lowest 8 bits, a decimal that is stored
as an integer and declared ``int`` gives its digits. What Spark refuses is refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from slackwater.kernels.types import Parsed, duck_of
from slackwater.model.duck_sql import literal, quote

EPOCH = "DATE '1970-01-01'"
_UNITS = {"milliseconds": "ms", "microseconds": "us", "nanoseconds": "ns"}
_WHOLE = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}


class Mismatch(Exception):
    """A stored column cannot be read as declared; the text says what is stored, and where inside the column."""


@dataclass(frozen=True)
class Leaf:
    """Values as the footer describes them: the physical type, and what it stands for (empty: itself).

    ``length`` is that of values of a fixed number of bytes.
    """

    physical: str
    meaning: str = ""
    precision: int = 0
    scale: int = 0
    length: int = 0

    def __str__(self) -> str:
        size = f"({self.precision},{self.scale})" if self.meaning == "decimal" else ""
        return f"{self.physical} {self.meaning}{size}".strip()


@dataclass(frozen=True)
class Stored:
    """A column of a file, or a part of one: ``kind`` is leaf, struct, array or map."""

    name: str
    kind: str
    leaf: Leaf | None = None
    parts: tuple[Stored, ...] = ()

    def __str__(self) -> str:
        if self.leaf is not None:
            return str(self.leaf)
        inner = (f"{p.name}: {p}" if self.kind == "struct" else str(p) for p in self.parts)
        return f"{self.kind}<{', '.join(inner)}>"


def stored_columns(schema: pq.ParquetSchema) -> tuple[Stored, ...]:
    """The columns of a file, from its footer."""
    leaves = (_leaf(schema.column(i)) for i in range(len(schema)))
    return tuple(_stored(f.name, f.type, leaves) for f in schema.to_arrow_schema())


def _stored(name: str, kind: pa.DataType, leaves: Iterator[Leaf]) -> Stored:
    # Arrow says how columns nest, and the leaves come in the same order. Its own types are not asked: a writer may
    # have left a remark in the file that makes them others than those that are stored.
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    if pa.types.is_struct(kind):
        return Stored(name, "struct", None, tuple(_stored(f.name, f.type, leaves) for f in kind))
    if pa.types.is_map(kind):
        parts = (_stored("key", kind.key_type, leaves), _stored("value", kind.item_type, leaves))
        return Stored(name, "map", None, parts)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return Stored(name, "array", None, (_stored("element", kind.value_type, leaves),))
    return Stored(name, "leaf", next(leaves))


def _leaf(column: pq.ColumnSchema) -> Leaf:
    kind = column.logical_type.type
    if kind == "NONE":
        return Leaf(column.physical_type)
    if kind in ("INT", "DECIMAL", "TIME", "TIMESTAMP"):
        more = json.loads(column.logical_type.to_json())
        if kind == "INT":
            sign = "int" if more["isSigned"] else "uint"
            return Leaf(column.physical_type, f"{sign}{more['bitWidth']}")
        if kind == "DECIMAL":
            size = more["precision"], more["scale"], column.length
            return Leaf(column.physical_type, "decimal", *size)
        zone = "utc " if kind == "TIMESTAMP" and more["isAdjustedToUTC"] else ""
        return Leaf(column.physical_type, f"{zone}{kind.lower()} {_UNITS[more['timeUnit']]}")
    # "UNKNOWN" is the format's word for a column of nulls.
    return Leaf(column.physical_type, "null" if kind == "UNKNOWN" else kind.lower())


def reading(stored: Stored, declared: Parsed, x: str, *, old: bool = False, depth: int = 0) -> str:
    """The column engine's SQL of stored values ``x`` as the declared type; ``x`` itself where nothing changes.

    ``old``: the writer counted old days by the Julian calendar.
    """
    if stored.leaf is not None:
        made = _of_leaf(stored.leaf, declared, x)
        if made is None:
            raise Mismatch(str(stored.leaf))
        return _by_calendar(declared, made) if old else made
    if stored.kind != declared.kind:
        raise Mismatch(str(stored))
    if stored.kind == "struct":
        return _struct(stored, declared, x, old=old, depth=depth)
    e = f"__sw_e{depth}"
    inner = [f"struct_extract({e}, '{p.name}')" for p in stored.parts]
    if stored.kind == "array":
        inner = [e]
    made_parts = [
        _part(p, d, i, old=old, depth=depth + 1)
        for p, d, i in zip(stored.parts, declared.parts, inner, strict=True)
    ]
    if made_parts == inner:
        return x
    if stored.kind == "array":
        return f"list_transform({x}, lambda {e}: {made_parts[0]})"
    key, value = made_parts
    return (
        f"map_from_entries(list_transform(map_entries({x}), "
        f"lambda {e}: struct_pack(k := {key}, v := {value})))"
    )


def _struct(stored: Stored, declared: Parsed, x: str, *, old: bool, depth: int) -> str:
    """Fields by name; one that the file lacks is null, and a struct that is there stays there."""
    items = []
    for name, part in zip(declared.names, declared.parts, strict=True):
        same = matches(stored.parts, name)
        if len(same) > 1:
            raise Mismatch(f"{stored}, with several fields like '{name}'")
        if not same:
            items.append(f"CAST(NULL AS {duck_of(part)})")
            continue
        inner = _field(stored, same[0], x)
        items.append(_part(same[0], part, inner, old=old, depth=depth))
    plain = [f"struct_extract({x}, {literal(n)})" for n in declared.names]
    if [p.name for p in stored.parts] == list(declared.names) and items == plain:
        return x
    packed = ", ".join(f"{quote(n)} := {i}" for n, i in zip(declared.names, items, strict=True))
    return f"CASE WHEN {x} IS NULL THEN NULL ELSE struct_pack({packed}) END"


def _field(stored: Stored, part: Stored, x: str) -> str:
    """A field of a struct. Where names differ in letter case only, the engine calls some by another name."""
    if len({p.name.lower() for p in stored.parts}) < len(stored.parts):
        return f"struct_extract_at({x}, {1 + [p is part for p in stored.parts].index(True)})"
    return f"struct_extract({x}, {literal(part.name)})"


def _part(stored: Stored, declared: Parsed, x: str, *, old: bool, depth: int) -> str:
    try:
        return reading(stored, declared, x, old=old, depth=depth)
    except Mismatch as error:
        raise Mismatch(f"{error} in {stored.name}") from None


def matches(columns: tuple[Stored, ...], name: str) -> list[Stored]:
    """The columns of that name, in any letter case."""
    return [c for c in columns if c.name.lower() == name.lower()]


def _of_leaf(leaf: Leaf, to: Parsed, x: str) -> str | None:
    """SQL of a leaf's values as an atom or decimal; None where Spark refuses."""
    if leaf.physical == "INT32":
        return _of_int32(leaf, to, x)
    if leaf.physical == "INT64":
        return _of_int64(leaf, to, x)
    if leaf.physical == "BYTE_ARRAY":
        return _of_bytes(leaf, to, x)
    if leaf.physical == "FIXED_LEN_BYTE_ARRAY":
        if leaf.meaning == "decimal":
            return _digits(leaf, x) if to.kind == "binary" else _of_decimal(leaf, to, x)
        if to.kind != "binary" or leaf.meaning not in ("", "uuid"):
            return None
        return f"unhex(replace(CAST({x} AS VARCHAR), '-', ''))" if leaf.meaning else x
    if leaf.physical == "INT96":
        if to.kind not in ("timestamp", "timestamp_ntz"):
            return None
        return x if to.kind == "timestamp_ntz" else _cast(x, to)
    if leaf.physical == "FLOAT" and to.kind == "double":
        return _cast(x, to)
    plain = {"BOOLEAN": "boolean", "FLOAT": "float", "DOUBLE": "double"}
    return x if plain.get(leaf.physical) == to.kind else None


def _of_int32(leaf: Leaf, to: Parsed, x: str) -> str | None:
    if leaf.meaning == "uint32":
        if to.kind == "double":  # Spark takes the highest bit for a sign here
            return _cast(_low_bits(x, 32), to)
        return _cast(x, to) if to.kind == "bigint" else None
    if to.kind == "decimal":
        if leaf.meaning == "decimal":
            return _of_decimal(leaf, to, x)
        wide = to.precision - to.scale >= 10 and leaf.meaning in ("", "int8", "int16", "int32")
        return _cast(x, to) if wide else None
    if leaf.meaning == "date":
        if to.kind == "date":
            return x
        if to.kind == "timestamp_ntz":
            return _cast(x, to)
    if to.kind not in (*_WHOLE, "double", "date"):
        return None
    if {"": "int", "int8": "tinyint", "int16": "smallint", "int32": "int"}.get(
        leaf.meaning
    ) == to.kind:
        return x
    whole = {
        "date": f"({x} - {EPOCH})",
        "time ms": f"epoch_ms({x})",
        "null": "CAST(NULL AS BIGINT)",
        "decimal": f"CAST({x} * CAST({10**leaf.scale} AS BIGINT) AS BIGINT)",
    }.get(leaf.meaning, x)
    if to.kind == "date":
        return f"({EPOCH} + CAST({whole} AS INTEGER))"
    bits = _WHOLE.get(to.kind, 64)
    return _cast(_low_bits(whole, bits) if bits < 32 else whole, to)


def _of_int64(leaf: Leaf, to: Parsed, x: str) -> str | None:
    if leaf.meaning == "uint64":
        exact = to.kind == "decimal" and (to.precision, to.scale) == (20, 0)
        return _cast(x, to) if exact else None
    if to.kind == "decimal":
        if leaf.meaning == "decimal":
            return _of_decimal(leaf, to, x)
        wide = to.precision - to.scale >= 20 and leaf.meaning in ("", "int64")
        return _cast(x, to) if wide else None
    instant = leaf.meaning.removeprefix("utc ")
    if to.kind in ("timestamp", "timestamp_ntz"):
        if instant not in ("timestamp ms", "timestamp us"):
            return None
        # Whether the times are local or of UTC makes no difference to Spark: the number counts.
        same = leaf.meaning.startswith("utc ") == (to.kind == "timestamp")
        return x if same else _cast(x, to)
    if to.kind != "bigint":
        return None
    return {
        "timestamp ms": f"epoch_ms({x})",
        "timestamp us": f"epoch_us({x})",
        "timestamp ns": f"epoch_ns(CAST({x} AS TIMESTAMP_NS))",
        "time us": f"epoch_us({x})",
        "time ns": f"(hour({x}) * 3600000000000 + minute({x}) * 60000000000 + nanosecond({x}))",
        "decimal": f"CAST({x} * CAST({10**leaf.scale} AS BIGINT) AS BIGINT)",
    }.get(instant, x)


def _of_bytes(leaf: Leaf, to: Parsed, x: str) -> str | None:
    if leaf.meaning == "decimal":
        return _of_decimal(leaf, to, x)
    text = leaf.meaning in ("string", "json", "enum")
    if to.kind == "string":
        if leaf.meaning == "string":
            return x
        return _cast(x, to) if text else f"decode({x})"
    if to.kind == "binary":
        return f"encode(CAST({x} AS VARCHAR))" if text else x
    return None


def _of_decimal(leaf: Leaf, to: Parsed, x: str) -> str | None:
    if to.kind != "decimal":
        return None
    if (to.precision, to.scale) == (leaf.precision, leaf.scale):
        return x
    whole = to.precision - to.scale >= leaf.precision - leaf.scale
    return _cast(x, to) if whole and to.scale >= leaf.scale else None


def _digits(leaf: Leaf, x: str) -> str:
    """The bytes of a decimal of a fixed length: its digits as a whole number, highest byte first."""
    whole = f"CAST(replace(CAST({x} AS VARCHAR), '.', '') AS HUGEINT)"
    return f"unhex(right(lpad(hex({whole}), 32, '0'), {2 * leaf.length}))"


def _low_bits(x: str, bits: int) -> str:
    """The lowest bits of an integer, as a signed number."""
    return f"(xor(CAST({x} AS BIGINT) & {(1 << bits) - 1}, {1 << (bits - 1)}) - {1 << (bits - 1)})"


def _cast(x: str, to: Parsed) -> str:
    return f"CAST({x} AS {duck_of(to)})"


def _by_calendar(to: Parsed, x: str) -> str:
    """Values of a writer that used the Julian calendar: those before the Gregorian one would be other days."""
    first = {"date": EPOCH.replace("1970-01-01", "1582-10-15"),
             "timestamp": "TIMESTAMPTZ '1900-01-01 00:00:00+00'"}.get(to.kind)  # fmt: skip
    if first is None:
        return x
    text = literal("values before the Gregorian calendar, written by an old version of Spark")
    return f"CASE WHEN {x} < {first} THEN CAST(error({text}) AS {duck_of(to)}) ELSE {x} END"
