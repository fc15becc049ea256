"""The join baselines of the benchmarks against the definition, and where the one that trusts in order goes wrong."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.baselines.global_order import GlobalOrderJoin, Row, run
from benchmarks.baselines.ordered import LEFT_TIME, InputBuffered, OutputBuffered
from benchmarks.baselines.rpwj import Block, Pair, Rpwj, Settings, pairs
from slackwater.kernels.joins.step import JoinSpec
from slackwater.model.join import Band
from slackwater.semantics.limits import END
from tests.examples import examples

MINUTE = 12  # ticks
Arrivals = list[tuple[int, Row]]


def right_pairs(arrivals: Arrivals, windows: tuple[int, int]) -> Counter[Pair]:
    """By the definition: equal keys, the later row at most the earlier one's window newer."""
    sides = [[r for s, r in arrivals if s == i] for i in (0, 1)]
    return Counter(
        (a, b) for a in sides[0] for b in sides[1] if a.key == b.key and pairs(a, b, windows)
    )


def arrivals_of(seed: int, count: int, keys: int) -> Arrivals:
    rng = random.Random(seed)
    now, found = 0, []
    for id in range(count):
        now += rng.choice([0, 0, 1, 1, 2, 7])
        found.append((rng.randrange(2), Row(now, rng.randrange(keys), id)))
    return found


# ---- trust in global order ----
@pytest.mark.spec("WQ-F92")
@given(st.integers(0, 2**32), st.integers(0, 80), st.tuples(st.integers(0, 20), st.integers(0, 20)))
@examples(30)
def test_in_global_order_trusting_in_it_is_right(seed, count, windows):
    arrivals = arrivals_of(seed, count, 3)
    assert Counter(run(arrivals, windows)) == right_pairs(arrivals, windows)


@pytest.mark.spec("WQ-F66")
def test_an_input_five_minutes_late_makes_trust_in_order_pair_what_does_not_belong_together():
    # Three minutes on the first input, two on the second; rows of both come with every tick.
    ranges = (3 * MINUTE - 1, 2 * MINUTE - 1)
    join = GlobalOrderJoin(ranges, purge_both=False)
    made = []
    for now in range(1, 11 * MINUTE):
        if now >= 5 * MINUTE:
            made += join.arrive(0, Row(now - 5 * MINUTE, 0, now))
        made += join.arrive(1, Row(now, 0, now))
    assert [b[0].time for b in join.buffers] == [3 * MINUTE, 9 * MINUTE]
    assert [b[-1].time for b in join.buffers] == [6 * MINUTE - 1, 11 * MINUTE - 1]
    times = {(a.time, b.time) for a, b in made}
    assert (3 * MINUTE, 11 * MINUTE - 1) in times
    assert not any(pairs(a, b, ranges) for a, b in made), "and not one of them is right"


@pytest.mark.spec("WQ-F66")
@pytest.mark.parametrize("purge_both", [False, True])
def test_a_minute_of_delay_loses_pairs_and_invents_others(purge_both):
    ranges = (3 * MINUTE - 1, 2 * MINUTE - 1)
    arrivals: Arrivals = []
    for now in range(MINUTE, 10 * MINUTE):
        arrivals.append((0, Row(now, 0, now)))
        arrivals.append((1, Row(now - MINUTE, 0, now)))
    got = Counter(run(arrivals, ranges, purge_both=purge_both))
    want = right_pairs(arrivals, ranges)
    missing, extra = want - got, got - want
    # A late row s finds no row of the first input in (s - 3 min, s - 2 min): they were purged.
    assert missing
    assert all(2 * MINUTE <= b.time - a.time < 3 * MINUTE for a, b in missing)
    if not purge_both:
        # And rows of the late input that are older than two minutes still meet new ones.
        assert extra and all(2 * MINUTE <= a.time - b.time <= 3 * MINUTE for a, b in extra)


# ---- order-preserving ----
SCHEMA = pa.schema([("__sw_time", pa.int64()), ("__sw_bucket", pa.int16()), ("__sw_k0", pa.int64()), ("id", pa.int64())])  # fmt: skip


def table(rows: list[Row]) -> pa.Table:
    columns = [
        pa.array([r.time for r in rows], pa.int64()),
        pa.array([0] * len(rows), pa.int16()),
        pa.array([r.key for r in rows], pa.int64()),
        pa.array([r.id for r in rows], pa.int64()),
    ]
    return pa.table(columns, schema=SCHEMA)


