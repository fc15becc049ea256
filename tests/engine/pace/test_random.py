"""Paces on the engine against the oracle: unions, moved times, windows above and below, clocks, wild times, crashes."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
