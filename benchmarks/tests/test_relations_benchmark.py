"""The benchmark of joins with a table notices a wrong answer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest

from benchmarks import large_relations, relations_page
from benchmarks.cases import NATIVE, SPLITS
from benchmarks.datagen import prepare
from benchmarks.large_relations import MEMORY_ALONE, TUNED
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


def _measured(*seconds: float) -> dict[str, Any]:
    """A contender whose rounds had one warm batch each."""
    return {
        "median_seconds": sorted(seconds)[len(seconds) // 2],
        "batch_seconds": [[s] for s in seconds],
        "first_batch_seconds": [1.0 for _ in seconds],
        "parts": {"job": seconds[0] - 0.1, "spark": 0.1},
        "stages": [seconds[0] - 0.2],
    }


def _found(alone: tuple[float, ...]) -> dict[str, Any]:
    contenders = {
        NATIVE: _measured(4.0, 4.4, 3.6), TUNED: _measured(2.0, 2.0, 2.0),
        SPLITS: _measured(0.5, 0.5, 0.5), MEMORY_ALONE: _measured(*alone),
    }  # fmt: skip
    read = {"reads": 766, "hits": 34, "misses": 766, "residentBytes": 1}
    case = {
        "name": "large-uniform", "target": 6.0, "tuned_target": 1.0, "commit": "c", "contenders": contenders,
        "data": {"kind": "uniform", "rounds": 3, "table_rows": 10, "batch_rows": 500_000},
        "reads": {SPLITS: [read], MEMORY_ALONE: [read]},
    }  # fmt: skip
    peaks = {NATIVE: 2e9, TUNED: 3e9, SPLITS: 1e9, MEMORY_ALONE: 2.5e9}
    memory = [{"contender": c, "pss": p, "by_program": {}} for c, p in peaks.items()]
    return {"cases": [], "large": [case], "memory": {"figures": memory, "commit": "c"}}


def test_memory_alone_has_its_own_verdicts_and_what_is_missed_a_profile() -> None:
    found = _found((2.0, 2.2, 1.8))
    (row,) = relations_page.large_rows(found, MEMORY_ALONE)
    assert row[4:7] == ["2.0x (2.0x to 2.0x)", "6.0x", "missed by 67%"]
    assert row[7:10] == ["1.0x (0.9x to 1.1x)", "1.0x", "met"]
    assert relations_page.large_rows(found, SPLITS)[0][6] == "met"
    assert "misses 1 of 1: uniform 2.0x of 6.0x" in relations_page.strict(found)
    (profile,) = relations_page.profile_rows(found)
    assert profile[1:] == ["memory alone", "2000 ms", "job 1900, spark 100", "1800", "766, 34"]
    assert relations_page.large_rows(_found((2.0,)), MEMORY_ALONE)[0][4] == "2.0x (1 run)"


def test_peak_memory_is_held_against_sparks() -> None:
    lines = relations_page.page(_found((2.0, 2.2, 1.8))).splitlines()
    verdicts = {
        c: next(x for x in lines if x.startswith(f"| {c} |") and " MB |" in x).split("|")[3].strip()
        for c in (NATIVE, SPLITS, MEMORY_ALONE)
    }
    assert verdicts == {NATIVE: "", SPLITS: "met", MEMORY_ALONE: "missed by 25%"}
