"""The benchmark of joins with a table notices a wrong answer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

from benchmarks import large_relations
from benchmarks.cases import NATIVE, SPLITS
from benchmarks.datagen import prepare
from benchmarks.relations import CASES, RANGE, SLIDE, STREAM, check, write_table
from benchmarks.windows import WrongAnswerError

SMALL = replace(STREAM, batches=2, batch_rows=400, rate=4)
ROWS, WINDOWS = (replace(c, data=SMALL) for c in CASES)


def test_rows_that_are_missing_are_noticed(tmp_path: Path) -> None:
    source, table = prepare(SMALL, tmp_path), write_table(tmp_path / "table")
    out = tmp_path / "out"
    out.mkdir()
    joined = f"FROM '{source}/*.parquet' JOIN '{table}/*.parquet' USING (k)"
    duckdb.sql(f"COPY (SELECT * {joined}) TO '{out}/a.parquet'")
    check(SPLITS, ROWS, source, table, out)
    duckdb.sql(f"COPY (SELECT * {joined} LIMIT 799) TO '{out}/a.parquet'")
    with pytest.raises(WrongAnswerError, match="gave"):
        check(SPLITS, ROWS, source, table, out)


def test_windows_that_are_wrong_or_missing_are_noticed(tmp_path: Path) -> None:
    source, table = prepare(SMALL, tmp_path), write_table(tmp_path / "table")
    out = tmp_path / "out"
    out.mkdir()
    sums = f"""
        SELECT attribute, struct_pack("end" := make_timestamp(w)) AS "window", sum(v) AS s, count(*) AS n
        FROM (SELECT attribute, v, (epoch_us(ts) // {SLIDE}000000 + 1 + i) * {SLIDE}000000 AS w
              FROM '{source}/*.parquet' JOIN '{table}/*.parquet' USING (k), range({RANGE // SLIDE}) AS r(i))
        WHERE w <= (SELECT epoch_us(max(ts)) - 10000000 FROM '{source}/*.parquet') GROUP BY attribute, w"""
    duckdb.sql(f"COPY ({sums}) TO '{out}/a.parquet'")
    check(SPLITS, WINDOWS, source, table, out)
    duckdb.sql(f"COPY (SELECT * FROM ({sums}) LIMIT 20) TO '{out}/a.parquet'")
    check(NATIVE, WINDOWS, source, table, out)  # it may not have come to the last ones
    with pytest.raises(WrongAnswerError, match="lacks"):
        check(SPLITS, WINDOWS, source, table, out)
    duckdb.sql(f"COPY (SELECT * REPLACE (s + 1 AS s) FROM ({sums})) TO '{out}/a.parquet'")
    with pytest.raises(WrongAnswerError, match="wrong"):
        check(NATIVE, WINDOWS, source, table, out)


@pytest.mark.parametrize("case", large_relations.CASES, ids=lambda c: c.name)
def test_large_cases_have_their_keys_in_the_table_and_notice_what_is_missing(
    case: large_relations.LargeCase, tmp_path: Path
) -> None:
    case = replace(case, table_rows=5_000, batch_rows=200, batches=2)
    table = large_relations.write_table(tmp_path / "table", case.table_rows)
    source = large_relations.write_stream(tmp_path / "stream", case)
    out = tmp_path / "out"
    out.mkdir()
    joined = f"FROM '{source}/*.parquet' JOIN '{table}/*.parquet' USING (k)"
    duckdb.sql(f"COPY (SELECT * {joined}) TO '{out}/a.parquet'")
    assert duckdb.sql(f"SELECT count(*) FROM '{out}/*.parquet'").fetchall() == [(400,)]
    large_relations.check(SPLITS, case, source, table, out)
    duckdb.sql(f"COPY (SELECT * {joined} LIMIT 399) TO '{out}/a.parquet'")
    with pytest.raises(WrongAnswerError, match="gave"):
        large_relations.check(SPLITS, case, source, table, out)
