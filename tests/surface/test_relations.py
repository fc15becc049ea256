"""Joins with a table as users write them: beside Spark's own batch joins, on Spark, and what is refused."""

from __future__ import annotations

import datetime as dt
import random
import time
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

import slackwater as sw
from slackwater.engine.store.checkpoint import Checkpoint
from slackwater.engine.store.control import requested_refreshes
from slackwater.errors import SlackwaterError
from slackwater.surface.explain import explain_streams
from slackwater.testing import ManualClock, local_job
from tests.surface.helpers import UTC, run, small_tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

DAY = dt.date(2026, 1, 1)
VALUES: dict[str, tuple[Any, ...]] = {
    "tinyint": (0, 1, -1), "int": (0, 1, 2**31 - 1), "bigint": (0, 1, 2**62), "boolean": (True, False),
    "string": ("", "a", "A", "ä", "a "), "double": (0.0, -0.0, float("nan"), 1.5, float("inf")),
    "decimal(12,2)": (Decimal("0.00"), Decimal("1.10"), Decimal("-7.25")), "date": (DAY, DAY.replace(day=2)),
    "timestamp": (dt.datetime(2026, 1, 1, 2, tzinfo=UTC), dt.datetime(2026, 1, 1, 3, tzinfo=UTC)), "binary": (b"", b"a", b"\x00"),
    "float": (0.0, -0.0, float("nan"), -1.5, float("-inf")), "timestamp_ntz": (dt.datetime.fromisoformat("2026-01-01T02:00:00"), dt.datetime.fromisoformat("1900-01-01T00:00:00")),
}  # fmt: skip
WIDER = {"bigint": "int", "decimal(12,2)": "decimal(6,1)", "double": "float"}
"""The stream's type where it is another one than the relation's, which is the one that both are compared as."""

KINDS = ("inner", "left", "left_semi", "left_anti")


def rows_of(kind: str, draw: random.Random, count: int, theirs: bool) -> list[tuple[Any, ...]]:
    known = VALUES[kind] if theirs else VALUES.get(WIDER.get(kind, ""), VALUES[kind])
    if kind == "decimal(12,2)" and not theirs:
        known = (Decimal("1.1"), Decimal("0.0"), Decimal("3.5"))
    return [(draw.choice((*known, None)), i, draw.randrange(4)) for i in range(count)]


@pytest.mark.spec("XJ-F58")
@pytest.mark.parametrize(
    ("kind", "form"),
    [
        *((kind, "whole") for kind in VALUES),
        *((k, "segments") for k in ("bigint", "string", "decimal(12,2)", "timestamp", "double")),
        *((kind, "copy") for kind in VALUES),
    ],
)
def test_all_kinds_give_the_rows_of_sparks_batch_joins(
    kind: str, form: str, spark: SparkSession, tmp_path: Path
) -> None:
    """Keys of a type, nulls among them, several times or never; one condition over both sides, one over the relation's rows."""
    agree(kind, form, spark, tmp_path)


@pytest.mark.parametrize(
    ("kind", "form"),
    [
        *((k, "segments") for k in ("bigint", "string", "decimal(12,2)", "timestamp")),
        *((k, "copy") for k in ("bigint", "string", "double", "binary")),
        ("bigint", "whole"),
    ],
)
def test_rows_that_wait_for_a_read_give_the_rows_of_sparks_batch_joins(
    kind: str, form: str, spark: SparkSession, tmp_path: Path
) -> None:
    """A table of small segments, none of which is at hand when a query starts."""
    agree(kind, form, spark, tmp_path, deadline="1 hour")


