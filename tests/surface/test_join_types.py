"""Join keys of different types compare as Spark's ``=`` does, and come out with the types of Spark's join."""

from __future__ import annotations

import datetime as dt
import itertools
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

import slackwater as sw
from slackwater.engine.store.checkpoint import Checkpoint
from tests.surface.helpers import at, refused, run, times, write
from tests.surface.test_settings import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def _day(month: int, day: int, hour: int = 0) -> dt.datetime:
    return dt.datetime(2025 + (month == 1), month, day, hour)  # noqa: DTZ001


DAY = _day(1, 1)
VALUES: dict[str, tuple[str, pa.DataType, list[Any]]] = {
    "i": ("int", pa.int32(), [1, 0, -5, 10, None, 7]),
    "l": ("bigint", pa.int64(), [1, 2**53 + 1, -5, 10, None, 0]),
    "f": ("float", pa.float32(), [1.0, float("nan"), 0.1, 1.5, None, -0.0]),
    "d": ("double", pa.float64(), [1.0, float("nan"), -0.0, 1.5, None, 2.0**53]),
    "c": ("decimal(10,2)", pa.decimal128(10, 2), [*map(Decimal, ("1", "1.5", "0", "-5")), None]),
    "e": ("decimal(20,5)", pa.decimal128(20, 5), [*map(Decimal, ("1", "1.5", "0", "0.1")), None]),
    "b": ("boolean", pa.bool_(), [True, False, None]),
    "day": ("date", pa.date32(), [DAY.date(), dt.date(2026, 1, 2), None]),
    "t": (
        "timestamp",
        pa.timestamp("us", "UTC"),
        [DAY, _day(1, 1, 15), _day(12, 31, 15), None],
    ),
    "n": ("timestamp_ntz", pa.timestamp("us"), [DAY, _day(1, 2), None]),
    # What every reader of a number takes, what every reader of a date takes, and the rest.
    "sn": ("string", pa.string(), ["1", " 1 ", "01", "0", "-5", "7", None]),
    "sd": ("string", pa.string(), ["2026-01-01", "2026-01-02 00:00:00", None]),
    "sb": ("string", pa.string(), ["true", "false", None]),
    "s": (
        "string",
        pa.string(),
        ["1", "1.0", "abc", "true", "2026-01-01", "2026-01-01 00:00:00", "1e0", "", "NaN", "1.5"],
    ),
}
ROWS = 10
TEXTS = {"sn": "ilfdce", "sd": ("day", "t", "n"), "sb": "b"}
SCHEMA = ", ".join(["ts timestamp", "row int", *(f"{c} {v[0]}" for c, v in VALUES.items())])
BAND = {"before": "1 minute", "after": "1 minute"}


def made(folder: Path) -> None:
    """The same rows for both streams: values of each type over and over."""
    columns: dict[str, Any] = {"ts": times(*range(ROWS)), "row": pa.array(range(ROWS), pa.int32())}
    for name, (_, kind, values) in VALUES.items():
        cycled = list(itertools.islice(itertools.cycle(values), ROWS))
        columns[name] = pa.array(cycled, kind)
    write(folder, "0.parquet", columns)


def comparable(spark: SparkSession, ansi: bool) -> list[tuple[str, str]]:
    """Pairs of columns of different types that Spark compares without failing for a value."""
    frame = spark.createDataFrame([], SCHEMA)
    found = []
    for a, b in itertools.permutations(VALUES, 2):
        if VALUES[a][0] == VALUES[b][0]:
            continue
        if ansi and "s" in (a, b):
            continue
        if ansi and any(x in TEXTS and y not in TEXTS[x] for x, y in ((a, b), (b, a))):
            continue
        try:
            frame.select(F.col(a) == F.col(b)).schema  # noqa: B018
        except Exception:
            continue
        found.append((a, b))
    return found


