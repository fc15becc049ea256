"""Paces on the engine against the oracle: unions, moved times, windows above and below, clocks, wild times, crashes, feedback."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.semantics.feedback.value import Feedback
from slackwater.testing.executors.local import local_executor
from slackwater.testing.transcripts.script import oracle, parse
from tests.examples import examples


def source(rng: random.Random, name: str) -> list[dict[str, Any]]:
    steps: list[dict[str, Any]] = [{"from": name}]
    if rng.random() < 0.4:
        steps.append({"where": "v > 2"})
    if rng.random() < 0.4:
        steps.append({"select": {"ts": "ts + 3", "k": "k", "v": "v"}})
    if rng.random() < 0.2:
        steps.append({"dedup": {"subset": ["ts", "k"]}})
    if rng.random() < 0.2:
        steps.append({"sort": "ts"})
    if rng.random() < 0.2:
        steps.append({"pace": 9})
    return steps


WINDOW = {
    "window": {"range": 10, "slide": 5},
    "by": ["k"],
    "agg": {"n": "count(*)", "total": "sum(v)"},
}


def case(seed: int) -> dict[str, Any]:
    rng = random.Random(seed)
    clock = rng.random() < 0.5
    guarded = rng.random() < 0.5
    spec = {
        "columns": {"ts": "bigint", "k": "string", "v": "bigint"}, "time": "ts", "unit": "second",
        "progress": {"bounded_delay": rng.choice([1, 4]), **({"future_guard": 8} if guarded else {})},
        "late": rng.choice(["admit", "admit", "drop"]),
    }  # fmt: skip
    branches = [source(rng, "a"), source(rng, "b")] if rng.random() < 0.8 else [source(rng, "a")]
    if rng.random() < 0.25:
        branches = [[*b, WINDOW] for b in branches]
    united: list[Any] = [{"union": branches}] if len(branches) > 1 else branches[0]
    how = {"clock": True} if clock and rng.random() < 0.7 else {}
    limit = rng.choice([2, 5, 30])
    query: dict[str, Any] = {"live": [*united, {"pace": limit, **how}]}
    if "window" in branches[0][-1]:
        query["sums"] = [{"from": "live"}, {"window": {"range": 20}, "agg": {"n": "count(*)"}}]
    else:
        query["sums"] = [{"from": "live"}, WINDOW]
    if rng.random() < 0.3:
        query["late"] = [*united, {"outpaced": limit, **how}]
    if rng.random() < 0.5:
        del query["live"]
        query["sums"] = [*united, {"pace": limit, **how}, *query["sums"][1:]]
    at, shown, script = 100, 100, []
    for _ in range(rng.randint(3, 5)):
        at += rng.choice([0, 3, 12])
        rows = {
            name: [
                [at - rng.choice([0, 1, 3, 6, 14, 40, -4, -200 if guarded else 0]), rng.choice("xy"), rng.randint(0, 9)]
                for _ in range(rng.randint(0, 4))
            ]
            for name in ("a", "b")
        }  # fmt: skip
        script.append({"rows": rows, **({"tick": at - shown} if clock else {})})
        shown = at
        if rng.random() < 0.2:
            script.append({"crash": True})
    script.append({"end": True})
    streams = {"a": spec, "b": {**spec, "progress": {**spec["progress"], "bounded_delay": 2}}}  # type: ignore[dict-item]
    used = [n for n in streams if any({"from": n} in b for b in branches)]
    for step in script:
        step["rows"] = {n: r for n, r in step.get("rows", {}).items() if n in used}  # type: ignore[attr-defined]
    text = {
        "name": "pace",
        "streams": {n: streams[n] for n in used},
        "query": query,
        "script": script,
    }
    if clock:
        text["clock"] = 100
    return text


def same(seed: int) -> None:
    transcript = parse(case(seed))
    rng = random.Random(seed)
    point = rng.choice([None, "intent.after", "job.after", "manifest.after"])
    got = local_executor(splits=rng.random() < 0.5, crash=point, crash_from=1)(transcript)
    for number, (mine, theirs) in enumerate(zip(got, oracle(transcript), strict=True)):
        for name, rows in theirs.outputs.items():
            assert bag(mine.outputs[name]) == bag(rows), (number, name)


def bag(rows: Any) -> Counter[Any]:
    return Counter(tuple((c, ends(v)) for c, v in sorted(r.items())) for r in rows)


def ends(value: Any) -> Any:
    if isinstance(value, Mapping):
        return value["start"], value["end"]
    return (value.start, value.end) if hasattr(value, "end") else value


@pytest.mark.spec("FC-F41")
@examples(25)
@given(st.integers(0, 10_000_000))
def test_a_pace_lets_through_what_the_definition_says(seed: int) -> None:
    same(seed)


def records(rng: random.Random, columns: set[str], at: int) -> str:
    """A record on results: on keys, values, and times from about now on or up to it."""
    known = {
        "window": [f"window.end < {at + 5}", f"window.start >= {at}"],
        "ts": [f"ts < {at}", f"ts >= {at - 3}"],
        "k": ["k = 'x'", "k = 'y'"],
        "v": [f"v < {rng.randint(1, 8)}"],
        "n": [f"n >= {rng.randint(1, 3)}"],
    }
    names = [n for n in known if n in columns]
    chosen = rng.sample(names, rng.choice([1, 1, 2]))
    return "~{" + ", ".join(rng.choice(known[n]) for n in chosen) + "}"


def ignoring(seed: int) -> dict[str, Any]:
    """The same with feedback on some output, which may move and end."""
    spec, rng = case(seed), random.Random(seed + 1)
    columns = {n: {f.name for f in o.node.schema} for n, o in parse(spec).outputs.items()}
    standing = False
    for number, step in enumerate(s for s in spec["script"] if "crash" not in s):
        if standing and rng.random() < 0.3:
            step["retract"], standing = ["view"], False
        elif rng.random() < (0.4 if standing else 0.7):
            name = rng.choice(sorted(columns))
            given = {"output": name, "records": records(rng, columns[name], 100 + 6 * number)}
            step["feedback"], standing = {"view": given}, True
    return spec


def held_against(seed: int) -> None:
    """With feedback a pace gives what it gives without it, less rows that were given up; marks and streams are the same."""
    transcript = parse(ignoring(seed))
    rng = random.Random(seed)
    crash = rng.choice([None, "intent.after", "job.after", "manifest.after", "feedback.taken"])
    quiet = [replace(s, feedback=(), retract=()) for s in transcript.steps]
    runs, progress = [], []
    for script in (replace(transcript, steps=tuple(quiet)), transcript):
        seen: dict[int, Any] = {}

        def noted(record: dict[str, Any], seen: dict[int, Any] = seen) -> None:
            marks = {name: p["mark"] for name, p in record.get("pace", {}).items()}
            seen[record["batchId"]] = marks, record["streams"]

        splits, at = rng.random() < 0.5, crash if script is transcript else None
        execute = local_executor(splits=splits, check=noted, crash=at, crash_from=1, reached=set())
        runs.append(execute(script))
        progress.append(seen)
    same_range(transcript, *reversed(runs))
    # A batch that failed behind its manifest is not done again, and reports nothing.
    without, with_feedback = progress
    assert with_feedback == {n: without[n] for n in with_feedback}


def same_range(transcript: Any, got: Any, reference: Any) -> None:
    stood: dict[str, list[Feedback]] = {n: [] for n in transcript.outputs}
    views: dict[str, tuple[str, Feedback]] = {}
    for number, (mine, theirs, step) in enumerate(
        zip(got, reference, transcript.batches, strict=True)
    ):
        for name in step.retract:
            views.pop(name, None)
        for sent in step.feedback:
            views[sent.name] = sent.output, sent.feedback
            stood[sent.output].append(sent.feedback)
        for name, rows in theirs.outputs.items():
            came = mine.outputs[name]
            more = bag(came) - bag(rows)
            assert not more, (number, name, more)
            for output, feedback in views.values():
                assert output != name or not any(feedback.matches(r) for r in came), (number, name)
            wanted = [r for r in rows if not any(f.matches(r) for f in stood[name])]
            assert not bag(wanted) - bag(came), (number, name)


@pytest.mark.spec("FC-F7", "FC-F41")
@examples(8)
@given(st.integers(0, 10_000_000))
def test_feedback_above_a_pace_takes_away_what_was_given_up_and_moves_no_mark(seed: int) -> None:
    held_against(seed)