def agree(
    kind: str,
    form: str,
    spark: SparkSession,
    tmp_path: Path,
    **more: Any,
) -> None:
    options = {"relationForm": "segments" if form == "copy" else form, "relationSegment": 24}
    clock = ManualClock(0) if more else None
    draw = random.Random(kind)
    own = WIDER.get(kind, kind)
    left = f"k {own}, ts bigint, v bigint"
    right = f"k {kind}, id bigint, w bigint"
    stream_rows = rows_of(kind, draw, 24, theirs=False)
    table_rows = rows_of(kind, draw, 12, theirs=True)
    table = spark.createDataFrame(table_rows, right)
    if form == "segments":  # of two rows each
        (tmp_path / "d").mkdir()
        pq.write_table(table.toArrow(), tmp_path / "d" / "a.parquet", row_group_size=2)
    else:
        table.coalesce(2).write.parquet(str(tmp_path / "d"))

    def job(df: Any) -> dict[str, Any]:
        s = sw.stream(df, time="ts", name="s", progress=sw.Ordered())
        given = table if form == "copy" else str(tmp_path / "d")
        d = sw.relation(given, key="k", name="d", spark=spark)
        made = {}
        for how in KINDS:
            made[how] = s.join(d, "k", how=how, **more)
            made[f"{how} where"] = s.join(
                d.where("id > 2"), [("k", "k")], how=how, where="v <= w AND s.v <> 3", **more
            )
        return made

    half = len(stream_rows) // 2
    batches = [stream_rows[:half], stream_rows[half:]]
    analysed = local_job(job, left, spark=spark, splits=True, options=options)

    def run_job(batches: Any) -> Any:
        return analysed.run(batches, clock=clock)

    if (kind, form) == ("double", "segments"):
        refused("RELATION_NO_SEGMENTS", lambda: run_job(batches), "double", "relationForm")
        return
    seen = run_job(batches)
    spark.createDataFrame(stream_rows, left).createOrReplaceTempView("s")
    table.createOrReplaceTempView("d")
    parts = []
    for how in KINDS:
        kind_of = how.replace("_", " ")
        shown = "CAST(NULL AS BIGINT)" if how in KINDS[2:] else "id"
        for name, more in ((how, ""), (f"{how} where", "AND d.id > 2 AND v <= w AND v <> 3")):
            parts.append(
                f"SELECT '{name}' AS q, ts, {shown} AS id FROM s {kind_of} JOIN d ON s.k = d.k {more}"
            )
    with small_tables(spark):
        wanted = Counter(tuple(r) for r in spark.sql(" UNION ALL ".join(parts)).collect())
    assert wanted == Counter(
        (name, r["ts"], r.asDict().get("id")) for name, rows in seen.items() for r in rows
    )


def write(folder: Path, rows: dict[int, str]) -> str:
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    table = pa.table({"id": pa.array(list(rows), pa.int64()), "name": list(rows.values())})
    pq.write_table(table, folder / f"{len(rows)}-{len(str(rows))}.parquet")
    return str(folder)


def readings(spark: SparkSession, splits: bool = False, *batches: Any) -> sw.Stream:
    rows = batches or ([(1, 1, 1.0), (2, 2, 2.0)],)
    source = sw.replay(spark, list(rows), "device int, ts bigint, v double", splits=splits)
    return sw.stream(source, time="ts", name="readings", progress=sw.Ordered())


@pytest.mark.parametrize("splits", [False, True])
@pytest.mark.spec("FC-F37")
def test_rows_meet_a_table_on_spark(spark: SparkSession, tmp_path: Path, splits: bool) -> None:
    """A filter, a window behind the join in the same task, and steps behind it that only Spark can evaluate."""
    d = sw.relation(write(tmp_path / "d", {1: "a", 2: "b", 3: "c"}), "id", "d")
    s = readings(spark, splits, [(1, 1, 1.0), (2, 2, 2.0), (9, 3, 3.0)], [(1, 11, 4.0)])
    full = s.join(d.where("name <> 'b'"), [("device", "id")], how="left")
    pairs = s.join(d, [("device", "id")])
    done = run(
        {
            "full": full.select("device", "name"),
            "texts": pairs.select("ts", F.expr("format_string('%s-%d', name, device) AS x")),
            "lost": pairs.unmatched.select("device"),
            "counts": pairs.groupBy("name", sw.window(10)).agg("sum(v) AS v"),
        },
        tmp_path,
        options={"relationForm": "auto" if splits else "segments"},
    )
    full_rows = Counter((r["device"], r["name"]) for r in done.rows("full"))
    assert full_rows == Counter([(1, "a"), (2, None), (9, None), (1, "a")])
    assert sorted(r["x"] for r in done.rows("texts")) == ["a-1", "a-1", "b-2"]
    assert done.rows("lost") == [{"device": 9}]
    assert sorted((r["name"], r["wid"], r["v"]) for r in done.rows("counts")) == [
        ("a", 0, 1.0), ("a", 1, 4.0), ("b", 0, 2.0),
    ]  # fmt: skip


def test_explain_says_which_form_and_why(spark: SparkSession, tmp_path: Path) -> None:
    d = sw.relation(write(tmp_path / "d", {1: "a"}), "id", "d", refresh="10 minutes", memory="1m")
    text = explain_streams({"x": readings(spark).join(d, [("device", "id")])})
    assert (
        "relation d: whole, or in segments (the columns in use fit into memory=1048576 bytes or do not"
        in text
    )
    assert "looked at every 10 minutes, columns in use: id, name" in text
    assert "level 1" not in text  # no level, no shuffle, no state


