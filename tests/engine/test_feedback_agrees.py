"""Feedback gives up the rows for which Spark says that a condition is true, or false or null."""

from __future__ import annotations

import datetime as dt
import math
import random
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from slackwater.engine.analysis.analyse import Analyser
from slackwater.errors import AnalysisError
from slackwater.kernels.column_engine import connect, sql_to_arrow
from slackwater.kernels.translate.feedback import condition_of
from slackwater.kernels.translate.records import matching
from slackwater.kernels.types import arrow_schema
from slackwater.model.node import Source
from slackwater.model.policy import Ordered
from slackwater.model.schema import Field
from slackwater.model.time import TimeColumn
from slackwater.semantics.feedback import order
from slackwater.semantics.feedback.columns import Columns, moved
from slackwater.semantics.feedback.condition import Condition, ignore, only
from slackwater.semantics.feedback.value import ANY, Feedback
from slackwater.semantics.patterns import Pattern, Test

pytestmark = pytest.mark.spark

UTC = dt.timezone.utc
FIELDS = (
    Field("i", "int"),
    Field("n", "bigint"),
    Field("d", "double"),
    Field("f", "float"),
    Field("p", "decimal(5,2)"),
    Field("s", "string"),
    Field("ok", "boolean"),
    Field("day", "date"),
    Field("ts", "timestamp"),
)
VALUES: dict[str, list[Any]] = {
    "i": [-(2**31), -1, 0, 1, 2, 7, 2**31 - 1],
    "n": [-(2**63), 2**53 - 1, 2**53, 2**53 + 1, 0, 2, 2**63 - 1],
    "d": [-math.inf, -1.5, -0.0, 0.0, 0.1, 1.5, 2.0, math.inf, math.nan],
    "f": [-math.inf, -0.0, 0.0, 0.5, 0.1, 2.0, math.inf, math.nan],
    "p": [Decimal("-999.99"), Decimal("0.00"), Decimal("0.10"), Decimal("1.50"), Decimal("2.00")],
    "s": ["", "a", "ab", "b", "é", "z"],
    "ok": [False, True],
    "day": [dt.date(1969, 12, 31), dt.date(2026, 1, 31), dt.date(2026, 2, 1)],
    "ts": [dt.datetime(2026, 1, 31, 12, 0, 0, us, tzinfo=UTC) for us in (0, 1, 2)],
}
TESTS = [
    "i < 2", "i <= 1.5", "i = 1.5", "2 > i", "i <=> NULL", "i IN (1, 2)", "i IN (1, NULL)", "i IN (-1, 0, 1, 7, 9)",
    "s IN ('a', 'ab', 'b', 'é', '')", "NOT (i IN (1, NULL))",
    "i BETWEEN -1 AND 2", "i > 1.5D", "n < 9007199254740993", "n <= 9007199254740992D", "n = 9007199254740992D",
    "n >= 0.5", "d < 0.1", "d <= 0.1D", "d = 0.0", "d < -0.0D", "d > double('Infinity')", "isnan(d)",
    "d >= double('NaN')", "d <=> double('NaN')", "f = 0.1", "f <= 0.1", "f >= 0.5F", "f <> 0", "p < 1.5", "p = 0.1D",
    "p <= 0.1D", "p >= 1", "p > 1.499", "s >= 'a'", "s < 'b'", "s <> 'ab'", "s IS NULL", "isnotnull(s)", "ok", "NOT ok",
    "ok = true", "ok <> false", "day > DATE '2026-01-31'", "day = DATE '2026-01-31' + INTERVAL 1 DAY",
    "ts <= TIMESTAMP '2026-01-31 12:00:00'", "ts > TIMESTAMP '2026-01-31 12:00:00.000001'", "NULL = 1", "1 = 1", "i < NULL",
]  # fmt: skip
REFUSED = [
    "i < n",
    "i + 1 = 2",
    "length(s) = 1",
    "s LIKE 'a%'",
    "cast(s as int) = 1",
    "ok = (i < 2)",
]


def conditions(rng: random.Random) -> list[str]:
    """Every test by itself, and some of them together."""
    mixed = []
    for _ in range(40):
        a, b, c = rng.sample(TESTS, 3)
        mixed.append(
            rng.choice(
                [
                    f"({a}) AND ({b})",
                    f"({a}) OR NOT ({b})",
                    f"NOT (({a}) AND ({b}) OR ({c}))",
                    f"({a} OR {b}) AND NOT ({c})",
                ]
            )
        )
    return [*TESTS, *mixed]


def given_up(
    make: Callable[[Condition], Feedback], condition: Condition, rows: list[Any]
) -> list[bool]:
    """Of each row whether it is given up; feedback about all rows, or about none, is refused."""
    try:
        made = make(condition)
    except AnalysisError as error:
        return ["no row is wanted" in error.message] * len(rows)
    return [made.matches(r) for r in rows]


def test_records_are_what_spark_says_of_the_rows(spark: Any) -> None:
    rng = random.Random(11)
    rows = [
        tuple(rng.choice([None, *VALUES[f.name], *VALUES[f.name]]) for f in FIELDS)
        for _ in range(120)
    ]
    frame = spark.createDataFrame(rows, ", ".join(f"{f.name} {f.type}" for f in FIELDS))
    texts = conditions(rng)
    # With the rows beside what Spark says of them: what came back is what was compared.
    answers = frame.selectExpr("*", *(f"({t}) AS c{n}" for n, t in enumerate(texts))).collect()
    # Times come back without a zone, in that of this machine.
    zone = dt.datetime.now().astimezone().tzinfo
    found = [
        {
            f.name: r[f.name].replace(tzinfo=zone) if f.name == "ts" and r.ts else r[f.name]
            for f in FIELDS
        }
        for r in answers
    ]
    analysed = Analyser(spark).columns(FIELDS, [f"({t}) AS c{n}" for n, t in enumerate(texts)])
    for n, text in enumerate(texts):
        condition = condition_of(analysed[n].expr.sql, Columns(FIELDS))
        truth = [r[f"c{n}"] for r in answers]
        for make, true in ((ignore, True), (only, False)):
            wanted = [(t is True) == true for t in truth]
            assert given_up(make, condition, found) == wanted, text


