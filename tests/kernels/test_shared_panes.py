"""Aggregates that share a store of panes give what each gives by itself, whatever their bounds."""

from __future__ import annotations

from math import gcd

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from slackwater.kernels.windows import partials_step as aggregate
from slackwater.kernels.windows import shared_panes
from slackwater.kernels.windows.partials_step import END, AggregateSpec
from slackwater.model.window import TimeWindow
from slackwater.semantics.cost import Constants
from slackwater.semantics.pane_sharing import (
    StorePanes,
    costs,
    grouped,
    pane_counts,
    worthwhile,
)
from slackwater.semantics.window_ids import closed_by
from tests.examples import examples
from tests.kernels import brute
from tests.kernels.strategies import rows
from tests.kernels.test_aggregate import PRIMITIVES, TIMES, partials_of, spec_of

COLUMNS = ["i4", "i8", "f8", "s", "d18", "w38", "b"]
WINDOWS = st.builds(
    lambda r, s, o: TimeWindow(r, s, o, "t"),
    st.integers(1, 14), st.integers(1, 14), st.integers(-9, 9),
)  # fmt: skip


@st.composite
def queries(draw):
    """Two or three aggregates: windows, some primitives (under names of their own), and a slack each."""
    found = []
    for _ in range(draw(st.integers(2, 3))):
        w = draw(WINDOWS)
        some = draw(st.lists(st.sampled_from(range(13)), min_size=1, max_size=3, unique=True))
        chosen = tuple(
            brute.primitive(f"_a{i}", PRIMITIVES[n].function, *brute_args(n))
            for i, n in enumerate(some)
        )
        found.append(
            (spec_of(w.range, w.slide, w.origin, "panes", chosen), draw(st.integers(0, 12)))
        )
    return found


def brute_args(n: int) -> tuple[str, ...]:
    return tuple(a.sql.strip("`") for a in PRIMITIVES[n].args)


def bounds_of(batches: list[list[dict]], slack: int) -> list[int]:
    """The bound after each batch: so much behind the newest time; the stream ends with the last."""
    newest, found = -1000, []
    for data in batches[:-1]:
        newest = max([newest, *(r["t"] for r in data if r["t"] is not None)])
        found.append(newest - slack)
    return [*found, 1 << 62]


def unshared(spec: AggregateSpec, batches: list[list[dict]], bounds: list[int]) -> list:
    closed, kept, found = -END, [], []
    empty = aggregate.partials_schema(spec).empty_table()
    for new, bound in zip(partials_of(spec, batches), bounds, strict=True):
        close_to = closed_by(bound, spec.sliding)
        state = pa.concat_tables([empty, *kept])
        done = aggregate.step(spec, new, state, closed, close_to)
        kept.append(done.keep)
        found.append(done)
        closed = max(closed, close_to)
    return found


@examples(25, suppress_health_check=list(HealthCheck))
@given(queries(), st.lists(rows(COLUMNS, TIMES, most=10), min_size=1, max_size=4))
def test_sharing_does_not_show_in_results(chosen, batches) -> None:
    compare(chosen, batches)


@pytest.mark.spec("QD-F5")
def test_three_aggregates_over_dense_rows_each_with_its_slack() -> None:
    calls = (brute.primitive("_a0", "sum", "i8"), brute.primitive("_a1", "count"))
    chosen = [
        (spec_of(12, 4, 0, "panes", calls), 0),
        (spec_of(9, 6, 3, "panes", calls[1:]), 11),
        (spec_of(5, 10, 1, "panes", calls[:1]), 2),
    ]
    values = [{"k": "a" if t % 3 else "b", "t": t, "i8": t * t} for t in range(80)]
    # Every fifth row comes a batch late.
    late = [r for r in values if r["t"] % 5 == 0]
    cuts = range(0, 80, 7)
    batches = [[r for r in values if r["t"] % 5 and c <= r["t"] < c + 7] for c in cuts]
    for i, c in enumerate(cuts):
        batches[min(i + 1, len(batches) - 1)] += [r for r in late if c <= r["t"] < c + 7]
    found = compare(chosen, batches)
    # Less slack, sooner results, fewer rows in them.
    assert found[0][0].num_rows > 0 == found[1][0].num_rows


