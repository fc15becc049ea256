"""The right pairs of a join, by DuckDB over the same files, and what a contender's output holds."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import duckdb

Content = tuple[int, int]
"""The number of pairs, and a sum of their hashes: the same for the same pairs in any order."""


@dataclass
class InBatch:
    """What DuckDB found, and the seconds of each of its runs."""

    content: Content
    seconds: list[float]


def in_batch(
    band: int, source: Path, target: Path, *, times: int = 3, skewed: bool = False
) -> InBatch:
    """Join all files at once, parquet out; ``band`` in microseconds, ends included.

    DuckDB has no join for "equal key and near in time", so time is cut into pieces as long as the band: a row can
    only meet rows of its own piece and of the two beside it. The plain way, which looks at all pairs of a key, is tried
    too and the faster one counts; not where keys are ``skewed``, since there it would take far too long.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    piece = max(1, band)
    sql = f"""
        WITH a AS (SELECT *, epoch_us(ts) // {piece} + d AS piece
                   FROM read_parquet('{source}/a/*.parquet'), range(-1, 2) AS shift(d)),
             b AS (SELECT *, epoch_us(ts) // {piece} AS piece
                   FROM read_parquet('{source}/b/*.parquet'))
        SELECT a.k AS k, v, a.ts AS a_ts, w, b.ts AS b_ts
        FROM a JOIN b ON a.k = b.k AND a.piece = b.piece
         AND epoch_us(b.ts) BETWEEN epoch_us(a.ts) - {band} AND epoch_us(a.ts) + {band}
    """
    plain = f"""
        SELECT a.k AS k, v, a.ts AS a_ts, w, b.ts AS b_ts
        FROM read_parquet('{source}/a/*.parquet') a JOIN read_parquet('{source}/b/*.parquet') b
          ON a.k = b.k AND epoch_us(b.ts) BETWEEN epoch_us(a.ts) - {band} AND epoch_us(a.ts) + {band}
    """
    taken: dict[str, list[float]] = {q: [] for q in ((sql,) if skewed else (sql, plain))}
    for query, seconds in taken.items():
        for _ in range(times):
            con = duckdb.connect(config={"threads": 2})
            begin = time.perf_counter()
            con.execute(f"COPY ({query}) TO '{target}' (FORMAT parquet)")
            seconds.append(time.perf_counter() - begin)
            con.close()
    found = content(target.parent, target.name)
    target.unlink()
    return InBatch(found, min(taken.values(), key=min))


def content(folder: Path, names: str = "*.parquet") -> Content:
    """What the files of an output hold."""
    con = duckdb.connect(config={"threads": 2})
    ((rows, total),) = con.execute(
        "SELECT count(*), coalesce(sum(hash(k, v, epoch_us(a_ts), w, epoch_us(b_ts))::HUGEINT), 0) "
        f"FROM read_parquet('{folder}/{names}')"
    ).fetchall()
    con.close()
    return int(rows), int(total)
