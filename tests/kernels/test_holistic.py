"""Aggregates from value→count tables: by panes and window ids, overlapping or not, against the definitions."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from slackwater.errors import AnalysisError, ExecutionError
from slackwater.kernels.aggregates import overlapping, partials, tables
from slackwater.kernels.aggregates.tables import Tables
from slackwater.kernels.types import arrow_type
from slackwater.kernels.windows.partials_step import END, AggregateSpec
from slackwater.model.window import TimeWindow
from tests.examples import examples
from tests.kernels import test_aggregate as flow
from tests.kernels.holistic_brute import aggregate, call, counted, same
from tests.kernels.strategies import rows

HALF, SEVERAL = (0.5,), (0.0, 0.3, 0.95, 1.0)
CALLS = [
    ("count_distinct", ("f8",), ()), ("count_distinct", ("s", "i4"), ()),
    ("sum_distinct", ("i4",), ()), ("avg_distinct", ("d18",), ()), ("sum_distinct", ("f8",), ()),
    ("percentile", ("f8",), (HALF, False, False)), ("percentile", ("i8",), (HALF, False, False)), ("percentile", ("d18",), (SEVERAL, True, False)),
    ("percentile", ("i4",), (SEVERAL, True, True)), ("percentile", ("i4", "b"), (HALF, False, False)),
    ("percentile_disc", ("i4",), (SEVERAL, True, False)),
    ("percentile_disc", ("f8",), ((0.25,), False, True)),
    ("percentile_approx", ("s",), (HALF, False, 100)),
    ("percentile_approx", ("d18",), (SEVERAL, True, 1000)),
    ("mode", ("s",), ()), ("mode", ("f8",), (True,)), ("mode", ("i4",), (False,)),
    ("heavy_hitters", ("s",), (0.3, None)), ("heavy_hitters", ("i4",), (0.5, None)),
    ("collect_list", ("s", "t"), ()), ("collect_list", ("f8", "t"), ()),
    ("collect_set", ("f8",), ()), ("collect_set", ("d18",), ()),
    ("covar_pop", ("i1", "i2"), ()), ("covar_samp", ("i2", "f4"), ()), ("corr", ("i1", "i2"), ()),
]  # fmt: skip
COLUMNS = ["f8", "f4", "i8", "i4", "i2", "i1", "s", "d18", "b"]
PRIMITIVES = [call(f"_a{i}", f, *args, params=params) for i, (f, args, params) in enumerate(CALLS)]
MANY = examples(25, suppress_health_check=list(HealthCheck))
FEW = examples(25, suppress_health_check=list(HealthCheck))


@pytest.fixture(params=["alone", "together"])
def way(request, monkeypatch):
    """How results are computed: each range by itself, or all that overlap at once."""
    monkeypatch.setattr(overlapping, "WORTH", math.inf if request.param == "alone" else -1.0)
    if request.param == "alone":
        monkeypatch.setattr(tables, "CHUNK", 5)
    return request.param


def scale_of(p, inside: list[dict]) -> float:
    """How far rounding may move a value that is computed from large ones."""
    if p.function.startswith("cov") or p.function == "sum_distinct":
        sizes = [
            math.prod(abs(float(r.get(a.sql.strip("`")) or 0)) + 1 for a in p.args) for r in inside
        ]
        return 1e-12 * sum(s for s in sizes if math.isfinite(s))
    return 1e-7 if p.function == "corr" else 0.0


@pytest.mark.spec("WQ-F40", "WQ-F44", "WQ-F46", "QD-A11")
@pytest.mark.parametrize("plan", ["panes", "wids"])
@MANY
@given(
    st.integers(1, 14),
    st.integers(1, 14),
    st.integers(-9, 9),
    flow.streams(tuple(COLUMNS)),
    st.permutations(range(len(CALLS))),
)
def test_results_are_those_of_the_extents(way, plan, range_, slide, origin, batches, some):
    # Catches: a value counted once per pane, a pane's table lost or taken twice, ties and orders that
    # depend on arrival, ranks off by one, NaN or a zero counted as two values.
    chosen = tuple(PRIMITIVES[i] for i in sorted(some[:6]))
    spec = AggregateSpec(flow.KEY, TimeWindow(range_, slide, origin, "t"), chosen, plan, False)
    outputs, _ = flow.run(spec, batches)
    for output, windows in zip(outputs, flow.expected(spec, batches), strict=True):
        got = {(r["_k0"], r["_wid"]): r for r in output}
        assert set(got) == set(windows)
        for where, inside in windows.items():
            for p in chosen:
                want = aggregate(p, inside)
                assert same(got[where][p.name], want, scale_of(p, inside)), (where, p.call, want)


@pytest.mark.spec("OO-F10")
@FEW
@given(st.integers(1, 12), st.integers(1, 12), st.data())
def test_how_rows_are_cut_into_batches_does_not_matter(range_, slide, data):
    values = data.draw(rows(COLUMNS, flow.TIMES, most=20))
    cut = data.draw(st.integers(0, len(values)))
    shuffled = data.draw(st.permutations(values))
    exact = tuple(p for p in PRIMITIVES if p.function not in ("corr", "sum_distinct")
                  and not p.function.startswith("cov"))  # fmt: skip
    spec = AggregateSpec(flow.KEY, TimeWindow(range_, slide, 3, "t"), exact, "panes", False)

    def result(batches):
        outputs, _ = flow.run(spec, batches)
        return sorted(repr(r) for output in outputs for r in output)

    one = result([(values, END)])
    assert one == result([(shuffled[:cut], -END), (shuffled[cut:], END)])


SHORT = examples(75)
PIECES = st.lists(st.lists(st.integers(0, 5), max_size=5), min_size=1, max_size=8)


def tables_of(pieces: list[list[int]]) -> Tables:
    raw = Tables.of_values(pa.array(pieces, pa.list_(pa.int64())), pa.int64())
    each = np.arange(len(pieces))
    return Tables.load(raw.column(raw.merge(each, each + 1)))


@st.composite
def risen(draw):
    """Tables, and ranges of their rows whose ends both rise."""
    pieces = draw(PIECES)
    ends = st.integers(0, len(pieces))
    count = draw(st.integers(0, 8))
    lo = sorted(draw(st.lists(ends, min_size=count, max_size=count)))
    hi = sorted(draw(st.lists(ends, min_size=count, max_size=count)))
    hi = [max(a, b) for a, b in zip(lo, hi)]
    return pieces, np.array(lo, dtype=np.int64), np.array(hi, dtype=np.int64)


def inside(pieces: list[list[int]], a: int, b: int) -> list[int]:
    return [v for piece in pieces[a:b] for v in piece]


@pytest.mark.spec("WQ-F45", "WQ-F46")
@SHORT
@given(risen(), st.integers(1, 4))
def test_overlapping_ranges_give_what_each_range_gives(case, need):
    # Catches: a value that leaves with its first pane though a later one has it, steps of another value,
    # an interval one result too long.
    pieces, lo, hi = case
    made = tables_of(pieces)
    values = made.values.to_pylist()
    sets = [set(inside(pieces, a, b)) for a, b in zip(lo, hi)]
    assert overlapping.distinct(made, lo, hi).tolist() == [len(s) for s in sets]
    result, entries, counts = overlapping.frequent(
        made, lo, hi, np.full(len(lo), need, dtype=np.int64)
    )
    got = sorted((r, values[e], n) for r, e, n in zip(result, entries, counts))
    assert got == sorted(
        (r, v, n)
        for r, (a, b) in enumerate(zip(lo, hi))
        for v, n in counted(inside(pieces, a, b))
        if n >= need
    )


@SHORT
@given(risen(), st.integers(-1, 9), st.randoms())
def test_ranks_are_found_in_any_ranges(case, rank, random):
    pieces, lo, hi = case
    made = tables_of(pieces)
    order = list(range(len(lo)))
    random.shuffle(order)
    lo, hi = lo[order], hi[order]
    found = overlapping.ranked(made, lo, hi, np.full(len(lo), rank, dtype=np.int64))
    for a, b, e in zip(lo, hi, found):
        values = sorted(inside(pieces, a, b))
        assert (e >= 0) == (0 <= rank < len(values))
        if e >= 0:
            assert made.values[int(e)].as_py() == values[rank]


@SHORT
@given(risen())
def test_a_merged_column_holds_each_value_once_in_order(case):
    pieces, lo, hi = case
    made = tables_of(pieces)
    column = made.column(made.merge(lo, hi))
    assert [[(e["v"], e["n"]) for e in t] for t in column.to_pylist()] == [
        counted(inside(pieces, a, b)) for a, b in zip(lo, hi)
    ]


@pytest.mark.spec("WQ-F41")
def test_the_taxonomy_tells_bounded_holistic_and_differential():
    def of(f, *args, **more):
        return call("_a0", f, *args, **more).traits

    for f, params in (("count_distinct", ()), ("mode", ()), ("percentile", (HALF, False, False))):
        traits = of(f, "i8", params=params)
        assert not traits.bounded and traits.differential
    assert of("heavy_hitters", "s", params=(0.05, None)).differential
    sketch = call("_a0", "heavy_hitters", "s", params=(0.05, 0.01))
    assert sketch.traits.bounded and "too low" in str(sketch.traits)
    assert of("approx_count_distinct", "s", params=(0.05,)).bounded
    assert of("percentile_approx", "i8", params=(HALF, False, 100)).bounded
    assert str(of("covar_pop", "f8", "f4")) == "bounded, full-differential, exact"
    assert str(call("_a0", "mode", "s").traits) == "holistic, pseudo-differential, exact"


@pytest.mark.parametrize("p", PRIMITIVES, ids=lambda p: p.call)
def test_no_rows_have_a_value_too(p):
    got = partials.of_no_rows(p, 2)
    assert got.type == arrow_type(p.type)
    assert got.to_pylist() == [aggregate(p, [])] * 2
    empty = pa.schema(partials.state_fields(p)).empty_table()
    assert partials.finish(p, empty, True).type == arrow_type(p.type)


def test_negative_frequencies_and_bad_types_are_refused():
    p = call("_a0", "percentile", "i4", "i1", params=(HALF, False, False))
    spec = AggregateSpec((), TimeWindow(5, 5, 0, "t"), (p,), "panes", False)
    with pytest.raises(ExecutionError, match="NEGATIVE_FREQUENCY"):
        flow.partials(spec, [{"t": 1, "i4": 3, "i1": -1}], ())
    with pytest.raises(AnalysisError, match="not a number"):
        partials.kind_of(call("_a0", "percentile", "s", params=(HALF, False, False)))


def test_a_share_is_the_number_that_was_written():
    # 0.07 * 100 is a little above 7 in doubles.
    p = call("_a0", "heavy_hitters", "i4", params=(0.07, None))
    data = [{"t": 1, "i4": 0 if i < 7 else 1} for i in range(100)]
    spec = AggregateSpec((), TimeWindow(5, 5, 0, "t"), (p,), "panes", False)
    outputs, _ = run_one(spec, data)
    assert outputs == [[{"value": 1, "count": 93}, {"value": 0, "count": 7}]]


def run_one(spec: AggregateSpec, data: list[dict]) -> tuple[list, pa.Table]:
    from slackwater.kernels.windows import partials_step as kernel

    made = flow.partials(spec, data, ())
    empty = kernel.partials_schema(spec).empty_table()
    return kernel.step(spec, made, empty, -END, END).output["_a0"].to_pylist(), made
