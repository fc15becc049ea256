"""Aggregates over expressions that only Spark can evaluate: what the projection below them keeps."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from slackwater.engine.analysis.analyse import Analyser
from slackwater.errors import AnalysisError
from slackwater.model.aggregate import Primitive
from slackwater.model.join_times import leaves
from slackwater.model.meaning import ANSI, ZONE, Meaning
from slackwater.model.node import Aggregate, Filter, Node, Source
from slackwater.model.policy import Ordered
from slackwater.model.schema import Expr, Field, Named, column
from slackwater.model.time import TimeColumn
from slackwater.model.window import Landmark
from slackwater.surface.check import report
from slackwater.surface.grouped import _evaluated
from slackwater.surface.stream import Stream
from slackwater.surface.window_types import resolve
from slackwater.surface.windows import byTuple, rows

FIELDS = (
    Field("k", "string"), Field("ts", "bigint"), Field("v", "bigint"), Field("at", "bigint"),
    Field("part", "int"),
)  # fmt: skip
TIME = TimeColumn("ts", "long", None)
SOURCE = Source(FIELDS, (TIME,), "s", 0, (Ordered(),), order=("part", "at"))
TEST = Expr("(`v` > 3)", "boolean", '("v" > 3)')
ONLY_SPARK = Expr("soundex(`k`)", "string", None, "soundex")


def stream(node: Node) -> Stream:
    """A stream of which nothing is asked that needs a session."""
    analyser = Analyser.__new__(Analyser)
    analyser.meaning = Meaning.of({ZONE: "UTC", ANSI: "true"})
    return Stream(node, {}, analyser, None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("spec", "node", "needed"),
    [
        (byTuple(10, 3), SOURCE, ("part", "at")),
        (rows(4), SOURCE, ("part", "at")),
        (
            rows(4),
            Filter(FIELDS, (TIME,), SOURCE, TEST),
            ("__sw__order0", "__sw__order1", "__sw__pass"),
        ),
        (rows(4, at="operator"), Filter(FIELDS, (TIME,), SOURCE, TEST), ("part", "at")),
    ],
)
def test_the_order_of_arrival_reaches_a_window_that_counts_rows(
    spec: Any, node: Node, needed: tuple[str, ...]
) -> None:
    found, window, carried = resolve(spec, stream(node), TIME)
    keys = (Named("sound", ONLY_SPARK),)
    parts = (Primitive("_a0", "sum", (column("v", "bigint"),), "bigint"),)
    below, new_keys, new_parts = _evaluated(found, [TIME], keys, parts, carried)
    kept = {f.name: f.type for f in below._node.schema}
    assert set(carried) == set(needed) <= set(kept)
    assert set(window.order) <= set(kept)  # type: ignore[union-attr]
    assert kept["ts"] == "bigint" and [t.name for t in below._node.times] == ["ts"]
    # What the aggregate reads now are plain columns, which any engine can read.
    for named in (*(k.expr for k in new_keys), *(a for p in new_parts for a in p.args)):
        assert named.duck is not None and kept[named.duck.strip('"')] == named.type


def test_all_times_of_several_windows_are_kept() -> None:
    """One of them the greatest of two columns, which is no column by itself."""
    pair = TimeColumn("greatest(ts, at)", "greatest", None, True, (TIME, replace(TIME, name="at")))
    node = replace(SOURCE, times=(TIME, replace(TIME, name="at"), pair), policies=(Ordered(),) * 3)
    keys = (Named("sound", ONLY_SPARK),)
    below, _, _ = _evaluated(stream(node), [pair, TIME], keys, ())
    assert {c.name for c in leaves(pair)} <= {f.name for f in below._node.schema}
    assert [t.name for t in below._node.times] == [pair.name, "ts"]


def test_nothing_changes_where_the_column_engine_can_do_it_all() -> None:
    s = stream(SOURCE)
    keys = (Named("k", column("k", "string")),)
    assert _evaluated(s, [TIME], keys, (), ("at",)) == (s, keys, ())


@pytest.mark.parametrize(
    ("function", "args", "shown"),
    [
        ("collect_list", ("v", "ts"), "collect_list(`v`) over a landmark"),
        ("count_distinct", ("v",), "count_distinct(`v`) over a landmark"),
    ],
)
def test_what_grows_for_ever_is_named_as_it_was_written(
    function: str, args: tuple[str, ...], shown: str
) -> None:
    """Not with the row's time, which the analysis adds to what is collected."""
    part = Primitive("_a0", function, tuple(column(a, "bigint") for a in args), "array<bigint>")
    node = Aggregate(FIELDS, (TIME,), SOURCE, (), Landmark(10, 0, "ts"), (part,), ())
    with pytest.raises(AnalysisError) as caught:
        report([node]).raise_for_problems()
    assert shown in str(caught.value) and "use " in (caught.value.hint or "")
