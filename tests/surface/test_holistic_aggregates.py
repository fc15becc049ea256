"""Aggregates over tables of values, sketches and user functions on Spark: as Spark's batch gives them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import slackwater as sw
from slackwater.kernels.types import arrow_schema
from tests.surface.helpers import canonical, run, times, write
from tests.surface.local import run_locally
from tests.surface.test_against_spark import SCHEMA, source, values

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

NUMBERS = ("i1", "i4", "i8", "x8", "f4", "f8", "d5", "d18", "d38")
ALL = (*NUMBERS, "x", "s", "b", "d", "t", "n")


def aggregates() -> list[str]:
    found = ["count(DISTINCT s, i1)", "count(DISTINCT 1)", "count(DISTINCT s) FILTER (WHERE b)"]
    found += [f"count(DISTINCT {c})" for c in ALL]
    found += [f"sort_array(collect_set({c}))" for c in ALL if c != "b"]
    found += [f"sort_array(collect_list({c}))" for c in ("i4", "f8", "d38", "s", "n")]
    found += ["sort_array(collect_list(named_struct('a', i1, 'b', s)))", "size(array_agg(b))"]
    found += [f"median({c})" for c in NUMBERS]
    found += [f"percentile({c}, array(0.0, 0.31, 1.0))" for c in ("i8", "f8", "d18")]
    found += ["percentile(i4, 0.4, abs(CAST(i1 AS INT)))", "percentile(f8, 0.2, 3)"]
    found += ["percentile_cont(0.3) WITHIN GROUP (ORDER BY i2 DESC)"]
    found += [
        f"percentile_disc({q}) WITHIN GROUP (ORDER BY {c})"
        for q, c in ((0.3, "d5"), (0.5, "f8"), (1.0, "i2"), (0.25, "i1 DESC"))
    ]
    # Spark's goes through doubles: decimals of more digits than these have come back rounded.
    exact = [c for c in (*NUMBERS, "t", "n", "d") if c not in ("d18", "d38")]
    found += [f"percentile_approx({c}, 0.5)" for c in exact]
    found += ["approx_percentile(i4, array(0.1, 0.5, 0.97), 1000)"]
    found += [f"mode({c}, true)" for c in ALL]
    found += ["mode() WITHIN GROUP (ORDER BY s DESC)", "mode() WITHIN GROUP (ORDER BY i1)"]
    found += [
        "covar_pop(i1, i2)",
        "float(covar_samp(i2, d5))",
        "corr(i1, i2)",
        "corr(u, u)",
    ]
    found += ["covar_pop(i1, if(isnan(f8), f8, 1.5))", "corr(1.0, i2)", "covar_samp(u, u)"]
    found += ["sum(DISTINCT i1)", "avg(DISTINCT d5)", "sum(DISTINCT d18)", "avg(DISTINCT i4)"]
    found += ["sum(DISTINCT f4)", "collect_list(DISTINCT i1) IS NULL"]
    found += ["median(i4) FILTER (WHERE b)", "mode(s, true) FILTER (WHERE i1 > 0)"]
    found += ["median(i1 + u) / (1 + count(DISTINCT k))", "count(*)", "sum(u)"]
    return [f"{a} AS a{i}" for i, a in enumerate(found)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Path:
    from pyspark.sql.types import StructType

    from slackwater.engine.analysis.analyse import fields_of

    schema = arrow_schema(fields_of(StructType.fromDDL(SCHEMA)))
    made = tmp_path_factory.mktemp("values")
    rows = values(7, 160)
    for number, part in enumerate((rows[:90], rows[90:])):
        table = pa.Table.from_pylist(part, schema)
        write(made, f"{number}.parquet", dict(zip(schema.names, table.columns)))
    return made


def flat(value: Any) -> Any:
    """Lists, also of structs, as `canonical` can compare them."""
    if isinstance(value, list):
        return tuple(flat(v) for v in value)
    if isinstance(value, dict):
        return tuple(flat(v) for v in value.values())
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else float(f"{value:.11e}")
    return value


def comparable(rows: list[dict[str, Any]], columns: list[str]) -> list[tuple[Any, ...]]:
    shown = [{c: flat(v) if isinstance(v, list) else v for c, v in r.items()} for r in rows]
    return canonical(shown, columns)


@pytest.fixture(scope="module")
def expected(spark: SparkSession, folder: Path) -> list[tuple[Any, ...]]:
    from pyspark.sql import functions as F

    window = F.window("ts", "60 seconds", "20 seconds")
    frame = spark.read.schema(SCHEMA).parquet(str(folder))
    # Spark plans several DISTINCT together with a join of groups per set of columns; fewer are quicker.
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    texts = aggregates()
    for part in ([t for t in texts if "DISTINCT" in t], [t for t in texts if "DISTINCT" not in t]):
        rows = frame.groupBy("k", window).agg(*[F.expr(a) for a in part]).toArrow().to_pylist()
        for row in rows:
            where = row["k"], row["window"]["start"]
            found.setdefault(where, {}).update(row)
    return comparable(list(found.values()), ["k", "window", *aliases()])


def aliases() -> list[str]:
    return [a.rsplit(" AS ", 1)[1] for a in aggregates()]


@pytest.mark.spec("WQ-F40", "WQ-F46")
@pytest.mark.parametrize("kind", ["rows", "splits"])
def test_every_aggregate_equals_sparks(
    kind: str, spark: SparkSession, folder: Path, expected: list[tuple[Any, ...]], tmp_path: Path
):
    s = sw.stream(
        source(spark, folder, kind), time="ts", progress=sw.BoundedDelay("1 hour"), name="s"
    )
    result = s.groupBy("k", sw.window("60 seconds", "20 seconds")).agg(*aggregates())
    found = comparable(run(result, tmp_path / "ck").rows(), ["k", "window", *aliases()])
    assert len(found) == len(expected)
    names = ["k", "window", *[a.rsplit(" AS ", 1)[0] for a in aggregates()]]
    wrong = {
        (row[0], str(row[1][0]), name): (mine, sparks)
        for row, other in zip(found, expected)
        for name, mine, sparks in zip(names, row, other)
        if mine != sparks
    }
    assert not wrong, (sorted({name for _, _, name in wrong}), list(wrong.items())[:5])


def mean_of_squares(version: str | None = None, divisor: int = 1) -> Any:
    """A user's aggregate; ``divisor`` makes another one of it."""
    return sw.udaf(
        lambda: {"n": 0, "s": 0.0},
        lambda state, x: {
            "n": state["n"] + len(x) - x.null_count,
            "s": state["s"] + (pc.sum(pc.multiply(x, x)).as_py() or 0.0),
        },
        lambda a, b: {"n": a["n"] + b["n"], "s": a["s"] + b["s"]},
        lambda state: None if state["n"] == 0 else state["s"] / state["n"] / divisor,
        stateType="n bigint, s double",
        returnType="double",
        name="meanOfSquares",
        version=version,
    )


