"""Traces of the literature on the kernels: windows and groups that punctuation of either style unblocks and frees."""

from __future__ import annotations

from typing import Any

import pytest

from slackwater.model.aggregate import Primitive
from slackwater.model.node import Aggregate, Node
from slackwater.model.schema import Field, Named, column
from slackwater.model.window import TimeWindow, all_time
from slackwater.testing.executors.kernels import KernelMachine
from tests.semantics.contracts.plans import grouped, punctuated

CALLS = {"n": "count", "least": "min", "most": "max", "sum": "sum"}


def measured(child: Node, keys: list[str], window: TimeWindow) -> Aggregate:
    """Count, least, greatest, sum and mean of g."""
    base = grouped(child, keys, window)
    parts = [
        Primitive(f"_a{i}", call, () if call == "count" else (column("g", "bigint"),), "bigint")
        for i, call in enumerate(CALLS.values())
    ]
    outputs = tuple(
        Named(name, column(p.column, "bigint")) for name, p in zip(CALLS, parts, strict=True)
    )
    fields = (*base.schema[:-1], *(Field(o.name, "bigint") for o in outputs))
    return Aggregate(fields, base.times, child, base.keys, window, tuple(parts), outputs)


def run(node: Aggregate, *batches: list[dict[str, Any]]) -> tuple[list[list[dict[str, Any]]], int]:
    """What comes out batch by batch, and the rows of state at the end."""
    machine = KernelMachine({"out": node}, "panes")
    found = [machine.step({"s": b}, None, frozenset()).outputs["out"] for b in batches]
    return [list(f) for f in found], sum(p.rows for p in machine.programs.values())


def row(ts: int, k: int, g: int) -> dict[str, Any]:
    return {"ts": ts, "k": k, "g": g, "p": None, "b": None}


def said(**tests: tuple[str, int]) -> dict[str, Any]:
    given = {c: {"op": op, "value": str(v)} for c, (op, v) in tests.items()}
    return {"ts": None, "k": None, "g": None, "p": given, "b": None}


ROWS = [row(959, 1, 2), row(959, 1, 4), row(958, 2, 7)]
ONE = {"k": 1, "n": 2, "least": 2, "most": 4, "sum": 6}


@pytest.mark.spec("FC-F31")
@pytest.mark.parametrize(
    ("scheme", "punctuation", "left"),
    [
        ("[[ts:+]]", said(ts=("<=", 959)), 0),  # V2: all windows up to that time
        ("[[k:#]]", said(k=("=", 1)), 1),  # V3: the process has ended, in all windows
        ("[[k:#, ts:+]]", said(k=("=", 1), ts=("<=", 959)), 1),
    ],
)
def test_v2_and_v3_a_window_of_a_group_comes_out_and_is_freed_by_either_style(
    scheme: str, punctuation: dict[str, Any], left: int
) -> None:
    node = measured(punctuated("s", scheme), ["k"], TimeWindow(1, 1, 0, "ts"))
    (before, after), state = run(node, ROWS, [punctuation])
    assert before == [] and state == left
    (one,) = [r for r in after if r["k"] == 1]
    assert {c: one[c] for c in ONE} == ONE and one["window"] == {"start": 959, "end": 960}
    assert len(after) == 2 - left


@pytest.mark.spec("FC-F4")
def test_v7_only_closed_windows_are_closed_whatever_the_origin_and_below_it() -> None:
    """Minutes from 10:00 on: up to 10:01:30 closes the first, and not the second (E2, E3); ids go on below the origin."""
    window = TimeWindow(60, 60, 36_000, "ts")
    for origin_offset, wid in ((0, 0), (-120, -2)):
        start = 36_000 + origin_offset
        rows = [row(start + 90, 1, 1), row(start, 1, 1), row(start + 60, 1, 1), row(start + 30, 1, 1)]  # fmt: skip
        node = measured(punctuated("s", "[[ts:+]]"), ["k"], window)
        (_, first, second), state = run(node, rows, [said(ts=("<=", start + 90))], [said(ts=("<=", start + 119))])  # fmt: skip
        assert [(r["wid"], r["n"]) for r in first] == [(wid, 2)]
        assert [(r["wid"], r["n"]) for r in second] == [(wid + 1, 2)] and state == 0
    sliding = measured(punctuated("s", "[[ts:+]]"), ["k"], TimeWindow(10, 3, 0, "ts"))
    (_, out), _ = run(sliding, [row(1, 1, 1)], [said(ts=("<=", 5))])
    assert [r["wid"] for r in out] == [0, 1]


def test_v10_sums_with_punctuation_that_is_put_off() -> None:
    """Two groups, each closed up to itself; one sweep does for both."""
    rows = [row(1, 1, 2), row(1, 1, 3), row(1, 2, 1), row(1, 2, 2)]
    node = measured(punctuated("s", "[[k:+]]"), ["k"], all_time("ts"))
    (out,), state = run(node, [*rows, said(k=("<=", 1)), said(k=("<=", 2))])
    assert sorted((r["k"], r["sum"]) for r in out) == [(1, 5), (2, 3)] and state == 0
