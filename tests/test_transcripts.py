"""Every transcript, on the oracle and on the kernels; `test_transcripts_local.py` runs them on the engine, the others on Spark."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from slackwater.errors import AnalysisError
from slackwater.testing.executors.kernels import distinct, kernels
from slackwater.testing.transcripts.script import Observed, Transcript, load, oracle, parse, run
from tests.transcripts_on_spark import PARAMS, path_of

PLANS = ("panes", "wids", "buffered", "adaptive")


@pytest.mark.parametrize("path", PARAMS)
def test_oracle(path: Path) -> None:
    run(load(path), oracle)


@pytest.mark.parametrize("path", PARAMS)
def test_kernels(path: Path) -> None:
    """By every plan that makes a difference: most transcripts keep no rows whatever the plan."""
    transcript = load(path)
    if path.stem == "mini_tumbling_empty":
        pytest.skip("empty windows are not the kernels' work")
    if transcript.relations:
        pytest.skip("relations are not the kernels' work: rows meet them on paths of the engine")
    for plan in distinct(transcript, PLANS):
        run(transcript, kernels(plan))


def test_every_plan_makes_a_difference_to_some_transcripts() -> None:
    some = [load(path_of(stem)) for stem in ("mini_tumbling", "mini_sliding_by_group", "sort")]
    assert [distinct(t, PLANS) for t in some] == [[*PLANS[:2]], [*PLANS], [*PLANS[:1]]]


# --- the runner itself can fail ----------------------------------------------------------------------

SMALL = """
name: small
streams:
  s: {columns: {ts: bigint, v: double}, time: ts, progress: ordered}
query:
  - from: s
  - window: {range: 5}
    agg: {total: sum(v)}
script:
  - rows: {s: [[1, 0.1], [2, 0.2]]}
  - rows: {s: [[7, 1.0], [1, 5.0]]}
    expect: [[0, 5.3]]
    expect_late: {s: [{ts: 1}]}
    expect_bounds: {s: 7}
"""


def small(*path_and_value: object) -> Transcript:
    """The transcript above, with one place of it changed."""
    text = yaml.safe_load(SMALL)
    if path_and_value:
        *path, last, value = path_and_value
        at = text
        for p in path:
            at = at[p]
        at[last] = value
    return parse(text)


def test_a_right_transcript_passes() -> None:
    run(small(), oracle)


@pytest.mark.parametrize(
    "change",
    [
        ("script", 1, "expect", [[0, 5.4]]),
        ("script", 1, "expect", []),
        ("script", 1, "expect", [[0, 5.3], [0, 5.3]]),
        ("script", 0, "expect", [[0, 5.3]]),
        ("script", 1, "expect_late", 0),
        ("script", 1, "expect_late", 2),
        ("script", 1, "expect_late", {"s": [{"ts": 2}]}),
        ("script", 1, "expect_bounds", {"s": 6}),
        ("script", 1, "expect_error", "LATE_ROW"),
        ("streams", "s", "late", "raise"),
    ],
)
def test_a_wrong_one_fails(change: tuple[object, ...]) -> None:
    with pytest.raises(AssertionError, match="small, step"):
        run(small(*change), oracle)


def test_in_total_a_row_may_come_in_any_batch_but_must_come() -> None:
    def moved(*places: int) -> Transcript:
        transcript = small("check", {"out": {"total": True}})
        text = {**transcript.text, "script": [dict(s) for s in transcript.text["script"]]}
        del text["script"][1]["expect"]
        for place in places:
            text["script"][place]["expect"] = [[0, 5.3]]
        return parse(text)

    run(moved(0), oracle)
    run(moved(1), oracle)
    for wrong in ((), (0, 1)):
        with pytest.raises(AssertionError, match="small, all batches: output 'out'"):
            run(moved(*wrong), oracle)


def test_missing_batches_fail() -> None:
    def lazy(transcript: Transcript) -> list[Observed]:
        return oracle(transcript)[:1]

    with pytest.raises(AssertionError, match="1 batches ran of 2"):
        run(small(), lazy)


@pytest.mark.parametrize(
    "change",
    [
        ("scirpt", []),
        ("streams", "s", "tiem", "ts"),
        ("streams", "s", "progress", "guess"),
        ("query", [{"window": {"range": 5}, "agg": {}}]),
        ("query", [{"from": "nobody"}]),
        ("query", [{"from": "s"}, {"explode": 1}]),
        ("query", [{"from": "s"}, {"window": {"range": 5, "time": "v"}, "agg": {"n": "count(*)"}}]),
        ("query", [{"join": ["s", "s"]}]),
        ("query", [{"join": ["s", "s"], "band": {"after": 1}, "reach": [1, 1]}]),
        ("query", [{"join": ["s", "s"], "band": {"after": 1}}]),
        ("query", [{"from": "s"}, {"join": ["s"], "band": {"after": 1}}]),
        ("script", 0, {"tick": 1}),
        ("script", 0, {"rows": {"s": [[1]]}}),
        ("script", 0, {"rows": {"r": []}}),
        ("script", 0, {"expects": []}),
    ],
)
def test_mistakes_in_a_transcript_are_named(change: tuple[object, ...]) -> None:
    with pytest.raises(AnalysisError) as e:
        small(*change)
    assert e.value.condition == "BAD_TRANSCRIPT"
    assert e.value.hint
