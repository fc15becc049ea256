"""Expressions whose text must say all: names of fields, backslashes, types of times. Both engines, against Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest
from pyspark.sql import functions as F

import slackwater as sw
from slackwater.engine.analysis.analyse import Analyser
from slackwater.model.schema import Field
from tests.surface.helpers import at, refused, run, times, write
from tests.surface.test_settings import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SCHEMA = "ts timestamp, k string, g int, v bigint, arr array<int>, s struct<a:int,b:string>"
COLUMNS: dict[str, Any] = {
    "ts": times(1, 2),
    "k": ["x", "a'b\\c"],
    "g": pa.array([7, 8], pa.int32()),
    "v": [9, 10],
    "arr": pa.array([[1, 2], None], pa.list_(pa.int32())),
    "s": pa.array(
        [{"a": 1, "b": "u"}, {"a": 2, "b": None}], pa.struct({"a": pa.int32(), "b": pa.string()})
    ),
}
FIELDS = tuple(Field(*part.split(" ", 1)) for part in SCHEMA.split(", "))


def compared(
    spark: SparkSession, folder: Path, kind: str, expressions: list[str], keep: str
) -> None:
    """What a select gives here and in Spark; ``keep`` is a condition that must hold for both."""
    write(folder / "in", "0.parquet", COLUMNS)
    df = sw.readStream(spark).schema(SCHEMA).parquet(str(folder / "in"))
    s = sw.stream(df if kind == "splits" else df.rows_frame(), time="ts", name="s")
    named = [f"{e} AS c{i}" for i, e in enumerate(expressions)]
    done = run(s.where(keep).select("ts", *named), folder / "ck")
    frame = spark.read.schema(SCHEMA).parquet(str(folder / "in")).where(keep).orderBy("ts")
    want = [r.asDict(recursive=True) for r in frame.selectExpr(*named).collect()]
    got = sorted(done.rows(), key=lambda r: r["ts"])
    for row in got:
        del row["ts"]
    assert got == want


STRUCTS = [
    "struct(array(g) AS z, v > 9 AS q)",
    "struct(struct(v > 9 AS a, g) AS b, array(struct(g AS c, s.a)) AS d)",
    "named_struct('z', struct(v AS y), 'q', v > 9)",
    "transform(arr, x -> struct(x AS y, x > v AS z, g))",
    "map(k, struct(v > 9 AS q)) [k]",
    "to_json(struct(v > 9 AS q, s.b AS `it's`))",
    "struct(g AS G, k AS `a b`, v AS `c``d`).`c``d`",
    "aggregate(arr, struct(0 AS n), (acc, x) -> struct(acc.n + x AS n)).n",
]


@pytest.mark.parametrize("kind", ["splits", "rows"])
def test_fields_of_structs_keep_their_names(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    compared(spark, tmp_path, kind, STRUCTS, "struct(v > 0 AS q).q")


CASTS = [
    "CAST(s AS struct<x:bigint,y:string>)",
    "CAST(s AS struct<a:string,b:string>).a",
    "try_cast(s AS struct<x:string,y:int>)",
    "CAST(arr AS array<string>)",
    "array_intersect(CAST(arr AS array<double>), array(1.0D))",
    "CAST(reverse(arr) AS array<double>)",
    "CAST(array(s) AS array<struct<q:double,w:string>>)",
    "CAST(map(k, s) AS map<string, struct<`p q`:bigint, r:string>>)[k]",
    "string(CAST(named_struct('t', DATE'2024-03-10') AS struct<`t.u`:timestamp>))",
    "array_sort(array_compact(arr))",
    "nullif(s, s)",
    "nullif(arr, array(1, 2))",
    "if(v > 9, s, NULL)",
    "coalesce(NULL, CAST(NULL AS array<int>), arr)",
]


@pytest.mark.parametrize("kind", ["splits", "rows"])
def test_casts_to_nested_types_are_made(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    """Spark's own text of such a cast leaves it out."""
    with settings(spark, ansi__enabled="false"):
        compared(spark, tmp_path, kind, CASTS, "true")


