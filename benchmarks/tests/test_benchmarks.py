"""The parts of the benchmarks that need no Spark: data, right answers, memory, tables."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks import answers, datagen, latency, memory, report, tables
from benchmarks.cases import (
    DELAY_SECONDS,
    FIVE,
    FULL,
    NATIVE,
    ROWS,
    SECOND,
    SPLITS,
    TUMBLING,
    Window,
    cases,
)
from benchmarks.contenders import batches_of, parts_of
from benchmarks.datagen import Data

SMALL = Data(batches=4, batch_rows=5_000, keys=20, rate=250)


def test_the_same_data_twice_and_other_data_for_another_seed():
    one, two = datagen.arrange(SMALL), datagen.arrange(SMALL)
    for name in ("k", "v", "ts", "arrival"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
    other = datagen.arrange(Data(**{**vars(SMALL), "seed": 18}))
    assert not np.array_equal(one.ts, other.ts)


def test_rows_come_in_order_of_arrival_after_exponential_delays():
    rows = datagen.arrange(SMALL)
    delay = (rows.arrival - rows.ts) / SECOND
    assert (np.diff(rows.arrival) >= 0).all() and (delay >= 0).all()
    assert delay.mean() == pytest.approx(2, rel=0.05)
    assert delay.std() == pytest.approx(2, rel=0.05)  # of an exponential, the same as the mean
    assert np.median(delay) == pytest.approx(2 * np.log(2), rel=0.05)
    assert (np.diff(rows.ts) < 0).mean() > 0.3
    assert np.ptp(rows.ts) / SECOND == pytest.approx(SMALL.rows / SMALL.rate, rel=0.01)
    assert set(rows.k) == set(range(SMALL.keys))


def test_files_are_the_rows_cut_into_batches_with_rising_times(tmp_path: Path):
    folder = datagen.prepare(SMALL, tmp_path)
    files = sorted(folder.glob("*.parquet"))
    assert len(files) == SMALL.batches * SMALL.files
    stamps = [os.stat(f).st_mtime_ns for f in files]
    assert stamps == sorted(set(stamps))
    rows = datagen.arrange(SMALL)
    first = pa.concat_tables([pq.read_table(f) for f in files[:2]])
    got = Counter(zip(first["k"].to_pylist(), first["ts"].cast(pa.int64()).to_pylist()))
    assert got == Counter(zip(rows.k[:5000].tolist(), rows.ts[:5000].tolist()))
    assert sum(pq.read_metadata(f).num_rows for f in files) == SMALL.rows
    assert first.schema.field("ts").type == pa.timestamp("us", "UTC")


def test_data_is_kept_until_its_description_changes(tmp_path: Path):
    folder = datagen.prepare(SMALL, tmp_path)
    mark = folder / "b0000-0.parquet"
    mark.write_bytes(b"kept")
    assert datagen.prepare(SMALL, tmp_path) == folder and mark.read_bytes() == b"kept"
    folder.with_suffix(".json").write_text("{}")
    datagen.prepare(SMALL, tmp_path)
    assert mark.read_bytes() != b"kept"


def _slow_answer(folder: Path, window: Window, lag: int) -> dict[tuple[int, int], list[int]]:
    """By the definition, row by row: a row is in a window that was open when the row's batch began."""
    newest: list[int] = []
    batches = []
    for number in range(SMALL.batches):
        rows: list[tuple[int, int, int]] = []
        for file in sorted(folder.glob(f"b{number:04d}-*.parquet")):
            t = pq.read_table(file)
            rows += zip(
                t["k"].to_pylist(), t["v"].to_pylist(), t["ts"].cast(pa.int64()).to_pylist()
            )
        batches.append(rows)
        newest.append(max([*newest[-1:], *(t for _, _, t in rows)]))
    found: dict[tuple[int, int], list[int]] = {}
    for number, rows in enumerate(batches):
        bound = newest[number - lag] - DELAY_SECONDS * SECOND if number >= lag else 0
        for k, v, t in rows:
            end = (t // window.slide + 1) * window.slide
            while end - window.range <= t:
                if bound < end <= newest[-1] - DELAY_SECONDS * SECOND:
                    cell = found.setdefault((end, k), [0, 0])
                    cell[0] += v
                    cell[1] += 1
                end += window.slide
    return found


def _write_answer(out: Path, answer: dict[tuple[int, int], list[int]]) -> None:
    out.mkdir(exist_ok=True)
    kind = pa.timestamp("us", "UTC")
    ends = pa.array([end for end, _ in answer], kind)
    columns = {
        "k": pa.array([k for _, k in answer]),
        "window": pa.StructArray.from_arrays([ends, ends], ["start", "end"]),
        "s": pa.array([s for s, _ in answer.values()]),
        "n": pa.array([n for _, n in answer.values()]),
    }
    pq.write_table(pa.table(columns), out / "part-0.parquet")


@pytest.mark.parametrize("window", [TUMBLING, FIVE], ids=lambda w: w.name)
@pytest.mark.parametrize("contender", [NATIVE, SPLITS])
def test_the_right_answer_is_accepted_and_any_other_is_not(
    window: Window, contender: str, tmp_path: Path
):
    # Delays of 6 s on average, so that many rows are late and the rules for them matter.
    slow = Data(**{**vars(SMALL), "mean_delay_seconds": 6.0})
    folder, out = datagen.prepare(slow, tmp_path), tmp_path / "out"
    answer = _slow_answer(folder, window, 2 if contender == NATIVE else 1)
    _write_answer(out, answer)
    found = answers.check(contender, window, folder, out)
    assert found.exact and found.rows == len(answer) and found.left_out > 0

    other = _slow_answer(folder, window, 1 if contender == NATIVE else 2)
    _write_answer(out, other)
    assert answers.check(contender, window, folder, out).wrong > 0

    first, second = list(answer)[:2]
    _write_answer(out, {c: v for c, v in answer.items() if c != first})
    assert answers.check(contender, window, folder, out).missing == 1
    _write_answer(out, {**answer, second: [answer[second][0] + 1, answer[second][1]]})
    assert answers.check(contender, window, folder, out).wrong == 1
    _write_answer(out, {**answer, (10**17, 1): [1, 1]})
    assert answers.check(contender, window, folder, out).extra == 1
    _write_answer(out, answer)
    pq.write_table(pq.read_table(out / "part-0.parquet").slice(0, 3), out / "part-1.parquet")
    assert answers.check(contender, window, folder, out).extra == 3


def test_duckdb_answers_in_batch(tmp_path: Path):
    folder = datagen.prepare(SMALL, tmp_path)
    taken = answers.batch_seconds(FIVE, folder, tmp_path / "x" / "d.parquet", times=2)
    assert len(taken) == 2 and min(taken) > 0


def test_parts_of_a_batch_add_up_and_empty_batches_are_left_out():
    ours = {
        "triggerExecution": 900, "addBatch": 700, "plan": 10, "job": 600, "commit": 20, "publish": 30,
    }  # fmt: skip
    native = {"triggerExecution": 500, "addBatch": 400, "walCommit": 50}
    for times in (ours, native):
        parts = parts_of({k: v / 1000 for k, v in times.items()})
        assert sum(parts.values()) == pytest.approx(times["triggerExecution"] / 1000)
    records = [
        {"batchId": 1, "numInputRows": 5, "durationMs": ours},
        {"batchId": 0, "numInputRows": 7, "durationMs": native},
        {"batchId": 2, "numInputRows": 0, "durationMs": native},
    ]
    found = batches_of(records, {1: [0.2, 0.4]})
    assert [(b.id, b.rows, b.seconds) for b in found] == [(0, 7, 0.5), (1, 5, 0.9)]
    assert found[1].stages == [0.2, 0.4]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_memory_is_that_of_the_whole_tree():
    grandchild = "x = bytearray(b'x' * 50_000_000); print('ready', flush=True); input()"
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {grandchild!r}])"
    process = subprocess.Popen(
        [sys.executable, "-c", child], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        watch = memory.Watch(process.pid)
        watch.sample()
        assert len(memory.tree(process.pid)) >= 2
        assert 50_000_000 < watch.peak.pss <= watch.peak.rss
        assert sum((watch.peak.by_program or {}).values()) == watch.peak.pss
    finally:
        process.communicate(b"\n")


def test_a_dropped_file_is_seen_once_by_the_reader_of_results(tmp_path: Path):
    source = tmp_path / "in"
    source.mkdir()
    latency.drop(source, 3)
    (file,) = source.iterdir()
    assert pq.read_table(file).num_rows == latency.KEYS
    end = latency.window_end(3)
    _write_answer(tmp_path, {(end, 1): [1, 1]})
    seen: set[str] = set()
    assert latency.ends_of(SPLITS, tmp_path, seen) == {end}
    assert latency.ends_of(SPLITS, tmp_path, seen) == set()

    log = tmp_path / "_spark_metadata"
    log.mkdir()
    seen = set()
    assert latency.ends_of(NATIVE, tmp_path, seen) == set()
    (log / ".0.tmp").write_text("v1")
    (log / "0").write_text(f'v1\n{{"path":"file://{tmp_path}/part-0.parquet"}}')
    assert latency.ends_of(NATIVE, tmp_path, seen) == {end}
    assert latency.ends_of(NATIVE, tmp_path, seen) == set()


def test_ratio_is_of_medians_and_its_spread_over_rounds():
    native, ours = [[4.0, 5.0, 6.0], [8.0, 8.0, 8.0]], [[1.0, 1.0, 1.0], [4.0, 4.0, 4.0]]
    assert tables.ratio(native, ours) == {"ratio": 7.0 / 2.5, "least": 2.0, "most": 5.0}


def test_a_verdict_says_by_how_much():
    assert tables.verdict(2.5, 2.5) == "met"
    assert tables.verdict(2.0, 2.5) == "missed by 20%"
    assert tables.verdict(0.9, 1.0, least=False) == "met"
    assert tables.verdict(1.25, 1.0, least=False) == "missed by 25%"
    assert tables.verdict(2.499, 2.5) == "missed by 0.0%"


def test_tables_keep_to_their_columns():
    head, rows = ("what", "n"), [["a", 1], ["longer", 100]]
    assert tables.plain(head, rows).splitlines() == [
        "what      n", "------  ---", "a         1", "longer  100",
    ]  # fmt: skip
    assert tables.markdown(head, rows).splitlines() == [
        "| what | n |", "| --- | ---: |", "| a | 1 |", "| longer | 100 |",
    ]  # fmt: skip
    assert [tables.rate(n, 1) for n in (1234, 45_600, 1_240_000, 250_000_000)] == [
        "1.2 k", "46 k", "1.2 M", "250 M",
    ]  # fmt: skip


def test_only_what_is_between_the_markers_changes():
    text = f"before\n{tables.OPEN}\nold\n{tables.CLOSE}\nafter"
    once = tables.between_markers(text, "new \\1")
    assert once == f"before\n{tables.OPEN}\n\nnew \\1\n\n{tables.CLOSE}\nafter"
    assert tables.between_markers(once, "new \\1") == once
    with pytest.raises(ValueError, match="exactly one"):
        tables.between_markers("no markers", "x")


def test_cases_can_be_chosen():
    assert [c.name for c in cases(only="2m-60s,10m-5s")] == ["2m-60s-5s", "2m-60s-1s", "10m-5s-5s"]
    assert {c.rounds for c in cases(rounds=7)} == {7}
    small = cases(quick=True)
    assert {c.data.batch_rows / c.data.rate for c in small} == {
        c.data.batch_rows / c.data.rate for c in FULL if c.size == "2m"
    }
    with pytest.raises(SystemExit, match="10m-60s-1s"):
        cases(only="nothing")


def _found(seconds: float) -> dict[str, Any]:
    def measured(s: float) -> dict[str, Any]:
        parts = {"spark": s / 4, "job": s * 3 / 4}
        return {"median_seconds": s, "parts": parts, "stages": [s / 2, s / 4]}

    ours = {**measured(seconds), "against_native": {"ratio": 4 / seconds, "least": 1, "most": 9}}
    case = {
        "name": "2m-60s-5s", "window": FIVE.label, "batch_rows": 2_000_000, "rows": 10_000_000,
        "targets": {ROWS: 2.5, SPLITS: 2.7}, "contenders": {NATIVE: measured(4.0), SPLITS: ours},
        "duckdb_seconds": [0.5, 0.4, 0.6],
    }  # fmt: skip
    peaks = [
        {"case": "c", "contender": c, "window": "w", "batch_rows": 1, "pss": p, "by_program": {"java": p}}
        for c, p in ((NATIVE, 1_000_000_000), (SPLITS, 1_100_000_000))
    ]  # fmt: skip
    return {
        "date": "2026-01-01", "commit": "0123456789ab", "machine": {"cores": 2, "memory_gb": 8}, "versions": {"pyspark": "4"},
        "settings": {"quick": False, "heap": "2g"}, "cases": [case], "memory": peaks,
        "latency": {NATIVE: [1.0, 2.0, 3.0], SPLITS: [0.5, 0.6, 0.7]},
    }  # fmt: skip


def test_the_report_says_what_was_met_and_what_was_missed():
    good, bad = _found(1.0), _found(2.0)
    assert "| split source, 2 M, 60 s / 5 s | 500 k | 2.0 M | 4.0x |" in report.readme(good)
    assert report.misses({**good, "memory": []}) == []
    line, more = report.misses(bad)
    assert "100 MB more memory" in more
    late = {**good, "memory": [], "latency": {NATIVE: [1.0], ROWS: [1.2]}}
    assert report.misses(late) == ["row source: 200 ms later than native to a result."]
    assert "2.0x where 2.7x was the target" in line and "1500 ms are `job`" in line
    text = report.document(bad)
    assert "missed by 26%" in text  # 2.0 of 2.7
    assert "110%" in text and "missed by 10%" in text  # memory
    assert "| split source | 600 ms | 500 ms | 700 ms | met |" in text
    assert "| 2 M, 60 s / 5 s | 20.0 M |" in text  # DuckDB: 10 M rows in 0.5 s
    assert "| - | 20x | 40x |" in text
    assert report.terminal(good).count("-----") > 5


def test_a_quick_run_judges_nothing():
    found = _found(2.0)
    found["settings"]["quick"] = True
    assert "missed" not in report.terminal(found)
