"""Window aggregation by panes and by window ids, batch by batch, against the extents."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from slackwater.kernels import column_engine
from slackwater.kernels.windows import partials_step as aggregate
from slackwater.kernels.windows.partials_step import END, AggregateSpec
from slackwater.model.names import ours
from slackwater.model.schema import Field
from slackwater.model.window import TimeWindow
from tests.examples import examples
from tests.kernels import brute
from tests.kernels.strategies import rows

KEY = (Field("k", "string"),)
PRIMITIVES = tuple(
    brute.primitive(f"_a{i}", *call)
    for i, call in enumerate(
        [
            ("count",), ("sum", "i8"), ("avg", "i4"), ("sum", "f8"), ("max", "f8"), ("min", "s"),
            ("var_pop", "f8"), ("avg", "d18"), ("sum", "w38"), ("bool_and", "b"),
            ("max_by", "s", "i4"), ("count", "s"), ("min_by", "b", "s"),
        ]
    )
)  # fmt: skip
COLUMNS = ["i4", "i8", "f8", "s", "d18", "w38", "b"]
TIMES = st.integers(-40, 40)
MANY = examples(40, suppress_health_check=list(HealthCheck))


def spec_of(range_, slide, origin, plan, primitives=PRIMITIVES, keys=KEY, ansi=False):
    return AggregateSpec(keys, TimeWindow(range_, slide, origin, "t"), primitives, plan, ansi)


def partials(spec: AggregateSpec, data: list[dict], keys=('"k"',)) -> pa.Table:
    return partials_of(spec, [data], keys)[0]


def partials_of(spec: AggregateSpec, batches: list[list[dict]], keys=('"k"',)) -> list[pa.Table]:
    """The partials of each batch, by one statement: each costs the column engine milliseconds."""
    more = [("_batch", '"batch"')] if len(batches) > 1 else []
    sql = aggregate.partial_select(spec, keys, '"t"', "input", more)
    table = brute.table([row for data in batches for row in data], sql)
    numbers = pa.array([i for i, data in enumerate(batches) for _ in data], pa.int64())
    table = table.append_column("batch", numbers)
    raw = column_engine.sql_to_arrow(column_engine.connect(), sql, {"input": table})
    if not more:
        return [aggregate.partials(raw, spec)]
    batch = raw[ours("_batch")]
    return [aggregate.partials(raw.filter(pc.equal(batch, i)), spec) for i in range(len(batches))]


def run(
    spec: AggregateSpec, batches: list[tuple[list[dict], int]]
) -> tuple[list[list[dict]], list]:
    """Outputs per batch and the runs kept, for (rows, windows to close) batches."""
    closed, runs, outputs = -END, [], []
    empty = aggregate.partials_schema(spec).empty_table()
    fresh = partials_of(spec, [data for data, _ in batches])
    for new, (_, close_to) in zip(fresh, batches, strict=True):
        state = pa.concat_tables([empty, *runs])
        result = aggregate.step(spec, new, state, closed, close_to)
        assert result.output.schema == aggregate.output_schema(spec)
        assert result.keep.schema == aggregate.partials_schema(spec)
        outputs.append(result.output.to_pylist())
        runs.append(result.keep)
        closed = max(closed, close_to)
    return outputs, runs


def expected(spec: AggregateSpec, batches: list[tuple[list[dict], int]]) -> list[dict]:
    """Per batch {(key, wid): rows}: a window holds the rows that came while it was open."""
    w = spec.window
    closed, seen, out = -END, [], []
    for data, close_to in batches:
        seen += data
        all_windows = brute.windows(seen, w.range, w.slide, w.origin)
        out.append({k: r for k, r in all_windows.items() if closed < k[1] <= close_to})
        closed = max(closed, close_to)
    return out


def check(spec: AggregateSpec, batches: list[tuple[list[dict], int]]) -> None:
    outputs, _ = run(spec, batches)
    for output, windows in zip(outputs, expected(spec, batches), strict=True):
        got = {(r["_k0"], r["_wid"]): r for r in output}
        assert len(got) == len(output), "a window came twice"
        assert set(got) == set(windows)
        for where, inside in windows.items():
            for p in spec.primitives:
                value = brute.aggregate(p, inside, ansi=False)
                assert brute.same(p, got[where][p.name], value, inside), (where, p, value)


@st.composite
def streams(draw, columns=tuple(COLUMNS)):
    """Rows in batches with the windows that each batch closes; the last one closes all."""
    count = draw(st.integers(1, 4))
    stops = draw(st.lists(st.integers(-15, 15), min_size=count - 1, max_size=count - 1))
    data = [draw(rows(list(columns), TIMES, most=14)) for _ in range(count)]
    return list(zip(data, [*stops, END], strict=True))


@pytest.mark.spec("WQ-F13", "WQ-F34", "WQ-F35", "WQ-F42", "WQ-F44", "WQ-F45", "QD-A10")
@pytest.mark.parametrize("plan", ["panes", "wids"])
@MANY
@given(
    st.integers(1, 14),
    st.integers(1, 14),
    st.integers(-9, 9),
    streams(),
    st.permutations(range(13)),
)
def test_results_are_those_of_the_extents(plan, range_, slide, origin, batches, some):
    # Catches: ceiling for floor, truncation of negative times, closing only one window a batch, emitting a
    # window twice, dropping a pane that the next window needs, starts aligned instead of ends.
    chosen = tuple(PRIMITIVES[i] for i in sorted(some[:4]))
    check(spec_of(range_, slide, origin, plan, chosen), batches)


@pytest.mark.spec("OO-F10", "OO-F13", "WQ-F102")
@MANY
@given(st.integers(1, 12), st.integers(1, 12), st.data())
def test_how_rows_are_cut_into_batches_does_not_matter(range_, slide, data):
    values = data.draw(rows(COLUMNS, TIMES, most=20))
    cut = data.draw(st.integers(0, len(values)))
    shuffled = data.draw(st.permutations(values))
    chosen = tuple(p for p in PRIMITIVES if p.name in ("_a0", "_a1", "_a7", "_a10", "_a5"))
    whole = spec_of(range_, slide, 3, "panes", chosen)

    def result(batches):
        outputs, _ = run(whole, batches)
        return sorted(repr(r) for output in outputs for r in output)

    one = result([(values, END)])
    assert one == result([(shuffled[:cut], -END), (shuffled[cut:], END)])


MINI = [
    ("a", 1, 10), ("b", 4, 20), ("a", 6, 30), ("a", 13, 40),
    ("b", 2, 50), ("b", 9, 60), ("a", 12, 70), ("a", 20, 80),
]  # fmt: skip
COUNT_SUM_MAX = (
    brute.primitive("_a0", "count"),
    brute.primitive("_a1", "sum", "i4"),
    brute.primitive("_a2", "max", "i4"),
)


@pytest.mark.spec("WQ-F13", "WQ-F15", "WQ-F42", "QD-A6")
@pytest.mark.parametrize("plan", ["panes", "wids"])
@pytest.mark.parametrize(
    ("range_", "slide", "values"),
    [
        (10, 5, {0: (3, 80, 50), 1: (5, 170, 60), 2: (4, 200, 70), 3: (2, 110, 70),
                 4: (1, 80, 80), 5: (1, 80, 80)}),
        (5, 5, {0: (3, 80, 50), 1: (2, 90, 60), 2: (2, 110, 70), 4: (1, 80, 80)}),
        (9, 6, {0: (3, 80, 50), 1: (3, 110, 60), 2: (3, 170, 70), 3: (1, 80, 80)}),
        (2, 5, {0: (1, 20, 20), 1: (1, 60, 60), 2: (1, 40, 40)}),
    ],
)  # fmt: skip
def test_the_small_example(plan, range_, slide, values):
    spec = spec_of(range_, slide, 0, plan, COUNT_SUM_MAX, keys=())
    data = [{"t": t, "i4": v} for _, t, v in MINI]
    result = aggregate.step(
        spec, partials(spec, data, ()), aggregate.partials_schema(spec).empty_table(), -END, END
    )
    got = {r["_wid"]: (r["_a0"], r["_a1"], r["_a2"]) for r in result.output.to_pylist()}
    assert got == values


@pytest.mark.spec("WQ-F14")
@pytest.mark.parametrize("plan", ["panes", "wids"])
def test_the_first_windows_are_partial(plan):
    # 10 minutes every minute: the first row is in ten windows, nine of which reach back before it.
    spec = spec_of(600, 60, 0, plan, COUNT_SUM_MAX[:1])
    outputs, _ = run(spec, [([{"k": "a", "t": 5}], END)])
    assert [(r["_wid"], r["_a0"]) for r in outputs[0]] == [(w, 1) for w in range(10)]


@pytest.mark.spec("WQ-F33")
def test_state_is_one_partial_per_open_window_and_group():
    spec = spec_of(60, 5, 0, "wids", COUNT_SUM_MAX[:1])
    data = [{"k": k, "t": t} for k in ("a", "b") for t in range(100, 105) for _ in range(50)]
    _, runs = run(spec, [(data, 19)])
    assert runs[0].num_rows == 2 * 12
    paned = spec_of(60, 5, 0, "panes", COUNT_SUM_MAX[:1])
    _, runs = run(paned, [(data, 19)])
    assert runs[0].num_rows == 2


@pytest.mark.spec("WQ-F34")
@pytest.mark.parametrize("plan", ["panes", "wids"])
def test_a_bound_that_skips_slides_closes_all_windows_below_it_and_purges_them(plan):
    spec = spec_of(2, 1, 0, plan, COUNT_SUM_MAX[:1])
    outputs, runs = run(spec, [([{"k": "a", "t": t} for t in range(10)], -END), ([], 6)])
    assert outputs[0] == []
    assert [r["_wid"] for r in outputs[1]] == list(range(7))
    first = aggregate.needed(spec, 6)
    left = [r["_pane"] for r in runs[0].to_pylist() if r["_pane"] >= first]
    assert left == ([6, 7, 8, 9] if plan == "panes" else [7, 8, 9, 10])


@pytest.mark.parametrize("plan", ["panes", "wids"])
def test_stale_state_is_harmless_and_needed_tells_what_is_not(plan):
    spec = spec_of(7, 3, 1, plan, COUNT_SUM_MAX)
    data = [{"k": "a", "t": t, "i4": t} for t in range(-20, 30)]
    all_of_it = partials(spec, data)
    empty = aggregate.partials_schema(spec).empty_table()
    for closed in range(-8, 10):
        keep = np.array(all_of_it.column("_pane")) >= aggregate.needed(spec, closed)
        purged = all_of_it.filter(pa.array(keep))
        a = aggregate.step(spec, empty, all_of_it, closed, closed + 2).output
        b = aggregate.step(spec, empty, purged, closed, closed + 2).output
        assert a.equals(b) and a.num_rows == len(
            [w for _, w in brute.windows(data, 7, 3, 1) if closed < w <= closed + 2]
        )
        # One pane less would be one too few, unless no row needs it.
        later = all_of_it.filter(
            pa.array(np.array(all_of_it.column("_pane")) > aggregate.needed(spec, closed))
        )
        if a.num_rows and keep.sum() > later.num_rows:
            assert not aggregate.step(spec, empty, later, closed, closed + 2).output.equals(a)


@pytest.mark.parametrize("plan", ["panes", "wids"])
def test_late_rows_enter_only_windows_that_are_open(plan):
    spec = spec_of(10, 5, 0, plan, COUNT_SUM_MAX[:1])
    outputs, _ = run(
        spec, [([{"k": "a", "t": 7}], 1), ([{"k": "a", "t": 7}, {"k": "a", "t": 0}], END)]
    )
    assert [(r["_wid"], r["_a0"]) for r in outputs[0]] == [(1, 1)]
    assert [(r["_wid"], r["_a0"]) for r in outputs[1]] == [(2, 2)]


def test_dropped_counts_partials_that_no_open_window_takes():
    spec = spec_of(10, 5, 0, "panes", COUNT_SUM_MAX[:1])
    new = partials(spec, [{"k": "a", "t": t} for t in (0, 4, 5, 12)])
    result = aggregate.step(spec, new, aggregate.partials_schema(spec).empty_table(), 1, 1)
    assert result.dropped_rows == 1 and result.output.num_rows == 0
    assert sorted(result.keep.column("_pane").to_pylist()) == [1, 2]


def test_nothing_to_close_gives_nothing():
    spec = spec_of(10, 5, 0, "panes", COUNT_SUM_MAX[:1])
    empty = aggregate.partials_schema(spec).empty_table()
    result = aggregate.step(spec, empty, empty, -END, END)
    assert result.output.num_rows == 0 and result.keep.num_rows == 0


def float_keys(values: list[float | None]) -> tuple[AggregateSpec, pa.Table]:
    spec = spec_of(5, 5, 0, "panes", COUNT_SUM_MAX[:1], keys=(Field("f8", "double"),))
    tables = partials_of(spec, [[{"f8": v, "t": 1}] for v in values], ['"f8"'])
    return spec, aggregate.merge_partials(spec, tables)


@pytest.mark.spec("WQ-F35")
def test_null_nan_and_zero_keys_group_as_in_sql():
    _, merged = float_keys([0.0, -0.0, math.nan, math.nan, None, None, 1.0])
    assert merged.num_rows == 4
    counts = {repr(r["_k0"]): r["_a0_n"] for r in merged.to_pylist()}
    assert counts == {"None": 2, "0.0": 2, "1.0": 1, "nan": 2}


def test_merging_is_sorted_and_idempotent():
    spec = spec_of(4, 2, 0, "panes")
    data = [{"k": k, "t": t, "i8": t} for t in range(20) for k in ("x", "y", None, "z")]
    merged = aggregate.merge_partials(spec, partials_of(spec, [data[i::3] for i in range(3)]))
    order = [(r["_bucket"], r["_k0"] or "", r["_pane"]) for r in merged.to_pylist()]
    assert order == sorted(order) and len(set(order)) == len(order) == 40
    assert aggregate.merge_partials(spec, [merged]).equals(merged)
    assert aggregate.merge_partials(spec, []).schema == aggregate.partials_schema(spec)


def test_extra_group_columns_stay_apart():
    spec = spec_of(5, 5, 0, "panes", COUNT_SUM_MAX[:1])
    sql = aggregate.partial_select(spec, ['"k"'], '"t"', "input", [("_p", '"i4"')])
    data = brute.table([{"k": "a", "t": 1, "i4": i % 2} for i in range(5)])
    raw = column_engine.sql_to_arrow(column_engine.connect(), sql, {"input": data})
    assert sorted((r["__sw_p"], r["__sw_a0_n"]) for r in raw.to_pylist()) == [(0, 3), (1, 2)]
    assert aggregate.partials(raw, spec).num_rows == 2


def test_times_far_apart_do_not_blow_up():
    # Catches: keys x windows, or panes x keys in one integer.
    spec = spec_of(3, 2, 0, "panes", COUNT_SUM_MAX[:1])
    data = [{"k": k, "t": t} for k in ("a", "b") for t in (-(2**61), 0, 2**61)]
    outputs, _ = run(spec, [(data, END)])
    want = brute_far([-(2**61), 0, 2**61], 3, 2)
    assert sorted((r["_k0"], r["_wid"]) for r in outputs[0]) == [(k, w) for k in "ab" for w in want]


def brute_far(times: list[int], range_: int, slide: int) -> list[int]:
    return sorted(
        w
        for t in times
        for w in range(t // slide - 5, t // slide + 5)
        if (w + 1) * slide - range_ <= t < (w + 1) * slide
    )
