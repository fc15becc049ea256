"""What Spark's analyser says of expressions, as our values and our errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from slackwater.engine.analysis.analyse import Analyser, fields_of, struct_of
from slackwater.errors import AnalysisError
from slackwater.model.schema import Field
from slackwater.model.time import TimeColumn

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FIELDS = (
    Field("i", "int"),
    Field("l", "bigint"),
    Field("Name", "string"),
    Field("d", "double"),
    Field("c", "decimal(10,2)"),
    Field("b", "boolean"),
    Field("ts", "timestamp"),
    Field("n", "timestamp_ntz"),
    Field("da", "date"),
    Field("w", "struct<start:timestamp,end:timestamp>"),
    Field("arr", "array<int>"),
    Field("m", "map<string,int>"),
    Field("select", "int"),
    Field("a.b", "int"),
    Field("sp ace", "int"),
    Field("q`u'o\"te", "int"),
)


@pytest.fixture(scope="module")
def analyser(spark: SparkSession) -> Analyser:
    return Analyser(spark)


def one(analyser: Analyser, expression: object) -> tuple[str, str, str]:
    (named,) = analyser.columns(FIELDS, [expression])  # type: ignore[list-item]
    return named.name, named.expr.sql, named.expr.type


def test_schema_there_and_back(spark: SparkSession) -> None:
    assert fields_of(struct_of(FIELDS)) == FIELDS
    odd = Field("s", "struct<`a b`:int,x:array<struct<`p.q`:decimal(5,1)>>>", nullable=False)
    assert fields_of(struct_of([odd])) == (odd,)


@pytest.mark.parametrize(
    ("text", "sql", "type"),
    [
        ("i + 1", "(`i` + 1)", "int"),
        ("I + L", "(CAST(`i` AS BIGINT) + `l`)", "bigint"),
        ("i / l", "(CAST(`i` AS DOUBLE) / CAST(`l` AS DOUBLE))", "double"),
        ("c * 1.5", "(`c` * 1.5BD)", "decimal(13,3)"),
        ("c / 3", "(`c` / CAST(3 AS DECIMAL(1,0)))", "decimal(14,6)"),
        ("`select` + `a.b`", "(`select` + `a.b`)", "int"),
        ("`q``u'o\"te`", "`q``u'o\"te`", "int"),
        ("name = 'it\\'s'", "(`Name` = 'it\\'s')", "boolean"),
        ("w.END", "`w`.`END`", "timestamp"),
        ("i between 1 and l", "((`i` >= 1) AND (CAST(`i` AS BIGINT) <= `l`))", "boolean"),
        ("nvl(i, l)", "coalesce(CAST(`i` AS BIGINT), `l`)", "bigint"),
        ("nullif(i, 0)", "(IF((`i` = 0), CAST(NULL AS INT), `i`))", "int"),
        ("ts - interval 1 day", "(`ts` - INTERVAL '1' DAY)", "timestamp"),
        ("da - interval 3 days", "date_add(`da`, -3)", "date"),
        ("ts > '2024-02-29'", "(`ts` > TIMESTAMP '2024-02-29 00:00:00Z')", "boolean"),
        (
            "timestamp '1969-12-31 23:59:59.5'",
            "TIMESTAMP '1969-12-31 23:59:59.500000Z'",
            "timestamp",
        ),
        ("-5", "-5", "int"),
        ("- i", "(- `i`)", "int"),
        ("try_add(i, 1)", "try_add(`i`, 1)", "int"),
        ("try_cast(name as int)", "TRY_CAST(`Name` AS INT)", "int"),
        ("transform(arr, x -> x + i)", "transform(`arr`, `x1_0` -> (`x1_0` + `i`))", "array<int>"),
        ("arr[0] + m['a']", "(`arr`[0] + `m`['a'])", "int"),
        ("extract(second from ts)", "date_part('SECOND', `ts`)", "decimal(8,6)"),
        ("(name like 'a%') = b", "((`Name` LIKE 'a%') = `b`)", "boolean"),
        ("case i when 1 then 'x' end", "CASE WHEN (`i` = 1) THEN 'x' END", "string"),
    ],
)
def test_sql_of_text(analyser: Analyser, text: str, sql: str, type: str) -> None:
    assert one(analyser, text)[1:] == (sql, type)


def test_names_and_stars_as_in_select(analyser: Analyser) -> None:
    from pyspark.sql import functions as F

    named = analyser.columns(
        FIELDS, ["*", "i + 1 AS x", F.col("l").alias("y"), "sp ace", "a.b", "NAME"]
    )
    names = [n.name for n in named]
    assert names == [f.name for f in FIELDS] + ["x", "y", "sp ace", "a.b", "NAME"]
    assert named[-1].expr.sql == "`Name`"
    assert [n.expr.type for n in named[: len(FIELDS)]] == [f.type for f in FIELDS]
    assert one(analyser, "i + 1")[0] == "(i + 1)"
    with pytest.raises(AnalysisError):
        analyser.columns(FIELDS, ["*"], star_ok=False)


def test_columns_as_objects(analyser: Analyser) -> None:
    from pyspark.sql import functions as F

    assert one(analyser, (F.col("i") > 1) & ~F.col("b"))[1] == "((`i` > 1) AND (NOT `b`))"
    assert one(analyser, F.when(F.col("i") == 1, F.lit("a'b\\c")).otherwise(F.col("Name")))[1] == (
        "CASE WHEN (`i` = 1) THEN 'a\\'b\\\\c' ELSE `Name` END"
    )
    assert one(analyser, F.col("w")["end"])[1] == "`w`.`end`"
    assert one(analyser, F.col("`a.b`"))[0] == "a.b"


def test_a_column_may_name_an_earlier_one(analyser: Analyser) -> None:
    named = analyser.columns(FIELDS, ["i + 1 AS x", "x * 2 AS y"])
    assert [n.expr.sql for n in named] == ["(`i` + 1)", "((`i` + 1) * 2)"]


def test_translation_goes_with_it(analyser: Analyser) -> None:
    good, bad = analyser.columns(FIELDS, ["I + 1", "upper(name)"])
    assert good.expr.duck == 'add("i", CAST(1 AS INTEGER))'
    assert bad.expr.duck is None
    assert "upper" in bad.expr.why


def test_condition(analyser: Analyser) -> None:
    assert analyser.condition(FIELDS, "i > 1").type == "boolean"
    with pytest.raises(AnalysisError, match="not boolean"):
        analyser.condition(FIELDS, "i + 1")


@pytest.mark.parametrize(
    ("text", "condition", "part"),
    [
        ("zz + 1", "COLUMN_NOT_FOUND", "'zz'"),
        ("i +", "BAD_EXPRESSION", "i +"),
        ("name + b", "BAD_EXPRESSION", "name + b"),
        ("rand()", "UNSUPPORTED_EXPRESSION", "deterministic"),
        ("now()", "UNSUPPORTED_EXPRESSION", "deterministic"),
        ("ts > current_timestamp()", "UNSUPPORTED_EXPRESSION", "deterministic"),
        ("explode(arr)", "UNSUPPORTED_EXPRESSION", "generator"),
        ("(select max(id) from range(3))", "UNSUPPORTED_EXPRESSION", "subquery"),
        ("sum(i)", "UNSUPPORTED_EXPRESSION", "aggregate"),
        ("sum(i) over (order by l)", "UNSUPPORTED_EXPRESSION", "window function"),
    ],
)
def test_refusals(analyser: Analyser, text: str, condition: str, part: str) -> None:
    with pytest.raises(AnalysisError) as error:
        analyser.columns(FIELDS, [text])
    assert error.value.condition == condition
    assert part in error.value.message
    assert error.value.hint


def test_missing_column_lists_the_others(analyser: Analyser) -> None:
    with pytest.raises(AnalysisError) as error:
        analyser.condition(FIELDS, "nothere = 1")
    assert error.value.parameters["name"] == "nothere"
    assert "sp ace" in error.value.hint


def test_udf_is_named(analyser: Analyser) -> None:
    from pyspark.sql import functions as F

    def plus(x: int) -> int:
        return x + 1

    with pytest.raises(AnalysisError, match=r"'plus'[^\n]*\n.*before sw\.stream"):
        analyser.columns(FIELDS, [F.udf(plus, "int")("i")])


def test_column_of_another_frame(analyser: Analyser, spark: SparkSession) -> None:
    with pytest.raises(AnalysisError, match="another DataFrame"):
        analyser.columns(FIELDS, [spark.range(1).id + 1])


def test_aggregates_are_cut(analyser: Analyser) -> None:
    from pyspark.sql import functions as F

    keys, primitives, outputs = analyser.aggregates(
        FIELDS,
        ["Name", F.col("i") % 2],
        [F.sum("l").alias("total"), "count(*) AS n", "sum(l) / count(1)", "nvl(sum(c), 0) + i % 2"],
    )
    assert [(k.name, k.expr.sql) for k in keys] == [("Name", "`Name`"), ("(i % 2)", "(`i` % 2)")]
    assert [(p.name, p.function, [a.sql for a in p.args], p.type) for p in primitives] == [
        ("_a0", "sum", ["`l`"], "bigint"),
        ("_a1", "count", [], "bigint"),
        ("_a2", "sum", ["`c`"], "decimal(20,2)"),
    ]
    assert [(o.name, o.expr.sql, o.expr.type) for o in outputs] == [
        ("total", "`__sw_a0`", "bigint"),
        ("n", "`__sw_a1`", "bigint"),
        (
            "(sum(l) / count(1))",
            "(CAST(`__sw_a0` AS DOUBLE) / CAST(`__sw_a1` AS DOUBLE))",
            "double",
        ),
        (
            "(nvl(sum(c), 0) + (i % 2))",
            "(coalesce(`__sw_a2`, CAST(0 AS DECIMAL(20,2))) + CAST(`(i % 2)` AS DECIMAL(10,0)))",
            "decimal(21,2)",
        ),
    ]


@pytest.mark.parametrize(
    ("text", "function", "args", "type"),
    [
        ("mean(i)", "avg", ["`i`"], "double"),
        ("avg(c)", "avg", ["`c`"], "decimal(14,6)"),
        ("variance(d)", "var_samp", ["`d`"], "double"),
        ("stddev(d)", "stddev_samp", ["`d`"], "double"),
        ("std(d)", "stddev_samp", ["`d`"], "double"),
        ("var_pop(i)", "var_pop", ["CAST(`i` AS DOUBLE)"], "double"),
        ("every(b)", "bool_and", ["`b`"], "boolean"),
        ("bool_and(i > 1)", "bool_and", ["(`i` > 1)"], "boolean"),
        ("any(b)", "bool_or", ["`b`"], "boolean"),
        ("some(b)", "bool_or", ["`b`"], "boolean"),
        ("count_if(i > 1)", "count", ["CASE WHEN (`i` > 1) THEN 1 END"], "bigint"),
        ("count(i, l)", "count", ["`i`", "`l`"], "bigint"),
        ("count(1)", "count", [], "bigint"),
        ("count(null)", "count", ["NULL"], "bigint"),
        ("min(distinct i)", "min", ["`i`"], "int"),
        ("max_by(name, ts)", "max_by", ["`Name`", "`ts`"], "string"),
        ("sum(i) filter (where b)", "sum", ["CASE WHEN `b` THEN `i` END"], "bigint"),
        ("count(*) filter (where b)", "count", ["CASE WHEN `b` THEN 1 END"], "bigint"),
        ("min_by(i, l) filter (where b)", "min_by", ["`i`", "CASE WHEN `b` THEN `l` END"], "int"),
    ],
)
def test_primitives(
    analyser: Analyser, text: str, function: str, args: list[str], type: str
) -> None:
    _, (primitive,), (output,) = analyser.aggregates(FIELDS, [], [text])
    assert (primitive.function, [a.sql for a in primitive.args]) == (function, args)
    assert primitive.type == output.expr.type == type
    assert output.expr.sql == "`__sw_a0`"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("collect_list(i)", "collect_list over rows without a time"),
        ("first(i)", "first over rows without a time"),
        ("median(distinct i)", "median(DISTINCT"),
        ("var_pop(distinct i)", "var_pop(DISTINCT"),
        ("try_sum(i)", "try_sum"),
        ("kurtosis(i)", "kurtosis"),
    ],
)
def test_unsupported_aggregates(analyser: Analyser, text: str, name: str) -> None:
    with pytest.raises(AnalysisError) as error:
        analyser.aggregates(FIELDS, ["i"], [f"1 + count(*) + length(string({text}))"])
    assert error.value.condition == "UNSUPPORTED_AGGREGATE"
    assert name in error.value.message
    assert "var_samp" in error.value.hint


def test_bad_groups(analyser: Analyser) -> None:
    from pyspark.sql import functions as F

    calls: list[Callable[[], object]] = [
        lambda: analyser.aggregates(FIELDS, ["i"], ["l"]),
        lambda: analyser.aggregates(FIELDS, ["i"], ["sum(sum(l))"]),
        lambda: analyser.aggregates(FIELDS, [F.window("ts", "1 minute")], ["count(*)"]),
        lambda: analyser.aggregates(FIELDS, ["i", F.col("l").alias("I")], ["count(*)"]),
        lambda: analyser.aggregates(FIELDS, ["zz"], ["count(*)"]),
    ]
    for call in calls:
        with pytest.raises(AnalysisError):
            call()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ts", ("ts", 0)),
        ("ts AS other", ("ts", 0)),
        ("cast(ts as timestamp)", ("ts", 0)),
        ("ts + interval 10 seconds", ("ts", 10_000_000)),
        ("ts - interval '1' day", ("ts", -86_400_000_000)),
        ("(ts - interval '1' hour) + interval '0.5' second", ("ts", -3_599_500_000)),
        ("n + interval '1' minute", ("n", 60_000_000)),
        ("l + 5", ("l", 5)),
        ("l - 5", ("l", -5)),
        ("w", ("w", 0)),
        ("w.end", ("w", 1)),
        ("W.END", ("w", 1)),
        ("w.start", ("w", 1 - 60)),
        ("w.end - interval '1' second", ("w", 1 - 1_000_000)),
        ("ts + interval 1 month", None),
        ("date_trunc('hour', ts)", None),
        ("cast(ts as timestamp_ntz)", None),
        ("cast(ts as bigint)", None),
        ("i", None),
        ("-l", None),
        ("l * 2", None),
        ("da", None),
    ],
)
def test_monotone(analyser: Analyser, text: str, expected: tuple[str, int] | None) -> None:
    times = [
        TimeColumn("ts", "timestamp"),
        TimeColumn("n", "timestamp_ntz"),
        TimeColumn("l", "long", None),
        TimeColumn("w", "window"),
    ]
    (named,) = analyser.columns(FIELDS, [text])
    assert analyser.monotone(FIELDS, named, times, 60) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("w", ("w", 0)),
        ("w.end", ("w", 1)),
        ("w.end + interval 1 day", ("w", 1 + 86_400_000_000)),
        ("cast(w.end as timestamp_ntz)", ("w", 1)),
        # an instant is no local time: it would be moved by the zone
        ("cast(w.end as timestamp)", None),
        ("cast(w as struct<start: timestamp, end: timestamp>)", None),
    ],
)
def test_windows_of_local_times(
    spark: SparkSession, text: str, expected: tuple[str, int] | None
) -> None:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        fields = (Field("w", "struct<start:timestamp_ntz,end:timestamp_ntz>"),)
        analyser = Analyser(spark)
        (named,) = analyser.columns(fields, [f"{text} AS x"])
        times = [TimeColumn("w", "window", local=True)]
        assert analyser.monotone(fields, named, times, 60) == expected
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(before))


def test_an_hour_that_occurs_twice(spark: SparkSession) -> None:
    from pyspark.sql import functions as F

    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        # 2:30 in Berlin, the second time
        later = F.timestamp_seconds(F.lit(1_698_543_000))
        (again,) = Analyser(spark).columns(
            FIELDS, [F.lit("2023-10-29 01:30:00Z").cast("timestamp")]
        )
        assert again.expr.sql == "TIMESTAMP '2023-10-29 01:30:00Z'"
        assert again.expr.duck is not None
        assert spark.range(1).select(F.expr(again.expr.sql) == later).first() == (True,)
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(before))


def test_days_are_local_where_clocks_change(spark: SparkSession) -> None:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        analyser = Analyser(spark)
        hour, day = analyser.columns(FIELDS, ["ts + interval 23 hours", "ts + interval 1 day"])
        times = [TimeColumn("ts", "timestamp")]
        assert analyser.monotone(FIELDS, hour, times) == ("ts", 23 * 3_600_000_000)
        assert analyser.monotone(FIELDS, day, times) is None
        assert hour.expr.duck is not None
        assert day.expr.duck is None
        assert "Europe/Berlin" in day.expr.why
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(before))
