"""Every translated function against Spark itself, on edge values, in ANSI mode and out of it.

Rows for which DuckDB fails are found one by one; on all others the values must be Spark's, and of
those that fail a few are given to Spark, which must fail too.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest

from slackwater.engine.analysis.analyse import Analyser, fields_of
from slackwater.kernels.translate.types import duck_type
from slackwater.model.schema import Named
from slackwater.model.zone import fixed_offset
from tests.kernels.edge_values import edge_table
from tests.kernels.expressions import LOOSE, REFUSED, TRANSLATED
from tests.surface.test_settings import settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# what may depend on the session's time zone
_ZONED = re.compile(r"\b(t[12]|n[12]|da[12]|w)\b|timestamp|date")

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore::FutureWarning")]


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return edge_table()


@pytest.fixture(scope="module")
def duck(table: pa.Table) -> Iterator[duckdb.DuckDBPyConnection]:
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET threads = 1")
    connection.register("arrow_rows", table)
    connection.execute("CREATE TABLE edges AS SELECT * FROM arrow_rows ORDER BY rid")
    yield connection
    connection.close()


@pytest.fixture(scope="module")
def frame(
    spark: SparkSession, table: pa.Table, tmp_path_factory: pytest.TempPathFactory
) -> DataFrame:
    import pyarrow.parquet as pq

    path = tmp_path_factory.mktemp("edges") / "edges.parquet"
    pq.write_table(table, path)
    return spark.read.parquet(str(path))


@dataclass(frozen=True)
class Setting:
    ansi: bool
    zone: str
    named: tuple[Named, ...]
    refused: tuple[Named, ...]


@pytest.fixture(
    scope="module",
    params=[(True, "UTC"), (False, "UTC"), (True, "+05:30"), (True, "Europe/Berlin")],
    ids=["ansi", "legacy", "offset", "region"],
)  # fmt: skip
def setting(
    request: pytest.FixtureRequest, spark: SparkSession, frame: DataFrame
) -> Iterator[Setting]:
    ansi, zone = request.param
    wanted = {
        "spark.sql.ansi.enabled": str(ansi).lower(),
        "spark.sql.session.timeZone": zone,
        # hundreds of columns in one job: compiling them would take longer than running them
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    }
    before = {key: spark.conf.get(key) for key in wanted}
    for key, value in wanted.items():
        spark.conf.set(key, value)
    analyser, fields = Analyser(spark), fields_of(frame.schema)
    texts = TRANSLATED if zone == "UTC" else [e for e in TRANSLATED if _ZONED.search(e)]
    yield Setting(ansi, zone, analyser.columns(fields, texts), analyser.columns(fields, REFUSED))
    for key, value in before.items():
        spark.conf.set(key, str(value))


def test_all_are_translated(setting: Setting) -> None:
    missing = [f"{n.expr.sql}: {n.expr.why}" for n in setting.named if n.expr.duck is None]
    if fixed_offset(setting.zone) is None:
        assert all(setting.zone in text for text in missing), "\n".join(missing)
        assert 0 < len(missing) < len(setting.named)
    elif setting.ansi:
        assert not missing, "\n".join(missing)
    else:
        assert all("cast of" in text for text in missing), "\n".join(missing)


def test_same_values(
    setting: Setting, frame: DataFrame, duck: duckdb.DuckDBPyConnection, table: pa.Table
) -> None:
    named = [n for n in setting.named if n.expr.duck is not None]
    failing = [_failing_rows(duck, n) for n in named]
    ours = [_values(duck, n, bad) for n, bad in zip(named, failing, strict=True)]
    theirs = _spark_values(frame, named, failing)
    problems = []
    for n, mine, other in zip(named, ours, theirs, strict=True):
        loose = any(word in n.expr.sql.upper() for word in LOOSE)
        for rid, (a, b) in enumerate(zip(mine, other, strict=True)):
            if not _same(a, b, loose):
                problems.append(f"{_shown(n, table, rid)}: ours {a!r}, Spark's {b!r}")
                break
    chosen = [(n, _one_of(bad)) for n, bad in zip(named, failing, strict=True) if bad]
    for (n, rid), fails in zip(chosen, _spark_fails(frame, chosen), strict=True):
        if not fails:
            problems.append(f"{_shown(n, table, rid)}: only ours fails")
    assert not problems, "\n" + "\n".join(problems)


def test_types_are_sparks(setting: Setting, duck: duckdb.DuckDBPyConnection) -> None:
    named = [n for n in setting.named if n.expr.duck is not None]
    columns = ", ".join(f"{n.expr.duck} AS v{i}" for i, n in enumerate(named))
    types = duck.sql(f"SELECT {columns} FROM edges LIMIT 0").types
    for n, found in zip(named, types, strict=True):
        wanted = duck_type(n.expr.type).replace("TIMESTAMPTZ", "TIMESTAMP WITH TIME ZONE")
        assert str(found) == wanted, n.expr.sql


def test_refused(setting: Setting) -> None:
    for n in setting.refused:
        assert n.expr.duck is None, n.expr
        assert n.expr.why


def test_where_spark_fails_can_be_seen(
    spark: SparkSession, frame: DataFrame, table: pa.Table
) -> None:
    with settings(spark, ansi__enabled="true"):
        (divided,) = Analyser(spark).columns(fields_of(frame.schema), ["10 div i2"])
        values = table.column("i2").to_pylist()
        rows = [(divided, values.index(v)) for v in (0, 1, None, 0)]
        assert _spark_fails(frame, rows) == [True, False, False, True]


def _shown(n: Named, table: pa.Table, rid: int) -> str:
    row = table.slice(rid, 1).to_pylist()[0]
    return f"{n.expr.sql} with { {k: v for k, v in row.items() if f'`{k}`' in n.expr.sql} }"


def _failing_rows(duck: duckdb.DuckDBPyConnection, n: Named) -> set[int]:
    """Rows on which DuckDB fails: TRY gives null there, where its argument is never null."""
    # TRY does not take error(), which counts as volatile
    text = re.sub(r"error\(('[^']*')\)", r"CAST(\1 AS TINYINT)", str(n.expr.duck))
    sql = f"SELECT rid FROM edges WHERE TRY(CASE WHEN {text} IS NULL THEN 1 ELSE 2 END) IS NULL"
    return {rid for (rid,) in duck.execute(sql).fetchall()}


def _one_of(rows: set[int]) -> int:
    return sorted(rows)[len(rows) // 2]


def _spark_fails(frame: DataFrame, chosen: Sequence[tuple[Named, int]]) -> list[bool]:
    """Whether Spark fails to evaluate an expression on a row: as its optimizer leaves it, and without a job for each."""
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    texts = [f"{n.expr.sql} AS v{i}" for i, (n, _) in enumerate(chosen)]
    plan = frame.selectExpr(*texts)._jdf.queryExecution().optimizedPlan()
    rows = list(frame._jdf.queryExecution().executedPlan().executeCollect())
    java = SparkSession.active().sparkContext._jvm
    assert java is not None
    expressions = java.org.apache.spark.sql.catalyst.expressions
    inputs = getattr(expressions, "package$AttributeSeq")(plan.child().output())
    failing = []
    for i, (_, rid) in enumerate(chosen):
        assert rows[rid].getInt(0) == rid
        bound = expressions.BindReferences.bindReference(plan.projectList().apply(i), inputs, False)
        try:
            bound.eval(rows[rid])
        except PySparkException as error:
            if error.getCondition() == "INTERNAL_ERROR":  # one of this way to evaluate
                raise
            failing.append(True)
        else:
            failing.append(False)
    return failing


def _guard(bad: set[int]) -> str:
    return f"rid IN ({', '.join(map(str, sorted(bad)))})" if bad else "false"


def _values(duck: duckdb.DuckDBPyConnection, n: Named, bad: set[int]) -> list[Any]:
    sql = f"SELECT CASE WHEN {_guard(bad)} THEN NULL ELSE {n.expr.duck} END AS v FROM edges ORDER BY rid"
    return _listed(duck.sql(sql).to_arrow_table().column(0))


def _spark_values(
    frame: DataFrame, named: Sequence[Named], failing: Sequence[set[int]]
) -> list[list[Any]]:
    columns = [
        f"CASE WHEN {_guard(bad)} THEN NULL ELSE {n.expr.sql} END AS v{i}" if bad
        else f"{n.expr.sql} AS v{i}"
        for i, (n, bad) in enumerate(zip(named, failing, strict=True))
    ]  # fmt: skip
    result = frame.selectExpr("rid", *columns).toArrow().sort_by("rid")
    return [_listed(result.column(f"v{i}")) for i in range(len(named))]


def _listed(column: pa.ChunkedArray) -> list[Any]:
    """The values; times as numbers, since Python's end with the year 9999."""
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    elif pa.types.is_date(column.type):
        column = column.cast(pa.int32())
    return column.to_pylist()


def _same(a: Any, b: Any, loose: bool) -> bool:
    if a is None or b is None:
        return a is b
    if isinstance(a, float) and isinstance(b, float):
        if math.isnan(a) or math.isnan(b):
            return math.isnan(a) and math.isnan(b)
        if loose:
            return a == b or math.isclose(a, b, rel_tol=1e-14)
        return a == b and math.copysign(1, a) == math.copysign(1, b)
    if isinstance(a, Decimal) and isinstance(b, Decimal):
        return a == b and a.as_tuple().exponent == b.as_tuple().exponent
    return type(a) is type(b) and a == b
