from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.errors import AnalysisError, ExecutionError
from slackwater.model.policy import (
    BoundedDelay,
    BoundedRows,
    MaxDelay,
    Ordered,
    Policy,
    Punctuated,
)
from slackwater.model.time import TimeColumn
from slackwater.semantics import progress
from slackwater.semantics.bounds import END, START
from slackwater.semantics.progress import (
    PartitionSummary,
    SourceState,
    SourceSummary,
    guard_limit,
    merge,
    resolve,
)
from slackwater.testing.executors.summaries import summarize
from tests.semantics.helpers import MICROS, TS, Feed

SECOND = 1_000_000
SECONDS = TimeColumn("ts", "long", SECOND)


def rows(**partitions: Any) -> list[dict[str, Any]]:
    return [{"p": p, "ts": t} for p, ts in partitions.items() for t in ts]


# --- policies --------------------------------------------------------------------------------------


@pytest.mark.spec("WQ-F76")
def test_ordered_is_the_newest_time() -> None:
    feed = Feed(Ordered())
    assert feed.bound == START
    assert feed.batch(1, 4, 4) == 4
    assert feed.batch() == 4
    assert feed.batch(9) == 9


def test_bounded_delay_stays_behind() -> None:
    feed = Feed(BoundedDelay(delay=5))
    assert feed.batch(10, 3) == 5
    assert feed.batch(8) == 5


@pytest.mark.spec("WQ-F77")
def test_bounded_rows_ignores_the_last_n() -> None:
    feed = Feed(BoundedRows(rows=2), order=("i",))
    arrivals = [{"ts": t, "i": i} for i, t in enumerate([5, 3, 8, 6, 10, 9])]
    assert feed.batch(*arrivals) == 8


@pytest.mark.spec("WQ-F77")
@given(
    times=st.lists(st.integers(-20, 20), min_size=1, max_size=25),
    n=st.integers(0, 6),
    cuts=st.lists(st.integers(0, 25), max_size=4),
)
def test_bounded_rows_does_not_depend_on_batches(times: list[int], n: int, cuts: list[int]) -> None:
    feed = Feed(BoundedRows(rows=n), order=("i",))
    arrivals = [{"ts": t, "i": i} for i, t in enumerate(times)]
    at = 0
    for cut in [*sorted(cuts), len(arrivals)]:
        feed.batch(*arrivals[at:cut])
        at = max(at, cut)
    passed = times[: max(0, len(times) - n)]
    assert feed.bound == max(passed, default=START)
    assert len(feed.state.columns["ts"].partitions[""].tail) <= n


@pytest.mark.spec("WQ-F78")
def test_max_delay_learns_from_batch_to_batch() -> None:
    feed = Feed(MaxDelay())
    # Without order nothing is known inside a batch.
    assert feed.batch(10, 2) == 10
    assert feed.batch(7, 20) == 17
    assert feed.state.columns["ts"].delay == (3, 7, "")
    assert feed.batch(21) == 18


def test_max_delay_with_order_looks_inside_the_batch() -> None:
    feed = Feed(MaxDelay(), order=("i",))
    assert feed.batch({"ts": 10, "i": 0}, {"ts": 2, "i": 1}, {"ts": 11, "i": 2}) == 3
    assert feed.state.columns["ts"].delay == (8, 2, "")


def test_max_delay_names_the_partition() -> None:
    feed = Feed(MaxDelay(), partition="p")
    feed.batch(*rows(a=[10], b=[10]))
    feed.batch(*rows(a=[9], b=[4]))
    assert feed.state.columns["ts"].delay == (6, 4, "b")
    assert feed.bound == 10
    feed.batch(*rows(a=[20], b=[20]))
    assert (feed.bound, feed.holder) == (14, "b")


@pytest.mark.spec("WQ-F81", "WQ-F5")
def test_punctuation_is_the_bound() -> None:
    feed = Feed(Punctuated(column="done"))
    assert feed.batch(5, 3, 9) == START
    assert feed.batch({"done": 10}) == 10
    assert feed.batch({"done": 8}) == 10  # a bound never goes back


def test_punctuation_per_partition() -> None:
    feed = Feed(Punctuated(column="done"), partition="p")
    assert feed.batch({"p": "a", "done": 10}, {"p": "b", "done": 4}) == 4
    assert feed.holder == "b"


