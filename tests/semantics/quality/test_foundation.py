"""The parts of quality-driven slack, against the digest's vectors and against plain definitions."""

from __future__ import annotations

import json
import math
import random
import time
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.model.window import TimeWindow
from slackwater.semantics.limits import START
from slackwater.semantics.quality.adapt import Adaptation
from slackwater.semantics.quality.adwin import Adwin
from slackwater.semantics.quality.controller import Controller
from slackwater.semantics.quality.delays import (
    Disorder,
    added,
    bins,
    coarser,
    delays,
    disorder,
    histogram,
    skews,
)
from slackwater.semantics.quality.gathered import Gathered, Rows, merged
from slackwater.semantics.quality.measure import Coverage, stride, tally
from slackwater.semantics.quality.model import (
    candidates,
    coverages,
    cumulated,
    edge_coverages,
    masses,
    shares,
    shifted,
    smallest,
)
from slackwater.semantics.quality.moments import Moments, Recent
from slackwater.semantics.quality.needs import (
    Late,
    Needs,
    first_level,
    least_level,
    needed_slack,
)
from slackwater.semantics.quality.needs import merged as merged_late
from slackwater.semantics.quality.sketch import DelaySketch
from slackwater.semantics.quality.statistics import (
    Bag,
    StreamStatistics,
    merged_bags,
    next_edges,
    relative_sync,
)
from slackwater.semantics.quality.strict import Feed, judge
from slackwater.semantics.quality.target import Consumer, Target
from slackwater.semantics.quality.threshold import (
    Asked,
    complete_threshold,
    count_threshold,
    mean_threshold,
    quantile_threshold,
    sum_threshold,
    threshold,
)
from slackwater.testing.oracle_quality import PlainAdwin, needed_coverage, window_coverage

times = st.lists(st.integers(-200, 200), max_size=120)


# ---- delays ----
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


@pytest.mark.spec("QD-A5", "QD-C4")
def test_the_slowest_stream_is_the_measure_of_the_others() -> None:
    assert skews({"a": 50, "b": 20, "c": 45}) == ("b", {"a": 30, "b": 0, "c": 25})
    assert relative_sync({"a": 30.0, "b": 5.0}) == {"a": 25.0, "b": 0.0}


# ---- the adaptive window ----
# Width and number of cuts after 500, 1000, ... values of `_values`, by river 0.26.1 (drift.ADWIN, defaults).
RIVER = [
    (500, 0), (1000, 0), (732, 2), (976, 4), (580, 5), (696, 8),
    (524, 11), (1024, 11), (1524, 11), (2024, 11), (2524, 11), (720, 16),
]  # fmt: skip


