"""Columns that Arrow stores in every type it has, and the types as which Spark 4.3 reads each of them."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

DECLARED = (
    "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal(5,2)", "decimal(9,0)",
    "decimal(10,0)", "decimal(12,2)", "decimal(14,4)", "decimal(18,4)", "decimal(20,0)", "decimal(30,5)",
    "decimal(38,10)", "string", "binary", "date", "timestamp", "timestamp_ntz", "array<int>", "struct<a:int>",
    "struct<z:int>", "map<string,int>",
)  # fmt: skip
_INT32 = "tinyint smallint int bigint double date"
_FROM_INT = "decimal(10,0) decimal(12,2) decimal(14,4) decimal(18,4)"
_WIDE = "decimal(20,0) decimal(30,5) decimal(38,10)"
_FROM_5_2 = "decimal(5,2) decimal(12,2) decimal(14,4) decimal(18,4) decimal(30,5) decimal(38,10)"
_FROM_9_0 = f"decimal(9,0) {_FROM_INT} {_WIDE}"
_FROM_12_2 = "decimal(12,2) decimal(14,4) decimal(18,4) decimal(30,5) decimal(38,10)"
_INSTANT = "bigint timestamp timestamp_ntz"

READ = {
    "bool": "boolean",
    "i8": f"{_INT32} {_FROM_INT} {_WIDE}",
    "i16": f"{_INT32} {_FROM_INT} {_WIDE}",
    "i32": f"{_INT32} {_FROM_INT} {_WIDE}",
    "i64": f"bigint {_WIDE}",
    "u8": _INT32,
    "u16": _INT32,
    "u32": "bigint double",
    "u64": "decimal(20,0)",
    "f32": "float double",
    "f64": "double",
    "d5_2": f"{_FROM_5_2} binary",
    "d9_0": f"{_FROM_9_0} binary",
    "d12_2": f"{_FROM_12_2} binary",
    "d20_0": f"{_WIDE} binary",
    "d30_5": "decimal(30,5) decimal(38,10) binary",
    "d5_2 whole": f"{_INT32} {_FROM_5_2}",
    "d9_0 whole": f"{_INT32} {_FROM_9_0}",
    "d12_2 whole": f"bigint {_FROM_12_2}",
    "d18_4 whole": "bigint decimal(18,4) decimal(30,5) decimal(38,10)",
    "string": "string binary",
    "large string": "string binary",
    "dictionary": "string binary",
    "bytes": "string binary",
    "fixed": "binary",
    "uuid": "binary",
    "json": "string binary",
    "date": "tinyint smallint int bigint double date timestamp_ntz",
    "time ms": _INT32,
    "time us": "bigint",
    "time ns": "bigint",
    "local ms": _INSTANT,
    "utc ms": _INSTANT,
    "local us": _INSTANT,
    "utc us": _INSTANT,
    "local ns": "bigint",
    "utc ns": "bigint",
    "int96": "timestamp timestamp_ntz",
    "null": _INT32,
    "duration": f"bigint {_WIDE}",
    "list": "array<int>",
    "fixed list": "array<int>",
    "struct": "struct<a:int> struct<z:int>",
    "map": "map<string,int>",
}
"""Every pair that is not here is refused."""

_TIMES = (1767323045123456, -12345678901)


def stored(name: str) -> pa.Array:
    """Two values and a null."""
    kind, _, unit = name.partition(" ")
    if kind in ("local", "utc", "int96"):
        scale = {"ms": Decimal("0.001"), "us": Decimal(1), "ns": Decimal(1000), "": Decimal(1000)}[unit]  # fmt: skip
        values = [int(t * scale // 1) + (7 if scale == 1000 else 0) for t in _TIMES]
        return pa.array([*values, None], pa.timestamp(unit or "ns", "UTC" if kind == "utc" else None))  # fmt: skip
    if kind[0] == "d" and kind[1].isdigit():
        precision, scale = map(int, kind[1:].split("_"))
        values = [Decimal(v).quantize(Decimal(1).scaleb(-scale)) for v in ("123", "-7")]
        return pa.array([*values, None], pa.decimal128(precision, scale))
    if kind == "time":
        return pa.array([1000, 2, None], pa.time32(unit) if unit == "ms" else pa.time64(unit))
    struct = pa.struct([("a", pa.int32()), ("b", pa.string())])
    made: dict[str, pa.Array] = {
        "bool": pa.array([True, False, None]),
        "i8": pa.array([5, -7, None], pa.int8()),
        "i16": pa.array([300, -7, None], pa.int16()),
        "i32": pa.array([70_000, -7, None], pa.int32()),
        "i64": pa.array([5_000_000_000, -7, None], pa.int64()),
        "u8": pa.array([200, 7, None], pa.uint8()),
        "u16": pa.array([60_000, 7, None], pa.uint16()),
        "u32": pa.array([4_000_000_000, 7, None], pa.uint32()),
        "u64": pa.array([2**64 - 5, 7, None], pa.uint64()),
        "f32": pa.array([1.5, 0.1, None], pa.float32()),
        "f64": pa.array([1.5, 0.1, None], pa.float64()),
        "string": pa.array(["7", "é", None]),
        "large string": pa.array(["7", "é", None], pa.large_string()),
        "dictionary": pa.array(["7", "é", None]).dictionary_encode(),
        "bytes": pa.array([b"7", "é".encode(), None], pa.binary()),
        "fixed": pa.array([b"abcd", b"\x00\xff12", None], pa.binary(4)),
        "uuid": pa.array([b"0123456789abcdef", b"\xff" * 16, None], pa.uuid()),
        "json": pa.array(["{}", "[1]", None], pa.json_(pa.string())),
        "date": pa.array([20_000, -3, None], pa.date32()),
        "null": pa.nulls(3),
        "duration": pa.array([1, -2, None], pa.duration("us")),
        "list": pa.array([[1, None], [], None], pa.list_(pa.int32())),
        "fixed list": pa.array([[1, None], [2, 3], None], pa.list_(pa.int32(), 2)),
        "struct": pa.array([{"a": 1, "b": "x"}, {"a": None, "b": None}, None], struct),
        "map": pa.array([[("x", 1)], [], None], pa.map_(pa.string(), pa.int32())),
    }
    return made[name]


def written(folder: Path) -> Iterator[tuple[str, str, str]]:
    """Write each pair that is read as a column of its own; (column, what is stored, declared type) of each.

    How a decimal or a time is stored is said for a whole file, so there are three.
    """
    files: dict[str, dict[str, Any]] = {"plain": {}, "whole": {}, "int96": {}}
    for name, types in READ.items():
        for declared in types.split():
            column = f"c{sum(map(len, files.values()))}"
            file = "int96" if name == "int96" else "whole" if name.endswith("whole") else "plain"
            files[file][column] = stored(name)
            yield column, name, declared
    options: dict[str, dict[str, Any]] = {
        "plain": {}, "whole": {"store_decimal_as_integer": True}, "int96": {"use_deprecated_int96_timestamps": True},
    }  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    for file, columns in files.items():
        pq.write_table(pa.table(columns), folder / f"{file}.parquet", **options[file])
