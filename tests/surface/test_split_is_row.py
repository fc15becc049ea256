"""A split source and a row source over one directory: the same rows, or the same refusal."""

from __future__ import annotations

import datetime as dt
import os
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import slackwater as sw
from tests.surface.helpers import at, refused, run, times, write
from tests.surface.random_files import directory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("compiled_code")]

SCHEMA = "ts timestamp, v string"
STRANGE = "in [1]{a}*?\\'%20#é"


def rows(name: str) -> dict[str, Any]:
    return {"ts": times(1), "v": [name]}


def by_rows(spark: SparkSession, folder: Path, schema: Any = SCHEMA) -> sw.Stream:
    df = spark.readStream.schema(schema).parquet(str(folder))
    return sw.stream(df, time="ts", name=f"rows {folder.name}", progress=sw.Ordered())


def by_splits(spark: SparkSession, folder: Path, schema: Any = SCHEMA, **options: Any) -> sw.Stream:
    df = sw.readStream(spark).schema(schema).options(**options).parquet(str(folder))
    return sw.stream(df, time="ts", name=f"splits {folder.name} {options}", progress=sw.Ordered())


def fails(stream: sw.Stream, checkpoint: Path, condition: str, *names: str) -> None:
    """The query ends with this error, and has put nothing out."""
    taken: list[Any] = []
    writer = stream.writeStream._foreach_table(lambda table, batch: taken.append(table))

    def start() -> None:
        query = sw.start([writer], checkpointLocation=str(checkpoint), trigger={"availableNow": True})  # fmt: skip
        query.awaitTermination()

    refused(start, condition, *names, kind=sw.ExecutionError)
    assert not taken


@pytest.fixture
def new_york(spark: SparkSession) -> Iterator[SparkSession]:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    yield spark
    spark.conf.set("spark.sql.session.timeZone", before)


@pytest.mark.parametrize(
    "seeds",
    [(0,), *(pytest.param(range(i, i + 3), marks=pytest.mark.faults) for i in range(6, 36, 3))],
)
def test_directories_in_one_batch(
    new_york: SparkSession, tmp_path: Path, seeds: Sequence[int]
) -> None:
    """Random ones that Spark reads, and those that went wrong once, all in one query."""
    from pyspark.sql.types import StructType

    spark = new_york
    schemas = {}
    for seed in seeds:
        schemas[f"d{seed}"] = directory(random.Random(seed), tmp_path / f"d{seed}")
    of_seeds = frozenset(schemas)
    write(
        tmp_path / "k=7" / "above", "x.parquet",
        {**rows("x"), "s": pa.array([{"q": 1}]), "u": pa.array([2**32 - 1], pa.uint32()), "": [1],
         "d": pa.array(["d"]).dictionary_encode(), "b": [b"b"], "t": ["t"], "file_row_number": [5]},
    )  # fmt: skip
    schemas["k=7/above"] = (
        f"{SCHEMA}, k int, s struct<a:int>, u bigint, d string, b string, t binary, file_row_number bigint"
    )
    inside = "K=7/p=2026-01-02 03%3A04%3A05/x.parquet"
    write(tmp_path / "inside", inside, {**rows("x"), "k": [1]})
    schemas["inside"] = f"{SCHEMA}, k int, p timestamp"
    outputs, expected = {}, {}
    for name, schema in schemas.items():
        names = StructType.fromDDL(schema).fieldNames()  # type: ignore[union-attr]
        chance = random.Random(name)
        if (
            name in of_seeds and chance.random() < 0.5
        ):  # the others are not read, whatever files have there
            names = [n for n in names if n == "ts" or chance.random() < 0.5]
        try:
            frame = spark.read.schema(schema).parquet(str(tmp_path / name)).select(names)
            expected[name] = frame.toArrow()
        except Exception:  # Spark refuses it, at the one moment or the other
            continue
        for kind, made in (("rows", by_rows), ("splits", by_splits)):
            outputs[f"{kind} {name}".replace("/", "-")] = made(spark, tmp_path / name, schema).select(*names)  # fmt: skip
    assert {"k=7/above", "inside"} <= expected.keys()
    done = run(outputs, tmp_path / "ck", end=False)
    for name, table in expected.items():
        wanted = sorted(map(_text, table.to_pylist()))
        for kind in ("rows", "splits"):
            got = done.rows(f"{kind} {name}".replace("/", "-"))
            assert sorted(map(_text, got)) == wanted, (kind, name, schemas[name])
    assert expected["k=7/above"]["k"].to_pylist() == [None]
    assert expected["inside"]["k"].to_pylist() == [7]
    assert (
        str(expected["inside"]["p"][0].as_py().astimezone(dt.timezone.utc))
        == "2026-01-02 08:04:05+00:00"
    )


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k}: {_text(v)}" for k, v in sorted(value.items())) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_text, value)) + "]"
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return value.astimezone(dt.timezone.utc).isoformat()
    return repr(value)