def test_ended_is_the_end() -> None:
    feed = Feed(MaxDelay())
    assert feed.batch(3, ended=True) == END
    assert feed.batch(100) == END


delays = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 9)), min_size=1, max_size=40)


@pytest.mark.spec("OO-F1")
@given(events=delays, size=st.integers(1, 7))
def test_bounded_delay_is_never_violated_by_rows_that_keep_to_it(
    events: list[tuple[int, int]], size: int
) -> None:
    arrivals = [t for t, d in sorted(events, key=lambda e: e[0] + e[1])]
    feed = Feed(BoundedDelay(delay=9))
    for at in range(0, len(arrivals), size):
        assert all(t >= feed.bound for t in arrivals[at:])
        feed.batch(*arrivals[at : at + size])


@given(
    batches=st.lists(st.lists(st.integers(-30, 30), max_size=6), max_size=8),
    policy=st.sampled_from([Ordered(), BoundedDelay(delay=4), MaxDelay()]),
)
def test_bounds_never_go_back(batches: list[list[int]], policy: Policy) -> None:
    feed = Feed(policy)
    last = START
    for batch in batches:
        assert feed.batch(*batch) >= last
        last = feed.bound


# --- partitions ------------------------------------------------------------------------------------


def test_the_slowest_partition_holds_the_bound() -> None:
    feed = Feed(Ordered(), partition="p")
    assert feed.batch(*rows(a=[10], b=[3])) == 3
    assert feed.holder == "b"
    assert feed.batch(*rows(b=[12])) == 10
    assert feed.holder == "a"


def test_a_partition_that_appears_later_starts_at_the_bound() -> None:
    feed = Feed(Ordered(), partition="p")
    feed.batch(*rows(a=[10]))
    assert feed.batch(*rows(a=[20], b=[2])) == 10
    assert feed.holder == "b"
    assert feed.batch(*rows(b=[15])) == 15


@pytest.mark.parametrize("known", [3, ("a", "b", "c")])
def test_known_partitions_must_speak_first(known: Any) -> None:
    feed = Feed(Ordered(), partition="p", partitions=known)
    assert feed.batch(*rows(a=[10], b=[3])) == START
    assert feed.holder == ("<1 not seen>" if known == 3 else "c")
    assert feed.batch(*rows(c=[7])) == 3


@pytest.mark.parametrize("known", [2, ("a", "b")])
def test_a_silent_partition_is_idle_from_the_start(known: Any) -> None:
    feed = Feed(Ordered().idleAfter("5 seconds"), MICROS, partition="p", partitions=known)
    assert feed.batch(*rows(a=[10]), now=0) == START
    assert feed.batch(*rows(a=[11]), now=4 * SECOND) == START
    assert feed.batch(*rows(a=[12]), now=5 * SECOND) == 12


def test_too_many_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "MAX_PARTITIONS", 2)
    feed = Feed(Ordered(), partition="p")
    with pytest.raises(ExecutionError) as e:
        feed.batch(*rows(a=[1], b=[1], c=[1]))
    assert e.value.condition == "TOO_MANY_PARTITIONS"


# --- idleness --------------------------------------------------------------------------------------


@pytest.mark.spec("WQ-F79", "OO-F6")
def test_lull_rule() -> None:
    feed = Feed(Ordered().idleAfter("5 seconds"), SECONDS)
    assert feed.batch(100, now=100 * SECOND) == 100
    assert feed.batch(now=103 * SECOND) == 100
    assert feed.batch(now=110 * SECOND) == 105


@pytest.mark.spec("WQ-F78")
def test_lull_keeps_the_policys_own_delay() -> None:
    feed = Feed(BoundedDelay(delay=3).idleAfter("5 seconds"), SECONDS)
    assert feed.batch(100, now=100 * SECOND) == 97
    assert feed.batch(now=110 * SECOND) == 102
    learned = Feed(MaxDelay().idleAfter("5 seconds"), SECONDS)
    learned.batch(100, now=100 * SECOND)
    learned.batch(96, now=100 * SECOND)
    assert learned.batch(now=110 * SECOND) == 110 - 5 - 4


