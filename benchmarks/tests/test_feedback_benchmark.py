"""The experiments with feedback: their data, what is computed of times, that a wrong answer is noticed, and the page."""

from __future__ import annotations

import gc
import json
import threading
import time
from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from benchmarks import feedback, feedback_page, feedback_scan
from benchmarks.feedback_data import (
    START,
    locations,
    map_rows,
    peak_rows,
    probes,
    sensors,
    sensors_50,
    written,
)
from benchmarks.feedback_gains import same as same_view
from benchmarks.feedback_live import (
    Ran,
    Step,
    between,
    collected_between,
    confident,
    driver_cpu,
    dropped,
    ratios,
    saved,
)
from benchmarks.feedback_missed import missed
from benchmarks.feedback_suites import same
from benchmarks.record import RESULTS
from benchmarks.windows import WrongAnswerError
from slackwater.engine.driver.loop import Loop


@pytest.mark.spec("FC-F73")
def test_the_data_are_those_of_the_source() -> None:
    place, day, cars, half = locations(), sensors(), probes(), sensors_50()
    assert [t.num_rows for t in (place, day, cars, half)] == [150, 648_000, 14_400, 324_000]
    assert place.group_by(["freeway_id", "milepost"]).aggregate([]).num_rows == 50
    assert pc.sum(pc.equal(half["speed"], -1)).as_py() == 162_000
    for rows, minutes in ((day, 1440), (half, 720), (cars, 1440)):
        ends = pc.min_max(rows["ts"].cast(pa.int64())).as_py()
        assert (
            ends["min"] == START
            and ends["max"] < START + minutes * 60_000_000 <= ends["max"] + 60_000_000
        )
    assert day["timestamp_text"][0].as_py() == "2010-02-15 09:00:00"
    assert half.schema.equals(day.schema) and day.schema.names[:3] == [
        "sensor_id",
        "ts",
        "timestamp_text",
    ]


@pytest.mark.spec("FC-F73")
@pytest.mark.parametrize("make", [sensors, probes])
def test_rows_are_the_same_however_they_are_cut(make: Any) -> None:
    cut = pa.concat_tables([make(0, 400), make(400, 500)])
    assert cut.to_pylist() == make(0, 900).to_pylist()


def test_clustered_files_have_the_rows_of_those_that_are_not() -> None:
    one, other = (map_rows(1, 5_000, 50, 100, clustered=c) for c in (True, False))
    assert one["segment"].to_pylist() == sorted(other["segment"].to_pylist())
    key = [(n, "ascending") for n in ("ts", "segment", "speed")]
    assert one.sort_by(key).equals(other.sort_by(key))
    high = pc.sum(pc.greater_equal(peak_rows(0, 100_000, 10, 60)["v"], 999)).as_py()
    assert 60 < high < 140


def test_a_file_with_another_number_of_rows_is_noticed(tmp_path: Path) -> None:
    written(tmp_path, "a", lambda: sensors(0, 10), 10)
    with pytest.raises(ValueError, match="has 10 rows, not 11"):
        written(tmp_path, "a", lambda: sensors(0, 11), 11)


def test_savings_count_above_a_batch_that_is_nearly_empty() -> None:
    assert saved([2.0, 3.0, 2.0], [1.5, 1.0, 0.5], [1.0, 1.0, 1.0])["median"] == 1.0
    assert ratios([2.0, 3.0], [1.0, 1.0]) == {"median": 2.5, "least": 2.0, "most": 3.0}
    record = {
        "operators": {"a": {"rowsIn": 5, "rowsOut": 2}}, "outputs": {"o": {"rows": 2}},
        "feedback": {"places": {"s": {"rowsDropped": 7}, "o": {"rowsDropped": 0}}},
    }  # fmt: skip
    steps = [Step(1.0, 0.1, [record, record]), Step(1.0, 0.1, [record])]
    assert between(steps) == 27 and dropped(steps) == {"s": 21}


def test_rows_that_differ_are_noticed(tmp_path: Path) -> None:
    def ran(**tables: list[int]) -> Ran:
        for name, rows in tables.items():
            (tmp_path / name).mkdir(exist_ok=True)
            pq.write_table(pa.table({"segment": rows}), tmp_path / name / "part.parquet")
        return Ran({}, {}, {n: tmp_path / n for n in tables})

    good = ran(off=[1, 2, 2, 3], on=[2, 2])
    assert same(good, ["on"], "segment = 2") == same_view(good, "segment = 2") == 2
    for wrong in ([2], [2, 2, 3]):
        bad = ran(off=[1, 2, 2, 3], on=wrong)
        for check in (
            lambda bad=bad: same(bad, ["on"], "segment = 2"),
            lambda bad=bad: same_view(bad, "segment = 2"),
        ):
            with pytest.raises(WrongAnswerError):
                check()


def test_cases_have_names_of_their_own_and_a_small_size() -> None:
    names = [c.name for c in feedback.CASES]
    assert len(set(names)) == len(names)
    for case in feedback.CASES:
        assert feedback.small(case) != case


