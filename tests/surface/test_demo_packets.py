"""The packets of the demonstration: the disorder that it promises is there, and repeatable."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from slackwater.model.time import SECOND
from slackwater.surface.demo.feed import TICK
from slackwater.surface.demo.packets import HOUR, WRONG_CLOCK, Scene, Traffic

START = 1_767_268_800 * SECOND
SCENE = Scene.of(30.0, rate=1_000.0)


def played(seed: int = 7) -> list[list[pa.Table]]:
    """Tables by tick and router."""
    traffic = Traffic(SCENE, START, seed)
    ticks = np.arange(0, SCENE.seconds, TICK)
    return [[traffic.arrivals(r, t, t + TICK) for r in (0, 1)] for t in ticks]


PLAYED = played()


def times(table: pa.Table) -> np.ndarray:
    return table["ts"].cast(pa.int64()).to_numpy()


def plausible(table: pa.Table) -> np.ndarray:
    found = times(table)
    return found[found < START + HOUR // 2]


def test_the_same_seed_gives_the_same_packets_and_another_does_not():
    again, other = played(), played(8)
    assert all(a.equals(b) for x, y in zip(PLAYED, again) for a, b in zip(x, y))
    assert not PLAYED[3][0].equals(other[3][0])


def test_no_packet_arrives_before_it_was_sent():
    for tick, tables in enumerate(PLAYED):
        for table in tables:
            assert (plausible(table) < START + (tick + 1) * TICK * SECOND).all()


def test_packets_are_out_of_order_within_and_across_files():
    first, second = plausible(PLAYED[4][0]), plausible(PLAYED[5][0])
    assert (np.diff(first) < 0).any()
    assert second.min() < first.max()


def test_main2_is_about_eight_seconds_behind_main1():
    ahead, behind = np.median(plausible(PLAYED[10][0])), np.median(plausible(PLAYED[10][1]))
    assert 7.5 * SECOND < ahead - behind < 9 * SECOND


def test_main2_is_silent_for_some_seconds_and_comes_back():
    silent = [not tables[1].num_rows for tables in PLAYED]
    first, last = silent.index(True), len(silent) - 1 - silent[::-1].index(True)
    assert all(silent[first : last + 1])
    assert (last - first + 1) * TICK >= 5 and first > 0 and last < len(silent) - 1
    assert all(tables[0].num_rows for tables in PLAYED)


def test_bursts_multiply_the_traffic_of_one_sender():
    sizes = [tables[0].num_rows for tables in PLAYED]
    assert max(sizes) > 3 * np.median(sizes)


def test_one_wrong_clock_is_now_and_then_an_hour_ahead_and_no_other_is():
    whole = pa.concat_tables([t[0] for t in PLAYED])
    ahead = times(whole) > START + HOUR // 2
    senders = set(whole.filter(pa.array(ahead))["srcIP"].to_pylist())
    assert senders == {WRONG_CLOCK}
    own = np.asarray(whole["srcIP"].to_pylist()) == WRONG_CLOCK
    assert 0 < ahead[own].mean() < 0.5


def test_offsets_count_the_packets_of_each_router():
    for router in (0, 1):
        offsets = pa.concat_tables([t[router] for t in PLAYED])["offset"].to_numpy()
        assert (offsets == np.arange(len(offsets))).all()