def test_structs_of_aggregates_keep_their_names(spark: SparkSession, tmp_path: Path) -> None:
    rows = [[("a", at(1), 1), ("a", at(2), 12)]]
    s = sw.stream(sw.replay(spark, rows, "k string, ts timestamp, v bigint"), time="ts", name="s")
    counts = s.groupBy(F.struct(F.col("k").alias("n")).alias("key"), sw.window("5 seconds")).agg(
        "struct(sum(v) AS z, count(*) > 9 AS q) AS o", "collect_list(struct(v > 9 AS q)) AS l"
    )
    (row,) = run(counts, tmp_path / "ck").rows()
    assert row["o"] == {"z": 13, "q": False} and row["l"] == [{"q": False}, {"q": True}]
    assert row["key"] == {"n": "a"}


BACKSLASHES = [
    r"k || 'a\b'", r"k || '\n'", "k || \"it's\"", r"k LIKE '%b\\\\c'", r"k rlike '\\\\'",
    r"replace(k, '\\', '/')", r"struct(g AS `a\b`)", r"concat(k, 'x', '')",
]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "escaped"), [("splits", "true"), ("rows", "true"), ("splits", "false")]
)
def test_backslashes_mean_what_spark_says(
    spark: SparkSession, tmp_path: Path, kind: str, escaped: str
) -> None:
    with settings(spark, parser__escapedStringLiterals=escaped):
        compared(spark, tmp_path, kind, BACKSLASHES, r"k <> 'a\b'")


def test_a_string_that_ends_in_a_backslash_can_be_written(spark: SparkSession) -> None:
    for escaped in ("true", "false"):
        with settings(spark, parser__escapedStringLiterals=escaped):
            for text in ("a\\", "'", "\\'", "a\\\\", "it's \\", ""):
                (made,) = Analyser(spark).columns(FIELDS, [F.lit(text)])
                assert spark.range(1).select(F.expr(made.expr.sql)).first()[0] == text
                if made.expr.duck is not None:
                    assert duckdb.sql(f"SELECT {made.expr.duck}").fetchall() == [(text,)]


def test_options_that_a_text_would_lose_are_refused(spark: SparkSession) -> None:
    for text in ("to_json(s, map('ignoreNullFields', 'false'))", "to_csv(s, map('sep', ';'))"):
        refused(lambda t=text: Analyser(spark).columns(FIELDS, [t]), "BAD_EXPRESSION", "sw.stream")
    Analyser(spark).columns(FIELDS, ["to_json(s)", "to_csv(s)"])


def test_timestamps_inside_of_nested_types_keep_their_type(spark: SparkSession) -> None:
    text = "CAST(array(DATE'2024-03-10') AS array<timestamp_ltz>)"
    for plain in ("TIMESTAMP_NTZ", "TIMESTAMP_LTZ"):
        with settings(spark, timestampType=plain):
            (made,) = Analyser(spark).columns(FIELDS, [text])
            read = spark.range(1).select(F.expr(made.expr.sql))
            assert made.expr.type == "array<timestamp>"
            assert read.schema[0].dataType.simpleString() == "array<timestamp>"


def test_timestamps_keep_their_type_where_plain_ones_have_no_zone(spark: SparkSession) -> None:
    fields = (
        Field("t", "timestamp"),
        Field("d", "date"),
        Field("w", "struct<start:timestamp,timestamp:int>"),
    )
    with settings(spark, timestampType="TIMESTAMP_NTZ", session__timeZone="Asia/Tokyo"):
        made = Analyser(spark).columns(
            fields,
            [
                "w",
                "t > d",
                "cast(d AS timestamp)",
                "cast(d AS timestamp_ltz)",
                "w.start + interval 1 hour",
            ],
        )
        assert [n.expr.type for n in made] == [
            fields[2].type, "boolean", "timestamp_ntz", "timestamp", "timestamp",
        ]  # fmt: skip


def test_a_time_beyond_the_column_engine_is_refused_with_its_row(
    spark: SparkSession, tmp_path: Path
) -> None:
    write(tmp_path / "in", "0.parquet", {"ts": times(1, 2), "l": [5, (1 << 63) - 1]})
    df = sw.readStream(spark).schema("ts timestamp, l bigint").parquet(str(tmp_path / "in"))
    s = sw.stream(df, time="ts", name="s")
    found = s.withColumn("t", "timestamp_micros(l)")
    error = refused(
        lambda: run(found, tmp_path / "ck"), "EXPRESSION_FAILED", f"l = {(1 << 63) - 1}",
        kind=sw.ExecutionError,
    )  # fmt: skip
    assert "before sw.stream" in error.hint