def test_an_idle_partition_takes_the_least_of_the_others() -> None:
    feed = Feed(Ordered().idleAfter("5 seconds"), SECONDS, partition="p")
    feed.batch(*rows(a=[100], b=[90], c=[95]), now=100 * SECOND)
    feed.batch(*rows(a=[103], c=[102]), now=104 * SECOND)
    assert feed.bound == 90
    feed.batch(*rows(a=[106], c=[104]), now=105 * SECOND)
    assert feed.bound == 104
    assert feed.state.columns["ts"].partitions["b"].idle
    # It wakes below the bound, which stays.
    feed.batch(*rows(b=[91]), now=106 * SECOND)
    assert (feed.bound, feed.holder) == (104, "b")


def test_backlog_and_no_clock_mean_nothing_is_idle() -> None:
    feed = Feed(Ordered().idleAfter("5 seconds"), SECONDS)
    feed.batch(100, now=100 * SECOND)
    assert feed.batch(now=200 * SECOND, backlog=True) == 100
    assert feed.batch(now=None) == 100
    assert feed.batch(now=200 * SECOND) == 195


def test_silence_from_the_start_follows_the_clock() -> None:
    feed = Feed(Ordered().idleAfter("5 seconds"), SECONDS)
    assert feed.batch(now=100 * SECOND) == START
    assert feed.batch(now=105 * SECOND) == 100


# --- guard and lag ---------------------------------------------------------------------------------


def test_future_times_do_not_advance() -> None:
    feed = Feed(Ordered(), MICROS)
    now = 1_000 * SECOND
    edge = now + 300 * SECOND
    assert feed.batch(now, edge + 1, now=now) == now
    assert feed.state.columns["ts"].future == 1
    assert feed.batch(edge, now=now) == edge


def test_guard_settings() -> None:
    assert resolve(Ordered(), MICROS, replay=True).guard is None
    assert resolve(Ordered(), TS, replay=False).guard is None
    assert resolve(Ordered(), SECONDS, replay=False).guard == 300
    assert resolve(Ordered().futureGuard(None), MICROS, replay=False).guard is None
    wide = resolve(Ordered().futureGuard("1 hour"), MICROS, replay=True)
    assert guard_limit(wide, 5) == 3600 * SECOND + 5
    assert guard_limit(wide, None) is None
    assert guard_limit(resolve(Ordered(), SECONDS, replay=False), 7 * SECOND + 1) == 307


@pytest.mark.parametrize(
    ("policy", "condition"),
    [
        (Ordered().idleAfter("5 seconds"), "TIME_UNIT_NEEDED"),
        (Ordered().futureGuard(5), "TIME_UNIT_NEEDED"),
        (BoundedDelay(delay="5 seconds"), "BAD_DURATION"),
        (BoundedRows(rows=-1), "BAD_POLICY"),
        (Policy(), "BAD_POLICY"),
    ],
)
def test_settings_that_do_not_fit_the_column(policy: Policy, condition: str) -> None:
    with pytest.raises(AnalysisError) as e:
        resolve(policy, TS, replay=False)
    assert e.value.condition == condition


def test_bounded_rows_needs_order() -> None:
    with pytest.raises(AnalysisError) as e:
        Feed(BoundedRows(rows=2))
    assert e.value.condition == "ORDER_NEEDED"


def test_a_partition_that_lags_is_left_out_until_it_catches_up() -> None:
    feed = Feed(Ordered().lagLimit(10), partition="p")
    assert feed.batch(*rows(a=[20], b=[18], c=[5])) == 18
    assert feed.state.columns["ts"].partitions["c"].excluded
    assert feed.batch(*rows(a=[30], b=[29], c=[19])) == 29
    assert feed.batch(*rows(c=[21])) == 29
    assert (feed.holder, feed.state.columns["ts"].partitions["c"].excluded) == ("c", False)


@given(
    batches=st.lists(
        st.dictionaries(st.sampled_from("abc"), st.lists(st.integers(0, 60), min_size=1)),
        max_size=8,
    )
)
def test_lag_never_excludes_all(batches: list[dict[str, list[int]]]) -> None:
    feed = Feed(Ordered().lagLimit(5), partition="p")
    for batch in batches:
        feed.batch(*rows(**batch))
        parts = feed.state.columns["ts"].partitions
        assert not parts or not all(p.excluded for p in parts.values())


# --- summaries and state ---------------------------------------------------------------------------