def pairs_of(spark: SparkSession, folder: Path, ck: Path, chosen: list[tuple[str, str]]) -> None:
    """Joined rows of each pair of columns, here and in a batch join."""
    made(folder)
    df = sw.readStream(spark).schema(SCHEMA).parquet(str(folder))
    a = sw.stream(df, time="ts", name="a")
    b = a.alias("b")
    streams = {
        f"{x}_{y}": a.join(b, [(x, y)], sw.band(**BAND)).select("a_row", "b_row", "a_ts")
        for x, y in chosen
    }
    done = run(streams, ck, options={"partitionGroups": 1})
    rows = spark.read.schema(SCHEMA).parquet(str(folder))
    equal = [(F.col(f"a.{x}") == F.col(f"b.{y}")).alias(f"{x}_{y}") for x, y in chosen]
    both = rows.alias("a").crossJoin(rows.alias("b"))
    every = both.select(F.col("a.row").alias("a"), F.col("b.row").alias("b"), *equal).collect()
    for name in streams:
        got = Counter((r["a_row"], r["b_row"]) for r in done.rows(name))
        assert got == Counter((r.a, r.b) for r in every if r[name]), name


SOME = {
    False: [("s", "i"), ("d", "s"), ("s", "c"), ("s", "t"), ("s", "b"), ("l", "d")],
    True: [("sn", "i"), ("sd", "t"), ("l", "e")],
}  # fmt: skip


@pytest.mark.parametrize("ansi", [True, False], ids=["ansi", "plain"])
def test_keys_of_two_types_compare_as_in_spark(
    spark: SparkSession, tmp_path: Path, ansi: bool
) -> None:
    with settings(spark, ansi__enabled=str(ansi).lower(), session__timeZone="Asia/Tokyo"):
        assert set(SOME[ansi]) <= set(comparable(spark, ansi))
        pairs_of(spark, tmp_path / "in", tmp_path / "ck", SOME[ansi])


@pytest.mark.faults
@pytest.mark.parametrize("ansi", [True, False], ids=["ansi", "plain"])
def test_keys_of_any_two_types_compare_as_in_spark(
    spark: SparkSession, tmp_path: Path, ansi: bool
) -> None:
    with settings(spark, ansi__enabled=str(ansi).lower(), session__timeZone="Asia/Tokyo"):
        every = comparable(spark, ansi)
        assert len(every) > 50
        for i in range(0, len(every), 12):
            pairs_of(spark, tmp_path / f"in{i}", tmp_path / f"ck{i}", every[i : i + 12])


KINDS = sorted({v[0] for v in VALUES.values()} | {"tinyint", "decimal(38,18)", "binary"})
FEW = ["boolean", "decimal(10,2)", "int", "string"]


@pytest.mark.parametrize("ansi", [True, False], ids=["ansi", "plain"])
@pytest.mark.parametrize(
    "kinds", [FEW, pytest.param(KINDS, marks=pytest.mark.faults)], ids=["few", "all"]
)
def test_two_types_are_cast_as_spark_casts_them(
    spark: SparkSession, tmp_path: Path, ansi: bool, kinds: list[str]
) -> None:
    """Types, and types of columns that the streams have in common; what Spark refuses is refused."""
    (tmp_path / "in").mkdir()

    def stream(name: str, kind: str) -> Any:
        df = sw.readStream(spark).schema(f"ts timestamp, k {kind}").parquet(str(tmp_path / "in"))
        return sw.stream(df, time="ts", name=name)

    with settings(spark, ansi__enabled=str(ansi).lower()):
        left = {k: stream("a", k) for k in kinds}
        right = {k: stream("b", k) for k in kinds}
        frames = {k: spark.createDataFrame([], f"k {k}") for k in kinds}
        for one, other in itertools.combinations(kinds, 2):
            for how in ("inner", "full"):
                a, b = left[one], right[other]
                try:
                    want = frames[one].join(frames[other], "k", how).schema["k"].dataType
                except Exception:
                    refused(
                        lambda a=a, b=b, h=how: a.join(b, "k", sw.band(**BAND), h),
                        "JOIN_TYPES",
                        "'k'",
                    )
                    continue
                joined = a.join(b, "k", sw.band(**BAND), how)
                assert joined.schema["k"].dataType == want, (one, other, how)
                assert len({k.expr.type for side in joined._node.keys for k in side}) == 1
        a, b = left["int"], right["string"]
        assert (
            a.join(b, "k", sw.band(**BAND), "right").schema["k"].dataType.simpleString() == "string"
        )


