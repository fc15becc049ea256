"""Approximate aggregates: within the stated error, in bounded memory, however the data were cut."""

from __future__ import annotations

import math
import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from slackwater.errors import AnalysisError
from slackwater.kernels.aggregates import partials, sketches
from slackwater.kernels.aggregates.tables import Merged
from slackwater.kernels.buckets import hash_of
from slackwater.kernels.windows import partials_step as aggregate
from slackwater.kernels.windows.partials_step import END, AggregateSpec
from slackwater.model.window import TimeWindow
from tests.examples import examples
from tests.kernels import test_aggregate as flow
from tests.kernels.holistic_brute import call

EASY = examples(25, suppress_health_check=list(HealthCheck))
WINDOW = TimeWindow(12, 3, 0, "t")


def spec_of(p, window=WINDOW) -> AggregateSpec:
    return AggregateSpec((), window, (p,), "panes", False)


def in_batches(p, data: list[dict], batches: int, window=WINDOW) -> tuple[dict, int]:
    """{wid: value} of data that came in several batches, and the largest table that was stored."""
    spec = spec_of(p, window)
    size = -(-len(data) // batches)
    parts = flow.partials_of(spec, [data[i : i + size] for i in range(0, len(data), size)], ())
    state = aggregate.partials_schema(spec).empty_table()
    for part in parts:
        state = aggregate.merge_partials(spec, [state, part])
    column = state.column(partials.state_fields(p)[0].name).combine_chunks()
    largest = max((len(v) for v in column.to_pylist()), default=0)
    empty = aggregate.partials_schema(spec).empty_table()
    output = aggregate.step(spec, state, empty, -END, END).output.to_pylist()
    return {r["_wid"]: r[p.name] for r in output}, largest


def windows(data: list[dict], column: str, window=WINDOW) -> dict[int, list]:
    found: dict[int, list] = {}
    for r in data:
        for w in range(-10, 40):
            end = window.origin + (w + 1) * window.slide
            if end - window.range <= r["t"] < end:
                found.setdefault(w, []).append(r[column])
    return found


@pytest.mark.spec("WQ-F46")
@pytest.mark.parametrize("shape", ["random", "rising", "falling", "zigzag"])
def test_percentile_approx_keeps_its_ranks_and_its_size(monkeypatch, shape):
    # Catches: thinning that drops counts, errors that add up with every merge, tables that grow on.
    monkeypatch.setattr(sketches, "LEVELS", 12)  # smaller tables, so that little data thins them
    accuracy, n = 5, 20_000
    rng = random.Random(1)
    order = {
        "random": [rng.randrange(10**6) for _ in range(n)],
        "rising": list(range(n)),
        "falling": list(range(n, 0, -1)),
        "zigzag": [i if i % 2 else -i for i in range(n)],
    }[shape]
    data = [{"t": i % 20, "i8": v} for i, v in enumerate(order)]
    shares = (0.01, 0.1, 0.25, 0.5, 0.9, 0.99)
    p = call("_a0", "percentile_approx", "i8", params=(shares, True, accuracy))
    found, largest = in_batches(p, data, 9)
    expected = windows(data, "i8")
    assert set(found) == set(expected)
    # A pane holds 1000 values, 20 of them for a row of its own would be exact.
    assert largest <= 12 * accuracy * 6 < 1000
    for w, values in found.items():
        inside = sorted(expected[w])
        for share, value in zip(shares, values):
            wanted = max(math.ceil(share * len(inside)), 1)
            low = np.searchsorted(inside, value, side="left") + 1
            high = np.searchsorted(inside, value, side="right")
            off = max(low - wanted, wanted - high, 0)
            assert off <= len(inside) / accuracy + 1, (w, share, off, len(inside))


def test_thinning_keeps_totals_and_order():
    rng = np.random.default_rng(3)
    counts = rng.integers(1, 9, 500)
    merged = Merged(np.arange(500), counts, np.array([0, 100, 100, 500]))
    thin = sketches.thin_ranks(merged, 20)
    sizes = np.diff(thin.offsets)
    assert sizes[1] == 0 and (sizes < [100, 1, 400]).all()
    for a, b, c, d in zip(merged.offsets, merged.offsets[1:], thin.offsets, thin.offsets[1:]):
        assert counts[a:b].sum() == thin.counts[c:d].sum()
        assert (np.diff(thin.entries[c:d]) > 0).all()
        for h in range(12):
            assert ((thin.counts[c:d] >> h) & 1).sum() <= 20
    small = Merged(np.arange(20), counts[:20], np.array([0, 20]))
    assert sketches.thin_ranks(small, 20) is small


@pytest.mark.spec("WQ-F46")
@EASY
@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 12)), min_size=1, max_size=80),
       st.integers(1, 5), st.booleans())  # fmt: skip
