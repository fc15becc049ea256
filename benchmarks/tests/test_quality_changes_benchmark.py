"""What the benchmark of changes judges by, and the goals of averages, quantiles and groups."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import quality_changes, quality_kinds
from benchmarks.quality_change_page import again_sections, change_sections, kind_sections
from benchmarks.quality_changes import SECOND, Windows, interval, missed, regime_of, stream, worst
from benchmarks.quality_data import GENERATORS


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> Windows:
    """A short stream with one change."""
    monkeypatch.setattr(quality_changes, "SECONDS", 150)
    monkeypatch.setattr(quality_changes, "TAIL", 30)
    monkeypatch.setattr(quality_changes, "RATE", 40)
    return Windows(stream(3, ((0, 1), (100, 5)), "event"), 2 * SECOND)


def test_windows_are_judged_as_if_filled_one_by_one(short: Windows) -> None:
    bounds = short.fixed(SECOND)
    kept, waits = short.judged(bounds)
    times, values = short.data.times, short.data.values
    for i in range(20, 60, 7):
        end = int(short.ends[i])
        inside = (times >= end - 10 * SECOND) & (times < end)
        there = inside & (bounds < end)
        lost = 1 - values[there].sum() / values[inside].sum()
        assert kept[i] == (lost <= 0.01 + 1e-9)
        closing = int(np.flatnonzero(bounds >= end)[0])
        assert waits[i] == pytest.approx((short.clocks[closing - 1] - end) / SECOND)


def test_hindsight_is_the_least_slack_that_keeps_the_target(short: Windows) -> None:
    some = short.counted(((0, 1), (100, 5)))
    ends = short.ends[some] / SECOND
    assert ends.min() > 60 and ends[ends < 100].max() <= 70 and ends[ends > 100].min() > 130
    assert regime_of(np.array([5.0, 100.0]), ((0, 1), (100, 5))).tolist() == [0, 1]
    slack = short.hindsight(some)
    enough, less = (short.judged(short.fixed(s))[0][some].mean() for s in (slack, slack - 10_000))
    assert enough >= 0.95 > less


def test_spans_lie_within_what_is_given_and_the_worst_counts() -> None:
    kept = np.ones(500, bool)
    kept[100:120] = False
    assert worst(kept, 2 * SECOND) == 0.9 and worst(kept[:150], 2 * SECOND) == 130 / 150
    low, high = interval(kept, 2 * SECOND)
    assert low < 0.96 < high
    part = {
        "worst": 0.9,
        "hindsight_worst": 0.95,
        "latency": 2.0,
        "hindsight_latency": 1.0,
        "from": 0,
    }
    assert len(missed(0.94, [part])) == 3 and not missed(
        0.95, [{**part, "worst": 0.93, "latency": 1.3}]
    )


@pytest.mark.spec("QD-D4", "QD-D13")
def test_averages_quantiles_and_groups_meet_their_goals() -> None:
    lines = list(quality_kinds.results("x4", GENERATORS["x4"](5, 200)))
    assert len(lines) == len(quality_kinds.KINDS)
    assert [r["kind"] for r in lines if not r["met"]] == []
    ((title, about, (_, rows)),) = kind_sections({"runs": lines})
    assert title and "0.8 times" in about and len(rows) == len(lines)


def test_the_page_says_how_many_runs_meet_the_goals() -> None:
    part = {
        "from": 0, "factor": 1, "worst": 0.95, "hindsight_worst": 0.95, "latency": 1.0, "hindsight_latency": 1.0,
    }  # fmt: skip
    run = {
        "change": "x5", "at": "event", "seed": 1, "slide": 2.0, "kept": 0.96, "all_kept": 0.95, "high": 0.97, "regimes": [part],
        "missed": [],
    }  # fmt: skip
    bad = {**run, "missed": ["worst span 0.9, hindsight's 0.95"], "slide": 10.0}
    told = {"cuts": 0, "seconds": 3.0, "windows": 15}
    found = {
        "runs": [run, bad],
        "seeds": [1],
        "detectors": {"x5": told, "x20": told},
        "cuts": {"game1": 9},
    }
    ((_, about, (head, rows)),) = change_sections(found)
    assert "Of 2 runs 1 meet all goals" in about and len(rows) == 2 and len(rows[0]) == len(head)
    assert rows[0][-1] == "met"
    line = {
        "data": "x3", "window": 1.0, "error": 0.01, "kept": 0.96, "low": 0.94, "high": 0.97, "latency": 2.0, "way": "ours",
    }  # fmt: skip
    again = {"runs": [{**line, "latency": 3.0}], "commit": "c", "date": "d"}
    ((_, about, (_, rows)),) = again_sections(again, {"runs": [line]})
    assert "Of 1 cases 1 have Phi" in about and "+50%" in about and len(rows) == 1
