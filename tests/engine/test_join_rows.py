"""What of a join's inputs is sent and stored: no column that no result shows, and none twice."""

from __future__ import annotations

from datetime import datetime, timezone

import numpy as np
import pyarrow as pa
import pytest

from slackwater.engine.paths.join import InputRows, admit
from slackwater.engine.paths.steps import renamed
from slackwater.engine.paths.wire import from_batches, pack, pack_control, to_batches
from slackwater.engine.plan.layout import build
from slackwater.engine.plan.plan import Output
from slackwater.engine.plan.steps import FilterStep, ProjectStep
from slackwater.kernels.buckets import bucket_of
from slackwater.kernels.column_engine import connect, sql_to_arrow
from slackwater.model.join import Band
from slackwater.model.names import ROWS
from slackwater.model.node import Join, Source, raw_name
from slackwater.model.schema import Expr, Field, Named, column
from slackwater.model.time import TimeColumn

UTC = pa.timestamp("us", "UTC")


def source(name: str, value: str, time: str = "timestamp") -> Source:
    kind = "timestamp" if time == "timestamp" else "long"
    fields = (Field("k", "int"), Field(value, "bigint"), Field("ts", time), Field("x", "string"))
    return Source(fields, (TimeColumn("ts", kind),), name=name)  # type: ignore[arg-type]


def joined(a: Source, b: Source, keys: tuple[Named, Named], *shown: tuple[int, str]) -> Join:
    outputs = tuple(
        Named(
            f"{'ab'[i]}_{c}", column(raw_name(i, c), next(f.type for f in s.schema if f.name == c))
        )
        for i, c in shown
        for s in ((a, b)[i],)
    )
    return Join(
        tuple(Field(o.name, o.expr.type) for o in outputs),
        (TimeColumn("a_ts", "timestamp"),),
        inputs=(a, b),
        keys=((keys[0],), (keys[1],)),
        on=("ts", "ts"),
        within=Band(1, 1),
        outputs=outputs,
        time_names=("a_ts", "b_ts"),
    )  # fmt: skip


KEY = Named("k", column("k", "int"))
COMPUTED = Named("k", Expr("k + 1", "int", '("k" + 1)'))


def test_only_what_results_show_is_kept_and_nothing_twice():
    shown = ((0, "k"), (0, "v"), (0, "ts"), (1, "w"))
    node = joined(source("a", "v"), source("b", "w"), (KEY, KEY), *shown)
    assert node.used == (frozenset({"k", "v", "ts"}), frozenset({"w"}))
    assert [f.name for f in node.raw_fields] == ["_0.k", "_0.v", "_0.ts", "_1.w"]
    left, right = InputRows(node, 0), InputRows(node, 1)
    assert left.lean.names == [
        "k",
        "v",
        "__sw_time",
        "__sw_bucket",
    ]  # the key is k, the time is __sw_time
    assert right.lean.names == [
        "w",
        "__sw_time",
        "__sw_k0",
        "__sw_bucket",
    ]  # the key is not shown, so it is kept as one
    assert left.full.names == ["k", "v", "__sw_time", "__sw_k0", "__sw_bucket"]


@pytest.mark.parametrize("time", ["timestamp", "bigint", "int"])
@pytest.mark.parametrize("key", [KEY, COMPUTED], ids=["plain", "computed"])
def test_rows_are_the_same_whether_computed_or_renamed(time: str, key: Named):
    node = joined(source("a", "v", time), source("b", "w", time), (key, key), (0, "k"), (0, "v"), (0, "ts"))  # fmt: skip
    plan = build([Output("out", node)], ansi=True, zone="UTC")
    (operator,) = plan.operators
    path = next(p for p in plan.paths if p.producer == "a")
    ticks = [5, 7_000_000, -3]
    kinds = {"timestamp": UTC, "bigint": pa.int64(), "int": pa.int32()}
    table = pa.table(
        {
            "k": pa.array([1, 2, None], pa.int32()),
            "v": [10, 20, 30],
            "ts": pa.array(ticks, pa.int64()).cast(kinds[time]),
            "x": ["p", "q", "r"],
        }
    )
    shape = InputRows(node, 0)
    made = admit(operator, path, table, lambda sql, t: sql_to_arrow(connect(), sql, {ROWS: t}))
    got = shape.arrived(made)
    assert got.schema.names == shape.full.names
    assert got["__sw_time"].to_pylist() == ticks
    keys = [1, 2, None] if key is KEY else [2, 3, None]
    assert got["__sw_k0"].to_pylist() == keys and got["k"].to_pylist() == [1, 2, None]
    want = bucket_of([pa.array(keys, pa.int32())])
    assert got["__sw_bucket"].to_pylist() == want.tolist()
    # A kernel's results get the time column back, in its own type.
    results = pa.table({"_0.__sw_time": pa.array([5, None], pa.int64())})
    if time == "timestamp":
        back = shape.shown(results)["_0.ts"]
        assert back.to_pylist() == [datetime(1970, 1, 1, 0, 0, 0, 5, timezone.utc), None]
    elif time == "bigint":
        assert shape.shown(results)["_0.ts"].to_pylist() == [5, None]
    else:
        assert "ts" in shape.columns, "an int is no tick: it is kept as it is"


def test_only_choosing_and_renaming_needs_no_engine():
    table = pa.table({"_0.k": [1], "_1.v": [2], "w": [3]})
    step = ProjectStep((Named("v", column("_1.v", "bigint")), Named("k", column("_0.k", "bigint"))))
    again = ProjectStep((Named("z", column("k", "bigint")),))
    found = renamed((step, again), table)
    assert found is not None and found.to_pydict() == {"z": [1]}
    assert renamed((), table) is table
    more = ProjectStep((Named("v", Expr("w + 1", "bigint", '("w" + 1)')),))
    assert renamed((step, more), table) is None
    assert renamed((FilterStep(Expr("w", "boolean", '"w"')),), table) is None
    assert renamed((ProjectStep((Named("q", Expr("f(w)", "bigint", None)),)),), table) is None


def test_blobs_come_through_whole():
    table = pa.table({"x": np.arange(1000)})
    messages = [(7, b) for b in pack(3, table)] + [
        (1, pack_control("hold", ["é", 1])),
        (2, b"J[0,1]"),
    ]
    batches = list(to_batches(messages))
    assert [b.column("route").to_pylist() for b in batches] == [[7, 1, 2]]
    (path, body), control, other = from_batches(batches)
    assert path == 3 and body.equals(table)
    assert control == ("hold", ["é", 1]) and other == (0, 1)