def test_sketched_heavy_hitters_miss_none_and_invent_none(pairs, batches, slide):
    share, error = 0.4, 0.2
    p = call("_a0", "heavy_hitters", "i4", params=(share, error))
    data = [{"t": t, "i4": v} for t, v in pairs]
    window = WINDOW if slide else TimeWindow(21, 21, 0, "t")
    found, largest = in_batches(p, data, batches, window)
    assert largest <= 5
    for w, values in windows(data, "i4", window).items():
        got = {h["value"]: h["count"] for h in found[w]}
        assert {v for v in values if values.count(v) >= share * len(values)} <= set(got)
        for v, n in got.items():
            true = values.count(v)
            assert true - error * len(values) <= n <= true
            assert true >= (share - error) * len(values) - 1e-9


@pytest.mark.parametrize("many", [0, 1, 5, 40, 300, 2_000, 50_000])
@pytest.mark.parametrize("deviation", [0.05, 0.01])
def test_approx_count_distinct_is_near(many, deviation):
    # Spread over many seeds: the mean error shows a bias, the largest one a broken register.
    kind = partials.kind_of(call("_a0", "approx_count_distinct", "i8", params=(deviation,)))
    off = []
    for seed in range(20):
        values = pa.array(np.arange(many) + seed * 10**7, pa.int64())
        table = pa.table({"_a0_r": pa.array([values.to_pylist()], pa.list_(pa.int64()))})
        state = pa.table(kind.read(table), schema=pa.schema(kind.fields))
        arrays, memory = kind.load(state)
        off.append(kind.finish(arrays, memory, True)[0].as_py() - many)
    if many <= 1:
        assert off == [0] * 20
        return
    relative = np.array(off) / many
    assert abs(relative.mean()) <= 1.2 * deviation
    assert np.sqrt((relative**2).mean()) <= 1.6 * deviation


@EASY
@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 30)), min_size=1, max_size=60),
       st.integers(1, 4), st.integers(1, 15), st.integers(1, 6))  # fmt: skip
def test_registers_of_windows_are_those_of_their_values(pairs, batches, range_, slide):
    # Catches: registers added instead of the greatest, ranges cut wrongly. The estimate of a window
    # depends on its set of values alone, so it equals that of a table of all of them.
    p = call("_a0", "approx_count_distinct", "s", params=(0.1,))
    data = [{"t": t, "s": f"v{v}"} for t, v in pairs]
    window = TimeWindow(range_, slide, 0, "t")
    found, _ = in_batches(p, data, batches, window)
    kind = partials.kind_of(p)
    for w, values in windows(data, "s", window).items():
        if w not in found:
            continue
        table = pa.table({"_a0_r": pa.array([sorted(set(values))], pa.list_(pa.string()))})
        state = pa.table(kind.read(table), schema=pa.schema(kind.fields))
        arrays, memory = kind.load(state)
        assert found[w] == kind.finish(arrays, memory, True)[0].as_py()
        assert abs(found[w] - len(set(values))) <= 3 + 0.5 * len(set(values))


def test_registers_are_indexed_and_ranked_by_the_hash():
    bits = 4
    hashes = np.array([0x1FFF << 48, 0x2000 << 48, (0x3 << 60) | 1, 0xF8 << 56], dtype=np.uint64)
    packed = sketches.registers(hashes, bits)
    assert (packed >> 6).tolist() == [1, 2, 3, 15]
    assert (packed & 63).tolist() == [1, 61, 60, 1]
    spread = sketches.registers(hash_of([pa.array(range(4096))]), bits) >> 6
    assert np.bincount(spread, minlength=16).min() > 200


def test_a_deviation_that_no_sketch_has_is_refused():
    assert sketches.bits_for(0.05) == 9  # as Spark's
    for deviation in (0.5, 0.001):
        with pytest.raises(AnalysisError, match="relative standard deviation"):
            sketches.bits_for(deviation)


def test_both_ways_to_unite_registers_agree(monkeypatch):
    monkeypatch.setattr(sketches, "_SPARE", 64)  # several parts of the registers
    p = call("_a0", "approx_count_distinct", "i8", params=(0.2,))
    rng = random.Random(2)
    data = [{"t": rng.randrange(30), "i8": rng.randrange(100)} for _ in range(300)]
    wide, _ = in_batches(p, data, 2, TimeWindow(10, 1, 0, "t"))
    for w, value in wide.items():
        one, _ = in_batches(
            p, [r for r in data if w - 9 <= r["t"] <= w], 1, TimeWindow(10, 10, w + 1, "t")
        )
        assert value in one.values()


def test_a_counter_that_was_lowered_is_still_found():
    # Seven values for five counters: each one gives up 1, and the heavy one has 3 of its 4 left.
    p = call("_a0", "heavy_hitters", "i4", params=(0.4, 0.2))
    data = [{"t": 0, "i4": v} for v in (0, 0, 0, 0, 1, 2, 3, 4, 5, 6)]
    found, largest = in_batches(p, data, 1, TimeWindow(21, 21, 0, "t"))
    assert largest == 1 and found == {0: [{"value": 0, "count": 3}]}
