"""A target for recall as users state it, on Spark: kept, and the same through a restart."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import slackwater as sw
from tests.surface.helpers import Run, run, write
from tests.surface.local import run_locally

pytestmark = pytest.mark.spark

SCHEMA = "k long, ts long, n long"
NAMES = ("a", "b", "c")
REACH = 6
BATCHES, EACH = 6, 120


def arrivals(seed: int) -> list[tuple[int, int, int]]:
    """(key, time, number): a tick a row, a fifth late by some ticks, some by more than a batch or two."""
    rng = np.random.default_rng(seed)
    n = BATCHES * EACH
    late = np.where(rng.random(n) < 0.2, rng.integers(1, 10, n), 0)
    late = late + np.where(rng.random(n) < 0.08, rng.integers(100, 300, n), 0)
    order = np.argsort(np.arange(n) + late, kind="stable")
    return [(int(rng.integers(2)), int(i), int(i)) for i in order]


def query(spark: Any, folder: Path) -> sw.Stream:
    target = sw.Quality(recall=0.9, over=150, granularity=2)
    streams = []
    for name in NAMES:
        files = sw.readStream(spark).schema(SCHEMA).option("maxFilesPerTrigger", 1)
        read = files.parquet(str(folder / name))
        streams.append(sw.stream(read, time="ts", name=name, progress=target))
    return sw.joinAll(streams, on="k", within=[REACH] * 3, emit="ordered")


def write_batches(folder: Path, rows: dict[str, Any], which: range) -> None:
    for name in NAMES:
        for i in which:
            k, ts, n = zip(*rows[name][i * EACH : (i + 1) * EACH], strict=True)
            columns = {"k": pa.array(k), "ts": pa.array(ts), "n": pa.array(n)}
            write(folder / name, f"{i}.parquet", columns)


def slacks(*runs: Run) -> list[int | None]:
    return [
        r["streams"]["a"]["quality"]["ts"]["slack"] for done in runs for r in done.records
        if not r["final"]
    ]  # fmt: skip


@pytest.mark.spec("QD-E1", "QD-E4")
def test_recall_is_kept_and_goes_on_after_a_restart_as_if_nothing_had_happened(spark: Any, tmp_path: Path) -> None:  # fmt: skip
    rows = {name: arrivals(i) for i, name in enumerate(NAMES)}
    write_batches(tmp_path / "whole", rows, range(BATCHES))
    whole = run_locally(query(spark, tmp_path / "whole"), tmp_path / "ck")
    write_batches(tmp_path / "parts", rows, range(3))
    first = run(query(spark, tmp_path / "parts"), tmp_path / "ck2", end=False)
    write_batches(tmp_path / "parts", rows, range(3, BATCHES))
    second = run(query(spark, tmp_path / "parts"), tmp_path / "ck2")

    assert slacks(whole) == slacks(first, second)
    triples = [
        [(r["a_n"], r["b_n"], r["c_n"]) for r in found]
        for found in (whole.rows(), [*first.rows(), *second.rows()])
    ]
    assert sorted(triples[0]) == sorted(triples[1])

    # Same slack for all streams; less than the largest delay once enough is known.
    last = [r for r in whole.records if not r["final"]][-1]
    known = [last["streams"][n]["quality"]["ts"] for n in NAMES]
    assert len({q["slack"] for q in known}) == 1
    assert 0 < known[0]["slack"] < max(q["delays"]["largest"] for q in known)
    assert known[0]["target"] == {"recall": 0.9, "over": 150}

    true = set()
    by_time = {n: {t: k for k, t, _ in rows[n]} for n in NAMES}
    for t in range(BATCHES * EACH):
        near = range(max(0, t - REACH), t + 1)
        for one in product(near, repeat=3):
            keys = {by_time[n][u] for n, u in zip(NAMES, one, strict=True)}
            if max(one) == t and len(keys) == 1:
                true.add(one)
    found = set(triples[0])
    assert len(found) == len(triples[0])
    assert found <= true
    assert len(found) >= 0.9 * len(true)
    assert all(x <= y for b in whole.batches["output"].values() for x, y in zip(_times(b), _times(b)[1:], strict=False))  # fmt: skip


def _times(rows: list[dict[str, Any]]) -> list[int]:
    return [max(r["a_ts"], r["b_ts"], r["c_ts"]) for r in rows]