@pytest.mark.spec("WQ-F40", "WQ-F46")
@pytest.mark.parametrize("kind", ["rows", "splits"])
def test_heavy_hitters_user_aggregates_orders_and_sketches(
    kind: str, spark: SparkSession, folder: Path, tmp_path: Path
):
    from pyspark.sql import functions as F

    frame = spark.read.schema(SCHEMA).parquet(str(folder)).where("k IS NOT NULL")
    s = sw.stream(source(spark, folder, kind), time="ts", progress=sw.BoundedDelay("1 hour"))
    square = mean_of_squares()
    result = (
        s.where("k IS NOT NULL")
        .groupBy("k", sw.window("60 seconds", "20 seconds"))
        .agg(
            sw.heavyHitters("s", 0.2),
            sw.heavyHitters(F.col("i1"), 0.25, error=0.01).alias("sketched"),
            F.size(sw.heavyHitters("s", 0.2)).alias("many"),
            square("u").alias("squares"),
            F.expr("collect_list(u) AS us"),
            F.expr("first(u) AS a"),
            F.expr("last(s, true) AS z"),
            F.expr("approx_count_distinct(u, 0.02) AS about"),
        )
    )
    assert result.columns[3] == "heavyHitters(s, 0.2)"
    plan = _explained(result)
    assert "heavy_hitters(`s`; 0.2, None): holistic, pseudo-differential, exact" in plan
    found = {(r["k"], r["window"]["start"]): r for r in run(result, tmp_path / "ck").rows()}
    window = F.window("ts", "60 seconds", "20 seconds")
    rows = (
        frame.groupBy("k", window)
        .agg(
            F.expr("array_sort(collect_list(struct(ts, u))).u AS us"),
            F.expr("min_by(u, struct(ts, u)) AS a"),
            F.expr("max_by(s, if(s IS NULL, NULL, ts)) AS z"),
            F.expr("count(DISTINCT u) AS exact"),
            F.expr("avg(double(u) * u) AS squares"),
            F.expr("collect_list(s) AS ss"),
            F.expr("collect_list(i1) AS ii"),
        )
        .toArrow()
        .to_pylist()
    )
    assert len(rows) == len(found)
    for want in rows:
        got = found[want["k"], want["window"]["start"]]
        for column in ("us", "a", "z"):
            assert got[column] == want[column], column
        assert got["squares"] == pytest.approx(want["squares"], rel=1e-12)
        assert abs(got["about"] - want["exact"]) <= 2 + 0.1 * want["exact"]
        for column, values_, share in (
            ("heavyHitters(s, 0.2)", want["ss"], 0.2),
            ("sketched", want["ii"], 0.24),
        ):
            counts = {v: values_.count(v) for v in values_}
            heavy = [(v, n) for v, n in counts.items() if n >= share * len(values_) - 1e-9]
            heavy.sort(key=lambda p: (-p[1], p[0] if isinstance(p[0], int) else p[0].encode()))
            assert [(h["value"], h["count"]) for h in got[column]] == heavy
        assert got["many"] == len(got["heavyHitters(s, 0.2)"])


