"""The right answers, by DuckDB over the same files, and DuckDB as a third contender in batch.

A row counts for a window unless that window was closed before the row's batch began. Slackwater closes
windows by the bound of the batch itself, native by that of the batch before. So a late row that misses a
window here may still be in time there; each contender is held to its own rule, to the row.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import duckdb

from benchmarks.cases import DELAY_SECONDS, NATIVE, SECOND, Window

LAG = {NATIVE: 2}
"""How many batches ago the bound was seen by which a row is judged late; ours is 1."""


@dataclass
class Agreement:
    """How a contender's output compares with the right answer for all closed windows."""

    rows: int
    missing: int
    extra: int
    wrong: int
    left_out: float
    """Share of (row, window) pairs that came after their window had closed."""

    @property
    def exact(self) -> bool:
        """Whether every row is there once and right."""
        return self.rows > 0 and not (self.missing or self.extra or self.wrong)


def check(contender: str, window: Window, source: Path, out: Path) -> Agreement:
    """Compare the output of a whole run with the answer."""
    con = duckdb.connect(config={"threads": 2})
    lag = LAG.get(contender, 1)
    con.execute(
        f"""
        CREATE TEMP TABLE panes AS
        SELECT batch, pane, k, sum(v) AS s, count(*) AS n, max(t) AS newest FROM (
          SELECT CAST(regexp_extract(filename, 'b([0-9]+)-', 1) AS INT) AS batch, k, v,
                 epoch_us(ts) AS t, epoch_us(ts) // {window.slide} AS pane
          FROM read_parquet('{source}/*.parquet', filename = true))
        GROUP BY ALL
        """
    )
    con.execute(
        f"""
        CREATE TEMP TABLE bounds AS
        WITH batches AS (SELECT batch, max(newest) AS newest FROM panes GROUP BY batch)
        SELECT b.batch, coalesce(max(e.newest) - {DELAY_SECONDS * SECOND}, 0) AS bound
        FROM batches b LEFT JOIN batches e ON e.batch <= b.batch - {lag} GROUP BY b.batch
        """
    )
    con.execute(
        f"""
        CREATE TEMP TABLE answer AS
        SELECT (pane + 1 + j) * {window.slide} AS w, k, sum(s) FILTER (in_time) AS s,
               count_if(in_time) AS parts, sum(n) FILTER (in_time) AS n, sum(n) AS all_n
        FROM (SELECT *, (pane + 1 + j) * {window.slide} > bound AS in_time
              FROM panes JOIN bounds USING (batch), range({window.overlap}) AS shift(j))
        WHERE (pane + 1 + j) * {window.slide}
              <= (SELECT max(newest) FROM panes) - {DELAY_SECONDS * SECOND}
        GROUP BY ALL
        """
    )
    ((rows, missing, extra, wrong),) = con.execute(
        f"""
        WITH got AS (SELECT epoch_us("window"."end") AS w, k, s, n
                     FROM read_parquet('{out}/part-*.parquet')),
             right_ones AS (SELECT * FROM answer WHERE parts > 0)
        SELECT (SELECT count(*) FROM got), count_if(g.w IS NULL), count_if(a.w IS NULL),
               count_if(g.w IS NOT NULL AND a.w IS NOT NULL AND (g.s <> a.s OR g.n <> a.n))
        FROM got g FULL JOIN right_ones a ON g.w = a.w AND g.k = a.k
        """
    ).fetchall()
    ((expected, twice),) = con.execute(
        f"""
        SELECT (SELECT count(*) FROM answer WHERE parts > 0),
               (SELECT count(*) - count(DISTINCT (epoch_us("window"."end"), k))
                FROM read_parquet('{out}/part-*.parquet'))
        """
    ).fetchall()
    ((left_out,),) = con.execute("SELECT 1 - sum(n) / sum(all_n) FROM answer").fetchall()
    con.close()
    assert expected + extra + twice == rows + missing
    return Agreement(rows, missing, extra + twice, wrong, float(left_out or 0.0))


def batch_seconds(window: Window, source: Path, target: Path, *, times: int = 3) -> list[float]:
    """Seconds in which DuckDB answers the query over all files at once: panes, then windows of panes."""
    target.parent.mkdir(parents=True, exist_ok=True)
    panes = f"""
        SELECT k, epoch_us(ts) // {window.slide} + 1 AS w, sum(v) AS s, count(*) AS n
        FROM read_parquet('{source}/*.parquet') GROUP BY ALL
    """
    combine = f"""
        SELECT k, w + j AS w, sum(s) AS s, sum(n) AS n
        FROM ({panes}), range({window.overlap}) AS shift(j) GROUP BY ALL
    """
    query = panes if window.overlap == 1 else combine
    taken = []
    for _ in range(times):
        con = duckdb.connect(config={"threads": 2})
        begin = time.perf_counter()
        con.execute(
            f"COPY (SELECT k, make_timestamp(w * {window.slide}) AS e, s, n FROM ({query})) "
            f"TO '{target}' (FORMAT parquet)"
        )
        taken.append(time.perf_counter() - begin)
        con.close()
    target.unlink()
    return taken
