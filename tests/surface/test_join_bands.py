"""Bands that stand in a join's condition, and names of streams in it: the trees of the same joins with ``within=``."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

import slackwater as sw
from slackwater.model.join import Band
from slackwater.model.node import Join
from tests.surface.helpers import refused
from tests.surface.local import run_locally
from tests.surface.test_joins import A, B, _plain, disordered, frames, write_batch
from tests.surface.test_settings import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

S = 1_000_000
EQUAL = "a_k = b_k"


@pytest.fixture(scope="module")
def a(spark: SparkSession) -> Any:
    return sw.stream(sw.replay(spark, [[]], A), time="ts", name="a")


@pytest.fixture(scope="module")
def b(spark: SparkSession) -> Any:
    return sw.stream(sw.replay(spark, [[]], B), time="ts", name="b")


def numbers(spark: SparkSession, name: str, kind: str = "bigint") -> Any:
    return sw.stream(sw.replay(spark, [[]], f"k string, t {kind}"), time="t", name=name)


def join_of(stream: Any) -> Join:
    assert isinstance(stream._node, Join)
    return stream._node


def band_of(stream: Any) -> tuple[int, int]:
    band = join_of(stream).within
    assert isinstance(band, Band) and band.closed == "both"
    return -band.before, band.after


FORMS: list[tuple[str, tuple[int, int]]] = [
    ("b.ts BETWEEN a.ts - INTERVAL 30 SECONDS AND a.ts + INTERVAL 30 SECONDS", (-30 * S, 30 * S)),
    ("b.ts >= a.ts - INTERVAL 30 SECONDS AND b.ts <= a.ts + INTERVAL 5 SECONDS", (-30 * S, 5 * S)),
    ("a.ts <= b.ts + INTERVAL '30' SECOND AND b.ts - INTERVAL 5 SECONDS <= a.ts", (-30 * S, 5 * S)),
    ("a.ts BETWEEN b.ts AND b.ts + INTERVAL '1:30' MINUTE TO SECOND", (-90 * S, 0)),
    ("b.ts > a.ts AND b.ts < a.ts + INTERVAL '1' HOUR", (1, 3600 * S - 1)),
    ("NOT (b.ts < a.ts OR a.ts < b.ts - INTERVAL 5 SECONDS)", (0, 5 * S)),
    ("b.ts - a.ts <= INTERVAL '30' SECONDS AND a.ts - b.ts <= INTERVAL 1 MINUTE", (-60 * S, 30 * S)),
    ("b.ts - a.ts BETWEEN INTERVAL '-5' SECOND AND -INTERVAL '2' SECOND", (-5 * S, -2 * S)),
    ("INTERVAL '1 minute 30 seconds' >= b.ts - a.ts AND INTERVAL 0 SECONDS < b.ts - a.ts", (1, 90 * S)),
    ("abs(b.ts - a.ts) < INTERVAL 5 SECONDS", (-5 * S + 1, 5 * S - 1)),
    ("b.ts BETWEEN a.ts - 2 * INTERVAL 15 SECONDS AND a.ts + (INTERVAL 1 HOUR - INTERVAL 1 MINUTE)",
     (-30 * S, 59 * 60 * S)),
    ("b.ts BETWEEN a.ts AND a.ts + make_dt_interval(1, 2, 3, 4.5)", (0, (86400 + 7200 + 180) * S + 4_500_000)),
    ("b.ts BETWEEN a.ts AND a.ts + INTERVAL '1 02:03:04.5' DAY TO SECOND", (0, (86400 + 7384) * S + 500_000)),
    ("b.ts BETWEEN a.ts AND a.ts + INTERVAL 1 WEEK", (0, 7 * 86400 * S)),
    # The narrower of several counts, wherever it stands.
    ("b.ts <= a.ts + INTERVAL 9 SECONDS AND b.ts >= a.ts AND b.ts < a.ts + INTERVAL 5 SECONDS AND a.ts < b.ts",
     (1, 5 * S - 1)),
    ("unix_micros(b.ts) - unix_micros(a.ts) BETWEEN -3 AND 7", (-3, 7)),
    ("a_ts <= b_ts AND B.TS <= A.Ts + INTERVAL 5 SECONDS", (0, 5 * S)),
    ("(b.ts >= a.ts) IS TRUE AND NOT NOT (b.ts <= a.ts)", (0, 0)),
]  # fmt: skip


@pytest.mark.parametrize(("text", "wanted"), FORMS)
def test_a_band_in_the_condition_is_the_join_with_within(
    a: Any, b: Any, text: str, wanted: tuple[int, int]
) -> None:
    given = a.join(b, f"a.k = b.k AND {text}")
    assert band_of(given) == wanted
    within = a.join(b, EQUAL, _spec(given))
    assert given._node == within._node and given._text() == within._text()


def test_conditions_may_be_lists_and_stand_beside_names(a: Any, b: Any) -> None:
    text, (least, most) = FORMS[2]
    band = sw.band(before=f"{-least} microseconds", after=f"{most} microseconds")
    hows = ("inner", "left", "full", "left_semi", "left_anti")
    wanted = {how: a.join(b, EQUAL, band, how)._node for how in hows}
    for on in (["a.k = b.k", text], [a.k == b.k, F.expr(text)], [F.expr(text), "b_k = a.k"]):
        assert a.join(b, on)._node == wanted["inner"]
        assert a.join(b, on, None, "left")._node == wanted["left"]
        assert a.join(b, on, how="full")._node == wanted["full"]
        assert a.join(b, on, how="semi")._node == wanted["left_semi"]
        assert a.join(b, on, how="anti")._node == wanted["left_anti"]
    assert a.join(b, ["k", text])._node == a.join(b, "k", band)._node
    assert a.join(b, [("k", "k"), text])._node == a.join(b, [("k", "k")], band)._node
    # Without any key, as on=None.
    assert a.join(b, text)._node == a.join(b, None, band)._node


def _spec(stream: Any) -> sw.BandSpec:
    least, most = band_of(stream)
    texts = [f"{'-' if d < 0 else ''}{abs(d)} microseconds" for d in (-least, most)]
    return sw.band(before=texts[0], after=texts[1])


def test_columns_of_streams_say_the_same(a: Any, b: Any) -> None:
    five = F.expr("INTERVAL 5 SECONDS")
    band = sw.band(before="5 seconds", after="5 seconds")
    same = a.join(b, EQUAL, band)
    for on in (
        (a.k == b.k) & b.ts.between(a.ts - five, a.ts + five),
        (a["k"] == b["k"]) & (b.ts >= a.ts - five) & (a["ts"] + dt.timedelta(seconds=5) >= b.ts),
        [b.k == a.k, ~((b.ts - a.ts > five) | (a.ts - b.ts > five))],
        (F.col("a_k") == b.k) & F.expr("b.ts BETWEEN a_ts - INTERVAL 5 SECONDS AND a.ts + INTERVAL 5 SECONDS"),
    ):  # fmt: skip
        assert a.join(b, on)._node == same._node
    # A further condition in a lambda, where SQL's names are variables first.
    key = "transform(array(array({v})), {v} -> {v}[0] + {v2})[0] = {w}"
    named = key.format(v="v", v2="a.v", w="b.w").replace("(v)", "(a.v)")
    assert (
        a.join(b, named, band)._node
        == a.join(b, "transform(array(array(v)), x -> x[0] + v)[0] = w", band)._node
    )
    assert a.join(b, "k", band, where=a.v < b.w)._node == a.join(b, "k", band, where="v < w")._node
    assert (
        a.join(b, "k", band, where="a.v < b.w")._node == a.join(b, "k", band, where="v < w")._node
    )
    # What was made of a stream has its columns.
    hot = a.where(a.v > 1).withColumn("x", a.v + 1)
    assert hot.join(b, a.k == b.k, band)._node == hot.join(b, EQUAL, band)._node


def test_a_stream_joined_with_itself(a: Any) -> None:
    c = a.alias("c")
    band = sw.band(after="5 seconds")
    wanted = a.join(c, F.col("a_k") == F.col("c_k"), band)._node
    later = c.ts.between(a.ts, a.ts + dt.timedelta(seconds=5))
    assert a.join(c, (a.k == c.k) & later)._node == wanted
    text = "a.k = c.k AND c.ts BETWEEN a.ts AND a.ts + INTERVAL 5 SECONDS"
    assert a.join(c, text)._node == wanted
    turned = c.join(a, (a.k == c.k) & later)
    assert band_of(turned) == (-5 * S, 0) and "c_k" in turned.columns[0]
    few = c.where(c.v > 1)
    assert (
        a.join(few, (a.k == few.k) & (few.ts == a.ts))._node
        == a.join(few, (a.k == c.k) & (c.ts == a.ts))._node
    )
    # b.alias("r") is still what b was made of, as in PySpark.
    r, left = a.alias("r"), a.alias("l")
    refused(lambda: left.join(r, a.k == r.k, band), "AMBIGUOUS_COLUMN", "l_k, r_k")
    refused(
        lambda: a.join(c, a.k == r.k, band),
        "FOREIGN_COLUMN",
        "'k' of stream 'r'",
        "'a' has",
        "'c' has",
    )


def test_within_and_a_band_in_the_condition_both_hold(a: Any, b: Any) -> None:
    """With ``within=`` comparisons stay conditions, as they always did: what is kept is for within= to say."""
    text = "b.ts <= a.ts + INTERVAL 3 SECONDS"
    both = join_of(a.join(b, ["k", text], sw.band(before="1 second", after="5 seconds")))
    assert both.within == Band(S, 5 * S)
    assert both.where is not None and "`b_ts` <= (`a_ts` + INTERVAL '03' SECOND)" in both.where.sql  # type: ignore[union-attr]
    assert join_of(a.join(b, ["k", text], sw.window("5 seconds"))).where == both.where


def test_other_comparisons_stay_conditions(a: Any, b: Any) -> None:
    given = join_of(a.join(b, "a.k = b.k AND abs(b.ts - a.ts) <= INTERVAL 1 SECOND AND a.v < b.w AND a.ts > TIMESTAMP '2026-01-01'"))  # fmt: skip
    assert given.within == Band(S, S) and given.where is not None
    assert "`w`" in given.where.sql and "`b_ts`" not in given.where.sql  # type: ignore[union-attr]
    # A part with something else in it is kept whole, and what it says of the distance counts.
    mixed = join_of(a.join(b, "a.k = b.k AND NOT (b.ts < a.ts OR v > w) AND b.ts <= a.ts + INTERVAL 1 SECOND"))  # fmt: skip
    assert mixed.within == Band(0, S) and "`b_ts` < `a_ts`" in mixed.where.sql  # type: ignore[union-attr]
    # An equality of times is a key, and a band of its own.
    equal = a.join(b, "a.k = b.k AND a.ts = b.ts")
    assert equal._node == a.join(b, EQUAL + " AND a_ts = b_ts", sw.band())._node
    moved = a.join(b, "a.ts = b.ts + INTERVAL 5 SECONDS")
    assert band_of(moved) == (-5 * S, -5 * S) and len(join_of(moved).keys[0]) == 1
    assert a.join(b, ["k", "ts"])._node == a.join(b, ["k", "ts"], sw.band())._node


def test_integer_and_local_times(spark: SparkSession) -> None:
    a, b = numbers(spark, "a"), numbers(spark, "b")
    assert band_of(a.join(b, "b.t BETWEEN a.t - 5 AND a.t + 2 * 3")) == (-5, 6)
    assert band_of(a.join(b, "b.t - a.t < 5 AND a.t - 3 < b.t - -5L")) == (-7, 4)
    assert band_of(a.join(b, "abs(a.t - b.t) <= 5")) == (-5, 5)
    i = numbers(spark, "i", "int")
    assert band_of(a.join(i, "i.t BETWEEN a.t - 5 AND a.t + 6")) == (-5, 6)
    j = numbers(spark, "j", "int")
    assert band_of(j.join(i, "i.t BETWEEN j.t - 5 AND j.t + 6")) == (-5, 6)
    with settings(spark, ansi__enabled="false"):
        assert band_of(a.join(b, "b.t BETWEEN a.t - 5 AND a.t + 6")) == (-5, 6)
        refused(
            lambda: j.join(i, "i.t BETWEEN j.t - 5 AND j.t + 6"),
            "BAD_JOIN",
            "wrap around",
            "bigint",
        )
    advice = refused(
        lambda: a.join(b, "a.k = b.k"), "BAD_JOIN", "b.t BETWEEN a.t - 10", "before=10"
    ).hint
    assert "minute" not in (advice or "")
    refused(lambda: a.join(b, "k", within=5), "BAD_JOIN", "before=10", "sw.window(10)")
    n, m = (sw.stream(sw.replay(spark, [[]], "k string, ts timestamp_ntz"), time="ts", name=x) for x in "nm")  # fmt: skip
    with settings(spark, session__timeZone="Europe/Berlin"):
        n, m = (sw.stream(sw.replay(spark, [[]], "k string, ts timestamp_ntz"), time="ts", name=x) for x in "nm")  # fmt: skip
        assert band_of(n.join(m, "m.ts - n.ts BETWEEN INTERVAL -1 DAY AND INTERVAL 2 DAYS")) == (
            -86400 * S,
            2 * 86400 * S,
        )


def test_what_spark_computes_with_clocks_is_no_band(spark: SparkSession) -> None:
    """A day there has 23 to 25 hours, and a difference is that of what clocks show."""
    with settings(spark, session__timeZone="Europe/Berlin"):
        a, b = (sw.stream(sw.replay(spark, [[]], "k string, ts timestamp"), time="ts", name=x) for x in "ab")  # fmt: skip
        near = "b.ts BETWEEN a.ts - INTERVAL 23 HOURS AND a.ts + INTERVAL 5 SECONDS"
        assert band_of(a.join(b, near)) == (-23 * 3600 * S, 5 * S)
        twice = "b.ts BETWEEN a.ts AND a.ts + INTERVAL 20 HOURS + INTERVAL 20 HOURS"
        assert band_of(a.join(b, twice)) == (0, 40 * 3600 * S)
        refused(lambda: a.join(b, "b.ts BETWEEN a.ts - INTERVAL 1 DAY AND a.ts"), "UNBOUNDED_STATE", "'b'", "23 to 25", "within=")  # fmt: skip
        refused(
            lambda: a.join(b, "abs(b.ts - a.ts) < INTERVAL 1 SECOND"),
            "BAD_JOIN",
            "clocks",
            "Europe/Berlin",
        )
        micros = "abs(unix_micros(b.ts) - unix_micros(a.ts)) <= 86400000000"
        assert band_of(a.join(b, micros)) == (-86400 * S, 86400 * S)
    with settings(spark, session__timeZone="+05:30"):
        a, b = (sw.stream(sw.replay(spark, [[]], "k string, ts timestamp"), time="ts", name=x) for x in "ab")  # fmt: skip
        assert band_of(a.join(b, "b.ts - a.ts BETWEEN INTERVAL 0 DAYS AND INTERVAL 1 DAY")) == (
            0,
            86400 * S,
        )


def test_times_that_are_not_the_first(spark: SparkSession, a: Any, b: Any) -> None:
    """The condition says which of several times it means; ``times=`` says so before it."""
    schema = "k string, start timestamp, stop timestamp"
    two = sw.stream(sw.replay(spark, [[]], schema), name="two",
                    progress={"start": sw.Ordered(), "stop": sw.MaxDelay()})  # fmt: skip
    on = "two.k = b.k AND b.ts BETWEEN two.stop AND two.stop + INTERVAL 5 SECONDS"
    given = two.join(b, on)
    assert given._node == two.join(b, F.col("two_k") == F.col("b_k"), sw.band(after="5 seconds"), times=["stop", "ts"])._node  # fmt: skip
    also = two.join(b, f"{on} AND b.ts > two.start")
    assert join_of(also).on == ("stop", "ts") and "`start`" in join_of(also).where.sql  # type: ignore[union-attr]
    refused(lambda: two.join(b, on, times=["start", "ts"]), "BAD_JOIN", "b.ts BETWEEN two.start")
    # After a join the greatest of the two times is no column, but each of them is.
    pairs = a.join(b, "k", sw.band(after="1 second")).alias("p")
    again = pairs.join(
        a.alias("c"), "p.k = c.k AND c.ts BETWEEN p.b_ts AND p.b_ts + INTERVAL 1 SECOND"
    )
    assert join_of(again).on == ("b_ts", "ts")
    # Windows: their time is their end - 1 tick.
    means = a.groupBy("k", sw.window("1 minute")).agg("avg(v) AS m").alias("m")
    counts = b.groupBy("k", sw.window("1 minute")).agg("count(*) AS n").alias("c")
    assert band_of(means.join(counts, ["k", "window"])) == (0, 0)
    assert band_of(means.join(counts, "m.k = c.k AND m.window = c.window")) == (0, 0)
    assert band_of(means.join(counts, "m.k = c.k AND c.window.start >= m.window.end AND c.window.end <= m.window.end + INTERVAL 1 HOUR")) == (60 * S, 3600 * S)  # fmt: skip


@pytest.mark.parametrize(
    ("on", "condition", "names"),
    [
        ("k", "BAD_JOIN", ["within=", "b.ts BETWEEN a.ts - INTERVAL 1 MINUTE AND a.ts + INTERVAL 1 MINUTE"]),
        (None, "BAD_JOIN", ["within="]),
        ("a.k = b.k", "BAD_JOIN", ["within=", "on="]),
        ("a.k = b.k AND b.ts >= a.ts", "UNBOUNDED_STATE", ["rows of 'a'", "kept for ever", "b.ts <= a.ts + INTERVAL 1 MINUTE"]),
        ("a.k = b.k AND b.ts < a.ts", "UNBOUNDED_STATE", ["rows of 'b'", "kept for ever", "b.ts >= a.ts - INTERVAL 1 MINUTE"]),
        ("a.k = b.k AND b.ts NOT BETWEEN a.ts AND a.ts + INTERVAL 1 SECOND", "BAD_JOIN", ["no comparison"]),
        ("a.k = b.k AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 1 MONTH", "UNBOUNDED_STATE", ["months and years"]),
        ("a.k = b.k AND b.ts BETWEEN a.ts AND a.ts + v * INTERVAL 1 SECOND", "UNBOUNDED_STATE", ["`v`", "no sum"]),
        ("a.k = b.k AND b.ts > a.ts AND b.ts < a.ts", "EMPTY_BAND", ["a.ts", "b.ts", "exclude"]),
        ("a.k = b.k AND b.ts BETWEEN a.ts + INTERVAL 5 SECONDS AND a.ts", "EMPTY_BAND", ["exclude"]),
        ("a.k = b.k AND c.ts = a.ts", "COLUMN_NOT_FOUND", ["c.ts"]),
        ("a.k = b.v AND b.ts = a.ts", "COLUMN_NOT_FOUND", ["'b' has no column 'v'", "k, ts, w"]),
        ("a.k = b.k AND ts = a_ts", "AMBIGUOUS_COLUMN", ["'ts'", "a.ts or b.ts", "a_ts, b_ts"]),
        ("w", "COLUMN_NOT_FOUND", ["'w'"]),
        ("a.v + b.w", "BAD_EXPRESSION", ["boolean"]),
        ("a.k = = b.k", "BAD_EXPRESSION", ["a.k = = b.k", "a_k, a_ts"]),
        ("a.k = b.k AND a.ts < b.ts + '5 seconds'", "BAD_EXPRESSION", ["5 seconds"]),
        (["k", 5], "BAD_EXPRESSION", []),
    ],
)  # fmt: skip
def test_what_cannot_be_a_band_is_refused(
    a: Any, b: Any, on: Any, condition: str, names: list[str]
) -> None:
    refused(lambda: a.join(b, on), condition, *names)
    refused(lambda: a.join(b, on, within=None), condition, *names)


@pytest.mark.parametrize(
    ("call", "condition", "names"),
    [
        (lambda a, b: sw.joinAll([a, b, a.alias("c")], "k"), "BAD_JOIN", ["within=", "5 seconds", "sw.Punctuated"]),
        (lambda a, b: sw.joinAll([a, b, a.alias("c")], a.k == b.k, ["1 s"] * 3), "BAD_JOIN", ["two streams", "where="]),
        (lambda a, b: a.join(b, a.k == a.alias("x").k, sw.band()), "FOREIGN_COLUMN", ["'k' of stream 'x'"]),
        (lambda a, b: a.join(b, (a.k == b.k) & (a.v < b.w), sw.band(), where="v > 1"), "BAD_JOIN", ["where="]),
        (lambda a, b: a.join(b, "k", sw.band(), where=a.alias("x").v > 1), "FOREIGN_COLUMN", ["'v' of stream 'x'"]),
    ],
)  # fmt: skip
def test_wrong_uses_of_columns_are_refused(
    a: Any, b: Any, call: Callable[[Any, Any], Any], condition: str, names: list[str]
) -> None:
    refused(lambda: call(a, b), condition, *names)


@pytest.mark.parametrize(
    "step", [5, pytest.param(1, marks=pytest.mark.faults)], ids=["some", "all"]
)
def test_the_rows_are_those_of_sparks_join(spark: SparkSession, tmp_path: Path, step: int) -> None:
    left, right = disordered(11, 3, 12, int), disordered(12, 3, 12, float)
    for name, rows, last in (("a", left, "v"), ("b", right, "w")):
        for i, batch in enumerate(rows):
            write_batch(tmp_path / name, i, batch, last)
    policy = sw.BoundedDelay("8 seconds")
    a, b = (
        sw.stream(sw.readStream(spark).schema(s).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / n)),
                  time="ts", name=n, progress=policy)
        for n, s in (("a", A), ("b", B))
    )  # fmt: skip
    forms = [t for t, _ in FORMS if "a_ts" not in t]
    texts = {f"f{n}": t for n, t in enumerate(forms[::step])}
    texts["more"] = "a.ts BETWEEN b.ts AND b.ts + INTERVAL 4 SECONDS AND a.v < b.w AND a.k <> 'c'"
    streams = {n: a.join(b, f"a.k = b.k AND {t}") for n, t in texts.items()}
    streams["left"] = a.join(
        b, (a.k == b.k) & b.ts.between(a.ts, a.ts + dt.timedelta(seconds=2)), how="left"
    )
    done = run_locally(streams, tmp_path / "checkpoint")
    x, y = frames(spark, left, right)
    names = ["a_k", "a_ts", "v", "b_k", "b_ts", "w"]
    columns = ["a.k", "a.ts", "v", "b.k", "b.ts", "w"]
    texts["left"] = "b.ts BETWEEN a.ts AND a.ts + INTERVAL 2 SECONDS"
    matching = 0
    for n, t in texts.items():
        how = "left" if n == "left" else "inner"
        wanted = x.join(y, F.expr(f"a.k = b.k AND {t}"), how).selectExpr(*columns).collect()
        got = Counter(tuple(_plain(r[c]) for c in names) for r in done.rows(n))
        assert got == Counter(tuple(r) for r in wanted), t
        matching += len(wanted) > 3
    assert matching > 10 // step