def batches_of(
    arrivals: Arrivals, lag: int, cut: int
) -> Iterator[tuple[list[pa.Table], tuple[int, int]]]:
    """Batches with the bounds after each; the second input's rows come ``lag`` later than their times say."""
    order = sorted(arrivals, key=lambda a: a[1].time + lag * a[0])
    for at in range(0, len(order), cut):
        rest = order[at + cut :]
        bounds = [min([r.time for s, r in rest if s == i], default=END) for i in (0, 1)]
        sides = [[r for s, r in order[at : at + cut] if s == i] for i in (0, 1)]
        yield [table(s) for s in sides], (bounds[0], bounds[1])


@pytest.mark.spec("WQ-F92")
@pytest.mark.parametrize("kind", [OutputBuffered, InputBuffered])
@given(
    st.integers(0, 2**32), st.integers(0, 60), st.tuples(st.integers(0, 15), st.integers(0, 15)),
    st.sampled_from([0, 5, 40]), st.integers(1, 20),
)  # fmt: skip
@examples(25)
def test_ordered_joins_are_exact_and_in_order(kind, seed, count, windows, lag, cut):
    arrivals = arrivals_of(seed, count, 3)
    spec = JoinSpec(Band(before=windows[1], after=windows[0]), 1, (("id",), ("id",)))
    join = kind(spec, [SCHEMA, SCHEMA])
    got: list[tuple[int, int]] = []
    times: list[int] = []
    for new, bounds in batches_of(arrivals, lag, cut):
        out = join.step(new, bounds)
        got += zip(out["_0.id"].to_pylist(), out["_1.id"].to_pylist(), strict=True)
        times += out[LEFT_TIME].to_pylist()
    want = right_pairs(arrivals, windows)
    assert Counter(got) == Counter((a.id, b.id) for a, b in want.elements())
    assert times == sorted(times)
    assert join.held_rows == 0


