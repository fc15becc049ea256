"""The same values as Spark's own batch aggregation, from partials of either engine."""

from __future__ import annotations

import datetime as dt
import math
import random
from decimal import Decimal

import pyarrow as pa
import pytest

from slackwater.errors import ExecutionError
from slackwater.kernels import column_engine
from slackwater.kernels.aggregates import partials
from slackwater.kernels.windows import partials_step as aggregate
from slackwater.kernels.windows.partials_step import END, AggregateSpec
from slackwater.model.schema import Field
from slackwater.model.window import TimeWindow
from tests.kernels import brute

pytestmark = pytest.mark.spark

UTC = dt.timezone.utc
PRIMITIVES = tuple(brute.all_primitives())
WINDOW = TimeWindow(9, 6, 2, "t")


def data(seed: int, n: int = 120) -> list[dict]:
    """Rows with nulls and extremes; the columns that order max_by hold no value twice."""
    rng = random.Random(seed)
    shuffled = rng.sample(range(-128, 128), n)

    def decimal(precision: int, scale: int) -> Decimal:
        top = 10**precision - 1
        digits = rng.choice([rng.randint(-top, top), rng.randint(-9, 9), top, -top])
        return Decimal((int(digits < 0), tuple(map(int, str(abs(digits)))), -scale))

    floats = [0.0, -0.0, 1e15, -1e15, 0.1, math.nan, math.inf, -math.inf]
    out = []
    for i in range(n):
        unique = shuffled[i]
        row = {
            "b": rng.random() < 0.5,
            "i1": unique,
            "i2": rng.choice([-(2**15), 2**15 - 1, rng.randint(-9, 9)]),
            "i4": rng.choice([-(2**31), 2**31 - 1, rng.randint(-9, 9)]),
            "i8": rng.choice([-(2**63), 2**63 - 1, rng.randint(-9, 9), 2**40]),
            "f4": rng.choice([*floats, 0.5, 1.25]) if i % 3 == 0 else rng.randint(-99, 99) / 8,
            "f8": rng.choice(floats) if i % 10 == 0 else unique + rng.random() / 2,
            "d5": decimal(5, 2),
            "d18": decimal(18, 4),
            "d28": decimal(28, 6),
            "d38": decimal(38, 10) if i % 4 == 0 else Decimal(rng.randint(-999, 999)),
            "w38": Decimal(unique * 10**30),
            "s": f"{unique}é",
            "y": bytes([rng.randint(0, 255)]),
            "dt": dt.date(2000, 1, 1) + dt.timedelta(days=rng.randint(-9999, 9999)),
            "ts": dt.datetime(1970, 1, 1, tzinfo=UTC) + dt.timedelta(seconds=unique * 7919.000001),
            "tn": dt.datetime(1970, 1, 1)  # noqa: DTZ001 (timestamp_ntz is naive)
            + dt.timedelta(seconds=rng.randint(-(10**9), 10**9)),
        }
        row = {c: None if rng.random() < 0.15 else v for c, v in row.items()}
        if row["f8"] is not None and rng.random() < 0.7 and not math.isfinite(row["f8"]):
            row["f8"] = None
        # Values that overflow live in one group only, so that the others prove the plain sums.
        row["k"], row["t"] = rng.choice(["a", "b", None]), rng.randint(-20, 30)
        if row["k"] != "a":
            row["i8"] = None if row["i8"] is None else row["i8"] % 1000
        out.append(row)
    return out


@pytest.fixture
def ansi(spark):
    before = spark.conf.get("spark.sql.ansi.enabled")
    yield lambda on: spark.conf.set("spark.sql.ansi.enabled", str(on).lower())
    spark.conf.set("spark.sql.ansi.enabled", before)


def view(spark, rows: list[dict]) -> pa.Table:
    """The rows as table ``input`` in Spark, and as Arrow."""
    table = brute.table(rows)
    frame = spark.createDataFrame(table)  # which makes timestamp_ntz a timestamp
    frame.withColumn("tn", frame.tn.cast("timestamp_ntz")).createOrReplaceTempView("input")
    return table


def call(p) -> str:
    return f"{p.function}({', '.join(a.sql for a in p.args) or '*'})"


def batch(spark, spec: AggregateSpec) -> dict:
    """Spark's own answer: each row in each of its windows, then a plain GROUP BY."""
    w = spec.window
    low = f"CAST(floor((t - {w.origin}) / {w.slide}) AS BIGINT)"
    high = f"CAST(floor((t - {w.origin} + {w.range}) / {w.slide}) AS BIGINT) - 1"
    items = ", ".join(f"{call(p)} AS {p.name}" for p in spec.primitives)
    rows = spark.sql(
        f"SELECT k, wid, {items} FROM (SELECT *, explode(sequence({low}, {high})) AS wid FROM input "
        f"WHERE {low} <= {high}) GROUP BY k, wid"
    ).toArrow()
    return {(r["k"], r["wid"]): r for r in rows.to_pylist()}


def by_duck(spec: AggregateSpec, table: pa.Table) -> pa.Table:
    sql = aggregate.partial_select(spec, ['"k"'], '"t"', "input")
    raw = column_engine.sql_to_arrow(column_engine.connect(), sql, {"input": table})
    return aggregate.partials(raw, spec)


