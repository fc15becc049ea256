"""Rules of single operators that no random query reaches."""

from __future__ import annotations

import pytest

from slackwater.errors import AnalysisError
from slackwater.model.join import Band, Tumbling, Within
from slackwater.model.node import Aggregate, Join, Node, Project, SharedSort, Sort, Source
from slackwater.model.policy import Ordered
from slackwater.model.schema import Field, Named, column
from slackwater.model.time import TimeColumn
from slackwater.model.window import TimeWindow
from slackwater.semantics.bounds import END, START, propagate, topological
from slackwater.semantics.pattern_rules import wants
from slackwater.semantics.window_chains import window_chains

TS, ENDS = TimeColumn("ts", "long", None), TimeColumn("end", "long", None)
FIELDS = (Field("ts", "bigint"), Field("end", "bigint"))


def source(name: str = "s", *times: TimeColumn) -> Source:
    times = times or (TS,)
    return Source(FIELDS, times, name, policies=(Ordered(),) * len(times))


def grouped(child: Node) -> Aggregate:
    window = TimeColumn("window", "window", None)
    return Aggregate(FIELDS, (window,), child, (), TimeWindow(10, 5, 0, "ts"))


def test_a_sort_promises_the_time_it_sorts_by_and_no_other() -> None:
    nodes = topological([Sort(FIELDS, (TS, ENDS), source("s", TS, ENDS), "ts")])
    assert propagate(nodes, {"s": {"ts": 5, "end": 7}})[-1] == {"ts": 5, "end": START}
    assert propagate(nodes, {"s": {"ts": 5, "end": END}})[-1] == {"ts": 5, "end": END}


def test_what_is_wanted_of_a_moved_time_moves_back() -> None:
    moved = Project(
        FIELDS, (TS,), source(), (Named("ts", column("ts", "bigint")),), (("ts", "ts", -3),)
    )
    nodes = topological([grouped(moved)])
    ((below,), (above,), ()) = wants(nodes)
    assert (above.origin, below.origin) == (0, 3)


@pytest.mark.parametrize(
    ("within", "lag"), [(Band(2, 3), 3), (Tumbling(TimeWindow(4, 4, 0, "ts")), 4)]
)
def test_windows_behind_a_join_are_behind_by_its_widest_span(within: Within, lag: int) -> None:
    a, b = source("a"), source("b")
    join = Join(FIELDS, (TS,), (a, b), ((), ()), ("ts", "ts"), within, time_names=("a_ts", "b_ts"))
    chains = window_chains([grouped(join)], a, "ts")
    assert chains == ((TimeWindow(10, 5, lag, "ts"),),)


def test_a_store_of_several_operators_refers_to_its_readers() -> None:
    sort = Sort(FIELDS, (TS,), source(), "ts")
    shared = SharedSort(FIELDS, (TS,), sort.child, "ts", readers=(("a", sort),))
    with pytest.raises(AnalysisError, match="ASK_READERS"):
        propagate(topological([shared]), {})
