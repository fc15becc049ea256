"""The ring buffer of the low-level benchmark, row by row; and that its variants count the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import low_level
from tests.examples import examples


def lost_row_by_row(service: list[float], chunk: int, ring: int, rate: float) -> int:
    """Each row arrives at its moment; the server takes a chunk when it is free and the ring holds one."""
    inside, gone, arrived, free, served = 0, 0, 0, 0.0, 0
    while served < len(service):
        now = arrived / rate
        arrived += 1
        if inside >= chunk and free <= now:  # it was taken before this row came
            inside -= chunk
            free += service[served]
            served += 1
            if served == len(service):
                break
        if inside == ring:
            gone += 1
        else:
            inside += 1
        if inside >= chunk and free <= now:
            inside -= chunk
            free = now + service[served]
            served += 1
    # What comes while the last chunk is served counts, too.
    return gone


@pytest.mark.spec("WQ-F88")
@examples(30)
@given(
    st.lists(st.integers(1, 30), min_size=1, max_size=12), st.integers(1, 20), st.integers(1, 4),
    st.integers(1, 60),
)  # fmt: skip
def test_losses_of_the_ring_are_those_counted_row_by_row(tenths, chunk, rings, rate):
    service = [t / 10 for t in tenths]
    ring = rings * chunk
    # The last chunk is only there to see what is lost during the one before it.
    counted = lost_row_by_row([*service, 0.0], chunk, ring, float(rate))
    assert abs(low_level.lost(service, chunk, ring, float(rate)) - counted) <= 2 * len(service) + 1


@pytest.mark.spec("WQ-F88")
@examples(30)
@given(st.lists(st.floats(0.01, 3), min_size=2, max_size=12), st.integers(1, 20), st.integers(1, 4))
def test_the_sustained_rate_is_the_highest_without_loss(service, chunk, rings):
    rate = low_level.sustained(service, chunk, rings * chunk)
    mean = chunk * len(service) / sum(service)
    assert not low_level.lost(service, chunk, rings * chunk, rate)
    above = rate * 1.001 + 2  # losses are whole rows
    assert rate == mean or low_level.lost(service, chunk, rings * chunk, above + 1 / min(service))


@pytest.mark.spec("WQ-F88")
def test_variants_count_the_same_and_only_the_ordered_one_bursts():
    found = low_level.measure(2_000, 4_000, 256, 8_192, 1_024, probe=False)  # asserts equal totals
    assert found["ordered"]["mostSent"] > 4 * found["lazy"]["mostSent"]
    assert found["slow"]["mostSent"] <= 256 + 2
    assert all(found[v]["rate"] > 0 for v in low_level.VARIANTS)
