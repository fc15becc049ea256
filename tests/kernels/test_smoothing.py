"""The end of a window, spread over batches: all results, each once, none later than allowed, no promise broken."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from slackwater.engine.operators.smoothing import Ledger, regroup
from slackwater.kernels.buckets import BUCKETS, bucket_range
from slackwater.kernels.windows import partials_step as aggregate
from slackwater.kernels.windows import smoothing
from slackwater.kernels.windows.partials_step import END
from slackwater.model.window import TimeWindow
from slackwater.semantics.limits import START
from slackwater.semantics.smoothing import Smoothing, cells_out, forced_to, held_bound
from slackwater.semantics.window_ids import last_complete
from tests.examples import examples
from tests.kernels import brute
from tests.kernels.test_aggregate import PRIMITIVES, partials, partials_of, spec_of

ALL = (0, BUCKETS)
CHOSEN = (PRIMITIVES[0], PRIMITIVES[1], PRIMITIVES[5])


@st.composite
def on_time(draw):
    """Batches of (rows, bound), no row older than the bound before its batch."""
    bound, made = -20, []
    for _ in range(draw(st.integers(1, 6))):
        more = st.tuples(st.sampled_from("abcdefgh"), st.integers(0, 25), st.integers(-9, 9))
        rows = [
            {"k": k, "t": bound + t, "i8": v, "s": str(v)}
            for k, t, v in draw(st.lists(more, max_size=12))
        ]
        bound += draw(st.integers(0, 15))
        made.append((rows, bound))
    return made


@pytest.mark.spec("OO-F15", "OO-F16")
@pytest.mark.parametrize("plan", ["panes", "wids"])
@examples(25, suppress_health_check=list(HealthCheck))
@given(
    st.integers(1, 12), st.integers(1, 12), on_time(), st.integers(1, 8), st.integers(1, 3),
    st.integers(1, 4),
)  # fmt: skip
def test_spread_results_are_all_results(plan, range_, slide, batches, most, windows, groups):
    spec = spec_of(range_, slide, 0, plan, CHOSEN)
    w, rule = spec.sliding, Smoothing(most, windows)
    empty = aggregate.partials_schema(spec).empty_table()
    closed = {g: np.full(np.diff(bucket_range(g, groups))[0], START) for g in range(groups)}
    state, out, promised = empty, {}, START
    data = [*batches, *[([], batches[-1][1])] * 2, ([], END)]
    fresh = partials_of(spec, [rows for rows, _ in data])
    for new, (_, bound) in zip(fresh, data, strict=True):
        close_to = END if bound >= END else last_complete(bound, w)
        pool, kept = state, [state]
        for g in range(groups):
            low, high = bucket_range(g, groups)
            mine = [_of(t, low, high) for t in (new, pool)]
            before = closed[g]
            done = smoothing.step(
                spec, *mine, (low, high), before, close_to, rule if bound < END else None
            )
            closed[g] = done.closed
            kept.append(done.keep)
            assert (done.closed >= before).all()
            assert done.dropped_rows == 0
            # At most `windows` windows late.
            assert (done.closed >= forced_to(close_to, rule)).all()
            for row in done.output.to_pylist():
                where = row["_k0"], row["_wid"]
                assert where not in out, "a result came twice"
                out[where] = row
                # The hold: after this bound had been promised, no result of a window that it closes.
                assert promised <= START or row["_wid"] > last_complete(promised, w)
        state = aggregate.merge_partials(spec, kept)
        least = min(int(c.min()) for c in closed.values())
        promised = max(promised, held_bound(least, bound, w))
        assert promised <= bound
    everything = brute.windows([r for rows, _ in batches for r in rows], range_, slide, 0)
    assert set(out) == set(everything)
    for where, inside in everything.items():
        for p in spec.primitives:
            value = brute.aggregate(p, inside, ansi=False)
            assert brute.same(p, out[where][p.name], value, inside)


def _of(table, low, high):
    bucket = table["_bucket"].to_numpy()
    return table.filter((bucket >= low) & (bucket < high))


@pytest.mark.spec("OO-F15")
def test_no_batch_puts_together_more_than_it_may():
    spec = spec_of(10, 10, 0, "panes", CHOSEN)
    rule = Smoothing(200, 3)
    rows = [{"k": f"k{i}", "t": i % 10, "i8": i, "s": "x"} for i in range(1000)]
    state = aggregate.merge_partials(spec, [partials(spec, rows)])
    empty = state.slice(0, 0)
    closed, sizes = np.full(BUCKETS, START), []
    for _ in range(9):
        done = smoothing.step(spec, empty, state, ALL, closed, 0, rule)
        closed = done.closed
        sizes.append(done.output.num_rows)
        assert done.held == 1000 - sum(sizes)
        assert held_bound(int(closed.min()), 10, spec.sliding) == (0 if done.held else 10)
    assert sum(sizes) == 1000 and max(sizes) <= 200 and min(sizes[:5]) > 100
    assert sizes[-2:] == [0, 0]
    # Three windows later there is no choice.
    late = smoothing.step(spec, empty, state, ALL, np.full(BUCKETS, START), 3, rule)
    assert late.output.num_rows == 1000


def test_cells():
    costs = np.array([[5, 5, 5], [5, 5, 5]])
    pending = np.array([[False, True, True], [True, True, True]])
    assert cells_out(costs, pending, 10, 0) == 3
    assert cells_out(costs, pending, 1, 0) == 2  # one, though it is too much
    assert cells_out(costs, pending, 1, 1) == 3
    assert cells_out(costs, pending, 99, 0) == 6


@pytest.mark.spec("OO-F16")
@examples(100)
@given(
    st.integers(-50, 50),
    st.integers(-20, 20),
    st.integers(1, 9),
    st.integers(1, 9),
    st.integers(-5, 5),
)
def test_a_held_bound_closes_just_what_is_out(bound, behind, range_, slide, origin):
    w = TimeWindow(range_, slide, origin, "t")
    closed = last_complete(bound, w) - max(0, behind)
    held = held_bound(closed, bound, w)
    assert held <= bound and last_complete(held, w) == closed


def test_ledgers_for_another_number_of_groups():
    pieces = ((0, 40, 7), (40, 128, 6), (128, 256, 5))
    whole = [Ledger(pieces[:2], 3, True), Ledger(pieces[2:], 0, True)]
    assert regroup(whole, 1) == [Ledger(pieces, 1, True)]
    three = regroup(whole, 3)
    assert three[0].closed[0] == (0, 40, 7)
    for g, ledger in enumerate(three):
        low, high = bucket_range(g, 3)
        assert ledger.closed[0][0] == low and ledger.closed[-1][1] == high
