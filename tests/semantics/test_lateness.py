from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.errors import AnalysisError
from slackwater.model.node import (
    Aggregate,
    Dedup,
    Filter,
    Late,
    LateSetting,
    Node,
    Project,
    Source,
    Union,
)
from slackwater.model.policy import Ordered
from slackwater.model.schema import Field
from slackwater.model.time import TimeColumn
from slackwater.model.window import TimeWindow
from slackwater.semantics.bounds import START, propagate, topological
from slackwater.semantics.lateness import (
    Verdict,
    dedup_frontier,
    dedup_memory,
    enters,
    is_late,
    judge,
    late_by,
    late_row_error,
    reason,
)
from slackwater.semantics.limits import EARLIEST, LATEST
from slackwater.semantics.window_chains import flush_bound, window_chains
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
    assert reason(judge(None, 5)) == "null_time"
    assert reason(judge(4, 5)) == "late"
    assert reason(judge(5, 5)) is None
    assert reason(judge(50, 5, 40)) is None
    assert reason(judge(50, 5, 40, side=True)) == "future"
    assert reason(judge(40, 5, 40, side=True)) is None


def test_a_time_without_windows_is_none() -> None:
    assert [judge(t, 5).null for t in (EARLIEST - 1, LATEST + 1)] == [True, True]
    assert [judge(t, 5).null for t in (EARLIEST, LATEST)] == [False, False]


def test_a_row_sent_aside_is_not_late_as_well() -> None:
    assert judge(50, 60, 40) == Verdict(False, True, False, True, 60)
    assert judge(50, 60, 40, side=True, patterns=[70]) == Verdict(False, True, True, False, None)


def test_a_row_that_matches_a_pattern_is_late() -> None:
    assert judge(5, 5, patterns=[None]) == Verdict(False, False, False, True, None)
    assert judge(5, 5, patterns=[None, 9, 7]).broken == 9
    assert judge(4, 10, patterns=[9, None]).broken == 10
    assert judge(None, 10, patterns=[9]).late is False


ADMIT, DROP, RAISE = SETTINGS = get_args(LateSetting)


@pytest.mark.spec("WQ-F8", "OO-F31")
def test_what_each_setting_lets_in() -> None:
    late, null, future = judge(4, 5), judge(None, 5), judge(50, 5, 40, side=True)
    assert [enters(late, s) for s in (ADMIT, DROP, RAISE)] == [True, False, False]
    assert not any(enters(v, s) for v in (null, future) for s in SETTINGS)
    assert all(enters(judge(5, 5), s) for s in SETTINGS)


def test_late_by() -> None:
    assert late_by(4, judge(4, 10), None) == 6
    assert late_by(50, judge(50, 10, 40, side=True), 40) == 10
    assert late_by(None, judge(None, 10, 40), 40) is None
    assert late_by(4, judge(4, START, patterns=[None]), None) is None


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


def test_a_node_without_a_rule_is_no_filter() -> None:
    class Unheard(Node):
        pass

    with pytest.raises(AnalysisError, match="Unheard"):
        window_chains([aggregate(Unheard(FIELDS, (TS,)), TimeWindow(10, 5, 0, "ts"))], SOURCE, "ts")


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