def compare(chosen, batches) -> list[list[pa.Table]]:
    """Check shared against unshared step by step; the outputs of each aggregate."""
    specs = [s for s, _ in chosen]
    store = shared_panes.store_of(specs)
    every = [bounds_of(batches, slack) for _, slack in chosen]
    expected = [unshared(s, batches, b) for s, b in zip(specs, every, strict=True)]
    schema = aggregate.partials_schema(store.spec)
    held = schema.empty_table()
    closed = [-END] * len(specs)
    outputs: list[list[pa.Table]] = [[] for _ in specs]

    def state(low: int, high: int) -> pa.Table:
        # What a bound of some aggregate freed is gone, and what is not asked for is not given.
        pane = held["_pane"]
        return held.filter(pc.and_(pc.greater_equal(pane, low), pc.less_equal(pane, high)))

    for i, new in enumerate(partials_of(store.spec, batches)):
        close_to = [closed_by(b[i], s.sliding) for b, s in zip(every, specs, strict=True)]
        done = shared_panes.step(store, new, state, closed, close_to)
        closed = [max(a, b) for a, b in zip(closed, close_to, strict=True)]
        first = shared_panes.needed(store, closed)
        held = pa.concat_tables([held.filter(pc.greater_equal(held["_pane"], first)), done.keep])
        for at, (spec, want) in enumerate(zip(specs, expected, strict=True)):
            assert_same(spec, done.outputs[at], want[i].output)
            outputs[at].append(done.outputs[at])
        assert done.late == sum(want[i].dropped_rows for want in expected)
    assert held.num_rows == 0
    return outputs


def assert_same(spec: AggregateSpec, got: pa.Table, want: pa.Table) -> None:
    def keyed(table: pa.Table) -> dict:
        return {(r["_k0"], r["_wid"]): r for r in table.to_pylist()}

    a, b = keyed(got), keyed(want)
    assert len(a) == got.num_rows and a.keys() == b.keys()
    for where, row in a.items():
        for p in spec.primitives:
            x, y = row[p.name], b[where][p.name]
            if isinstance(x, float) and isinstance(y, float) and np.isfinite([x, y]).all():
                assert x == pytest.approx(y, rel=1e-9, abs=1e-6), (where, p)
            else:
                assert repr(x) == repr(y), (where, p)


def test_equal_calls_are_stored_once() -> None:
    one = spec_of(10, 5, 0, "panes", (brute.primitive("_a0", "sum", "i8"),))
    two = spec_of(
        20, 5, 0, "panes",
        (brute.primitive("_a0", "count"), brute.primitive("_a1", "sum", "i8")),
    )  # fmt: skip
    store = shared_panes.store_of([one, two])
    assert [p.function for p in store.spec.primitives] == ["sum", "count"]
    # A store that exists keeps its panes and names, whoever reads it.
    names = {shared_panes.signature(p): p.name for p in store.spec.primitives}
    again = shared_panes.store_of([two], store.panes, names)
    assert again.panes == store.panes
    mine = [shared_panes.signature(p) for p in two.primitives]
    assert {p.name for p in again.spec.primitives} == {names[m] for m in mine}


@given(st.lists(WINDOWS, min_size=1, max_size=4))
def test_a_pane_divides_ranges_slides_and_distances_of_origins(windows) -> None:
    panes = StorePanes.of(windows)
    for w in windows:
        assert panes.holds(w)
        assert (w.origin - panes.origin) % panes.width == 0
    parts = [n for w in windows for n in (w.range, w.slide, w.origin - windows[0].origin)]
    assert panes.width == gcd(*parts)


def test_origins_count() -> None:
    a, b = TimeWindow(60, 60, 0, "t"), TimeWindow(60, 60, 7, "t")
    assert StorePanes.of([a, b]) == StorePanes(1, 0)
    assert not StorePanes(60, 0).holds(b)


def test_windows_that_fit_badly_stay_apart() -> None:
    """Minutes and windows of 59999 ms fit in panes of a millisecond only."""
    minute, odd = TimeWindow(60_000, 60_000, 0, "t"), TimeWindow(59_999, 59_999, 0, "t")
    assert not worthwhile([minute, odd])
    assert pane_counts([minute, odd]) == (60_000, 2)
    assert grouped([minute, odd, minute, odd]) == [[0, 2], [1, 3]]
    assert grouped([minute, TimeWindow(10_000, 5_000, 0, "t")]) == [[0, 1]]


def test_what_sharing_costs() -> None:
    """By hand: two rows a group and pane of 10; panes of 5 when shared."""
    k = Constants(row=1, pane_out=0.5, pane_in=0.25)
    windows = [TimeWindow(20, 10, 0, "t"), TimeWindow(20, 10, 5, "t")]
    shared, apart = costs(windows, density=2, constants=k)
    # A tick has one row and 5 groups: half a partial per row in a pane of 10, one in a pane of 5.
    assert apart == 2 * (1 + 0.5 * 0.5)
    assert shared == 1 + 1.0 * (0.5 + 2 * 0.25)
