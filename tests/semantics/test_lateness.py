from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.node import Aggregate, Dedup, Filter, Late, Project, Source, Union
from slackwater.model.policy import Ordered
from slackwater.model.schema import Field
from slackwater.model.time import TimeColumn
from slackwater.model.window import TimeWindow
from slackwater.semantics.bounds import START, propagate, topological
from slackwater.semantics.lateness import (
    dedup_frontier,
    dedup_memory,
    enters,
    flush_bound,
    is_late,
    late_by,
    late_row_error,
    reason,
    window_chains,
)
from slackwater.semantics.window_ids import extent, last_complete, wid_range
from tests.semantics.test_window_ids import times, windows

TS = TimeColumn("ts", "long", None)
WINDOW = TimeColumn("window", "window", None)
FIELDS = (Field("ts", "bigint"),)
SOURCE = Source(FIELDS, (TS,), "s", policies=(Ordered(),))


@pytest.mark.spec("WQ-F7")
def test_equal_is_on_time() -> None:
    assert is_late(9, 10)
    assert not is_late(10, 10)
    assert not is_late(-(1 << 40), START)


def test_reasons() -> None:
    assert reason(None, 5) == "null_time"
    assert reason(4, 5) == "late"
    assert reason(5, 5) is None
    assert reason(50, 5, 40) is None
    assert reason(50, 5, 40, side=True) == "future"
    assert reason(40, 5, 40, side=True) is None


@pytest.mark.spec("WQ-F8", "OO-F31")
def test_what_each_setting_lets_in() -> None:
    assert [enters("late", s) for s in ("admit", "drop", "raise")] == [True, False, False]
    assert not any(enters(r, s) for r in ("null_time", "future") for s in ("admit", "drop"))
    assert all(enters(None, s) for s in ("admit", "drop", "raise"))


def test_late_by() -> None:
    assert late_by(4, 10, None, "late") == 6
    assert late_by(50, 10, 40, "future") == 10
    assert late_by(None, 10, 40, "null_time") is None


def test_the_error_shows_the_row() -> None:
    e = late_row_error("packets", "ts", {"ts": 4}, 10)
    assert "{'ts': 4}" in str(e)
    assert e.getMessageParameters()["column"] == "ts"


@pytest.mark.spec("WQ-F70")
def test_what_dedup_must_remember() -> None:
    by_time = Dedup(FIELDS, (TS,), SOURCE, ("k", "ts"), None, "ts")
    assert (dedup_frontier(100, by_time), dedup_memory(100, by_time)) == (100, 100)
    near = Dedup(FIELDS, (TS,), SOURCE, ("k",), 10, "ts")
    assert (dedup_frontier(100, near), dedup_memory(100, near)) == (90, 80)


def aggregate(child: object, w: TimeWindow) -> Aggregate:
    return Aggregate(FIELDS, (WINDOW,), child, (), w)  # type: ignore[arg-type]


def test_chains_follow_shifts_unions_and_results() -> None:
    first, second = TimeWindow(10, 5, 0, "ts"), TimeWindow(20, 20, 0, "window")
    moved = Project(FIELDS, (TS,), SOURCE, (), (("ts", "ts", 3),))
    union = Union(FIELDS, (TS,), (Filter(FIELDS, (TS,), SOURCE), moved))
    a = aggregate(union, first)
    b = aggregate(a, second)
    shifted = TimeWindow(10, 5, -3, "ts")
    assert set(window_chains([b], SOURCE, "ts")) == {
        (first,), (shifted,), (first, second), (shifted, second),
    }  # fmt: skip
    assert window_chains([b], SOURCE, "other") == ()
    assert window_chains([aggregate(Late(FIELDS, (TS,), SOURCE), first)], SOURCE, "ts") == ()


@given(w=windows, hi=times)
def test_flush_closes_the_windows_of_the_newest_row(w: TimeWindow, hi: int) -> None:
    v = flush_bound(hi, [w])
    lo, stop = wid_range(hi, w)
    assert v > hi
    if stop > lo:
        assert v == extent(stop - 1, w)[1]
    assert last_complete(v, w) >= stop - 1


@given(hi=times, chain=st.lists(windows, min_size=1, max_size=3))
def test_flush_closes_a_chain_to_its_end(hi: int, chain: list[TimeWindow]) -> None:
    node: object = SOURCE
    for i, w in enumerate(chain):
        node = aggregate(node, TimeWindow(w.range, w.slide, w.origin, "window" if i else "ts"))
    nodes = topological([node])  # type: ignore[list-item]
    (longest,) = [c for c in window_chains([node], SOURCE, "ts") if len(c) == len(chain)]  # type: ignore[list-item]
    v = flush_bound(hi, [longest])
    bounds = propagate(nodes, {"s": {"ts": v}})
    time = hi
    for at, w in enumerate(chain):
        lo, stop = wid_range(time, w)
        if stop <= lo:
            break
        child = next(iter(bounds[at].values()))
        assert extent(stop - 1, w)[1] <= child
        time = extent(stop - 1, w)[1] - 1


def test_flush_without_windows_lets_every_row_out() -> None:
    assert flush_bound(7, []) == 8
