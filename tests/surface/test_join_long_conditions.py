"""Conditions of many terms: joins take what Spark takes, and what they refuse is said shortly, with a way that is right for the kind."""

from __future__ import annotations

from typing import Any

import pytest

import slackwater as sw
from slackwater.testing import local_job

pytestmark = pytest.mark.spark

SCHEMA = "k string, t long, v bigint"
ROWS = [("a", 1000, 1), ("b", 1050, 2), ("a", 1060, None), ("a", 1070, 28), ("a", 1500, 7)]
BAND = "a.k = b.k AND b.t BETWEEN a.t AND a.t + 100"


def joined(df: Any, kind: str, condition: str) -> Any:
    def side(name: str) -> Any:
        return sw.stream(df, time="t", name=name, progress=sw.BoundedDelay(100))

    shown = "a.t AS x" if kind in ("LEFT ANTI", "LEFT SEMI") else "a.t AS x, b.t AS y"
    text = f"SELECT {shown} FROM a {kind} JOIN b ON {BAND} AND ({condition})"
    return sw.sql(text, streams={"a": side("a"), "b": side("b")})


def pairs() -> list[tuple[int, int]]:
    return [(a[1], b[1]) for a in ROWS for b in ROWS
            if a[0] == b[0] and a[1] <= b[1] <= a[1] + 100 and None not in (a[2], b[2]) and 0 <= a[2] + b[2] < 60]  # fmt: skip


@pytest.mark.parametrize(("kind", "terms"), [("INNER", 60), ("LEFT", 100), ("LEFT ANTI", 100)])
def test_many_terms_that_may_fail(spark: Any, kind: str, terms: int):
    """As many as were refused; `test_translate.py` takes 400, whose analysis takes Spark half a minute."""
    condition = " OR ".join(f"a.v + b.v = {i}" for i in range(terms))
    job = local_job(lambda df: joined(df, kind, condition), SCHEMA, spark=spark)
    matched = pairs()
    alone = [a[1] for a in ROWS if a[1] not in {x for x, _ in matched}]
    expected: list[Any] = {
        "INNER": matched,
        "LEFT": matched + [(x, None) for x in alone],
        "LEFT ANTI": [(x,) for x in alone],
    }[kind]
    key = str
    assert sorted((tuple(r) for r in job.run([ROWS])), key=key) == sorted(expected, key=key)
    assert len(matched) >= 3 and alone, "some rows match, some do not"


@pytest.mark.parametrize("kind", ["INNER", "LEFT", "RIGHT", "FULL", "LEFT SEMI", "LEFT ANTI"])
def test_the_way_out_means_the_same(spark: Any, kind: str):
    condition = " OR ".join(f"hash(a.v, b.v) = {i}" for i in range(10))
    with pytest.raises(sw.AnalysisError, match=r"JOIN_CONDITION.*cannot be evaluated inside a join") as raised:  # fmt: skip
        local_job(lambda df: joined(df, kind, condition), SCHEMA, spark=spark)
    error = raised.value
    assert error.place is not None and len(error.message) < 400, error.message
    if kind == "INNER":
        assert "put it into WHERE" in error.hint
    else:
        assert error.hint.startswith("compute what it reads of each side"), error.hint


@pytest.mark.parametrize(("how", "after"), [("inner", True), ("left", False), ("left_anti", False)])
def test_the_way_out_of_python_as_well(spark: Any, how: str, after: bool):
    def job(df: Any) -> Any:
        a, b = (sw.stream(df, time="t", name=n, progress=sw.BoundedDelay(100)) for n in "ab")
        return a.join(
            b, on=["k"], within=sw.band(before=0, after=100), how=how, where="hash(a_v, b_v) = 1"
        )

    with pytest.raises(sw.AnalysisError, match="JOIN_CONDITION") as raised:
        local_job(job, SCHEMA, spark=spark)
    assert ("use .where(...) after the join" in raised.value.hint) is after