def test_a_relation_has_a_dataframes_methods(spark: SparkSession, tmp_path: Path) -> None:
    d = sw.relation(write(tmp_path / "d", {1: "a"}), "id", "d")
    made = (
        d.where(d.name != "x").withColumn("up", F.concat("name", F.lit("x"))).withColumnRenamed("up", "u")
        .select("id", "u", "name").drop("name").fillna("?", subset="u").alias("other")
    )  # fmt: skip
    assert (made.columns, made.isStreaming) == (["id", "u"], False)
    assert made.dtypes == [("id", "bigint"), ("u", "string")]
    assert isinstance(made.schema, StructType) and repr(d) == "Relation[id: bigint, name: string]"
    with pytest.raises(AttributeError, match="where the table is written"):
        _ = made.groupBy
    joined = readings(spark).join(d.select("ID", "Name"), [("device", "id")])
    assert joined.columns == ["device", "ts", "v", "ID", "Name"]


def test_a_text_that_is_no_date_is_told_as_one_that_is_no_number(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Spark casts texts to dates, the column engine to numbers: a row that cannot be cast ends both in the same way."""
    (tmp_path / "d").mkdir()
    pq.write_table(pa.table({"id": [DAY], "name": ["a"]}), tmp_path / "d" / "a.parquet")
    source = sw.replay(spark, [[("2026-01-01", 1), ("soon", 2)]], "day string, ts bigint")
    s = sw.stream(source, time="ts", progress=sw.Ordered())
    joined = s.join(sw.relation(str(tmp_path / "d"), "id", "d"), [("day", "id")])
    refused("EXPRESSION_FAILED", lambda: run(joined, tmp_path), "'soon'", "DATE", "try_cast")


def refused(condition: str, call: Any, *words: str) -> None:
    with pytest.raises(SlackwaterError) as error:
        call()
    assert error.value.condition == condition
    text = f"{error.value.message} {error.value.hint}"
    assert error.value.hint and all(word in text for word in words), text


def test_what_is_no_relation_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    path = write(tmp_path / "d", {1: "a"})
    frame = spark.range(3)
    rate = spark.readStream.format("rate").load()
    refused("NOT_A_RELATION", lambda: sw.relation(rate, "id"), "as streams")
    refused("BAD_OPTION", lambda: sw.relation(frame, "id"), "a DataFrame without a name", "name=")
    refused("BAD_OPTION", lambda: sw.relation(lambda: frame, "id"), "a function without", "name=")
    refused("NOT_A_RELATION", lambda: sw.relation(7, "id"), "directory")
    for remote in ("s3://b/t", "hdfs:/b/t", "abfss:///b/t"):
        refused("NOT_LOCAL", lambda remote=remote: sw.relation(remote, "id"), "copy")
    refused("PATH_NOT_FOUND", lambda: sw.relation(str(tmp_path / "no"), "id"), "does not exist")
    (tmp_path / "empty").mkdir()
    refused("EMPTY_RELATION", lambda: sw.relation(str(tmp_path / "empty"), "id"), "no file")
    (tmp_path / "empty" / "half.parquet").write_bytes(b"PAR1")
    refused(
        "BAD_RELATION_FILE", lambda: sw.relation(str(tmp_path / "empty"), "id"), "FOOTER", "'_'"
    )
    (tmp_path / "times").mkdir()
    nanos = pa.table({"id": [1], "at": pa.array([1], pa.timestamp("ns"))})
    pq.write_table(nanos, tmp_path / "times" / "a.parquet")
    refused("BAD_RELATION_FILE", lambda: sw.relation(str(tmp_path / "times"), "id"), "TIMESTAMP")
    for other in ("old", "q=1"):
        mixed = tmp_path / f"beside {other}"
        for folder in ("p=1", other):
            (mixed / folder).mkdir(parents=True)
            write(mixed / folder, {1: "a"})
        refused("BAD_RELATION_FILE", lambda m=mixed: sw.relation(str(m), "id"), "name=value", "'.'")
        (mixed / other).rename(mixed / f".{other}")
        assert sw.relation(str(mixed), "id", "d").columns == ["id", "name", "p"]
    refused("RELATION_KEY", lambda: sw.relation(path), "key=")
    refused("RELATION_KEY", lambda: sw.relation(path, ["id", "id"]), "twice")
    refused("COLUMN_NOT_FOUND", lambda: sw.relation(path, "nr"), "id")
    refused("BAD_OPTION", lambda: sw.relation(path, "id", refresh="often"), '"batch"')
    refused("BAD_RELATION", lambda: sw.relation(path, "id", memory="much"), "256m")
    refused("BAD_OPTION", lambda: sw.relation(path, "id", "a/b"), "slash")
    refused(
        "RELATION_EXPRESSION",
        lambda: sw.relation(path, "id").where("format_string('%s', name) = 'a'"),
        "where the table is written",
    )


def test_what_joins_with_a_relation_do_not_take_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    d = sw.relation(write(tmp_path / "d", {1: "a"}), "id", "d")
    s, on = readings(spark), [("device", "id")]
    for more in (
        {"within": sw.band(after=3)},
        {"memory": "1m"},
        {"times": ["ts", "ts"]},
        {"how": "right"},
        {"how": "full"},
        {"deadline": "-1 second"},
        {"deadline": dt.timedelta(seconds=-1)},
        {"deadline": "1 second", "hold": 5},
        {"markDelayed": True},
        {"where": lambda v: v},
    ):
        refused("BAD_JOIN", lambda more=more: s.join(d, on, **more))
    for deadline in ("0 seconds", "5 seconds", dt.timedelta(seconds=1)):
        made = s.join(d, on, deadline=deadline)
        assert made.columns == ["device", "ts", "v", "id", "name"]
        assert made.unmatched.columns == s.columns
    for soon in ("soon", 5, "1 month"):
        refused("BAD_DURATION", lambda soon=soon: s.join(d, on, deadline=soon), "deadline")
    refused("RELATION_KEY", lambda: s.join(d, [("v", "name")]), "its key, id")
    refused("RELATION_KEY", lambda: s.join(d, "device = id"), "where=")
    refused("RELATION_KEY", lambda: s.join(d.select("name"), on), "select")
    refused("COLUMN_NOT_FOUND", lambda: s.join(d, [("nr", "id")]))
    refused("JOIN_TYPES", lambda: s.join(d, [("v", "id")]), "cast the stream's column")
    refused("NO_UNMATCHED", lambda: s.join(d, on, how="left").unmatched, "left join")
    refused("NO_UNMATCHED", lambda: s.join(d, on, how="left_anti").unmatched, "left_anti join")
    refused("NO_UNMATCHED", lambda: s.unmatched, "sw.relation")
    refused(
        "BAD_JOIN", lambda: s.join(s.alias("b"), "device", sw.band(after=1), hold=3), "relation"
    )
    refused("NOT_A_STREAM", lambda: s.join(spark.range(3), "device"), "sw.relation")
    refused("NOT_A_STREAM", lambda: sw.joinAll([s, d], "id", [1, 1]), "stream.join(relation")
    refused("NOT_A_STREAM", lambda: s.union(d), "sends nothing")
    never = sw.relation(str(tmp_path / "d"), "id", "d", refresh="never")
    called = sw.relation(lambda: pa.table({"id": [1], "name": ["a"]}), "id", "d")
    for once in (never, called):
        words = ('refresh="never"', "query.refresh", 'refresh="10 minutes"')
        refused("BAD_JOIN", lambda r=once: s.join(r, on, hold=5), *words)


def test_what_a_start_refuses(spark: SparkSession, tmp_path: Path) -> None:
    path = write(tmp_path / "d", dict.fromkeys(range(100), "a" * 50))
    s, on, tries = readings(spark), [("device", "id")], 0

    def start(made: Any, **options: Any) -> None:
        nonlocal tries
        tries += 1
        run(made, tmp_path / f"q{tries}", options=options)

    small = s.join(sw.relation(path, "id", "d", memory=100), on)
    refused("RELATION_TOO_LARGE", lambda: start(small), "memory=", "smaller row groups")
    refused("BAD_OPTION", lambda: start(small, relationForm="parts"), "segments")
    refused("BAD_OPTION", lambda: start(small, relationDisk="much"), "4g")
    refused("BAD_OPTION", lambda: start(small, relationEpoch="soon"), "100000 rows")
    refused("BAD_OPTION", lambda: start(small, relationVersions="old"), "newest")
    refused("BAD_OPTION", lambda: start(small, relationBacklog="0"), "3000")
    refused("BAD_OPTION", lambda: start(small, relationWaiting="much"), "32m")
    refused("BAD_OPTION", lambda: start(small, relationBacklogIn="each"), '"any"')
    every = readings(spark, True).join(sw.relation(path, "id", "d", refresh="1 minute"), on)
    refused("NO_CLOCK", lambda: start(every), "clock")
    waits = readings(spark, True).join(sw.relation(path, "id", "d"), on, deadline="5 seconds")
    refused("NO_CLOCK", lambda: start(waits), "5 seconds", "leave deadline= out")
    plain = readings(spark, True).join(sw.relation(path, "id", "d"), on)
    refused("NO_CLOCK", lambda: start(plain, relationEpoch="1 minute"), "100000 rows")
    other = sw.relation(write(tmp_path / "e", {1: "b"}), "id", "d")
    two = small.join(
        other.select("id", F.col("name").alias("n")), [("device", "id")], how="left_semi"
    )
    refused("DUPLICATE_NAME", lambda: start(two), "name=")
    for place in (Path(path), Path(path) / "day=1"):
        writer = small.writeStream.option("checkpointLocation", str(tmp_path / "own"))
        refused(
            "SINK_IS_RELATION",
            lambda w=writer, p=place: w.format("parquet").start(str(p)),
            "own output",
        )
    aimed = sw.stream(
        sw.replay(spark, [], "device int, ts bigint, v double"), time="ts", name="q",
        progress=sw.Quality(error=0.1),
    )  # fmt: skip
    d = sw.relation(path, "id", "d").withColumn("w", F.col("id") * 2)
    over = aimed.join(d, on).groupBy(sw.window(5)).agg("sum(w) AS w")
    refused("BAD_QUALITY", lambda: start(over), "'w'")
    explain_streams({"x": aimed.join(d, on).groupBy(sw.window(5)).agg("sum(v) AS v")})


def test_another_path_or_kind_is_another_query(spark: SparkSession, tmp_path: Path) -> None:
    path, on = write(tmp_path / "d", {1: "a"}), [("device", "id")]
    s = readings(spark)
    d = sw.relation(path, "id", "d")
    done = run(s.join(d, on), tmp_path / "q", end=False)
    refused("NO_RELATION", lambda: done.query.refresh("e"), "its relations are: d")
    done.query.refresh("d")
    assert requested_refreshes(Checkpoint(str(tmp_path / "q")), None) == {"d": 1}
    changed = sw.relation(path, "id", "d", refresh="never", memory="2m")
    run(s.join(changed, on), tmp_path / "q", end=False)
    moved = sw.relation(write(tmp_path / "e", {1: "a"}), "id", "d")
    by_name = sw.relation(path, "name", "d")
    named = s.withColumn("who", F.expr("CAST(device AS STRING)"))
    for other in (
        s.join(moved, on), s.join(d, on, how="left"), named.join(by_name, [("who", "name")]),
    ):  # fmt: skip
        with pytest.raises(sw.CheckpointError, match="QUERY_CHANGED"):
            run(other, tmp_path / "q", end=False)


@pytest.mark.spec("XJ-F54")
def test_a_lone_row_comes_out_at_its_deadline_by_the_clock(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Nothing comes after it: the clock alone makes a batch run. A start without a deadline is refused by name."""
    table = pa.table({"id": range(20), "name": [f"n{i}" for i in range(20)]})
    (tmp_path / "d").mkdir()
    pq.write_table(table, tmp_path / "d" / "a.parquet", row_group_size=2)
    (tmp_path / "s").mkdir()
    row = pa.table({"device": pa.array([7]), "ts": pa.array([1]), "v": pa.array([2])})
    pq.write_table(row, tmp_path / "s" / "a.parquet")
    d = sw.relation(str(tmp_path / "d"), "id", "d", spark=spark)

    def start(**more: Any) -> Any:
        files = sw.readStream(spark).schema("device bigint, ts bigint, v bigint")
        s = sw.stream(
            files.parquet(str(tmp_path / "s")), time="ts", name="s", progress=sw.Ordered()
        )
        writer = s.join(d, [("device", "id")], **more).writeStream.format("parquet")
        for name, value in {
            "path": tmp_path / "out", "checkpointLocation": tmp_path / "ck", "relationForm": "segments",
        }.items():  # fmt: skip
            writer = writer.option(name, str(value))
        return writer.trigger(processingTime="100 milliseconds").start()

    query = start(deadline="2 seconds")
    try:
        query.processAllAvailable()
        limit = time.monotonic() + 60
        while query.lastProgress["relations"]["d"]["waitingRows"] and time.monotonic() < limit:
            time.sleep(0.1)
        records = query.recentProgress
        assert [r["relations"]["d"]["waitingRows"] for r in records] == [1, 0]
        (reads,) = [
            op["relation"]["reads"] for op in records[-1]["operators"].values() if "relation" in op
        ]
        assert reads == {"deadline": 1}
    finally:
        query.stop()
    assert pq.read_table(tmp_path / "out")["name"].to_pylist() == ["n7"]
    start(deadline="5 seconds").stop()
    refused("QUERY_CHANGED", start, "rows wait by ts")