def test_names_that_spark_takes_for_patterns(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    for name in ("c[ab].parquet", "ca.parquet", "a*.parquet", "ab.parquet", "b\\c;d.parquet"):
        write(folder, name, rows(name))
    splits = by_splits(spark, folder)
    assert sorted(r["v"] for r in run(splits, tmp_path / "ck", end=False).rows()) == [
        "a*.parquet", "ab.parquet", "b\\c;d.parquet", "c[ab].parquet", "ca.parquet"]  # fmt: skip
    condition = "PATTERN_IN_PATH"
    fails(by_rows(spark, folder), tmp_path / "ck2", condition, "rename", "as splits")
    fails(splits.select("ts", "soundex(v) AS v"), tmp_path / "ck3", condition, str(folder))


def test_directories_that_spark_takes_for_patterns(spark: SparkSession, tmp_path: Path) -> None:
    """Source, checkpoint and sinks with every such character in their names; neighbours are not touched."""
    write(tmp_path / STRANGE, "k=1/a[1].parquet", rows("mine"))
    for other in ("in 1a", "in [1]ab"):
        write(tmp_path / other, "k=2/b.parquet", rows("not mine"))
    base = tmp_path / STRANGE.replace("in", "out")
    s = by_splits(spark, tmp_path / STRANGE, f"{SCHEMA}, k int").select("v", "k", "ts")
    seen: list[Any] = []
    writers = [
        s.writeStream.queryName("p[1]*").format("parquet").option("path", str(base / "p")),
        s.writeStream.queryName("j").format("json").option("path", str(base / "j")),
        s.writeStream.queryName("m*[x]").format("memory"),
        s.writeStream.queryName("f").foreachBatch(lambda df, batch: seen.extend(df.collect())),
    ]
    for _ in range(2):  # started again, it goes on from its state and finds nothing new
        query = sw.start(
            writers, checkpointLocation=str(base / "ck"), trigger={"availableNow": True}
        )
        query.awaitTermination()
    assert [tuple(r) for r in spark.table("`m*[x]`").collect()] == [
        ("mine", 1, at(1).replace(tzinfo=None))
    ]
    assert {(r["v"], r["k"]) for r in seen} == {("mine", 1)}
    published = [p for p in (base / "p").glob("*.parquet") if pq.read_metadata(p).num_rows]
    assert [pq.read_table(p).to_pylist() for p in published] == [
        [{"v": "mine", "k": 1, "ts": at(1)}]
    ]
    (text,) = (p.read_text() for p in (base / "j").glob("*.json"))
    assert text.startswith('{"v":"mine","k":1,"ts":"2026-01-01T00:00:01')


def test_what_is_refused_at_the_start(spark: SparkSession, tmp_path: Path) -> None:
    from pyspark.sql.types import IntegerType, StructField, StructType, TimestampType

    (tmp_path / "in[1]").mkdir()
    (tmp_path / "in1").mkdir()
    read = sw.readStream(spark).schema(SCHEMA)
    folder = str(tmp_path / "in[1]")
    refused(lambda: read.csv(folder), "PATTERN_IN_PATH", folder)
    refused(lambda: read.json(folder), "PATTERN_IN_PATH", folder)
    refused(lambda: read.parquet(str(tmp_path / "in*")), "PATH_NOT_FOUND", "in*")
    asked = by_splits(spark, tmp_path / "in[1]").select("ts", "soundex(v) AS v").writeStream
    refused(lambda: asked.format("noop").start(), "PATTERN_IN_PATH", folder)

    plain = tmp_path / "in1"
    for make in (by_rows, by_splits):
        for kind in (IntegerType(), StructType([StructField("", IntegerType())])):
            name = "s" if isinstance(kind, StructType) else ""
            made = StructType([StructField("ts", TimestampType()), StructField(name, kind)])
            refused(lambda m=make, s=made: m(spark, plain, s), "EMPTY_NAME")  # type: ignore[misc]
        refused(
            lambda m=make: m(spark, plain, "ts timestamp, k int, K int"), "DUPLICATE_COLUMN", "K"
        )  # type: ignore[misc]
    refused(
        lambda: by_splits(spark, plain, "ts timestamp, k varchar(5)"), "UNSUPPORTED_TYPE", "'k'"
    )
    refused(lambda: by_splits(spark, plain, basePath="/"), "BAD_OPTION", "basePath")
    refused(
        lambda: by_splits(spark, plain, maxFilePerTrigger=1), "BAD_OPTION", "maxFilesPerTrigger"
    )

    for stream, why in (
        (by_splits(spark, plain, f"{SCHEMA}, n void"), "void"),
        (by_splits(spark, plain, ignoreCorruptFiles=True), "ignoreCorruptFiles"),
    ):
        assert why in next(iter(stream._inputs.values())).by_rows  # type: ignore[union-attr]
    spark.conf.set("spark.sql.parquet.enableVectorizedReader", "false")
    try:
        (item,) = by_splits(spark, plain)._inputs.values()
        assert "enableVectorizedReader" in item.by_rows  # type: ignore[union-attr]
    finally:
        spark.conf.unset("spark.sql.parquet.enableVectorizedReader")


def test_files_that_only_reading_tells_of(spark: SparkSession, tmp_path: Path) -> None:
    """Row sources end with the errors of split sources, which other tests see."""
    path = write(tmp_path / "type", "a b.parquet", {"ts": times(1), "v": [1.5]})
    fails(by_rows(spark, tmp_path / "type"), tmp_path / "ck", "BAD_COLUMN_TYPE", "'v'", str(path))
    many = {"ts": times(*range(9000)), "v": [f"{i:x}" * 9 for i in range(9000)]}
    path = write(tmp_path / "page", "a b.parquet", many, use_dictionary=False)
    data = bytearray(path.read_bytes())
    data[len(data) // 2 : len(data) // 2 + 40] = os.urandom(40)
    path.write_bytes(data)
    fails(by_rows(spark, tmp_path / "page"), tmp_path / "ck2", "BAD_FILE", str(path))


def test_old_files_by_either_rule(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "in"

    def read() -> dict[str, list[str]]:
        outputs = {"all": by_splits(spark, folder), "young": by_splits(spark, folder, maxFileAge="7d")}  # fmt: skip
        done = run(outputs, tmp_path / "ck", end=False)
        return {name: sorted(r["v"] for r in done.rows(name)) for name in outputs}

    write(folder, "a.parquet", rows("new"))
    assert read() == {"all": ["new"], "young": ["new"]}
    os.utime(write(folder, "b.parquet", rows("old")), (10**9, 10**9))
    write(folder, "c.parquet", rows("newer"))
    assert read() == {"all": ["newer", "old"], "young": ["newer"]}