def by_spark(spark, spec: AggregateSpec) -> pa.Table:
    pane, where = aggregate.spark_group(spec, "t")
    items = [i for p in spec.primitives for i in partials.spark_partials(p)]
    text = ", ".join(f"{sql} AS {name}" for name, sql in items)
    raw = spark.sql(
        f"SELECT k AS _k0, {pane} AS _pane, {text} FROM input"
        + (f" WHERE {where}" if where else "")
        + " GROUP BY 1, 2"
    ).toArrow()
    return aggregate.partials_from_spark(raw, spec)


def finish(spec: AggregateSpec, table: pa.Table) -> dict:
    empty = aggregate.partials_schema(spec).empty_table()
    output = aggregate.step(spec, table, empty, -END, END).output
    return {(r["_k0"], r["_wid"]): r for r in output.to_pylist()}


def close(p, a, b, inside: list[dict]) -> bool:
    if b is None and p.type.startswith("decimal(38") and p.function in ("sum", "avg"):
        # Spark gives up when a sum overflows on the way, which depends on the order of rows; here
        # only the final value counts.
        return a == brute.aggregate(p, inside, ansi=False)
    return brute.same(p, a, b, inside) if isinstance(b, float) else (type(a), a) == (type(b), b)


@pytest.mark.spec("WQ-F35", "WQ-F44")
@pytest.mark.parametrize("window", [WINDOW, TimeWindow(2, 5, -3, "t")], ids=["overlap", "gaps"])
def test_both_engines_partials_finish_to_sparks_values(spark, ansi, window):
    ansi(False)
    rows = data(1)
    table = view(spark, rows)
    spec = AggregateSpec((Field("k", "string"),), window, PRIMITIVES, "panes", False)
    want = batch(spark, spec)
    wids = AggregateSpec(spec.keys, window, PRIMITIVES, "wids", False)
    plain = tuple(p for p in PRIMITIVES if partials.spark_partials(p) is not None)
    small = AggregateSpec(spec.keys, window, plain, "panes", False)
    answers = {
        "column engine, panes": (spec, finish(spec, by_duck(spec, table))),
        "column engine, wids": (wids, finish(wids, by_duck(wids, table))),
        "row engine, panes": (small, finish(small, by_spark(spark, small))),
    }
    inside = brute.windows(rows, window.range, window.slide, window.origin)
    wrong = []
    for name, (used, got) in answers.items():
        assert set(got) == set(want), name
        for where, row in got.items():
            wrong += [
                (name, call(p), where, row[p.name], want[where][p.name])
                for p in used.primitives
                if not close(p, row[p.name], want[where][p.name], inside[where])
            ]
    assert not wrong, wrong[:20]


def test_result_types_are_sparks(spark):
    view(spark, data(2, 3))
    items = ", ".join(f"{call(p)} AS {p.name}" for p in PRIMITIVES)
    types = dict(spark.sql(f"SELECT {items} FROM input").dtypes)
    assert types == {p.name: p.type for p in PRIMITIVES}


@pytest.mark.parametrize("function", ["sum", "avg"])
@pytest.mark.parametrize("name", ["i8", "w38", "d38"])
def test_overflow_is_an_error_under_ansi_exactly_when_it_is_one_in_spark(
    spark, ansi, function, name
):
    ansi(True)
    p = brute.primitive("_a0", function, name)
    top = 2**63 - 1 if name == "i8" else Decimal((0, (9,) * 38, 0 if name == "w38" else -10))
    spec = AggregateSpec((Field("k", "string"),), TimeWindow(5, 5, 0, "t"), (p,), "panes", True)
    bottom = -top if name == "i8" else top.copy_negate()  # minus would round to 28 digits
    for values in ([top, top], [top], [bottom, bottom], [bottom]):
        rows = [{"k": "a", "t": 1, name: v} for v in values]
        view(spark, rows)
        want, refused = None, ""
        try:
            want = next(iter(batch(spark, spec).values()))["_a0"]
        except Exception as e:
            refused = str(e)
        if refused:
            assert "overflow" in refused.lower() or "OUT_OF_RANGE" in refused
            with pytest.raises(ExecutionError, match="ARITHMETIC_OVERFLOW"):
                finish(spec, by_duck(spec, brute.table(rows)))
        else:
            got = next(iter(finish(spec, by_duck(spec, brute.table(rows))).values()))["_a0"]
            assert close(p, got, want, rows), (values, got, want)


def test_averages_with_many_digits_are_rounded_as_spark_rounds_them(spark, ansi):
    ansi(False)
    p = brute.primitive("_a0", "avg", "w38")
    spec = AggregateSpec((Field("k", "string"),), TimeWindow(1, 1, 0, "t"), (p,), "panes", False)
    rng = random.Random(5)
    rows = []
    for t in range(60):
        size = 10 ** rng.randint(20, 34)
        rows += [
            {"k": "a", "t": t, "w38": Decimal(rng.randint(-size, size))} for _ in range(1 + t % 9)
        ]
    view(spark, rows)
    got = finish(spec, by_duck(spec, brute.table(rows)))
    want = batch(spark, spec)
    assert {k: r["_a0"] for k, r in got.items()} == {k: r["_a0"] for k, r in want.items()}
