"""Random punctuation through random queries: rules and kernels together against the definition."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.testing.executors.kernels import Plan, kernels
from slackwater.testing.transcripts.script import Observed, oracle, parse
from tests.examples import examples
from tests.oracle.test_kernels_against_oracle import canonical

COLUMNS = {"ts": "bigint", "k": "string", "n": "bigint", "v": "bigint", "p": "pattern"}
KEYS = ["a", "b", "c", None]


@st.composite
def patterns(draw: st.DrawFn, ranges: bool) -> dict[str, Any]:
    """Tests on some of the columns; on the time "below v", and other ranges where asked."""
    found: dict[str, Any] = {}
    if draw(st.integers(0, 3)):
        found["k"] = draw(
            st.sampled_from(["a", "b", None, ["in", ["a", "c", None]], [">=", "b"], ["*", None]])
        )
    if draw(st.integers(0, 3)) == 0:
        found["n"] = draw(st.sampled_from([0, ["<", 1], ["range", [0, 2]]]))
    limit = draw(st.integers(0, 30))
    kinds: list[Any] = [["<", limit], ["<=", limit]]
    if ranges:
        kinds += [["range", [limit - 9, limit]], [">", limit + 15], ["=", limit]]
    if draw(st.integers(0, 3)) or not found or list(found.values()) == [["*", None]]:
        found["ts"] = draw(st.sampled_from(kinds))
    return found


@st.composite
def rows(draw: st.DrawFn, ranges: bool) -> list[dict[str, Any]]:
    row = st.fixed_dictionaries(
        {
            "ts": st.integers(0, 30),
            "k": st.sampled_from(KEYS),
            "n": st.integers(0, 1),
            "v": st.integers(0, 9),
            "p": st.none(),
        }
    )
    said = patterns(ranges).map(lambda p: {"ts": None, "k": None, "n": None, "v": None, "p": p})
    return draw(st.lists(row | row | said, max_size=5))


@st.composite
def scripts(draw: st.DrawFn) -> dict[str, Any]:
    second = draw(st.booleans())
    query: list[Any] = [{"from": "s"}]
    if draw(st.booleans()):
        query.append({"where": "v > 1"})
    names = {"ts": "ts", "k": "k", "n": "n", "v": "v"}
    if draw(st.booleans()):
        moved = draw(st.sampled_from(["ts", "ts + 3"]))
        names = {"when": moved, "key": "k", "n": "n", "v": "v + 1"}
        query.append({"select": names})
    if draw(st.booleans()):
        other = [{"from": "r"}, {"select": dict(zip(names, ["ts", "k", "n", "v"], strict=True))}]
        if "when" not in names:
            query.append({"select": names})
        query.append({"union": [other]})
    time, key = list(names)[:2]
    if draw(st.integers(0, 3)) == 0:
        within = draw(
            st.sampled_from([{"subset": [key, time]}, {"subset": [key, "n"], "within": 5}])
        )
        query.append({"dedup": within})
    by = draw(st.sampled_from([[key], [key, "n"], [], {"g": key}]))
    window = {"range": draw(st.sampled_from([4, 5, 10])), "slide": draw(st.sampled_from([3, 5]))}
    query.append({"window": window, "by": by, "agg": {"c": "count(*)", "total": "sum(v)"}})
    if second:
        if draw(st.booleans()):
            query.append({"where": "c > 0"})
        again = [k for k in by if draw(st.booleans())]
        query.append({"window": {"range": 10}, "by": again, "agg": {"m": "sum(total)"}})
    script: list[Any] = [
        {"rows": {n: draw(rows(not second)) for n in ("s", "r")}}
        for _ in range(draw(st.integers(1, 5)))
    ]
    stream = {"columns": COLUMNS, "time": "ts", "progress": {"punctuated": "p"}}
    return {
        "name": "random",
        "streams": {
            n: {**stream, "late": draw(st.sampled_from(["admit", "drop"]))} for n in ("s", "r")
        },
        "query": {"out": query},
        "script": [*script, {"end": True}],
    }


@pytest.mark.spec("WQ-F4", "WQ-F6", "OO-F23", "WQ-F71")
@pytest.mark.parametrize("plan", ["panes", "wids"])
@examples(25)
@given(text=scripts())
def test_random_punctuation(text: dict[str, Any], plan: Plan) -> None:
    transcript = parse(text)
    assert canonical(judged(kernels(plan)(transcript))) == canonical(judged(oracle(transcript)))


def judged(seen: list[Observed]) -> list[Observed]:
    """Without by how much rows are late: of patterns that say the same, only one is kept."""
    names = ("_late_by", "_late_bound")
    return [
        replace(
            o,
            late={
                n: [{k: v for k, v in r.items() if k not in names} for r in rows]
                for n, rows in o.late.items()
            },
        )
        for o in seen
    ]
