"""The oracle checked by hand-made values, and by what must hold whatever the rows are."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.errors import AnalysisError, LateRowError
from slackwater.model.aggregate import Primitive
from slackwater.model.node import Aggregate, Dedup, Node, Project, Sort, Source, Union
from slackwater.model.policy import (
    BoundedDelay,
    BoundedRows,
    MaxDelay,
    Ordered,
    Policy,
    Punctuated,
)
from slackwater.model.schema import Field, Named, column
from slackwater.model.time import TimeColumn
from slackwater.model.window import TimeWindow
from slackwater.semantics.bounds import END, START, propagate, topological
from slackwater.semantics.progress import SourceState
from slackwater.testing.oracle.aggregates import aggregate
from slackwater.testing.oracle.nodes import Oracle
from slackwater.testing.strategies import (
    cut,
    cuts,
    disordered,
    shuffled_batches,
    windows,
)
from tests.examples import examples
from tests.semantics.helpers import Feed

TS = TimeColumn("ts", "long", None)
FIELDS = (
    Field("ts", "bigint"),
    Field("k", "string"),
    Field("v", "bigint"),
    Field("i", "bigint"),
)
DELAY = 10


def stream(policy: Policy | None = None, name: str = "s", **options: Any) -> Source:
    policies = (policy or BoundedDelay(delay=DELAY),)
    return Source(FIELDS, (TS,), name, policies=policies, replay=True, **options)


def counted(child: Node, w: TimeWindow) -> Aggregate:
    out = (Field("k", "string"), Field("wid", "bigint"), Field("window", "struct"))
    return Aggregate(
        (*out, Field("n", "bigint"), Field("total", "bigint")),
        (TimeColumn("window", "window", None, True),),
        child,
        (Named("k", column("k", "string")),),
        w,
        (
            Primitive("_a0", "count", (), "bigint"),
            Primitive("_a1", "sum", (column("v", "bigint"),), "bigint"),
        ),
        (Named("n", column("__sw_a0", "bigint")), Named("total", column("__sw_a1", "bigint"))),
    )


def results(node: Node, batches: list[list[dict[str, Any]]], end: bool = True) -> Counter[Any]:
    """All rows an output gives over the batches."""
    machine = Oracle({"out": node})
    found: Counter[Any] = Counter()
    for batch in batches:
        found.update(tuple(r.items()) for r in machine.step({"s": batch}).outputs["out"])
    if end:
        found.update(tuple(r.items()) for r in machine.step({}, end=True).outputs["out"])
    return found


# --- windows ---------------------------------------------------------------------------------------


@pytest.mark.spec("WQ-F10", "OO-F10")
@given(rows=disordered(), w=windows(), data=st.data())
def test_cuts_and_order_do_not_change_results_while_no_row_is_late(
    rows: list[dict[str, Any]], w: TimeWindow, data: st.DataObject
) -> None:
    node = counted(stream(), w)
    expected = results(node, [rows])
    again = data.draw(shuffled_batches(st.just(rows)))
    assert results(node, again) == expected


@pytest.mark.spec("WQ-F9")
@given(rows=disordered(), w=windows(), places=cuts())
def test_a_longer_delay_changes_when_not_what(
    rows: list[dict[str, Any]], w: TimeWindow, places: list[int]
) -> None:
    patient = counted(stream(BoundedDelay(delay=3 * DELAY)), w)
    assert results(patient, cut(rows, places)) == results(counted(stream(), w), cut(rows, places))


@given(rows=disordered(), w=windows(), places=cuts())
def test_every_row_is_in_each_of_its_windows(
    rows: list[dict[str, Any]], w: TimeWindow, places: list[int]
) -> None:
    expected: Counter[Any] = Counter()
    for row in rows:
        for wid in range(-100, 130):
            end = w.origin + (wid + 1) * w.slide
            if end - w.range <= row["ts"] < end:
                expected[row["k"], wid] += 1
    found = {}
    for items in results(counted(stream(), w), cut(rows, places)):
        row = dict(items)
        found[row["k"], row["wid"]] = row["n"]
    assert found == dict(expected)


@given(rows=disordered(max_delay=25), w=windows(), places=cuts(), data=st.data())
def test_a_coarser_cut_keeps_a_superset(
    rows: list[dict[str, Any]], w: TimeWindow, places: list[int], data: st.DataObject
) -> None:
    """With late rows, fewer batches mean fewer bounds in between, so no row is lost that was kept."""
    fewer = data.draw(st.lists(st.sampled_from(places), unique=True)) if places else []
    for late in ("admit", "drop"):
        node = counted(stream(BoundedDelay(delay=5), late=late), w)
        fine, coarse = (
            counts(results(node, cut(rows, places))),
            counts(results(node, cut(rows, fewer))),
        )
        assert all(coarse.get(key, 0) >= n for key, n in fine.items())


def counts(found: Counter[Any]) -> dict[Any, int]:
    return {(r["k"], r["wid"]): r["n"] for r in map(dict, found)}


@given(rows=disordered(max_delay=25), w=windows(), places=cuts())
def test_admit_keeps_what_drop_keeps(
    rows: list[dict[str, Any]], w: TimeWindow, places: list[int]
) -> None:
    policy = BoundedDelay(delay=5)
    admit = counts(results(counted(stream(policy), w), cut(rows, places)))
    drop = counts(results(counted(stream(policy, late="drop"), w), cut(rows, places)))
    assert all(admit.get(key, 0) >= n for key, n in drop.items())


@pytest.mark.spec("OO-F1")
@given(rows=disordered(max_delay=25), w=windows(), places=cuts())
def test_output_bounds_hold_for_every_later_row(
    rows: list[dict[str, Any]], w: TimeWindow, places: list[int]
) -> None:
    """Also when rows come late: a closed window stays closed."""
    first = counted(stream(BoundedDelay(delay=5)), w)
    second = counted(first_named(first), TimeWindow(7, 3, 1, "window"))
    machine = Oracle({"first": first, "second": second})
    before = {"first": START, "second": START}
    for batch in [*cut(rows, places), None]:
        step = machine.step({"s": batch or []}, end=batch is None)
        for name, out in step.outputs.items():
            assert all(r["window"].end - 1 >= before[name] for r in out)
            before[name] = step.output_bounds[name]["window"]


def first_named(node: Aggregate) -> Node:
    columns = (
        Named("k", column("k", "string")),
        Named("v", column("n", "bigint")),
        Named("window", column("window", "struct")),
    )
    schema = tuple(Field(c.name, c.expr.type) for c in columns)
    return Project(schema, node.times, node, columns, (("window", "window", 0),))


@pytest.mark.spec("WQ-F36")
@given(rows=disordered(), places=cuts(), size=st.integers(1, 6), many=st.integers(1, 5))
def test_windows_of_windows_equal_windows(
    rows: list[dict[str, Any]], places: list[int], size: int, many: int
) -> None:
    small = TimeWindow(size, size, 0, "ts")
    large = TimeWindow(size * many, size * many, 0, "ts")
    on_results = TimeWindow(size * many, size * many, 0, "window")
    node = counted(first_named(counted(stream(), small)), on_results)
    stepwise = {(r["k"], r["wid"]): r["total"] for r in map(dict, results(node, cut(rows, places)))}
    assert stepwise == counts(results(counted(stream(), large), cut(rows, places)))


# --- progress: the oracle's definition against the incremental one -----------------------------------

partitions = st.sampled_from(["", "b", None])


@examples(75)
@given(
    steps=st.lists(
        st.tuples(
            st.lists(
                st.tuples(partitions, st.none() | st.integers(0, 60), st.booleans()), max_size=5
            ),
            st.integers(0, 12),
            st.booleans(),
        ),
        max_size=8,
    ),
    kind=st.sampled_from(["ordered", "delay", "rows", "max_delay", "punctuated", "data"]),
    split=st.booleans(),
    known=st.sampled_from([None, 2, 3, ("", None)]),
    idle=st.sampled_from([None, "5 seconds"]),
    guard=st.sampled_from([None, 20]),
    lag=st.sampled_from([None, 8]),
    ordered=st.booleans(),
)
def test_bounds_equal_those_of_the_incremental_state(
    steps: Any, kind: str, split: bool, known: Any, idle: Any, guard: Any, lag: Any, ordered: bool
) -> None:
    policy: Policy = {
        "ordered": Ordered(),
        "delay": BoundedDelay(delay=4),
        "rows": BoundedRows(rows=2),
        "max_delay": MaxDelay(),
        "punctuated": Punctuated(column="done"),
        "data": Punctuated(column="done", data=True),
    }[kind]
    policy = policy.idleAfter(idle) if idle else policy
    policy = policy.futureGuard(guard)
    policy = policy.lagLimit(lag) if lag else policy
    time = TimeColumn("ts", "long", 1_000_000)
    options: dict[str, Any] = {"replay": True}
    if split:
        options |= {"partition": "p", "partitions": known}
    if ordered or kind == "rows":
        options["order"] = ("i",)
    feed = Feed(policy, time, **options)
    fields = (*FIELDS, Field("p", "string"), Field("done", "bigint"))
    source = Source(fields, (time,), "s", policies=(policy,), **options)
    machine = Oracle({"out": source})
    now = place = 0
    for rows, tick, clocked in steps:
        now += tick * 1_000_000
        clock = now if clocked else None
        batch = []
        for p, t, mark in rows:
            place += 1
            row = {"p": p, "ts": t, "i": place, "done": None}
            if kind in ("punctuated", "data") and mark and t is not None:
                row["done"] = t
                if kind == "punctuated":
                    row["ts"] = None
            batch.append(row)
        expected = machine.step({"s": batch}, clock).bounds["s"]["ts"]
        assert feed.batch(*batch, now=clock) == expected
        # and the state is durable
        feed.state = SourceState.from_json(feed.state.to_json())


@given(
    moves=st.lists(st.tuples(st.sampled_from(["s", "r"]), st.integers(-30, 30)), max_size=10),
    w=windows(),
)
def test_bounds_through_the_plan_equal_the_semantics_layer(moves: Any, w: TimeWindow) -> None:
    s, r = stream(Ordered()), stream(Ordered(), "r")
    node = counted(Sort(FIELDS, (TS,), Union(FIELDS, (TS,), (s, r)), "ts"), w)
    machine = Oracle({"out": node})
    nodes = topological([node])
    for name, t in moves:
        step = machine.step({name: [{"ts": t, "k": "a", "v": 1, "i": 0}]})
        assert step.output_bounds["out"] == propagate(nodes, step.bounds)[-1]


# --- dedup and sort --------------------------------------------------------------------------------


@given(rows=disordered(keys=("a", "b")), data=st.data())
def test_dedup_by_time_keeps_one_of_each(rows: list[dict[str, Any]], data: st.DataObject) -> None:
    node = Dedup(FIELDS, (TS,), stream(), ("k", "ts"), None, "ts")
    batches = data.draw(shuffled_batches(st.just(rows)))
    found = Counter((dict(r)["k"], dict(r)["ts"]) for r in results(node, batches))
    assert found == Counter({(r["k"], r["ts"]) for r in rows})


@given(rows=disordered(keys=("a", "b")), places=cuts(), within=st.integers(0, 8))
def test_dedup_within_keeps_rows_apart_and_covers_the_rest(
    rows: list[dict[str, Any]], places: list[int], within: int
) -> None:
    node = Dedup(FIELDS, (TS,), stream(), ("k",), within, "ts")
    kept = [dict(r) for r in results(node, cut(rows, places))]
    for a in kept:
        assert not any(
            a is not b and a["k"] == b["k"] and abs(a["ts"] - b["ts"]) <= within for b in kept
        )
    for row in rows:
        assert any(row["k"] == b["k"] and abs(row["ts"] - b["ts"]) <= within for b in kept)


@pytest.mark.spec("OO-F25")
@given(rows=disordered(max_delay=20), places=cuts())
def test_sort_is_ordered_and_loses_only_what_came_too_late(
    rows: list[dict[str, Any]], places: list[int]
) -> None:
    machine = Oracle({"out": Sort(FIELDS, (TS,), stream(), "ts")})
    out, dropped = [], 0
    for batch in [*cut(rows, places), None]:
        step = machine.step({"s": batch or []}, end=batch is None)
        out += [r["ts"] for r in step.outputs["out"]]
        dropped += step.dropped
    assert out == sorted(out)
    assert len(out) + dropped == len(rows)


# --- small things ----------------------------------------------------------------------------------


def test_raise_leaves_the_oracle_as_it_was() -> None:
    machine = Oracle({"out": stream(Ordered(), late="raise")})
    row = {"ts": 5, "k": "a", "v": 1, "i": 0}
    machine.step({"s": [row]})
    with pytest.raises(LateRowError):
        machine.step({"s": [{**row, "ts": 4}]})
    assert machine.step({"s": [row]}).outputs["out"] == [row]


def test_rows_of_an_unknown_stream() -> None:
    with pytest.raises(AnalysisError, match="nobody"):
        Oracle({"out": stream()}).step({"nobody": []})


def test_after_the_end_nothing_comes_out() -> None:
    machine = Oracle({"out": counted(stream(Ordered()), TimeWindow(5, 5, 0, "ts"))})
    machine.step({}, end=True)
    step = machine.step({"s": [{"ts": 5, "k": "a", "v": 1, "i": 0}]}, end=True)
    assert (step.outputs["out"], step.bounds["s"]["ts"]) == ([], END)
    assert step.late == {"s": {"ts": 1}}


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        ("count", 3), ("sum", 12), ("min", 2), ("max", 6), ("avg", 4.0), ("var_pop", 8 / 3),
        ("var_samp", 4.0), ("stddev_pop", (8 / 3) ** 0.5), ("stddev_samp", 2.0),
    ],
)  # fmt: skip
def test_aggregates_skip_nulls(function: str, expected: float) -> None:
    rows = [{"v": 2}, {"v": None}, {"v": 4}, {"v": 6}]
    p = Primitive("_a0", function, (column("v", "bigint"),), "double")
    assert aggregate(p, rows) == pytest.approx(expected)
    assert aggregate(p, [{"v": None}]) == (0 if function == "count" else None)