def test_holding_results_takes_more_room_than_holding_rows_where_results_are_many():
    arrivals = [(i % 2, Row(i // 2, 0, i)) for i in range(400)]
    spec = JoinSpec(Band(20, 20), 1, (("id",), ("id",)))
    peaks = []
    for kind in (OutputBuffered, InputBuffered):
        join = kind(spec, [SCHEMA, SCHEMA])
        held = [0]
        for new, bounds in batches_of(arrivals, 0, 20):
            join.step(new, bounds)
            held.append(join.held_rows)
        peaks.append(max(held))
    assert peaks[0] > 4 * peaks[1] > 0


# ---- RPWJ ----
SMALL = Settings(windows=(60, 40), partitions=3, memory=12, block=4, slide=15, spacing=20)


def rpwj_run(join: Rpwj, arrivals: Arrivals, seed: int) -> Counter[Pair]:
    rng = random.Random(seed)
    found: list[Pair] = []
    at = 0
    while at < len(arrivals):
        size = rng.choice([1, 1, 2, 5, 30])
        found += join.arrive(arrivals[at : at + size])
        at += size
    found += join.finish()
    return Counter(found)


@pytest.mark.spec("XJ-F40", "XJ-F42", "XJ-F43")
@given(
    st.integers(0, 2**32), st.integers(0, 250), st.sampled_from([1, 2, 7]),
    st.sampled_from([2, 8, 24, 1000]), st.sampled_from([0, 5, 40]), st.sampled_from([1, 30]),
)  # fmt: skip
@examples(30)
def test_rpwj_is_exact(seed, count, keys, memory, slide, spacing):
    chosen = Settings((25, 15), 3, memory, block=4, slide=slide, spacing=spacing)
    arrivals = arrivals_of(seed, count, keys)
    assert rpwj_run(Rpwj(chosen), arrivals, seed) == right_pairs(arrivals, chosen.windows)


class ForgetsTheNewestRun(Rpwj):
    def _scanned(self, a: Block, b: Block, p: int) -> bool:
        return a.left < self.parts[0][p].scanned and b.left < self.parts[1][p].scanned


class ForgetsPasses(Rpwj):
    def _met(self, a: Block, came_a: int, b: Block, came_b: int, p: int) -> bool:
        return came_a <= b.left and came_b <= a.left


class ExpiresUnjoined(Rpwj):
    def _before_expiry(self) -> Iterator[Pair]:
        return iter(())


@pytest.mark.spec("XJ-F42", "XJ-F43")
@pytest.mark.parametrize("wrong", [ForgetsTheNewestRun, ForgetsPasses, ExpiresUnjoined])
def test_rpwj_without_one_of_its_rules_is_wrong(wrong):
    arrivals = arrivals_of(5, 600, 4)
    right = right_pairs(arrivals, SMALL.windows)
    assert rpwj_run(Rpwj(SMALL), arrivals, 5) == right
    got = rpwj_run(wrong(SMALL), arrivals, 5)
    if wrong is ExpiresUnjoined:
        assert right - got and not got - right
    else:
        assert got - right and not right - got


@pytest.mark.spec("XJ-F41")
def test_rpwj_flushes_whole_partitions_whose_other_side_is_quiet():
    join = Rpwj(Settings((100, 100), partitions=2, memory=20, flush=0.3, spacing=1000))
    # Arrivals per (side, partition): what is stored at (1, 1) waits for the quietest, (0, 1).
    counts = {(0, 0): 5, (0, 1): 1, (1, 0): 4, (1, 1): 10}
    rows = [(s, Row(0, p, i)) for (s, p), n in counts.items() for i in range(n)]
    list(join.arrive(rows))
    assert join.flushed == []
    list(join.arrive([(0, Row(1, 0, 99))]))
    assert join.flushed == [(1, 1)], (
        "ten rows are more than enough: a whole partition, and no second one"
    )
    part = join.parts[1][1]
    assert part.memory == [] and part.runs == 1 and part.disk_rows == 10
    assert len({b.left for b in part.disk}) == 1, "one flush, one moment"
    # A new row at (0, 1) may find partners on disk: the next idle moment is for them.
    found = list(join.arrive([(0, Row(1, 1, 100))]))
    assert join.done == [("md", 0, 1)] and len(found) == 10


@pytest.mark.spec("XJ-F44")
def test_rpwj_works_by_block_while_the_input_is_long_with_hysteresis():
    join = Rpwj(Settings((10, 10), high_mark=10, low_mark=3))
    modes = []
    for waiting in (5, 10, 11, 5, 3, 2, 5):
        join.waiting.clear()
        join.waiting.extend((0, Row(0, 0, i)) for i in range(waiting))
        join._choose_granularity()
        modes.append(join.by_block)
    assert modes == [False, False, True, True, True, False, False]
    join = Rpwj(Settings((10, 10), partitions=1, high_mark=10, low_mark=5, block=8))
    list(join.arrive([(0, Row(0, 0, i)) for i in range(12)]))
    first, *rest = join.parts[0][0].memory
    assert len(first.rows) == 8 and len(set(first.arrived)) == 1
    assert sum(len(b.rows) for b in rest) == 4 and len({t for b in rest for t in b.arrived}) == 4


@pytest.mark.spec("XJ-F45")
def test_rpwj_costs_and_the_choice_of_a_task():
    join = Rpwj(Settings((10, 10), 2, read_rows=10, access_seconds=2.0, row_seconds=0.5))
    rows = [Row(0, 0, i) for i in range(20)]
    left, right = join.parts[0][0], join.parts[1][0]
    left.disk, left.runs = [Block(rows, [1] * 20, 2)], 1
    right.disk, right.runs = [Block(rows[:5], [3] * 5, 4)], 3
    # Memory of side 0 reads the disk of side 1: three runs and half a buffer, five rows.
    assert join.cost(("md", 0, 0)) == (3 + 0.5) * 2.0 + 2.5
    assert join.cost(("md", 1, 0)) == (1 + 2) * 2.0 + 10.0
    outer, inner = (1 + 4) * 2.0 + 10.0, (3 + 1) * 2.0 + 2.5
    assert join.cost(("dd", 0, 0)) == outer + 4 * inner
    assert join.best_task() is None
    left.expected, join.expected_dd[0] = 9.5, 61.0
    assert join.best_task() == ("md", 0, 0)  # 1.0 a second against 61 / 62
    join.expected_dd[0] = 63.0
    assert join.best_task() == ("dd", 0, 0)
    list(join.idle())
    assert join.done == [("dd", 0, 0)] and join.expected_dd[0] == 0
