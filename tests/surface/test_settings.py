"""A query means one thing: the settings of its session agree from the first stream to every restart."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

import slackwater as sw
from slackwater.engine.analysis.session_settings import current
from slackwater.engine.store.checkpoint import Checkpoint
from slackwater.model.meaning import SETTINGS, Meaning
from tests.surface.helpers import at, refused, run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ZONE = "spark.sql.session.timeZone"
ANSI = "spark.sql.ansi.enabled"
ESCAPED = "spark.sql.parser.escapedStringLiterals"
COLUMNS = "k string, ts timestamp, v bigint"


@contextmanager
def settings(spark: SparkSession, **values: str) -> Iterator[None]:
    """The session with other settings; dots are written as two underscores."""
    named = {"spark.sql." + name.replace("__", "."): value for name, value in values.items()}
    before = {name: spark.conf.get(name) for name in named}
    try:
        for name, value in named.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, old in before.items():
            spark.conf.set(name, str(old))


def stream(spark: SparkSession) -> Any:
    """A few rows."""
    rows = [[("a", at(1), 1), ("b", at(2), 2)]]
    return sw.stream(sw.replay(spark, rows, COLUMNS), time="ts", name="s")


OTHER = {
    "session__timeZone": "Asia/Tokyo", "ansi__enabled": "false", "caseSensitive": "true",
    "parser__escapedStringLiterals": "true", "timestampType": "TIMESTAMP_NTZ",
    "legacy__timeParserPolicy": "LEGACY", "legacy__sizeOfNull": "false",
    "decimalOperations__allowPrecisionLoss": "false", "mapKeyDedupPolicy": "LAST_WIN",
    "legacy__statisticalAggregate": "true",
}  # fmt: skip


@pytest.mark.parametrize("name", OTHER)
def test_a_start_under_another_setting_is_refused_by_name(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    s = stream(spark)
    key = "spark.sql." + name.replace("__", ".")
    before = str(spark.conf.get(key))
    with settings(spark, **{name: OTHER[name]}):
        error = refused(lambda: run(s, tmp_path / "ck"), "SETTINGS_DIFFER", key, "'s'")
    now = OTHER[name] if name == "session__timeZone" else OTHER[name].lower()
    if name != "session__timeZone":
        before = before.lower()
    assert (error.parameters["before"], error.parameters["now"]) == (before, now)
    assert f"{before!r}" in str(error) and f"{now!r}" in str(error)
    assert not (tmp_path / "ck").exists()


@pytest.mark.parametrize(
    "build",
    [
        lambda s: s.where("hour(ts) >= 0"),
        lambda s: s.select("ts", "hour(ts) AS h"),
        lambda s: s.groupBy("hour(ts)", sw.window("5 seconds")).agg("count(*) AS n"),
        lambda s: s.groupBy(sw.window("5 seconds")).agg("sum(hour(ts)) AS n"),
        lambda s: s.groupBy(sw.window("5 seconds")).agg("sum(v) + 1 AS n"),
        lambda s: s.join(s.alias("t"), F.expr("s_v + 1 = t_v"), sw.band(after="5 seconds")),
        lambda s: s.join(s.alias("t"), "k", sw.band(after="5 seconds"), where="s_v + 1 = t_v"),
    ],
    ids=["where", "select", "key", "argument", "output", "join", "condition"],
)
def test_an_expression_of_another_setting_is_refused(
    spark: SparkSession, tmp_path: Path, build: Any
) -> None:
    """The stream and the start agree, the expression between them does not."""
    s = stream(spark)
    with settings(spark, session__timeZone="Asia/Tokyo"):
        built = build(s)
    error = refused(lambda: run(built, tmp_path / "ck"), "SETTINGS_DIFFER", ZONE, "expression")
    assert (error.parameters["before"], error.parameters["now"]) == ("Asia/Tokyo", "UTC")


def test_all_outputs_of_a_query_are_asked(spark: SparkSession, tmp_path: Path) -> None:
    s = stream(spark)
    with settings(spark, ansi__enabled="false"):
        other = s.where("v * 4 > 0")
    refused(lambda: run({"a": s, "b": other}, tmp_path / "ck"), "SETTINGS_DIFFER", ANSI, "`v`")
    refused(lambda: other.explain(), "SETTINGS_DIFFER", ANSI)


def test_what_both_engines_evaluate_has_one_meaning(spark: SparkSession, tmp_path: Path) -> None:
    """Built and started under one setting that is not the session's first one."""
    with settings(spark, session__timeZone="Asia/Tokyo", ansi__enabled="false"):
        s = stream(spark).select(
            "ts", "hour(ts) AS duck", "date_format(ts, 'HH') AS spark", "cast(k AS double) AS d"
        )
        rows = run(s, tmp_path / "ck").rows()
    assert [(r["duck"], r["spark"], r["d"]) for r in rows] == [(9, "09", None)] * 2