def _values(count: int) -> list[int]:
    """A fixed series of values up to 1000 whose mean changes now and then."""
    rng = random.Random(7)
    means = [5, 5, 60, 60, 200, 20, 20, 20, 20, 90]
    made = [min(999, int(rng.expovariate(1 / means[i * 10 // count]))) for i in range(count)]
    return [1000, *made[1:]]


@pytest.mark.spec("QD-C2")
def test_the_window_is_cut_where_the_published_implementation_cuts_it() -> None:
    values = np.array(_values(6_000))
    window = Adwin(1)
    window.largest = 1000
    found = []
    for at in range(0, 6_000, 500):
        window.add(values[at : at + 500], np.zeros(500, np.int64))
        found.append((window.width, window.cuts))
    assert found == RIVER


@pytest.mark.spec("QD-C2", "QD-C1")
@settings(max_examples=12, deadline=None)
@given(st.integers(0, 10**6), st.lists(st.integers(0, 900), max_size=5))
def test_the_window_is_that_of_one_value_after_the_other(seed: int, cuts: list[int]) -> None:
    rng = np.random.default_rng(seed)
    mean = np.repeat(rng.choice([2, 10, 60, 300], 3), 300)
    values = rng.exponential(mean).astype(np.int64)
    plain, largest = PlainAdwin(), 0
    for start in range(0, 900, 32):
        # The scale is the largest value up to the test that follows.
        largest = max(largest, int(values[start : start + 32].max()))
        for v in values[start : start + 32].tolist():
            plain.add(v, largest)
    window = Adwin(1)
    edges = [0, *sorted(cuts), 900]
    for a, b in pairwise(edges):
        window = Adwin.from_json(json.loads(json.dumps(window.to_json())))
        window.add(values[a:b], np.arange(a, b))
    assert window.width == len(plain.values) and window.cuts == plain.cuts
    kept = values[900 - window.width :]
    assert window.counts.tolist() == np.bincount(kept).tolist()
    assert window.total == int(kept.sum()) and window.begin == 900 - window.width


@pytest.mark.spec("QD-C2")
def test_batches_of_unknown_order_shrink_the_window_after_a_change() -> None:
    rng = np.random.default_rng(3)
    statistics = StreamStatistics.fresh(1)
    clock, edges = 0, []
    widths = []
    for batch in range(80):
        rows = int(rng.integers(20, 200))
        late = rng.exponential(3 if batch < 50 else 80, rows).astype(np.int64)
        now = clock + np.sort(rng.integers(0, 100, rows)) - late
        parts = [Bag.of(now[i::2], edges, statistics.granularity) for i in range(2)]
        bag = merged_bags(Bag.from_json(json.loads(json.dumps(p.to_json()))) for p in parts)
        assert bag == Bag.of(now, edges, statistics.granularity)
        statistics.observe_bag(bag)
        statistics = StreamStatistics.from_json(json.loads(json.dumps(statistics.to_json())))
        clock = statistics.newest or 0
        edges = next_edges(edges, clock, statistics.largest)
        widths.append(statistics.window.width)
    assert widths[49] > 40 * 80 and widths[-1] < widths[49]
    assert statistics.window.cuts >= 1
    assert len(statistics.window.blocks) < 60


@pytest.mark.spec("QD-C3")
def test_rates_and_largest_delays_are_those_of_the_window() -> None:
    statistics = StreamStatistics.fresh(10)
    rows = np.repeat(np.arange(0, 4_000, 4), 2)
    rows[1_001] -= 777
    statistics.observe(rows)
    assert statistics.rate == pytest.approx(0.5, rel=0.01)
    assert statistics.largest == 777 and statistics.window_largest == 780
    assert statistics.quantile(0.5) == pytest.approx(777, rel=0.011)


def test_bins_grow_with_the_delays() -> None:
    window = Adwin(1)
    window.add(np.array([0, 3, 5_000]), np.zeros(3, np.int64))
    assert window.granularity == 2 and window.counts.sum() == 3
    assert np.flatnonzero(window.counts).tolist() == [0, 2, 2_500]


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


# ---- the model ----
F = np.array([0.6, 0.2, 0.1, 0.1])


@pytest.mark.spec("QD-C5", "QD-C6")
def test_the_digest_s_vectors() -> None:
    slacks = np.arange(4)
    assert [shifted(F, k, 1)[0] for k in range(4)] == pytest.approx([0.6, 0.8, 0.9, 1])
    for piece, wanted in (
        (1, [0.825, 0.925, 0.975, 1]),
        (2, [0.75, 0.9, 0.95, 1]),
        (4, [0.6, 0.8, 0.9, 1]),
        (9, [0.6, 0.8, 0.9, 1]),
    ):
        assert coverages(F, 4, 1, slacks, piece=piece) == pytest.approx(wanted)
    assert coverages(F, 35, 10, 10 * slacks) == pytest.approx([0.8, 0.91429, 0.97143, 1], abs=1e-5)
    assert coverages(F, 4, 1, slacks, sync=1.0) == pytest.approx([0.925, 0.975, 1, 1])
    assert smallest(coverages(F, 4, 1, slacks), slacks, 0.95) == 2
    assert bins(np.array([0, 1, 10, 11, 20]), 10).tolist() == [0, 1, 1, 2, 2]


@pytest.mark.spec("QD-C5", "QD-C6", "QD-D10")
@given(
    st.lists(st.integers(0, 90), min_size=1, max_size=60),
    st.integers(1, 7),
    st.integers(1, 120),
    st.integers(1, 5),
)
def test_the_curve_is_the_sum_over_basic_windows(
    late: list[int], g: int, width: int, several: int
) -> None:
    counts = histogram(np.array(late), g)
    slacks = candidates(max(late), g)
    curve = coverages(shares(counts), width, g, slacks)
    for slack, found in zip(slacks.tolist(), curve, strict=True):
        assert found == pytest.approx(window_coverage(late, width, slack, g), abs=1e-9)
    assert (np.diff(curve) >= -1e-12).all() and curve[-1] == pytest.approx(1)
    # Longer pieces err to the low side.
    rough = masses(shares(counts), width, g, slacks, piece=g * several)
    assert (rough <= curve * width + 1e-9).all()
    assert (np.diff(cumulated(shares(counts))) >= 0).all()


@pytest.mark.spec("QD-C6")
@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(5, 60), st.integers(0, 30))
def test_at_the_edge_of_a_batch_the_model_counts_what_is_missing(
    seed: int, g: int, width: int, slack: int
) -> None:
    """Windows that end one slack before an edge, row by row."""
    rng = np.random.default_rng(seed)
    times = np.arange(600) // 2 - rng.integers(0, 50, 600) * (rng.random(600) < 0.3)
    statistics = StreamStatistics.fresh(g)
    edges: list[int] = []
    seen: list[int] = []
    for batch in np.split(times, 12):
        statistics.observe_bag(Bag.of(batch, seen, g))
        edges.append(statistics.newest or 0)
        seen = sorted(set(edges))
    slack -= slack % g
    missing = 0
    for i, edge in enumerate(edges[:-1]):
        if edge in edges[:i]:
            continue
        late = times[50 * (i + 1) :]
        # Whole bins: the reach of the window is rounded up.
        reach = -(-(slack + width) // g) * g
        missing += int(((edge - late > slack) & (edge - late <= reach)).sum())
    rows = statistics.window.edges * statistics.rate * width
    found = edge_coverages(statistics.window.counts, rows, width, g, np.array([slack]))[0]
    assert found == pytest.approx(max(0.0, 1 - missing / rows))


@pytest.mark.spec("QD-D10")
def test_four_streams_and_two_thousand_slacks_take_less_than_five_milliseconds() -> None:
    rng = np.random.default_rng(1)
    streams = [shares(rng.integers(0, 50, 2_001)) for _ in range(4)]
    slacks = np.arange(2_001) * 10_000
    best = math.inf
    for _ in range(5):
        began = time.perf_counter()
        product = np.ones(len(slacks))
        for f in streams:
            product *= coverages(f, 5_000_000, 10_000, slacks)
        smallest(product, slacks, 0.99)
        best = min(best, time.perf_counter() - began)
    assert best < 0.005


# ---- thresholds ----
@pytest.mark.spec("QD-D3", "QD-D4")
def test_the_coverage_that_the_digest_gives_for_a_sum() -> None:
    for error, wanted in (
        (0.001, [0.999989, 0.999905, 0.999673, 0.999986]),
        (0.01, [0.999059, 0.995925, 0.993084, 0.998872]),
        (0.05, [0.985419, 0.966691, 0.957505, 0.983583]),
        (0.1, [0.958756, 0.924565, 0.910615, 0.954865]),
    ):
        cases = [(55, 0.5), (555, 0.5), (5550, 1.0), (55, 0.0)]
        found = [sum_threshold(error, 0.95, n, spread) for n, spread in cases]
        assert found == pytest.approx(wanted, abs=5e-7)
        assert count_threshold(error, 0.95, 55) == pytest.approx(wanted[3], abs=5e-7)


@pytest.mark.spec("QD-D3")
@given(st.floats(0.001, 0.9), st.floats(0.5, 0.999), st.floats(1, 1e5), st.floats(0, 5))
def test_the_closed_form_is_the_least_coverage_that_solves_the_inequality(
    error: float, confidence: float, rows: float, spread: float
) -> None:
    wanted = needed_coverage(error, confidence, rows, spread)
    assert sum_threshold(error, confidence, rows, spread) == pytest.approx(wanted, abs=1e-6)


@pytest.mark.spec("QD-D4", "QD-D13")
def test_averages_and_quantiles_need_less_and_keep_their_error_in_a_simulation() -> None:
    rng = np.random.default_rng(5)
    values = rng.gamma(4.0, 2.0, 400)
    spread = float(values.std() / values.mean())
    for error, need in (
        (0.01, mean_threshold(0.01, 0.95, 400, spread)),
        (0.02, quantile_threshold(0.02, 0.95, 400, 0.5)),
    ):
        assert need < sum_threshold(error, 0.95, 400, spread)
        kept = 0
        for _ in range(800):
            there = values[rng.random(400) < need]
            if error == 0.01:
                kept += abs(there.mean() - values.mean()) <= error * values.mean()
            else:
                rank = (values <= np.median(there)).mean()
                kept += abs(rank - 0.5) <= error + 1 / 400
        assert kept / 800 > 0.93


def test_the_worst_aggregate_counts_and_others_want_complete_windows() -> None:
    asked = [Asked("count"), Asked("avg", 0), Asked("other")]
    assert threshold(asked, 0.1, 0.95, 100, [0.5]) == complete_threshold(0.95, 100)
    assert complete_threshold(0.95, 100) ** 100 == pytest.approx(0.95)
    assert threshold(asked[:2], 0.1, 0.95, 100, [0.5]) == count_threshold(0.1, 0.95, 100)
    # Nothing is known, or the mean is 0: every row is needed. An error of everything: none is.
    assert sum_threshold(0.1, 0.95, 0, 1.0) == 1 == sum_threshold(0.1, 0.95, 50, math.inf)
    assert sum_threshold(1.0, 0.95, 50, 1.0) == 0


# ---- measuring ----
@pytest.mark.spec("QD-D7", "QD-B8")
@given(
    st.lists(st.tuples(st.integers(-60, 60), st.integers(-80, 80)), max_size=40),
    st.sampled_from([(10, 5), (10, 10), (7, 3), (4, 9), (90, 3)]),
    st.integers(-5, 5),
)
def test_rows_are_received_by_open_windows_and_missed_by_closed_ones(
    rows: list[tuple[int, int]], shape: tuple[int, int], origin: int
) -> None:
    w = TimeWindow(*shape, origin, "t")
    wanted: dict[int, list[int]] = {}
    for t, bound in rows:
        for wid in range(-80, 80):
            end = origin + (wid + 1) * w.slide
            if end - w.range <= t < end and wid % stride(w) == 0:
                wanted.setdefault(wid, [0, 0])[bound >= end] += 1
    array = np.array(rows, np.int64).reshape(-1, 2)
    closed = (array[:, 1] - origin) // w.slide - 1
    found = tally(array[:, 0], closed, w)
    assert found == {wid: tuple(n) for wid, n in sorted(wanted.items())}


@pytest.mark.spec("QD-D7", "QD-D8", "QD-D9")
def test_coverage_is_one_when_a_window_closes_and_falls_as_late_rows_come() -> None:
    w = TimeWindow(10, 10, 0, "t")
    coverage = Coverage()
    coverage.add({0: (8, 0), 1: (4, 0)})
    coverage.close(0, 0, 0.9, w)
    assert coverage.measure(10, w) == (0, 1.0)
    assert coverage.measure(9, w) is None  # it ends later
    coverage.add({0: (0, 1)})
    coverage.add({0: (0, 1)})
    assert coverage.measure(25, w) == (0, 0.8)
    coverage.close(1, 1, 0.9, w)
    assert coverage.measure(25, w) == (1, 1.0)
    coverage = Coverage.from_json(json.loads(json.dumps(coverage.to_json())))
    coverage.purge(30, w)
    assert list(coverage.counts) == [] == list(coverage.estimates)


@pytest.mark.spec("QD-C7", "QD-D12")
def test_the_controller_grows_with_the_shortfall_and_has_no_memory_of_surplus() -> None:
    c = Controller()
    found = [c.step(0.95, measured) for measured in (1.0, 0.90, 0.95)]
    assert found == pytest.approx([0, 0.41, 0.21])
    assert c.slack(1000) == 210
    for _ in range(500):
        c.step(0.95, 1.0)
    c = Controller.from_json(json.loads(json.dumps(c.to_json())))
    c.step(0.95, 0.85)
    assert c.alpha > 0.5  # at once: surplus was not added up
    for _ in range(50):
        c.step(0.95, 0.0)
    assert c.alpha == 1


# ---- values ----
@pytest.mark.spec("QD-C3")
@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=60), st.integers(0, 60))
def test_moments_do_not_depend_on_cuts_and_give_the_spread(values: list[float], cut: int) -> None:
    whole = Moments.of(np.array(values))
    assert Moments.of(np.array(values[:cut])).then(np.array(values[cut:])) == whole
    array = np.array([*values, math.nan, math.inf])
    assert Moments.of(array) == whole
    positive = np.abs(np.array(values)) + 1
    spread = Moments.of(positive).spread
    assert spread == pytest.approx(positive.std() / positive.mean(), abs=1e-4)


def test_recent_values_are_those_of_the_last_stretch() -> None:
    recent = Recent(1)
    for newest, value in ((10, 1.0), (20, 2.0), (30, 3.0)):
        recent.add(newest, [Moments.of(np.array([value]))], 15)
    assert recent.of(0).total == 5.0
    recent.add(99, [Moments()], 15)
    assert recent.of(0).total == 3.0  # better old values than none
    assert Recent.from_json(json.loads(json.dumps(recent.to_json()))) == recent


def test_what_tasks_gather_adds_up_in_any_order() -> None:
    w = TimeWindow(10, 5, 0, "t")
    rng = np.random.default_rng(2)
    parts = []
    for _ in range(4):
        rows = rng.integers(0, 100, 30)
        values = rng.random(30)
        moments = (Moments.ones(30), Moments.ones(30), Moments.of(values))
        groups = {int(h): (Moments.ones(1),) for h in rng.integers(0, 400, 20)}
        rows_of = Rows(tally(rows, 5, w), moments, groups)
        parts.append(Gathered(Bag.of(rows, [40, 60], 3), (rows_of,)))
    forth, back = merged(parts), merged(parts[::-1])
    assert forth.to_json() == back.to_json()
    assert Gathered.from_json(json.loads(json.dumps(forth.to_json()))) == forth
    assert forth.bag is not None and forth.bag.rows == 120
    nested = merged([merged(parts[:2]), merged(parts[2:])])
    assert nested.to_json()["bag"] == forth.to_json()["bag"]


# ---- needs ----
@pytest.mark.spec("QD-D8", "QD-D11")
@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([(20, 5), (10, 10), (90, 3)]), st.integers(1, 4))
def test_a_window_needs_the_slack_with_which_its_results_would_have_been_right(
    seed: int, shape: tuple[int, int], g: int
) -> None:
    w = TimeWindow(*shape, 0, "t")
    rng = np.random.default_rng(seed)
    rows = np.arange(120) - (rng.integers(0, 60, 120) * (rng.random(120) < 0.4))
    values = rng.integers(1, 9, 120).astype(float)
    before = np.concatenate([[START], delays(rows).clocks[:-1]])
    halves = [Late.of(rows[i::2], before[i::2], [values[i::2]], w, g) for i in range(2)]
    found = merged_late([Late.from_json(json.loads(json.dumps(h.to_json()))) for h in halves])
    asked = {
        "sum": lambda v, kept: abs(v.sum() - v[kept].sum()) / v.sum(),
        "avg": lambda v, kept: abs(v[kept].mean() / v.mean() - 1) if kept.any() else math.inf,
        "count": lambda v, kept: 1 - kept.mean(),
        "other": lambda v, kept: 0.0 if kept.all() else math.inf,
    }
    for wid, total in found.totals.items():
        end = (wid + 1) * w.slide
        inside = (rows >= end - w.range) & (rows < end)
        late = {b: s for (k, b), s in found.late.items() if k == wid}
        for rule, error in asked.items():
            one = Asked(rule, 0)
            need = needed_slack(total, late, [one], 0.1, g)

            def off(slack: int, error: Any = error, inside: Any = inside, end: int = end) -> float:
                there = (before[inside] <= START) | (before[inside] - slack < end)
                return float(error(values[inside], there))

            assert need % g == 0 and off(need) <= 0.1 + 1e-9
            if need and rule != "avg":  # an average may be right by chance with less
                assert off(need - g) > 0.1
        worst = needed_slack(total, late, [Asked("count"), Asked("sum", 0)], 0.1, g)
        assert worst == max(
            needed_slack(total, late, [a], 0.1, g) for a in (Asked("count"), Asked("sum", 0))
        )


@pytest.mark.spec("QD-D9")
def test_the_level_rises_with_missed_targets_and_judged_windows_are_forgotten() -> None:
    w = TimeWindow(10, 10, 0, "t")
    needs = Needs(1, first_level(0.9))
    for wid in range(100):
        end = 10 * (wid + 1)
        times, clocks = np.array([end - 5, end - 4]), np.array([end - 1, end + wid % 10])
        needs.add(Late.of(times, clocks, [], w, 1), 1)
        needs.close(wid, wid, end + 5, w)
        needs = Needs.from_json(json.loads(json.dumps(needs.to_json())))
        needs.judge(wid, [Asked("count")], 0.1, 0.9)
    assert needs.done == [wid % 10 + 1 for wid in range(100)]
    assert needs.slack == 10 and needs.level > first_level(0.9)
    assert not needs.totals and not needs.late and not needs.reach
    for _ in range(2_000):
        needs.totals[101], needs.reach[101] = [1.0], 3
        needs.judge(101, [Asked("count")], 0.1, 0.9)
    assert needs.level == least_level(0.9) and needs.slack == 0
    needs.late[200] = {3: [1.0], 4: [2.0]}
    needs.coarsen(2)
    assert needs.late == {200: {2: [3.0]}}


@pytest.mark.spec("QD-D11")
def test_estimates_can_be_corrected_by_past_errors_instead() -> None:
    """Late rows in bursts: the model expects more than windows get, which shows in retrospect."""
    rng = np.random.default_rng(8)
    times = np.arange(4_000) - np.where(np.arange(4_000) % 400 < 60, rng.integers(40, 90, 4_000), 0)
    found = {}
    for how in ("off", "bias"):
        target = Target(coverage=0.9, granularity=1, warm_rows=200, calibrate=how)  # type: ignore[arg-type]
        consumer = Consumer(TimeWindow(100, 20, 0, "t"), (Asked("count"),), 0)
        found[how] = Adaptation.fresh(target, [consumer])
        judge(found[how], times, [Feed(np.ones(4_000, bool), [])], START)
    assert found["off"].states[0].bias == 0
    assert abs(found["bias"].states[0].bias) > 1e-4