summaries = st.builds(
    PartitionSummary,
    rows=st.integers(0, 5),
    hi=st.none() | st.integers(-9, 9),
    lo=st.none() | st.integers(-9, 9),
    future=st.integers(0, 2),
    punct=st.none() | st.integers(-9, 9),
    rest_hi=st.none() | st.integers(-9, 9),
    tail=st.lists(st.tuples(st.integers(0, 99), st.integers(-9, 9)), max_size=4, unique=True).map(
        lambda rows: tuple(sorted(rows))
    ),
)
parts = st.builds(
    SourceSummary,
    columns=st.dictionaries(
        st.sampled_from(["ts", "end"]), st.dictionaries(st.sampled_from(["", "a"]), summaries)
    ),
    rows=st.integers(0, 9),
    late=st.dictionaries(st.sampled_from(["ts", "end"]), st.integers(1, 3)),
    null_time=st.dictionaries(st.sampled_from(["ts", "end"]), st.integers(1, 3)),
    violations=st.integers(0, 3),
    orders=st.dictionaries(st.sampled_from(["", "a"]), st.tuples(st.integers(0, 99))),
)
BOTH = [
    resolve(BoundedRows(rows=2), TS, False),
    resolve(BoundedRows(rows=3), TimeColumn("end", "long", None), False),
]


@given(a=parts, b=parts, c=parts)
def test_merge_is_associative_and_commutative(
    a: SourceSummary, b: SourceSummary, c: SourceSummary
) -> None:
    assert merge([a, b], BOTH) == merge([b, a], BOTH)
    assert merge([merge([a, b], BOTH), c], BOTH) == merge([a, merge([b, c], BOTH)], BOTH)
    assert merge([merge([a, b]), c]) == merge([a, merge([b, c])])
    # Cutting tails early or late is the same.
    assert merge([merge([a, b]), c], BOTH) == merge([a, b, c], BOTH)


@given(a=parts)
def test_summaries_survive_json(a: SourceSummary) -> None:
    assert SourceSummary.from_json(json.loads(json.dumps(a.to_json()))) == a


@given(
    times=st.lists(st.integers(-20, 20), min_size=1, max_size=12),
    tasks=st.integers(1, 4),
    policy=st.sampled_from([Ordered(), BoundedDelay(delay=4), BoundedRows(rows=2)]),
)
def test_tasks_do_not_matter(times: list[int], tasks: int, policy: Policy) -> None:
    arrivals = [{"ts": t, "i": i} for i, t in enumerate(times)]
    whole, cut = Feed(policy, order=("i",)), Feed(policy, order=("i",))
    whole.batch(*arrivals)
    some = [
        summarize(cut.source, cut.settings, cut.state, arrivals[k::tasks], None)
        for k in range(tasks)
    ]
    merged = merge(some, cut.settings)
    cut.state = progress.advance(cut.source, cut.settings, cut.state, merged, None)
    assert cut.state.bounds == whole.state.bounds


def test_state_survives_json() -> None:
    feed = Feed(BoundedRows(rows=2).idleAfter("5 seconds"), SECONDS, order=("i",), partition="p")
    feed.batch(*({"ts": t, "i": i, "p": "ab"[i % 2]} for i, t in enumerate(range(9))), now=3)
    text = json.dumps(feed.state.to_json())
    assert SourceState.from_json(json.loads(text)) == feed.state


def test_counts_add_up() -> None:
    feed = Feed(Ordered())
    part = SourceSummary({}, 3, {"ts": 2}, {"ts": 1}, 4, {"": (7,)})
    for _ in range(2):
        feed.state = progress.advance(feed.source, feed.settings, feed.state, part, None)
    column = feed.state.columns["ts"]
    assert (feed.state.rows, column.late, column.null_time) == (6, 4, 2)
    assert (feed.state.violations, feed.state.orders) == (8, {"": (7,)})


def test_rows_that_come_before_earlier_batches_are_violations() -> None:
    feed = Feed(Ordered(), order=("i",))
    feed.batch({"ts": 1, "i": 5}, {"ts": 2, "i": 3})
    assert (feed.state.violations, feed.state.orders) == (0, {"": (5,)})
    feed.batch({"ts": 3, "i": 5}, {"ts": 4, "i": 6})
    assert (feed.state.violations, feed.state.orders) == (1, {"": (6,)})
