"""Random punctuation through random joins: which rows meet, leave and are freed, against the definition."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.testing.executors.kernels import kernels
from slackwater.testing.transcripts.script import oracle, parse
from tests.examples import examples
from tests.oracle.test_kernels_against_oracle import canonical
from tests.oracle.test_patterns_against_oracle import judged

COLUMNS = {"ts": "bigint", "k": "string", "n": "bigint", "v": "bigint", "p": "pattern"}
KEYS = ["a", "b", "c", None]
HOWS = ["inner", "left", "right", "full", "left_semi", "left_anti"]


@st.composite
def patterns(draw: st.DrawFn, below: bool) -> dict[str, Any]:
    """Tests on keys and time, now and then on another column, which makes them useless."""
    tests: dict[str, Any] = {}
    if draw(st.integers(0, 4)):
        tests["k"] = draw(
            st.sampled_from(["a", "b", None, ["in", ["a", "c", None]], [">=", "b"], ["<", "b"]])
        )
    if draw(st.integers(0, 2)) == 0:
        tests["n"] = draw(st.sampled_from([0, 1, ["<", 1], ["range", [0, 2]], ["in", [0, 1]]]))
    if draw(st.integers(0, 7)) == 0:
        tests["v"] = draw(st.sampled_from([1, ["<", 5]]))
    limit = draw(st.integers(0, 24))
    kinds: list[Any] = [["<", limit], ["<=", limit]]
    if not below:
        kinds += [["range", [limit - 9, limit]], [">", limit + 5], ["=", limit]]
    if not draw(st.integers(0, 2)) or not tests:
        tests["ts"] = draw(st.sampled_from(kinds))
    return tests


@st.composite
def rows(draw: st.DrawFn, below: bool) -> list[dict[str, Any]]:
    row = st.fixed_dictionaries(
        {
            "ts": st.integers(0, 24),
            "k": st.sampled_from(KEYS),
            "n": st.integers(0, 1),
            "v": st.integers(0, 9),
            "p": st.none(),
        }
    )
    said = patterns(below).map(lambda p: {"ts": None, "k": None, "n": None, "v": None, "p": p})
    return draw(st.lists(row | row | said, max_size=5))


WITHIN: list[dict[str, Any]] = [
    {"anytime": True},
    {"anytime": True},
    {"band": {"before": 2, "after": 3}},
    {"band": {"before": 0, "after": 0}},
    {"band": {"before": -2, "after": 5, "closed": "left"}},
    {"tumbling": 5},
]


@st.composite
def scripts(draw: st.DrawFn) -> dict[str, Any]:
    within = draw(st.sampled_from(WITHIN))
    how = draw(st.sampled_from(HOWS))
    on: Any = draw(st.sampled_from([["k"], ["k", "n"], [["k", "k"]], ["n"]]))
    follow = draw(st.sampled_from(["", "", "groups", "window"]))
    several = how == "inner" and draw(st.integers(0, 4)) == 0 and "band" not in within
    own = draw(st.integers(0, 4)) == 0 and not several
    names = ["s", "s"] if own else ["s", "r", "t"] if several else ["s", "r"]
    inputs = [{"as": x, "from": n} for x, n in zip("abc", names, strict=False)]
    if several and on == [["k", "k"]]:
        on = ["k"]
    step: dict[str, Any] = {"join": inputs, "keys": on, "how": how, **within}
    query: list[Any] = [step]
    if follow == "groups":
        by = ["k"] if on in (["k"], ["k", "n"]) else ["n"] if on == ["n"] else []
        if by:
            query.append({"by": by, "agg": {"c": "count(*)"}})
    elif follow == "window" and "anytime" not in within and on in (["k"], ["k", "n"]):
        query.append({"window": {"range": 5}, "by": ["k"], "agg": {"c": "count(*)"}})
    below = len(query) > 1
    streams = {n: {"columns": COLUMNS, "time": "ts", "progress": {"punctuated": "p"}, "late": draw(st.sampled_from(["admit", "drop"]))} for n in dict.fromkeys(names)}  # fmt: skip
    script: list[Any] = [
        {"rows": {n: draw(rows(below)) for n in streams}} for _ in range(draw(st.integers(1, 6)))
    ]
    ends: list[Any] = [{"end": True}]
    return {
        "name": "random", "streams": streams, "query": {"out": query}, "script": [*script, *ends],
    }  # fmt: skip


@pytest.mark.spec("FC-F25")
@examples(60)
@given(text=scripts())
def test_random_punctuation_of_joins(text: dict[str, Any]) -> None:
    transcript = parse(text)
    assert canonical(judged(kernels("panes")(transcript))) == canonical(judged(oracle(transcript)))