def test_the_common_column_has_the_values_of_sparks_join(
    spark: SparkSession, tmp_path: Path
) -> None:
    kinds = ("inner", "left", "right", "full")
    with settings(spark, ansi__enabled="false"):
        left, right = [(1, at(0)), (2, at(1))], [("1.0", at(0)), ("1", at(1)), ("x", at(1))]
        a = sw.stream(sw.replay(spark, [left], "k int, ts timestamp"), time="ts", name="a")
        b = sw.stream(sw.replay(spark, [right], "k string, ts timestamp"), time="ts", name="b")
        done = run({h: a.join(b, "k", sw.band(**BAND), h) for h in kinds}, tmp_path / "ck")
    # As spark.createDataFrame(left).join(spark.createDataFrame(right), "k", how) gives them.
    want: dict[str, list[Any]] = {
        "inner": [1, 1], "left": [1, 1, 2], "right": ["1.0", "1", "x"], "full": ["1", "1", "2", "x"],
    }  # fmt: skip
    for how in kinds:
        assert Counter(r["k"] for r in done.rows(how)) == Counter(want[how]), how


def test_three_streams_meet_in_one_type(spark: SparkSession, tmp_path: Path) -> None:
    def stream(name: str, kind: str, *keys: Any) -> Any:
        rows = [[(k, at(i)) for i, k in enumerate(keys)]]
        return sw.stream(sw.replay(spark, rows, f"k {kind}, ts timestamp"), time="ts", name=name)

    with settings(spark, ansi__enabled="false"):
        a, b, c = (
            stream("a", "int", 1, 2),
            stream("b", "bigint", 1, 3),
            stream("c", "string", "1.0", "x"),
        )
        joined = sw.joinAll([a, b, c], "k", ["1 minute"] * 3)
        assert [r["k"] for r in run(joined, tmp_path / "ck").rows()] == [1]
        days = stream("d", "date", dt.date(2026, 1, 1))
        refused(lambda: sw.joinAll([a, c, days], "k", ["1 minute"] * 3), "JOIN_TYPES", "date")


# --- checkpoints of the first version ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("ansi", "kinds", "how", "reason"),
    [
        ("false", ("string", "int"), "inner", "TEXT_KEYS"),
        ("true", ("int", "bigint"), "inner", "KEY_COLUMNS"),
        ("true", ("int", "bigint"), "full", None),
    ],
)
def test_a_join_that_meant_something_else_is_refused_on_its_old_checkpoint(
    spark: SparkSession,
    tmp_path: Path,
    ansi: str,
    kinds: tuple[str, str],
    how: str,
    reason: str | None,
) -> None:
    with settings(spark, ansi__enabled=ansi):
        sides = []
        for name, kind in zip("ab", kinds, strict=True):
            (tmp_path / name).mkdir()
            read = sw.readStream(spark).schema(f"k {kind}, ts timestamp")
            sides.append(sw.stream(read.parquet(str(tmp_path / name)), time="ts", name=name))
        joined = sides[0].join(sides[1], "k", sw.band(**BAND), how)
        run(joined, tmp_path / "ck", end=False)
        checkpoint = Checkpoint(str(tmp_path / "ck"))
        old = checkpoint.open_query({})
        del old["meaning"]
        checkpoint.update_query(old)
        old = checkpoint.open_query({})
        if reason is None:
            run(joined, tmp_path / "ck", end=False)
            return
        error = refused(
            lambda: run(joined, tmp_path / "ck", end=False), "MEANING_CHANGED", "'k'", "'='" if reason == "TEXT_KEYS"
            else "Spark's join", kind=sw.CheckpointError,
        )  # fmt: skip
        assert error.parameters["reason"] == reason
        assert checkpoint.open_query({}) == old
