"""Which segments of a relation may stay in memory."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.engine.driver.residents import Residents
from slackwater.engine.paths.reports import Reads
from slackwater.semantics.segments import DECAY, RELUCTANCE, Epoch, Frequencies, may_stay
from tests.examples import examples


def stays(memory: int, resident: str, read: str, **known: tuple[float, int]) -> set[str]:
    """Segments that may stay: each is known by its frequency and its size."""
    frequencies = {n: f for n, (f, _) in known.items()}
    sizes = {n: s for n, (_, s) in known.items()}
    return set(may_stay(frequencies, sizes, set(resident), set(read), memory))


@pytest.mark.spec("XJ-F50")
def test_free_room_is_filled_first() -> None:
    assert stays(10, "", "ab", a=(1, 4), b=(1, 6)) == {"a", "b"}
    assert stays(10, "a", "b", a=(9, 4), b=(0.1, 6)) == {"a", "b"}


@pytest.mark.spec("XJ-F50")
def test_a_segment_takes_the_place_of_one_that_is_asked_for_less_for_its_size() -> None:
    # (6.1): C_i >= (|P_i| / |P_m|) (1 + rho) C_m, with rho = 0.25
    assert stays(10, "a", "b", a=(4, 10), b=(5, 10)) == {"b"}
    assert stays(10, "a", "b", a=(4, 10), b=(4.9, 10)) == {"a"}
    # A smaller one needs less: 5 bytes at 2.5 are as good as 10 at 5.
    assert stays(10, "a", "b", a=(4, 10), b=(2.5, 5)) == {"b"}
    assert stays(10, "a", "b", a=(4, 10), b=(2.4, 5)) == {"a"}
    # Of two that could go, the one that is asked for least for its size goes, which is not the rarest.
    assert stays(12, "ac", "b", a=(4, 10), c=(2, 2), b=(9, 2)) == {"b", "c"}


@pytest.mark.spec("XJ-F50")
def test_a_segment_takes_no_place_in_which_it_does_not_fit() -> None:
    # (6.2): M_free + |P_m| >= |P_i|
    assert stays(10, "a", "b", a=(0.1, 4), b=(100, 11)) == {"a"}
    assert stays(10, "ac", "b", a=(0.1, 4), c=(0.1, 5), b=(100, 6)) == {"a", "b"}
    assert stays(10, "ac", "b", a=(0.1, 5), c=(0.1, 5), b=(100, 6)) == {"a", "c"}


NAMES = st.sampled_from("abcdef")


@pytest.mark.spec("XJ-F50")
@given(
    st.dictionaries(NAMES, st.tuples(st.floats(0, 100), st.integers(1, 20)), min_size=1),
    st.sets(NAMES),
    st.sets(NAMES),
    st.integers(0, 40),
)
@examples(100)
def test_what_may_stay_fits_and_was_preferred_by_the_rule(
    known: dict[str, tuple[float, int]], resident: set[str], read: set[str], memory: int
) -> None:
    resident, read = resident & known.keys(), read & known.keys()
    size = {n: s for n, (_, s) in known.items()}
    if sum(size[n] for n in resident) > memory:
        resident = set()
    after = set(may_stay({n: f for n, (f, _) in known.items()}, size, resident, read, memory))
    assert sum(size[n] for n in after) <= memory
    assert after <= resident | read
    went, came = resident - after, after - resident
    assert len(went) <= len(came)  # nothing goes unless something takes its place
    for name in went:
        f, s = known[name]
        assert any(known[c][0] / size[c] >= (1 + RELUCTANCE) * f / s * (1 - 1e-9) for c in came)
    if not resident and sum(size[n] for n in read) <= memory:
        assert after == read


def by_definition(
    known: dict[str, tuple[float, int]], resident: set[str], read: set[str], memory: int
) -> set[str]:
    """Algorithm 9 with free room first, candidates with the greatest frequency for their size first."""

    def share(name: str) -> tuple[float, str]:
        return known[name][0] / known[name][1], name

    stays = set(resident)
    for one in sorted(read - stays, key=share, reverse=True):
        (often, size), free = known[one], memory - sum(known[n][1] for n in stays)
        victims = [
            m
            for m in stays
            if often / size >= (1 + RELUCTANCE) * (known[m][0] / known[m][1])
            and free + known[m][1] >= size
        ]
        if size <= free:
            stays.add(one)
        elif victims:
            stays.remove(min(victims, key=share))
            stays.add(one)
    return stays


@pytest.mark.spec("XJ-F50")
@given(st.data(), st.integers(0, 12), st.integers(10, 60))
@examples(100)
def test_victims_are_those_of_the_definition(data: st.DataObject, count: int, memory: int) -> None:
    one = st.tuples(st.sampled_from([0.0, 1.0, 2.0, 2.5, 5.0, 8.0]), st.integers(1, 20))
    known = {f"s{i}": data.draw(one) for i in range(count)}
    resident: set[str] = set()
    for name in known:
        if sum(known[n][1] for n in resident) + known[name][1] <= memory and data.draw(
            st.booleans()
        ):
            resident.add(name)
    read = {n for n in known if data.draw(st.booleans())}
    sizes, often = {n: s for n, (_, s) in known.items()}, {n: f for n, (f, _) in known.items()}
    assert set(may_stay(often, sizes, resident, read, memory)) == by_definition(
        known, resident, read, memory
    )


@pytest.mark.spec("XJ-F51")
def test_frequencies_fade_at_the_end_of_an_epoch_of_rows() -> None:
    known = Frequencies(Epoch(10))
    known.count({"a": 6}, 6, None)
    assert known.values == {"a": 6}
    known.count({"a": 3, "b": 1}, 4, None)  # the epoch is full
    assert known.values == {"a": pytest.approx(9 * DECAY), "b": pytest.approx(DECAY)}
    known.count({"b": 25}, 25, None)  # two more, and half of the next
    assert known.values["b"] == pytest.approx((DECAY + 25) * DECAY**2)
    known.count({}, 5, None)
    assert known.values["b"] == pytest.approx((DECAY + 25) * DECAY**3)


@pytest.mark.spec("XJ-F51")
def test_frequencies_fade_at_the_end_of_an_epoch_of_time() -> None:
    known = Frequencies(Epoch(10, by_time=True))
    known.count({"a": 6}, 1000, 3)
    known.count({"a": 2}, 1000, 12)
    assert known.values == {"a": 8}  # ten have not gone by since three
    known.count({"a": 1}, 1, 13)
    assert known.values == {"a": pytest.approx(8 * DECAY + 1)}
    known.count({"b": 1}, 1, 45)  # three epochs, and two ticks
    assert known.values == {"a": pytest.approx((8 * DECAY + 1) * DECAY**3), "b": 1}
    known.count({}, 0, 52)
    assert known.values["b"] == 1
    known.count({}, 0, 53)
    assert known.values["b"] == pytest.approx(DECAY)


@pytest.mark.spec("XJ-F51")
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), max_size=12))
@examples(50)
def test_a_frequency_is_the_sum_of_its_rows_each_aged_by_its_epochs(
    batches: list[tuple[int, int]],
) -> None:
    """C = sum over epochs of c_e * alpha^(epochs that have ended since)."""
    known, now = Frequencies(Epoch(2, by_time=True)), 0
    seen: list[tuple[int, int]] = []
    for rows, later in batches:
        now += later if seen else 0
        known.count({"a": rows}, rows, now)
        seen.append((now, rows))
    wanted = sum(rows * DECAY ** (now // 2 - at // 2) for at, rows in seen)
    assert known.values.get("a", 0) == pytest.approx(wanted, abs=0.01)


@pytest.mark.spec("XJ-F49")
@pytest.mark.parametrize("epoch", [Epoch(100), Epoch(1, by_time=True)])
def test_the_hot_part_stays_and_a_hot_spot_that_moves_is_followed(epoch: Epoch) -> None:
    """Nine of ten rows ask for one segment; one of the others is read in each batch as well."""
    residents, batch = Residents(100, epoch), 0
    for hot in ("a", "b", "c"):
        for _ in range(4):
            cold = f"cold{batch % 7}"
            asked = {hot: (90, 60), cold: (10, 60)}
            residents.batch(Reads(rows=100, asked=asked), batch)
            batch += 1
        assert residents.names == {hot}


@pytest.mark.spec("XJ-F49")
def test_what_nobody_asks_for_any_more_is_forgotten() -> None:
    residents = Residents(100, Epoch(10))
    for number in range(500):
        residents.batch(Reads(rows=10, asked={str(number): (10, 60)}), None)
    assert len(residents._sizes) < 20 and residents.figures["residentBytes"] <= 100


@pytest.mark.spec("XJ-F56")
def test_fresh_are_those_that_the_tasks_of_the_last_batch_were_not_told_of() -> None:
    known = Residents(10, Epoch())
    known.batch(Reads(asked={"f-0": (1, 4), "g-0": (1, 4)}, rows=2), None)
    assert known.fresh == known.names == {"f-0", "g-0"}
    known.only({"f"})
    assert known.fresh == {"f-0"}
    known.batch(Reads(asked={"f-0": (1, 4), "f-5": (1, 4)}, rows=2), None)
    assert (known.fresh, known.names) == ({"f-5"}, {"f-0", "f-5"})
    known.batch(Reads(), None)
    assert known.fresh == set() and known.names == {"f-0", "f-5"}
