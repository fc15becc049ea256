"""A user's aggregate over windows: against the plain computation, and what happens when it fails."""

from __future__ import annotations

import pickle

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from slackwater.errors import ExecutionError
from slackwater.kernels.aggregates import partials
from slackwater.kernels.windows import partials_step as aggregate
from slackwater.kernels.windows.partials_step import END, AggregateSpec
from slackwater.model.aggregate import Primitive, Udaf
from slackwater.model.schema import column
from slackwater.model.window import TimeWindow
from tests.examples import examples
from tests.kernels import test_aggregate as flow
from tests.kernels.strategies import rows

STATE = (("n", "bigint"), ("top", "array<int>"))
CALLS: list[str] = []


def init():
    return {"n": 0, "top": []}


def update(state, x, y):
    """How many rows, and the three greatest sums x + y, with repetitions."""
    CALLS.append("update")
    sums = pc.drop_null(pc.add(x.cast(pa.int64()), y.cast(pa.int64()))).to_pylist()
    return {"n": state["n"] + len(x), "top": sorted([*state["top"], *sums])[-3:]}


def merge(a, b):
    a["n"] += b["n"]  # changes its argument, which must not be seen by other windows
    a["top"] += b["top"]
    a["top"] = sorted(a["top"])[-3:]
    return a


def finish(state):
    state["top"].append(state["n"])
    return state["top"]


def made(
    functions=(init, update, merge, finish), returns="array<int>", filtered=False, state=STATE
):
    udaf = Udaf("top", "1", state, returns, pickle.dumps(functions))
    args = [column("i1", "tinyint"), column("i2", "smallint")]
    if filtered:
        args.append(column("b", "boolean"))
    return Primitive("_a0", "udaf", tuple(args), returns, (udaf, filtered))


def value(inside: list[dict], filtered: bool) -> list[int]:
    some = [r for r in inside if not filtered or r["b"]]
    sums = [r["i1"] + r["i2"] for r in some if None not in (r["i1"], r["i2"])]
    return [*sorted(sums)[-3:], len(some)]


@pytest.mark.spec("WQ-F101")
@pytest.mark.parametrize("plan", ["panes", "wids"])
@examples(25, suppress_health_check=list(HealthCheck))
@given(st.integers(1, 14), st.integers(1, 14), flow.streams(("i1", "i2", "b")), st.booleans())
def test_results_are_those_of_the_extents(plan, range_, slide, batches, filtered):
    p = made(filtered=filtered)
    spec = AggregateSpec(flow.KEY, TimeWindow(range_, slide, 2, "t"), (p,), plan, False)
    outputs, _ = flow.run(spec, batches)
    for output, windows in zip(outputs, flow.expected(spec, batches), strict=True):
        got = {(r["_k0"], r["_wid"]): r["_a0"] for r in output}
        assert got == {where: value(inside, filtered) for where, inside in windows.items()}


def test_update_is_called_once_per_group_and_pane_and_merges_do_not_multiply():
    p = made()
    data = [{"k": k, "t": t, "i1": 1, "i2": t} for k in "ab" for t in range(40) for _ in range(9)]
    spec = AggregateSpec(flow.KEY, TimeWindow(20, 1, 0, "t"), (p,), "panes", False)
    CALLS.clear()
    table = flow.partials(spec, data)
    assert len(CALLS) == 2 * 40
    merges = []
    kind = partials.kind_of(p)
    kind._call("init")
    plain = kind._code["merge"]
    kind._code["merge"] = lambda a, b: merges.append(1) or plain(a, b)
    try:
        aggregate.step(spec, table, aggregate.partials_schema(spec).empty_table(), -END, END)
    finally:
        kind._code["merge"] = plain
    # Two scans and one join per result; pane by pane it would be 20 per result.
    assert len(merges) < 4 * 2 * 59


def test_state_survives_storage_and_parts_merge_in_any_order():
    p = made()
    data = [{"i1": i, "i2": 1} for i in range(6)]
    pieces = [state(p, data[i : i + 2]) for i in (0, 2, 4)]
    for order in ([0, 1, 2], [2, 0, 1]):
        table = pa.concat_tables([pieces[i] for i in order])
        merged = partials.merge_groups([p], table, np.array([0]))
        assert partials.finish(p, merged, True).to_pylist() == [[4, 5, 6, 6]]
    assert partials.of_no_rows(p, 2).to_pylist() == [[0], [0]]


def state(p: Primitive, data: list[dict]) -> pa.Table:
    spec = AggregateSpec((), TimeWindow(1, 1, 0, "t"), (p,), "panes", False)
    table = flow.partials(spec, [r | {"t": 0} for r in data], ())
    return table.select([f.name for f in partials.state_fields(p)])


def fails(*args):
    raise LookupError("no such luck")


def a_number(*args):
    return 5


def a_stranger(*args):
    return {"n": 1, "stranger": 2}


def a_text(*args):
    return {"n": "many", "top": []}


@pytest.mark.parametrize(
    ("functions", "message"),
    [
        (
            (init, fails, merge, finish),
            "'update' of aggregate 'top' raised LookupError: no such luck",
        ),
        ((fails, update, merge, finish), "'init' of aggregate 'top' raised LookupError"),
        ((init, update, merge, fails), "'finish' of aggregate 'top' raised LookupError"),
        ((init, a_number, merge, finish), "returned int, not a dict"),
        ((init, a_stranger, merge, finish), "stranger"),
        ((init, a_text, merge, finish), "a state of aggregate 'top' is not of type"),
        ((init, update, merge, a_number), "the result of aggregate 'top' is not of type"),
    ],
)
def test_a_failing_function_is_named(functions, message):
    p = made(functions)
    with pytest.raises(ExecutionError, match=message) as caught:
        partials.finish(p, state(p, [{"i1": 1, "i2": 1}]), True)
    assert caught.value.hint


@examples(10)
@given(rows(["i1", "i2"], st.just(0), most=6))
def test_rows_reach_the_function_as_arrow_arrays_of_their_types(data):
    p = made((init, typed_update, merge, finish))
    got = partials.finish(p, state(p, data), True).to_pylist()
    assert got == ([[len(data)]] if data else [])


def typed_update(state, x, y):
    assert isinstance(x, pa.Array) and (x.type, y.type) == (pa.int8(), pa.int16())
    return {"n": len(x), "top": []}