def _explained(stream: Any) -> str:
    from slackwater.surface.explain import explain_streams

    return explain_streams({"output": stream})


def test_a_user_aggregate_is_known_again_and_its_errors_name_it(
    spark: SparkSession, tmp_path: Path
):
    folder = tmp_path / "in"
    schema = "ts timestamp, v double"
    write(folder, "0.parquet", {"ts": times(1, 2), "v": [1.0, 2.0]})

    def result(function: Any, column: str = "v") -> Any:
        reader = spark.readStream.schema(schema).parquet(str(folder))
        s = sw.stream(reader, time="ts", progress=sw.Ordered(), name="s")
        return s.groupBy(sw.window("10 seconds")).agg(function(column).alias("r"))

    assert run_locally(result(mean_of_squares()), tmp_path / "ck", end=False).rows() == []
    assert run_locally(result(mean_of_squares("1")), tmp_path / "named", end=False).rows() == []
    write(folder, "1.parquet", {"ts": times(3, 11), "v": [4.0, 5.0]})
    with pytest.raises(sw.CheckpointError, match="meanOfSquares"):
        run_locally(result(mean_of_squares(divisor=2)), tmp_path / "ck", end=False)
    # The same functions, made anew, go on; so does another one of the same version.
    again = run_locally(result(mean_of_squares()), tmp_path / "ck", end=False).rows()
    assert [r["r"] for r in again] == [7.0]
    other = run_locally(
        result(mean_of_squares("1", divisor=2)), tmp_path / "named", end=False
    ).rows()
    assert [r["r"] for r in other] == [3.5]

    def broken(state: dict[str, Any], x: pa.Array) -> dict[str, Any]:
        raise LookupError("no such luck")

    bad = sw.udaf(
        dict, broken, lambda a, b: a, lambda s: 1.0, stateType="n bigint", returnType="double"
    )
    with pytest.raises(
        Exception, match=r"'update' of aggregate 'broken' raised LookupError: no such"
    ):
        run_locally(result(bad), tmp_path / "bad")


def test_what_is_not_supported_names_itself(spark: SparkSession, folder: Path):
    s = sw.stream(source(spark, folder, "rows"), time="ts", progress=sw.Ordered())
    grouped = s.groupBy(sw.window("10 seconds"))
    for text, named in (
        ("kurtosis(u)", "kurtosis"),
        ("listagg(s)", "listagg"),
        ("median(DISTINCT u)", r"median\(DISTINCT"),
        ("approx_count_distinct(u, 0.00001)", "1e-05"),
    ):
        with pytest.raises(sw.AnalysisError, match=named) as caught:
            grouped.agg(text)._node  # noqa: B018
        assert caught.value.hint
    for make, named in (
        (lambda: sw.heavyHitters("s", 0.0), "share=0.0"),
        (lambda: sw.heavyHitters("s", 0.1, error=0.2), "error=0.2"),
        (lambda: mean_of_squares()(), "no argument"),
        (lambda: sw.udaf(dict, 3, dict, dict, stateType="n int", returnType="int"), "update=3"),
        (lambda: sw.udaf(dict, dict, dict, dict, stateType="n", returnType="int"), "stateType"),
        (lambda: sw.udaf(dict, dict, dict, dict, stateType="n int", returnType="x"), "returnType"),
    ):
        with pytest.raises(sw.AnalysisError, match=named) as caught:
            make()
        assert caught.value.hint
