"""Delays of rows, how they are counted and sketched: against plain definitions."""

from __future__ import annotations

import json
import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.semantics.limits import START
from slackwater.semantics.quality.delays import (
    Disorder,
    added,
    bins,
    coarser,
    delays,
    disorder,
    histogram,
)
from slackwater.semantics.quality.sketch import DelaySketch
from slackwater.semantics.quality.statistics import (
    relative_sync,
)

times = st.lists(st.integers(-200, 200), max_size=120)


@pytest.mark.spec("QD-A2", "QD-A3", "QD-A4")
@given(times, st.integers(0, 120))
def test_delays_are_those_of_a_loop_however_the_stream_is_cut(rows: list[int], cut: int) -> None:
    clock: int | None = None
    wanted, late = [], []
    for t in rows:
        clock = t if clock is None else max(clock, t)
        wanted.append((clock, clock - t))
        late.append(t < clock)
    first = delays(np.array(rows[:cut], np.int64))
    seen = int(first.clocks[-1]) if len(first.clocks) else START
    second = delays(np.array(rows[cut:], np.int64), seen)
    found = [(int(c), int(d)) for part in (first, second) for c, d in zip(*part, strict=True)]
    assert found == wanted
    counts = disorder(first.delays).plus(
        disorder(second.delays, bool(len(first.delays) and first.delays[-1]))
    )
    after = sum(a and b for a, b in pairwise(late))
    assert counts == Disorder(len(rows), sum(late), after)


@pytest.mark.spec("QD-C1")
@given(st.lists(st.integers(0, 5_000), min_size=1), st.integers(1, 60), st.integers(1, 6))
def test_bins_hold_delays_up_to_their_upper_end(values: list[int], g: int, factor: int) -> None:
    found = bins(np.array(values), g)
    for d, b in zip(values, found.tolist(), strict=True):
        assert (b == 0) == (d == 0) and (b - 1) * g < d <= b * g
    fine = histogram(np.array(values), g)
    assert coarser(fine, factor).tolist() == histogram(np.array(values), g * factor).tolist()
    half = len(values) // 2
    parts = [histogram(np.array(v, np.int64), g) for v in (values[:half], values[half:])]
    assert added(*parts).tolist() == fine.tolist()


def test_the_slowest_stream_is_the_measure_of_the_others() -> None:
    assert relative_sync({"a": 30.0, "b": 5.0}) == {"a": 25.0, "b": 0.0}


@pytest.mark.spec("QD-C8")
@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=200), st.floats(0, 1))
def test_the_sketch_is_within_one_per_cent_of_the_quantile(values: list[int], q: float) -> None:
    parts = [DelaySketch(), DelaySketch()]
    for i, part in enumerate(parts):
        part.add(np.array(values[i::2], np.int64))
    parts[0].merge(DelaySketch.from_json(json.loads(json.dumps(parts[1].to_json()))))
    late = sorted(v for v in values if v > 0)
    found = parts[0].quantile(q)
    if not late:
        assert found == 0
    else:
        wanted = late[math.floor(q * (len(late) - 1))]
        assert abs(found - wanted) <= 0.0101 * wanted + 1
