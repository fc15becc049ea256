"""A row as Arrow columns, for conditions that are functions on such: times are integers, as everywhere in the oracle.

Types are named here once more, since the oracle shares nothing with the kernels that it checks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import pyarrow as pa

from slackwater.model.schema import Field
from slackwater.testing.oracle.types import Row

TYPES = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "timestamp": pa.int64(),
    "timestamp_ntz": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
}


def one_row(fields: Iterable[Field], row: Row) -> pa.Table:
    """A table of one row; types that have parts are those that Arrow sees in the values."""
    return pa.table({f.name: pa.array([row[f.name]], _type(f.type)) for f in fields})


def _type(name: str) -> pa.DataType | None:
    if decimal := re.fullmatch(r"decimal\((\d+),\s*(-?\d+)\)", name):
        return pa.decimal128(int(decimal[1]), int(decimal[2]))
    return TYPES.get(name)
