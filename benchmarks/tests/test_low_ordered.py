"""The ordered variant of the low-level table: order, totals, and the burst that the others have not."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.simulations import low_ordered
from slackwater.kernels.windows import low_table
from slackwater.semantics.low_table import LowTable
from tests.kernels.low_table_brute import Ordered
from tests.kernels.test_aggregate import partials, partials_of, spec_of
from tests.kernels.test_low_table import CHOSEN, KEYS, QUICK, as_shown, home_of, shown, single


@QUICK
@given(
    st.integers(1, 7), st.booleans(),
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from(KEYS), st.integers(-9, 9)), max_size=25),
)  # fmt: skip
def test_the_ordered_variant_row_by_row(slots, probe, rows):
    rule = LowTable(slots, probe=probe)
    spec = spec_of(1, 1, 0, "panes", CHOSEN)
    table, oracle = low_ordered.empty(spec), Ordered(rule.size, home_of(rule), probe)
    time = 0
    for step, key, value in rows:
        time += step // 2
        done = low_ordered.ordered_step(
            spec, table, [single(spec, 1, {"k": key, "t": time, "f8": value})], rule
        )
        table = done.state
        assert shown(spec, done.sent) == as_shown(oracle.arrive(time, key, value))


@QUICK
@given(
    st.integers(1, 9), st.booleans(), st.integers(1, 9),
    st.lists(st.tuples(st.integers(0, 5), st.sampled_from(KEYS), st.integers(-9, 9)), max_size=60),
)  # fmt: skip
def test_the_ordered_variant_keeps_order_and_totals_in_any_batches(slots, probe, size, steps):
    rule = LowTable(slots, probe=probe)
    spec = spec_of(1, 1, 0, "panes", CHOSEN)
    rows, time = [], 0
    for step, key, value in steps:
        time += step // 4
        rows.append({"k": key, "t": time, "f8": value})
    table, left = low_ordered.empty(spec), []
    for new in partials_of(spec, [rows[i : i + size] for i in range(0, len(rows), size)]):
        done = low_ordered.ordered_step(spec, table, [new], rule)
        table = done.state
        assert table.entries.num_rows <= rule.size
        left += shown(spec, done.sent)
        # No entry is two windows old: nothing of the window before last is left.
        panes = table.entries["_pane"].to_pylist()
        assert len(set(panes)) <= 2
    assert [pane for pane, *_ in left] == sorted(pane for pane, *_ in left)
    totals: Counter = Counter()
    counts: Counter = Counter()
    for pane, key, n, total in left + shown(spec, table.entries):
        totals[pane, key] += total
        counts[pane, key] += n
    for row in rows:
        totals[row["t"], row["k"]] -= row["f8"]
        counts[row["t"], row["k"]] -= 1
    assert not any(totals.values()) and not any(counts.values())


def test_a_finished_window_leaves_without_a_burst():
    """A window of a thousand groups ends: the ordered variant sends nearly all of it at once, the others do not."""
    spec = spec_of(10, 10, 0, "panes", CHOSEN)
    groups = [f"g{i}" for i in range(1000)]
    full = partials(spec, [{"k": k, "t": 5, "f8": 1} for k in groups])
    more = [{"k": k, "t": 15, "f8": 1} for k in groups]
    next_ones = partials_of(spec, [more[i : i + 10] for i in range(0, 1000, 10)])
    most = {}
    for name, rule in (("lazy", LowTable(2000)), ("slow", LowTable(2000, every=5))):
        done = low_table.step(spec, low_table.empty(spec), [full], rule, 0)
        state, sizes, old = done.state, [], done.sent.num_rows
        for new in next_ones:
            done = low_table.step(spec, state, [new], rule, 1)
            state = done.state
            sizes.append(done.sent.num_rows)
            assert done.flushed <= (2 if rule.every else 0)
            old += int(np.count_nonzero(done.sent["_pane"].to_numpy() == 0))
        most[name] = max(sizes)
        # Nobody looked for finished windows: newcomers found them in their slots.
        assert old == 1000 if name == "lazy" else old >= 900
        assert max(sizes) <= 12
    done = low_ordered.ordered_step(spec, low_ordered.empty(spec), [full], LowTable(2000))
    state, sizes = done.state, []
    for new in next_ones:
        done = low_ordered.ordered_step(spec, state, [new], LowTable(2000))
        state = done.state
        sizes.append(done.sent.num_rows)
    assert max(sizes) > 20 * max(most.values())
