"""Types in three spellings."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

from slackwater.errors import AnalysisError
from slackwater.kernels import column_engine
from slackwater.kernels.types import arrow_schema, arrow_type, cast_table, duck_type, parse
from slackwater.model.schema import Field

UTC = pa.timestamp("us", "UTC")


@pytest.mark.parametrize(
    ("text", "arrow"),
    [
        ("boolean", pa.bool_()),
        ("tinyint", pa.int8()),
        ("smallint", pa.int16()),
        ("int", pa.int32()),
        ("bigint", pa.int64()),
        ("float", pa.float32()),
        ("double", pa.float64()),
        ("decimal(10,2)", pa.decimal128(10, 2)),
        ("decimal(38, 38)", pa.decimal128(38, 38)),
        ("string", pa.string()),
        ("varchar(10)", pa.string()),
        ("binary", pa.binary()),
        ("date", pa.date32()),
        ("timestamp", UTC),
        ("timestamp_ntz", pa.timestamp("us")),
        ("array<array<int>>", pa.list_(pa.list_(pa.int32()))),
        ("map<string,decimal(5,1)>", pa.map_(pa.string(), pa.decimal128(5, 1))),
        ("struct<start:timestamp,end:timestamp>", pa.struct([("start", UTC), ("end", UTC)])),
        (
            "struct<a b:int,m:map<string,struct<x:int,y:array<bigint>>>>",
            pa.struct(
                [
                    ("a b", pa.int32()),
                    (
                        "m",
                        pa.map_(
                            pa.string(),
                            pa.struct([("x", pa.int32()), ("y", pa.list_(pa.int64()))]),
                        ),
                    ),
                ]
            ),
        ),
        ("struct<`a:b`:int>", pa.struct([("a:b", pa.int32())])),
        ("struct<>", pa.struct([])),
    ],
)
def test_arrow_types(text, arrow):
    assert arrow_type(text) == arrow
    assert arrow_type(text.upper() if ":" not in text else text) == arrow


@pytest.mark.parametrize(
    "text",
    ["boolean", "tinyint", "bigint", "float", "decimal(38,10)", "string", "binary", "date",
     "timestamp", "timestamp_ntz", "array<int>", "map<string,bigint>",
     "struct<a:int,b:array<string>>"],
)  # fmt: skip
def test_the_column_engine_gives_back_the_same_arrow_type(text):
    con = column_engine.connect()
    sql = f'SELECT CAST(NULL AS {duck_type(text)}) AS "x"'
    got = column_engine.sql_to_arrow(con, sql, {}).schema.field("x").type
    assert cast_table(pa.table({"x": pa.nulls(1, got)}), [Field("x", text)]).num_rows == 1
    flat = arrow_type(text)
    assert got == flat or pa.types.is_nested(flat)


@pytest.mark.parametrize(
    "text", ["interval day", "decimal(39,0)", "decimal(5,6)", "array<", "map<int>", "x"]
)
def test_unknown_types_are_named(text):
    with pytest.raises(AnalysisError) as e:
        parse(text)
    assert e.value.condition == "UNSUPPORTED_TYPE" and text in str(e.value)


def test_cast_table_is_exact_and_lazy():
    fields = [Field("a", "int"), Field("b", "timestamp")]
    table = pa.table({"a": pa.array([1], pa.int32()), "b": pa.array([0], UTC)})
    assert table.schema == arrow_schema(fields)
    assert cast_table(table, fields) is table
    wide = pa.table({"b": pa.array([0], pa.timestamp("ms", "UTC")), "a": [2**31], "c": [1]})
    with pytest.raises(pa.ArrowInvalid):
        cast_table(wide, fields)
    fine = wide.set_column(1, "a", pa.array([7]))
    assert cast_table(fine, fields).schema == arrow_schema(fields)


def test_values_cross_into_the_column_engine_and_back():
    when = dt.datetime(2026, 1, 31, 12, 0, 0, 1, tzinfo=dt.timezone.utc)
    table = pa.table(
        {
            "ts": pa.array([when, None], UTC),
            "d": pa.array([Decimal("-1.10"), None], pa.decimal128(38, 2)),
            "s": pa.array(["é", None]).dictionary_encode(),
            "v": pa.array(["x", None], pa.string_view()),
        }
    )
    got = column_engine.sql_to_arrow(column_engine.connect(), "SELECT * FROM t", {"t": table})
    assert got.to_pylist() == table.to_pylist()
    assert got.schema.types == [UTC, pa.decimal128(38, 2), pa.string(), pa.string()]


@pytest.mark.parametrize("name", ["a,b", "<", ">", "<>", "(", ")", "x:y", "`", "a`,<`b", '"', " "])
def test_any_name_of_a_field(name: str) -> None:
    quoted = "`" + name.replace("`", "``") + "`"
    text = f"struct<{quoted}:int,z:array<struct<{quoted}:string,y:map<string,decimal(3,1)>>>>"
    inner = pa.struct({name: pa.string(), "y": pa.map_(pa.string(), pa.decimal128(3, 1))})
    assert arrow_type(text) == pa.struct({name: pa.int32(), "z": pa.list_(inner)})
