"""A sample of a stream beside its scheme; without Spark."""

from __future__ import annotations

from typing import Any

import pytest

import slackwater as sw

SCHEMA = {"time": "timestamp", "id": "int", "temperature": "double"}
ABC = {"a": "bigint", "b": "bigint", "c": "bigint"}


def reading(time: str, id: int, temperature: float) -> dict[str, Any]:
    return {"time": f"2010-04-01 {time}", "id": id, "temperature": temperature}


def said(**tests: tuple[str, Any]) -> dict[str, Any]:
    return {"done": tests}


def abc(*values: int) -> dict[str, int]:
    return dict(zip("abc", values, strict=True))


ROWS = [reading("10:00:00", 4, 76.5), reading("10:00:00", 3, 75.9), reading("09:59:00", 7, 76.6)]
LAST = reading("10:01:00", 7, 76.6)
NOON = "2010-04-01 10:00:00"


@pytest.mark.spec("FC-F3")
def test_v1_rows_that_come_after_their_punctuation_are_found() -> None:
    for op in ("<", "<="):
        found = sw.checkPunctuation([*ROWS, said(time=(op, NOON)), LAST], "done", ["[[time:+]]"], SCHEMA)  # fmt: skip
        assert found.broken is None and found.linear == ("time",)
        assert {r["id"] for r, _ in found.uncovered} == ({7} if op == "<=" else {4, 3, 7})
    found = sw.checkPunctuation([*ROWS, said(id=("=", 7)), LAST], "done", ["[[id:#]]"], SCHEMA)
    assert found.broken == (LAST, {"id": ("=", 7)}) and not found.ok


@pytest.mark.spec("FC-F1")
@pytest.mark.parametrize(
    "row",
    [
        {"time": NOON, "id": 4, "temperature": "warm"},
        {"time": NOON, "id": 4, "temperature": 1.0, "extra": 1},
        {"time": NOON, "id": 4, "temperature": True},
    ],
)
def test_rows_that_do_not_fit_the_schema_are_refused(row: dict[str, Any]) -> None:
    with pytest.raises(sw.AnalysisError, match=r"BAD_ROWS.*row 1 does not fit") as caught:
        sw.checkPunctuation([ROWS[0], row], "done", ["[[id:#]]"], SCHEMA)
    assert "temperature double" in caught.value.hint


@pytest.mark.spec("FC-F59")
def test_v5_and_v6_both_conditions_of_a_scheme() -> None:
    both = ["[[a:+, b:#, c:-]]"]
    good = [abc(585, 1, 7), said(a=("<", 600), b=("=", 1)), said(a=("<", 600), b=("=", 2))]
    assert sw.checkPunctuation(good, "done", both, ABC).ok
    bad = [good[0], said(a=("<", 600)), said(b=("=", 2)), said(a=("<", 605), b=("<", 1))]
    assert len(sw.checkPunctuation(bad, "done", both, ABC).unfit) == 3
    each = ["[[a:+]]", "[[b:#]]"]
    stream: list[dict[str, Any]] = [
        abc(616, 2, 23), abc(617, 1, 13), abc(617, 3, 31), said(a=("<", 620)), abc(621, 1, 11), said(b=("=", 1)),
        abc(621, 2, 21), abc(621, 3, 31), said(a=("<", 625)), said(b=("=", 2)), abc(627, 3, 30), said(a=("<", 630)),
    ]  # fmt: skip
    found = sw.checkPunctuation(stream, "done", each, ABC)
    assert found.broken is None and found.unfit == ()
    assert {(r["b"], t) for r, t in found.uncovered} == {(3, "[[b:#]]")}
    assert sw.checkPunctuation([*stream, said(b=("in", "[3]"))], "done", each, ABC).ok


@pytest.mark.spec("FC-F60")
def test_punctuation_is_linear_if_it_is_one_bound_that_never_goes_back() -> None:
    def linear(*items: dict[str, Any]) -> tuple[str, ...]:
        return sw.checkPunctuation(items, "done", ["[[a:+]]", "[[a:+, b:#]]"], ABC).linear

    assert linear(abc(1, 1, 1), said(a=("<", 2)), said(a=("<=", 5)), said(a=("<", 6))) == ("a",)
    assert linear(said(a=("<", 6)), said(a=("<", 5))) == ()
    assert linear(said(a=("<", 6)), said(a=("<", 7), b=("=", 1))) == ()
    assert linear(abc(1, 1, 1)) == ()


@pytest.mark.spec("FC-F2")
@pytest.mark.parametrize(
    ("op", "value", "matching"),
    [
        ("=", 2, {2}), ("<", 2, {1}), ("<=", 2, {1, 2}), (">", 2, {3}), (">=", 2, {2, 3}), ("*", None, {1, 2, 3}),
        ("in", "[1, 3]", {1, 3}), ("range", "[1, 3]", {1, 2}),
    ],
)  # fmt: skip
def test_every_comparison_matches_its_rows(op: str, value: Any, matching: set[int]) -> None:
    """A row after the punctuation breaks it just if it matches."""
    for b in (1, 2, 3, None):
        stream = [said(a=("=", 5), b=(op, value)), {"a": 5, "b": b, "c": 0}, {"a": 6, "b": b, "c": 0}]  # fmt: skip
        found = sw.checkPunctuation(stream, "done", ["[[a:#]]"], ABC)
        wanted = stream[1] if b in matching or (b is None and op == "*") else None
        assert (None if found.broken is None else found.broken[0]) == wanted
