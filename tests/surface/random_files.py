"""Random directories of parquet files under one random schema: what a split source must read as Spark does."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.surface.helpers import UTC, times, write

_S = pa.struct
# Declared type: types that files may have in its place, the fitting ones first; after None those that are refused.
TYPES: dict[str, tuple[pa.DataType | None, ...]] = {
    "smallint": (pa.int16(), pa.int8(), pa.int32(), pa.uint8(), None, pa.int64()),
    "int": (pa.int32(), pa.int16(), pa.uint16(), pa.date32(), None, pa.int64(), pa.uint32(), pa.string()),
    "bigint": (pa.int64(), pa.int32(), pa.uint32(), pa.timestamp("us"), None, pa.float64(), pa.uint64()),
    "double": (pa.float64(), pa.float32(), pa.int32(), None, pa.int64(), pa.string()),
    "decimal(12,2)": (pa.decimal128(12, 2), pa.decimal128(5, 1), pa.int32(), None, pa.decimal128(12, 3), pa.float64()),
    "string": (pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string()), pa.binary(), None, pa.int32()),
    "binary": (pa.binary(), pa.string(), pa.binary(4), None, pa.float64()),
    "date": (pa.date32(), pa.int16(), None, pa.timestamp("us"), pa.string()),
    "timestamp": (pa.timestamp("us", "UTC"), pa.timestamp("ms", "UTC"), pa.timestamp("us"), None, pa.timestamp("ns"), pa.int64()),
    "timestamp_ntz": (pa.timestamp("us"), pa.timestamp("ms", "UTC"), pa.date32(), None, pa.int64()),
    "array<bigint>": (pa.list_(pa.int64()), pa.list_(pa.uint32()), pa.large_list(pa.int32()), None, pa.list_(pa.float64()), pa.int64()),
    "map<string,int>": (pa.map_(pa.string(), pa.int32()), pa.map_(pa.binary(), pa.int16()), None, pa.map_(pa.string(), pa.float64())),
    "struct<x:int,y:string>": (
        _S([("x", pa.int32()), ("y", pa.string())]), _S([("Y", pa.binary()), ("q", pa.int64()), ("x", pa.int8())]),
        _S([("q", pa.int64())]), None, _S([("x", pa.float64())]), pa.string(),
    ),
    "array<struct<x:bigint>>": (
        pa.list_(_S([("x", pa.int64())])), pa.list_(_S([("X", pa.int32()), ("z", pa.bool_())])),
        pa.list_(_S([("z", pa.bool_())])), None, pa.list_(pa.int64()),
    ),
}  # fmt: skip
FOLDERS = {
    "int": ("7", "-3", "007", "1.5"), "string": ("a%20b", "é", "x=y", "%41"), "date": ("2026-01-02", "2026-1-2", "x"),
    "timestamp": ("2026-01-02 03%3A04%3A05", "2026-07-02", "2026-01-02T03%3A04%3A05Z", "soon"),
    "double": ("1.5", "-2", "nan"),
}  # fmt: skip


def directory(rng: random.Random, root: Path) -> str:
    """Files below ``root``; the schema to read them with has a column ``ts``."""
    columns = {f"c{i}": rng.choice(list(TYPES)) for i in range(rng.randint(1, 5))}
    wrong = rng.random() < 0.2  # whether files may have what is refused
    layout, keys = _layout(rng, wrong)
    for i in range(rng.randint(1, 4)):
        rows = rng.choice((0, 1, 5, 40))
        made: dict[str, Any] = {"ts": times(*(rng.randint(0, 9999) for _ in range(rows)))}
        for name, declared in columns.items():
            if rng.random() < 0.85:
                shown = name.upper() if rng.random() < 0.2 else name
                made[shown] = _array(rng, _type(rng, declared, wrong and rng.random() < 0.2), rows)
        if rng.random() < 0.3:
            made["extra"] = pa.array(range(rows), pa.int64())
        if keys and rng.random() < 0.4:
            made[next(iter(keys))] = pa.array(["in the file"] * rows)
        order = rng.sample(list(made), len(made))
        write(root, f"{_folder(rng, layout)}f{i}.parquet", {n: made[n] for n in order},
              compression=rng.choice(("none", "snappy", "zstd", "gzip")), row_group_size=rng.choice((3, 1000)),
              use_dictionary=rng.random() < 0.5)  # fmt: skip
    if rng.random() < 0.3:
        (root / "zero.parquet").touch()
        pq.write_table(pa.table({"ts": times(1)}), root / "_hidden.parquet")
    declared = {"ts": "timestamp", **columns, **keys}
    return ", ".join(f"{n} {t}" for n, t in declared.items())


def _layout(rng: random.Random, wrong: bool) -> tuple[list[list[str]], dict[str, str]]:
    """For each level the names that folders may have, and the declared ones among the columns."""
    kinds = {n: rng.choice(list(FOLDERS)) for n in rng.sample(("k", "m"), rng.choice((0, 0, 1, 2)))}
    levels = []
    for name, kind in kinds.items():
        values = [*(FOLDERS[kind] if wrong else FOLDERS[kind][:-1]), "__HIVE_DEFAULT_PARTITION__"]
        levels.append([f"{n}={v}" for n in (name, name.upper()) for v in values])
    if levels and wrong:
        levels[0].append(rng.choice(("plain", "other=1")))
    return levels, {n: kind for n, kind in kinds.items() if rng.random() < 0.8}


def _folder(rng: random.Random, layout: list[list[str]]) -> str:
    if layout and rng.random() < 0.1:
        return ""  # beside the folders
    return "".join(f"{rng.choice(names)}/" for names in layout)


def _type(rng: random.Random, declared: str, wrong: bool) -> pa.DataType:
    kinds = TYPES[declared]
    middle = kinds.index(None)
    return rng.choice(kinds[middle + 1 :] if wrong else (kinds[0], *kinds[:middle]))


def _array(rng: random.Random, kind: pa.DataType, rows: int) -> pa.Array:
    return pa.array([_value(rng, kind) for _ in range(rows)], kind)


def _value(rng: random.Random, kind: pa.DataType) -> Any:
    if rng.random() < 0.2:
        return None
    if pa.types.is_struct(kind):
        return {f.name: _value(rng, f.type) for f in kind}
    if pa.types.is_map(kind):
        keys = rng.sample("xyz", rng.randint(0, 3))
        made = [k.encode() if pa.types.is_binary(kind.key_type) else k for k in keys]
        return [(k, _value(rng, kind.item_type)) for k in made]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [_value(rng, kind.value_type) for _ in range(rng.randint(0, 3))]
    if pa.types.is_floating(kind):
        return rng.choice((0.5, -1.25, 1e10, 0.1 if kind.bit_width == 64 else 0.25))
    if pa.types.is_decimal(kind):
        return Decimal(rng.randint(-9999, 9999)).scaleb(-kind.scale)
    if pa.types.is_boolean(kind):
        return rng.random() < 0.5
    if pa.types.is_date(kind):
        return dt.date(1960 + rng.randint(0, 90), 3, 4)
    if pa.types.is_timestamp(kind):
        return dt.datetime(
            1960 + rng.randint(0, 90), 3, 4, 5, 6, 7, rng.randint(0, 999) * 1000, UTC
        )
    if pa.types.is_fixed_size_binary(kind):
        return bytes(rng.randint(0, 255) for _ in range(4))
    if pa.types.is_binary(kind):
        return rng.choice(("", "7", "é")).encode()
    if pa.types.is_integer(kind):
        low = 0 if pa.types.is_unsigned_integer(kind) else -(1 << (kind.bit_width - 1))
        return rng.choice((low, low + (1 << kind.bit_width) - 1, 1, 7))
    return rng.choice(("", "7", "é", "x y"))