def test_every_case_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """None is passed over, so that the page cannot keep a figure that nobody takes any more."""
    seen: list[str] = []

    def measured(_: Any, case: Any, *others: Any) -> dict[str, Any]:
        seen.append(case.name)
        return {}

    monkeypatch.setattr(feedback, "one", measured)
    monkeypatch.setattr(feedback, "idle", lambda case, *others: measured(None, case))
    monkeypatch.setattr(
        feedback.contenders, "session", lambda heap: SimpleNamespace(stop=lambda: None)
    )
    monkeypatch.setattr(feedback, "heading", lambda **others: {"date": "", "commit": ""})
    monkeypatch.setattr(
        feedback, "pages", SimpleNamespace(plain_text=str, plot=lambda *_: None, page=str)
    )
    for name in ("store", "written"):
        monkeypatch.setattr(feedback, name, lambda *_, **__: None)
    for name in ("ROOT", "RESULTS"):
        monkeypatch.setattr(feedback, name, tmp_path)
    (tmp_path / "docs").mkdir()
    feedback.main(Namespace(scratch=str(tmp_path), quick=False, cases="", rounds=None, heap="1g"))
    assert sorted(seen) == sorted(c.name for c in feedback.CASES)


@pytest.mark.skipif(not (RESULTS / "feedback.json").exists(), reason="nothing was measured yet")
def test_the_page_is_that_of_the_results() -> None:
    found = json.loads((RESULTS / "feedback.json").read_text(encoding="utf-8"))
    page = RESULTS.parents[1] / "docs" / "feedback-experiments.md"
    assert page.read_text(encoding="utf-8") == feedback_page.page(found)


def test_a_bar_that_is_missed_is_told_with_its_reason_and_no_other_is() -> None:
    found = json.loads((RESULTS / "feedback.json").read_text(encoding="utf-8"))
    late, cases = found["cases"]["catch-up"], found["cases"]

    def lines(what: str, seconds: dict[str, float], factor: float) -> list[str]:
        case = {
            **late,
            "time": {**late["time"], "median": factor},
            "seconds": {n: {"median": s} for n, s in seconds.items()},
        }
        told = feedback_page.misses({**found, "cases": {**cases, "catch-up": case}})
        return [line for line in told if what in line]

    said = lines("Catching up", {"all": 8.0, "paced": 2.1, "near-empty": 2.0}, 3.0)
    assert len(said) == 1 and "nothing left to save" in said[0] and "missed by 25%" in said[0]
    (said,) = lines("Catching up", {"all": 8.0, "paced": 4.0, "near-empty": 2.0}, 2.0)
    assert "2.00 s are left to save" in said
    assert not lines("Catching up", {"all": 8.0, "paced": 2.0, "near-empty": 2.0}, 4.0)
    assert feedback_page.misses({**found, "cases": {}}) == []
    # Noise is a reason for what is not decided alone.
    title, _, (head, (line, *_)) = feedback_page.messages(cases)
    worse = [*line[:-1], "missed by 100%"]
    assert missed([(title, "", (head, [worse]))], cases)[0].endswith("No reason is known.")


def test_the_scan_benchmark_takes_the_time_of_driver_and_tasks_apart() -> None:
    some = feedback_scan.cases(600, 100, 300, 20)
    for case in (c for c in some if "5%" in c.name or "ranges" in c.name):
        found = feedback_scan.run(case, 1)
        assert found["driver"] > 0 and found["tasks"] > 0


def test_the_cpu_of_the_driver_is_that_of_the_thread_that_runs_batches() -> None:
    case = next(c for c in feedback_scan.cases(600, 100, 300, 20) if c.texts)
    done = threading.Event()

    def others() -> None:
        while not done.is_set():
            sum(range(1000))

    busy = threading.Thread(target=others)
    begin, begin_all = time.thread_time(), time.process_time()
    with driver_cpu() as cpu, collected_between():
        assert not gc.isenabled()
        busy.start()
        try:
            feedback_scan.run(case, 3)
        finally:
            done.set()
            busy.join()
    own, every = time.thread_time() - begin, time.process_time() - begin_all
    assert gc.isenabled()
    assert [batch for _, batch in cpu] == [0, 1, 2, 3]
    assert 0 < sum(cpu.values()) <= own < every
    assert not Loop.run.__qualname__.startswith("driver_cpu")


def test_a_verdict_needs_a_range_on_one_side_of_the_bar() -> None:
    sure, unsure = ([1.0 + k * step for k in range(12)] for step in (0.001, 0.02))
    assert feedback_page.decided(confident(sure), 1.05) == "met"
    assert feedback_page.decided(confident(unsure), 1.05) == "not decided"
    assert feedback_page.decided(confident([2 * v for v in sure]), 1.05).startswith("missed")
    # Of few values, nothing but all of them are in the range.
    assert (confident([3.0, 1.0])["low"], confident([3.0, 1.0])["high"]) == (1.0, 3.0)