@pytest.mark.parametrize("text", REFUSED)
def test_what_spark_understands_and_feedback_does_not_is_refused(spark: Any, text: str) -> None:
    analysed = Analyser(spark).condition(FIELDS, f"(i = 1) AND ({text})").sql
    with pytest.raises(AnalysisError, match="no test of a single column"):
        condition_of(analysed, Columns(FIELDS))


# --- records as SQL --------------------------------------------------------------------------------------

WINDOWED = (
    *FIELDS, Field("local", "timestamp_ntz"), Field("w", "struct<start:timestamp,end:timestamp>"), Field("it's", "int"),
)  # fmt: skip
LOCAL = [dt.datetime(1969, 12, 31, 23, 59, 59, 999_999), dt.datetime(2026, 3, 29, 2, 30, 0, 1)]  # noqa: DTZ001


def records_of(rng: random.Random, columns: Columns) -> list[Feedback]:
    """One or several tests of every column, ends of types and text with odd characters among them."""
    values: dict[str, list[Any]] = {
        **VALUES,
        "local": LOCAL,
        "w.start": VALUES["ts"],
        "w.end": VALUES["ts"],
        "it's": [0, 5],
    }
    made = []
    for name, some in values.items():
        column = columns.column(name.split(".") if "." in name else [name])
        for compare in (order.below, order.up_to, order.from_, order.above, order.equal):
            for value in rng.sample(some, min(len(some), 3)):
                test = compare(value, column.type, "UTC")
                test = Test(test.spans, rng.random() < 0.4)
                if test.empty or test == ANY:
                    continue
                shown = moved(test, -1) if column.ends else test
                made.append(Feedback((Pattern.of({column.name: shown}),), (column,)))
    made += [_listed(rng, columns, values, names) for names in LISTS]
    odd = columns.column(["s"])
    many = Test.among(["", "a'b", "a\\b", "a\x00", "\u00e9", "zz"])
    made += [Feedback((Pattern.of({"s": Test(many.spans, n)}),), (odd,)) for n in (False, True)]
    made += [
        Feedback((Pattern.of({"s": order.up_to(text, "string")}),), (odd,))
        for text in ("a'b", "a\\b", "a\x00", "\u00e9", "")
    ]
    return made


LISTS: list[tuple[str, ...]] = [
    ("i",), ("day",), ("local",), ("w.end",), ("i", "n"), ("n", "ok", "day"), ("it's", "w.end"), ("i", "s"), ("i", "p"),
]  # fmt: skip


def _listed(
    rng: random.Random, columns: Columns, values: dict[str, list[Any]], names: tuple[str, ...]
) -> Feedback:
    """Many records of one shape: a value for each of some columns, and the same test on another."""
    tested = [columns.column(n.split(".") if "." in n else [n]) for n in names]
    other = columns.column(["d"])
    records = []
    for _ in range(9):
        tests = {"d": Test(order.from_(0.0, "double").spans, True)}
        for name, column in zip(names, tested, strict=True):
            test = order.equal(rng.choice(values[name]), column.type, "UTC")
            tests[column.name] = moved(test, -1) if column.ends else test
        records.append(Pattern.of(tests))
    points = Test.among([t.spans[0][0] for r in records if (t := r.test(tested[0].name))])
    records.append(Pattern.of({tested[0].name: points, "d": Test((), True)}))
    return Feedback(tuple(dict.fromkeys(records)), (*tested, other))


def test_records_mean_the_same_in_both_engines(spark: Any) -> None:
    import pyarrow as pa

    rng = random.Random(5)
    times = (TimeColumn("w", "window"),)
    node = Source(WINDOWED, times, "s", policies=(Ordered(),))
    columns = Columns(WINDOWED, times)
    every = {
        **VALUES,
        "local": LOCAL,
        "it's": [0, 4, 5],
        "s": [*VALUES["s"], "a'b", "a\\b", "a\x00"],
    }
    rows = []
    for _ in range(150):
        row = {n: rng.choice([None, *v, *v]) for n, v in every.items()}
        start, end = rng.choice(VALUES["ts"]), rng.choice(VALUES["ts"])
        row["w"] = None if rng.random() < 0.2 else {"start": start, "end": end}
        rows.append(row)
    table = pa.Table.from_pylist(rows, arrow_schema(WINDOWED))
    rows = table.to_pylist()  # floats of their own width
    said = records_of(rng, columns)
    texts = [matching(node, f.records) for f in said]
    frame = spark.createDataFrame(table)
    items = [f"{t.sql} AS c{i}" for i, t in enumerate(texts)]
    by_spark = [r.asDict() for r in frame.selectExpr(*items).collect()]
    duck = ", ".join(f"{t.duck} AS c{i}" for i, t in enumerate(texts))
    by_duck = sql_to_arrow(connect(), f"SELECT {duck} FROM t", {"t": table}).to_pylist()
    for i, one in enumerate(said):
        truth = [one.matches(r) for r in rows]
        assert [r[f"c{i}"] for r in by_duck] == truth, (str(one), texts[i].duck)
        assert [r[f"c{i}"] for r in by_spark] == truth, (str(one), texts[i].sql)
