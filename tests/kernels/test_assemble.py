"""Windows from panes: exactness of both methods, and their cost."""

from __future__ import annotations

import math
import time

import numpy as np
import pyarrow as pa
import pytest

from slackwater.kernels.aggregates import partials
from slackwater.kernels.windows import assemble
from slackwater.model.window import TimeWindow
from slackwater.semantics.limits import END
from slackwater.semantics.panes import Panes
from tests.kernels import brute


def entries(rng: np.random.Generator, keys: int, panes: int, share: float):
    """Sorted (key, pane) entries, each present with probability ``share``."""
    here = np.argwhere(rng.random((keys, panes)) < share)
    return here[:, 0].astype(np.int64), here[:, 1].astype(np.int64) - panes // 2


def slow(key, pane, panes: Panes, closed: int, close_to: int) -> dict[tuple[int, int], list[int]]:
    """(key, window) -> entries, window by window."""
    out: dict[tuple[int, int], list[int]] = {}
    for i, (k, p) in enumerate(zip(key.tolist(), pane.tolist(), strict=True)):
        for w in range((p // panes.per_slide) - 1, (p + panes.per_window) // panes.per_slide + 1):
            inside = (w + 1) * panes.per_slide - panes.per_window <= p < (w + 1) * panes.per_slide
            if inside and closed < w <= close_to:
                out.setdefault((k, w), []).append(i)
    return out


@pytest.mark.spec("WQ-F42", "WQ-F45", "QD-A11")
def test_thousands_of_random_frames():
    # Catches: a block boundary off by one, a head taken for a tail, keys that run into each other.
    rng = np.random.default_rng(7)
    total = brute.primitive("_a0", "sum", "i4")
    most = brute.primitive("_a1", "max", "i4")
    floats = brute.primitive("_a2", "sum", "f8")
    for _ in range(3000):
        panes = Panes(1, int(rng.integers(1, 9)), int(rng.integers(1, 9)))
        key, pane = entries(rng, 3, int(rng.integers(1, 30)), rng.choice([0.2, 0.9]))
        closed = int(rng.choice([-END, *rng.integers(-9, 9, 2)]))
        close_to = int(rng.choice([END, closed + int(rng.integers(0, 9))]))
        frame = assemble.frame(key, pane, panes, closed, close_to)
        values = rng.integers(-100, 100, len(key))
        want = slow(key, pane, panes, closed, close_to)
        got = [(int(key[frame.kept[a]]), int(w)) for a, w in zip(frame.a, frame.wid, strict=True)]
        assert got == sorted(want), "not the windows that have rows, each once, in order"
        inside = [values[want[g]] for g in got]
        ones = np.ones(len(key), dtype=np.int64)
        n, sums = frame.fold(partials.kind_of(total), [ones, values])
        assert n.tolist() == [len(x) for x in inside]
        assert sums.tolist() == [int(x.sum()) for x in inside]
        _, top = frame.fold(partials.kind_of(most), [ones, values])
        assert top.tolist() == [int(x.max()) for x in inside]
        _, added = frame.fold(partials.kind_of(floats), [ones, values.astype(float)])
        assert added.tolist() == [float(x.sum()) for x in inside]


@pytest.mark.parametrize("limit", [4096, 0])
def test_both_ways_of_scanning_agree(monkeypatch, limit):
    monkeypatch.setattr(assemble, "_LOOP", limit)
    rng = np.random.default_rng(3)
    kind = partials.kind_of(brute.primitive("_a0", "var_pop", "f8"))
    panes = Panes(1, 7, 2)
    key, pane = entries(rng, 4, 60, 0.7)
    values = rng.normal(size=len(key))
    frame = assemble.frame(key, pane, panes, -END, END)
    arrays = [np.ones(len(key)), values, np.zeros(len(key))]
    n, mean, m2 = frame.fold(kind, arrays)
    want = slow(key, pane, panes, -END, END)
    for i, inside in enumerate(want[g] for g in sorted(want)):
        assert n[i] == len(inside)
        assert mean[i] == pytest.approx(values[inside].mean(), abs=1e-12)
        assert m2[i] == pytest.approx(values[inside].var() * len(inside), abs=1e-12)


def float_sums(values: list[float], per_window: int) -> dict[int, float]:
    n = len(values)
    panes = Panes(1, per_window, 1)
    frame = assemble.frame(np.zeros(n, dtype=np.int64), np.arange(n), panes, -END, END)
    kind = partials.kind_of(brute.primitive("_a0", "sum", "f8"))
    _, sums = frame.fold(kind, [np.ones(n, dtype=np.int64), np.array(values)])
    return dict(zip(frame.wid.tolist(), sums.tolist(), strict=True))


@pytest.mark.parametrize("per_window", [2, 3, 4, 5])
def test_small_floats_survive_large_ones(per_window):
    # Catches: prefix sums over floats, after which 1e-8 beside 1e16 is gone for ever.
    values = [1e16, 1e16, *[1e-8] * 12]
    sums = float_sums(values, per_window)
    for w in range(per_window + 1, len(values)):
        assert sums[w] == pytest.approx(per_window * 1e-8, rel=1e-12)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_nan_and_infinity_leave_with_their_pane(bad):
    sums = float_sums([1.0, bad, *[2.0] * 8], 3)
    assert all(not math.isfinite(sums[w]) for w in (1, 2, 3))
    assert [sums[w] for w in (0, 4, 9)] == [1.0, 6.0, 6.0]


@pytest.mark.spec("WQ-F45")
def test_sums_that_overflow_on_the_way_are_exact_in_each_window():
    p = brute.primitive("_a0", "sum", "i8")
    top, n = 2**63 - 1, 40
    kind = partials.kind_of(p)
    values = np.array([top, -top] * (n // 2), dtype=np.int64)
    state = pa.table(
        [np.ones(n, dtype=np.int64), values & 0xFFFFFFFF, values >> 32],
        schema=pa.schema(partials.state_fields(p)),
    )
    frame = assemble.frame(np.zeros(n, dtype=np.int64), np.arange(n), Panes(1, 2, 1), -END, END)
    arrays, memory = kind.load(state)
    got = kind.finish(frame.fold(kind, arrays), memory, True).to_pylist()
    assert got == [top] + [0] * (n - 1) + [-top]


def test_panes_near_the_end_of_the_integers():
    panes = Panes(1, 3, 2)
    pane = np.array([2**63 - 1, -(2**63)])
    assert panes.end_window(pane).tolist() == [(2**63 - 1 + 3) // 2, (-(2**63) + 3) // 2]


@pytest.mark.parametrize(("r", "s"), [(9, 6), (600, 60), (2, 5), (7, 7), (10, 4)])
def test_panes_and_windows_name_each_other(r, s):
    panes = Panes.of(TimeWindow(r, s, 0, "t"))
    for w in range(-5, 6):
        inside = range(panes.first_pane(w), panes.end_pane(w))
        assert [panes.width * inside[0], panes.width * (inside[-1] + 1)] == [
            (w + 1) * s - r,
            (w + 1) * s,
        ]
        for p in range(panes.first_pane(w) - 3, panes.end_pane(w) + 3):
            one = np.array([p])
            assert (panes.first_window(one)[0] <= w < panes.end_window(one)[0]) == (p in inside)


@pytest.mark.spec("QD-A11")
@pytest.mark.slow
def test_an_hour_every_second_for_a_thousand_keys_takes_seconds():
    # 3600 windows hold each pane: an exploding plan would make 3.6e9 updates of these 1e6 entries.
    rng = np.random.default_rng(0)
    key, pane = entries(rng, 1000, 1000, 1.0)
    ones = np.ones(len(key), dtype=np.int64)
    begin = time.process_time()  # other load on the machine does not count
    frame = assemble.frame(key, pane, Panes(1, 3600, 1), -END, END)
    for call in (("sum", "i4"), ("max", "i4"), ("sum", "f8")):
        kind = partials.kind_of(brute.primitive("_a0", *call))
        frame.fold(kind, [ones, ones.astype(float) if call[1] == "f8" else ones])
    spent = time.process_time() - begin
    assert len(frame.wid) == 1000 * (1000 + 3600 - 1)
    assert spent < 20
