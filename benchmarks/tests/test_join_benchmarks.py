"""The parts of the join benchmark that need no Spark: data, right pairs, report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks import join_answers, join_curves, join_report
from benchmarks.cases import ROWS, SECOND, SPLITS
from benchmarks.contenders import Batch, Run
from benchmarks.join_cases import (
    BOUNDED,
    DELAY_SECONDS,
    FULL,
    HEAP,
    ROCKSDB,
    SIDES,
    JoinData,
    arrange,
    cases,
    prepare,
    weights,
)
from benchmarks.joins import Measured, checked
from benchmarks.windows import WrongAnswerError

SMALL = JoinData(batches=3, side_rows=400, keys=10, rate=20)


def test_no_row_is_so_late_that_a_contender_may_drop_it():
    for side in SIDES:
        keys, _, ts = arrange(SMALL, side)
        newest = np.maximum.accumulate(ts)
        assert (newest - ts).max() < DELAY_SECONDS * SECOND
        assert (np.diff(ts) < 0).any() and set(keys) == set(range(10))
    assert not np.array_equal(arrange(SMALL, "a")[0], arrange(SMALL, "b")[0])


def test_skewed_keys_have_their_probabilities():
    data = JoinData(batches=1, side_rows=20_000, keys=50, zipf=1.2)
    share = np.bincount(arrange(data, "a")[0], minlength=50) / 20_000
    assert share[0] == pytest.approx(weights(data)[0], rel=0.1)
    assert share[0] / share[9] == pytest.approx(10**1.2, rel=0.3)


def _pairs(folder: Path, band: int) -> list[tuple[int, ...]]:
    """By the definition, pair by pair."""
    sides = []
    for side, value in (("a", "v"), ("b", "w")):
        t = pq.read_table(folder / side)
        times = t["ts"].cast(pa.int64()).to_pylist()
        sides.append(list(zip(t["k"].to_pylist(), t[value].to_pylist(), times, strict=True)))
    return [
        (k, v, at, w, other)
        for k, v, at in sides[0]
        for key, w, other in sides[1]
        if k == key and abs(at - other) <= band
    ]


def _write(folder: Path, pairs: list[tuple[int, ...]]) -> None:
    folder.mkdir(exist_ok=True)
    k, v, a, w, b = ([p[i] for p in pairs] for i in range(5))
    kind = pa.timestamp("us", "UTC")
    columns = {"k": k, "v": v, "a_ts": pa.array(a, kind), "w": w, "b_ts": pa.array(b, kind)}
    pq.write_table(pa.table(columns), folder / "part-0.parquet")


@pytest.mark.parametrize("seconds", [0.05, 3, 1000])
def test_duckdb_finds_the_right_pairs_and_other_pairs_are_told_apart(seconds, tmp_path: Path):
    data = JoinData(batches=1, side_rows=300, keys=5, rate=20)
    folder, band = prepare(data, tmp_path), round(seconds * SECOND)
    answer = join_answers.in_batch(band, folder, tmp_path / "d" / "x.parquet", times=1)
    pairs = _pairs(folder, band)
    assert answer.content[0] == len(pairs) > 0 and min(answer.seconds) > 0
    _write(tmp_path / "out", pairs[::-1])
    assert join_answers.content(tmp_path / "out") == answer.content
    one = pairs[0]
    _write(tmp_path / "out", [*pairs[1:], (one[0], one[1] + 1, *one[2:])])
    assert join_answers.content(tmp_path / "out") != answer.content


def test_a_wrong_answer_ends_the_benchmark(tmp_path: Path):
    case = cases(quick=True)[0]
    batches = [Batch(i, case.data.batch_rows, 1.0, {}) for i in range(case.data.batches)]
    _write(tmp_path / "out", [(1, 2, 3, 4, 5)])
    right = join_answers.content(tmp_path / "out")
    checked(case, SPLITS, Run(batches, tmp_path / "out"), right)
    with pytest.raises(WrongAnswerError, match="gave 1 pairs"):
        checked(case, SPLITS, Run(batches, tmp_path / "out"), (2, right[1]))
    with pytest.raises(WrongAnswerError, match="batches"):
        checked(case, SPLITS, Run(batches[1:], tmp_path / "out"), right)


def test_cases_can_be_chosen_and_state_the_goals():
    (main,) = cases(only="400k", rounds=7)
    assert main.rounds == 7 and main.data.rows == 4_000_000 and main.data.keys == 100_000
    assert main.targets == {HEAP: 8.0, ROCKSDB: 20.0} and main.band == 30 * SECOND
    assert {c.size for c in cases(quick=True)} == {"400k", "bounded", "orders"}
    with pytest.raises(SystemExit, match="bounded-270s"):
        cases(only="nothing")
    assert FULL[0].name == "400k-30s"


def test_the_band_of_a_curve_keeps_the_number_of_partners():
    for point in join_curves.points():
        if point.curve.startswith("partners"):
            assert point.x == pytest.approx(point.data.rate * 60 / point.data.keys, rel=0.01)
        else:
            same = float(np.square(weights(point.data)).sum())
            partners = 2 * point.band_seconds * point.data.rate * same
            assert partners == pytest.approx(3, rel=0.01)


def _found(ours: float, bounded: float = 2.5) -> dict[str, Any]:
    def measured(s: float) -> dict[str, Any]:
        run = Run([Batch(0, 1, 9.0, {}), Batch(1, 1, s, {"spark": s / 4, "job": s * 3 / 4}, [s / 2])], Path())  # fmt: skip
        run.state_rows, run.state_bytes = 10, 100_000_000
        return Measured([run], 1).summary()

    split = measured(ours)
    split["against"] = {
        n: {"ratio": s / ours, "least": 1.0, "most": 9.0} for n, s in ((HEAP, 8.0), (ROCKSDB, 25.0))
    }
    case = {
        "name": "400k-30s", "band_seconds": 30, "batch_rows": 400_000, "rows": 4_000_000, "keys": 1,
        "pairs": 77, "rounds": 1, "memory": 10_000_000, "targets": {HEAP: 8.0, ROCKSDB: 20.0},
        "floors": {HEAP: 5.0, ROCKSDB: 16.0}, "duckdb_seconds": [0.8],
        "contenders": {
            HEAP: measured(8.0), ROCKSDB: measured(25.0), SPLITS: split, BOUNDED: measured(bounded),
        },
    }  # fmt: skip
    peaks = [
        {"case": "400k-30s", "contender": c, "pss": p, "rss": p, "by_program": {"java": p // 2}}
        for c, p in ((HEAP, 3_000_000_000), (SPLITS, 2_000_000_000))
    ]
    return {
        "date": "2026-01-01", "commit": "0123456789ab", "machine": {"cores": 2, "memory_gb": 8}, "versions": {"pyspark": "4"},
        "settings": {"quick": False, "heap": "2g", "cores": 2}, "cases": [case], "memory": peaks,
        "curves": [
            {"curve": "c", "x": 1.5, "rows_per_second": 2e6, "pairs_per_second": 4e6, "pairs": 1,
             "state_rows": 5, "state_bytes": 6_000_000},
        ],
    }  # fmt: skip


def test_the_report_says_what_was_met_and_what_was_missed():
    good, bad = join_report.section(_found(1.0, 2.0)), join_report.section(_found(2.0, 5.0))
    assert "| native, heap | 50 k | 400 k | 8.0x | 1.0x to 9.0x | 8.0x | met |" in good
    assert "| native, RocksDB | 16 k | 400 k | 25x | 1.0x to 9.0x | 20x | met |" in good
    assert "Goals that were missed" not in good
    assert "| 5.0x | 400 k | 200 k | 50% | met |" in good  # 100 MB in two groups, 10 MB each
    assert "| 77 | 5.0 M | - | 12x |" in good or "| 77 | 5.0 M | - | 13x |" in good
    assert "4.0x of native, heap where 8.0x was the goal and 5.0x the least" in bad
    assert "13x of native, RocksDB" in bad or "12x of native, RocksDB" in bad
    assert "1500 ms are `job` (stages: 1000 ms)" in bad
    assert "in little memory 40% of the throughput is left" in bad
    assert "| c | 1.5 | 2.0 M | 4.0 M | 5 | 6 MB |" in bad
    small = _found(2.0)
    small["settings"]["quick"] = True
    assert "missed" not in join_report.terminal(small)
    assert ROWS not in small["cases"][0]["contenders"]


def test_the_section_is_replaced_and_found_again():
    page = "# Benchmarks\n\nwindows\n"
    once = join_report.with_section(page, "one \\1")
    assert once.startswith(page.rstrip("\n")) and join_report.section_of(once) == "one \\1"
    twice = join_report.with_section(once, "two")
    assert join_report.section_of(twice) == "two" and "one" not in twice
    assert join_report.section_of(page) is None


def test_warm_batches_are_those_after_the_state_is_full():
    run = Run([Batch(i, 1, float(i), {"job": float(i)}) for i in range(5)], Path())
    found = Measured([run], 2).summary()
    assert found["median_seconds"] == 3.0 and found["batch_seconds"] == [[2.0, 3.0, 4.0]]