def test_a_setting_that_changes_before_the_streams_end_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The last run of a query reads its texts again; it must not read them otherwise."""
    s = stream(spark).where("date_format(ts, 'HH') = '00'")
    counts = s.groupBy(sw.window("1 hour")).agg("count(*) AS n")
    before = str(spark.conf.get(ZONE))

    def change(table: Any, batch: int) -> None:
        spark.conf.set(ZONE, "Asia/Tokyo")

    writers = [
        counts.writeStream.queryName("a").format("noop"),
        s.writeStream.queryName("b")._foreach_table(change),
    ]
    try:
        query = sw.start(
            writers, checkpointLocation=str(tmp_path / "ck"), trigger={"availableNow": True},
            options={"endOfStream": True},
        )  # fmt: skip
        with pytest.raises(sw.AnalysisError) as caught:
            query.awaitTermination()
    finally:
        spark.conf.set(ZONE, before)
    assert caught.value.condition == "SETTINGS_DIFFER" and "Asia/Tokyo" in str(caught.value)


def test_letter_case_tells_names_apart_if_it_does_in_the_session(spark: SparkSession) -> None:
    with settings(spark, caseSensitive="true"):
        s = stream(spark)
        refused(lambda: s.where("K = 'a'"), "COLUMN_NOT_FOUND", "'K'")
        refused(lambda: s.dropDuplicates(["TS"]), "COLUMN_NOT_FOUND", "'TS'")
        # Spark would have both columns; ours would not know them apart.
        refused(lambda: s.withColumn("K", "1"), "DUPLICATE_COLUMN", "'K'")
        assert s.drop("V").withColumnRenamed("V", "w").columns == ["k", "ts", "v"]
        df = sw.replay(spark, [[("a", "b", at(0))]], "k string, K string, ts timestamp")
        refused(lambda: sw.stream(df, time="ts"), "DUPLICATE_COLUMN", "'k'")
    s = stream(spark)
    assert s.drop("V").withColumnRenamed("K", "w").columns == ["w", "ts"]


def test_aggregates_that_a_legacy_setting_changes_are_refused(spark: SparkSession) -> None:
    """The kernels give null where Spark then gives NaN."""
    with settings(spark, legacy__statisticalAggregate="true"):
        grouped = stream(spark).groupBy(sw.window("5 seconds"))
        for call in ("var_samp(v)", "stddev(v)", "covar_samp(v, v)", "corr(v, v)"):
            refused(
                lambda c=call: grouped.agg(f"{c} AS x"),
                "UNSUPPORTED_AGGREGATE",
                "statisticalAggregate",
            )


# --- restarts ---------------------------------------------------------------------------------------


@pytest.fixture
def again(spark: SparkSession, tmp_path: Path) -> Any:
    """Makes the same stream anew, as a restarted program does."""
    (tmp_path / "in").mkdir()
    df = sw.readStream(spark).schema(COLUMNS).parquet(str(tmp_path / "in"))
    return lambda: sw.stream(df, time="ts", name="s")


def description(folder: Path) -> dict[str, Any]:
    return Checkpoint(str(folder)).open_query({})


def test_the_settings_are_in_the_description_for_the_restart(
    spark: SparkSession, again: Any, tmp_path: Path
) -> None:
    run(again(), tmp_path / "ck", end=False)
    stored = description(tmp_path / "ck")["settings"]
    assert (stored["ansi"], stored["zone"], stored[ESCAPED]) == (True, "UTC", "false")
    assert Meaning.from_json(stored) == current(spark)
    with settings(spark, legacy__sizeOfNull="false"):
        error = refused(
            lambda: run(again(), tmp_path / "ck", end=False),
            "QUERY_CHANGED", "spark.sql.legacy.sizeOfNull", "'true'", "'false'",
            kind=sw.CheckpointError,
        )  # fmt: skip
    assert "spark.conf.set" in error.hint
    run(again(), tmp_path / "ck", end=False)


def test_settings_that_an_old_checkpoint_lacks_count_from_its_next_start(
    spark: SparkSession, again: Any, tmp_path: Path
) -> None:
    folder = tmp_path / "ck"
    run(again(), folder, end=False)
    checkpoint = Checkpoint(str(folder))
    old = {**description(folder), "settings": {"ansi": True, "zone": "UTC"}}
    del old["meaning"]
    checkpoint.update_query(old)
    old = description(folder)
    with settings(spark, ansi__enabled="false"):
        refused(
            lambda: run(again(), folder, end=False),
            "QUERY_CHANGED", ANSI, "'true'", "'false'", kind=sw.CheckpointError,
        )  # fmt: skip
    assert description(folder) == old
    with settings(spark, legacy__sizeOfNull="false"):
        run(again(), folder, end=False)
        assert Meaning.from_json(description(folder)["settings"]) == current(spark)
        assert description(folder)["meaning"] > 0
    refused(
        lambda: run(again(), folder, end=False),
        "QUERY_CHANGED", "spark.sql.legacy.sizeOfNull", kind=sw.CheckpointError,
    )  # fmt: skip


# --- the list ---------------------------------------------------------------------------------------


def test_spark_knows_every_setting_on_the_list(spark: SparkSession) -> None:
    """A misspelt name would be recorded as nothing, and never differ."""
    jvm: Any = spark.sparkContext._jvm
    module = getattr(getattr(jvm, "org.apache.spark.sql.internal.SQLConf$"), "MODULE$")
    unknown = [name for name in SETTINGS if not module.containsConfigKey(name)]
    assert unknown == []
    assert len(set(SETTINGS)) == len(SETTINGS)


def test_a_setting_is_seen_when_it_changes_and_when_it_is_unset(spark: SparkSession) -> None:
    name = "spark.sql.legacy.nullInEmptyListBehavior"
    assert current(spark).value(name) == ""
    spark.conf.set(name, "true")
    assert current(spark).value(name) == "true"
    spark.conf.unset(name)
    assert current(spark).value(name) == ""
    # Letter case is no difference, except where it is one for Spark.
    with settings(spark, ansi__enabled="TRUE", mapKeyDedupPolicy="exception"):
        assert list(current(spark).differences(Meaning.of({ANSI: "true"}))) == []
        assert current(spark).value("spark.sql.mapKeyDedupPolicy") == "exception"
