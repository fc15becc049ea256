"""Joins batch by batch, against the oracle and against SQL over the whole streams."""

from __future__ import annotations

from random import Random

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.errors import AnalysisError
from slackwater.kernels.joins import batch as join_batch
from slackwater.kernels.joins import step as join
from slackwater.model.join import Band, Reach, Tumbling
from slackwater.model.window import TimeWindow
from slackwater.semantics.limits import END, START
from slackwater.testing.oracle.join import JoinRow
from tests.examples import examples
from tests.kernels import join_runs
from tests.kernels.join_runs import (
    SCHEMA,
    Runs,
    bands,
    histories,
    random_history,
    reaches,
    run_both,
    spec_of,
    table,
    tumblings,
)

MANY = examples(40)
FEW = examples(25)
HOWS = st.sampled_from(["inner", "left", "right", "full"])


@pytest.mark.spec("OO-F17", "XJ-F03", "WQ-F59", "WQ-F60", "OO-F18", "WQ-F64")
@MANY
@given(bands(), HOWS, st.booleans(), st.sampled_from([1, 3, 1000]), histories())
def test_a_band_join_of_streams_on_time(within, how, where, max_pairs, history):
    run_both(spec_of(within, how, max_pairs=max_pairs), history, where=where)


@MANY
@given(bands(), HOWS, st.booleans(), st.booleans(), histories(late=True))
def test_late_rows_meet_what_is_still_needed(within, how, where, leftovers, history):
    # Catches: a row that was dropped and still joins because its run is still there.
    run_both(spec_of(within, how), history, where=where, leftovers=leftovers)


@pytest.mark.spec("WQ-F58", "OO-F19")
@FEW
@given(tumblings(), HOWS, st.booleans(), histories(late=True))
def test_a_tumbling_join(within, how, leftovers, history):
    run_both(spec_of(within, how), history, leftovers=leftovers)


@pytest.mark.spec("XJ-F80", "QD-E1", "QD-A10")
@examples(25)
@given(st.data())
def test_joins_of_three_and_four_streams(data):
    inputs = data.draw(st.integers(3, 4))
    late = data.draw(st.booleans())
    history = data.draw(histories(inputs, late=late, rows=3, batches=4))
    within = data.draw(st.one_of(reaches(inputs), tumblings()))
    where = data.draw(st.booleans())
    pairs = data.draw(st.sampled_from([1, 4, 1000]))
    run_both(spec_of(within, inputs=inputs, max_pairs=pairs), history, where=where)


@pytest.mark.parametrize("reach", [(3, 5, 2), (0, 4, 4, 1)])
def test_every_two_rows_of_a_result_pair(reach):
    # Many rows of one key: most that suit the driving row do not suit each other.
    results = 0
    for seed in range(6):
        history = random_history(Random(seed), late=seed % 2 == 1, inputs=len(reach))
        spec = spec_of(Reach(reach), inputs=len(reach), max_pairs=7)
        results += len(run_both(spec, history))
    assert results > 20


@pytest.mark.spec("OO-F36", "WQ-F67")
@examples(25)
@given(bands(), HOWS, histories())
def test_the_whole_answer_is_that_of_sql(within, how, history):
    # SQL is a third opinion, beside kernel and oracle. Null = null is no match there either; NaN = NaN.
    got = run_both(spec_of(within, how), history)
    a, b = (table([r for sides, _ in history for r in sides[i]]) for i in range(2))
    low, high = (
        (">" if within.closed == "neither" else ">="),
        "<=" if within.closed == "both" else "<",
    )
    with duckdb.connect() as con:
        con.register("a", a)
        con.register("b", b)
        expected = con.execute(
            f"select a.id, b.id from a {how.replace('inner', '')} join b on a.__sw_k0 = b.__sw_k0 "
            f"and b.__sw_time {low} a.__sw_time - ({within.before}) "
            f"and b.__sw_time {high} a.__sw_time + ({within.after})"
        ).fetchall()
    assert sorted(got, key=repr) == sorted(expected, key=repr)


@FEW
@given(bands(), histories(), st.randoms(use_true_random=False))
def test_how_the_stream_is_cut_into_batches_changes_nothing(within, history, random):
    # All rows of a step may as well come in two batches: bounds rise at the end of the second.
    cut, bounds = [], (START, START)
    for sides, after in history:
        first = [[r for r in side if random.random() < 0.5] for side in sides]
        rest = [[r for r in side if r not in part] for side, part in zip(sides, first, strict=True)]
        cut += [(first, bounds), (rest, after)]
        bounds = after
    spec = spec_of(within, "full")
    assert sorted(run_both(spec, history), key=repr) == sorted(run_both(spec, cut), key=repr)


@FEW
@given(st.integers(0, 5), st.integers(0, 5), histories())
def test_a_join_of_a_stream_with_itself(before, after, history):
    twice = [([sides[0], sides[0]], (b[0], b[0])) for sides, b in history]
    got = run_both(spec_of(Band(before, after)), twice)
    rows = [r for sides, _ in history for r in sides[0] if r.key[0] is not None]
    # Every row meets itself once.
    assert sorted(x for x, y in got if x == y) == sorted(r.value[0] for r in rows)


@pytest.mark.spec("WQ-F65")
@FEW
@given(
    st.lists(st.integers(0, 12), max_size=6),
    st.lists(st.integers(0, 12), max_size=6),
    st.integers(1, 5),
    st.integers(1, 5),
)
def test_the_definition_by_whole_windows(left, right, range0, range1):
    # Window w of a side holds the times (w - range, w]; rows join iff some window w holds both.
    # As a set: a pair in many windows is one result. This is the band with both ends open.
    together = {
        (x, 100 + y)
        for w in range(30)
        for x, a in enumerate(left)
        for y, b in enumerate(right)
        if w - range0 < a <= w and w - range1 < b <= w
    }
    runs = Runs(spec_of(Band(before=range1, after=range0, closed="neither")))
    sides = [[row(t, n) for n, t in enumerate(left)], [row(t, 100 + n) for n, t in enumerate(right)]]  # fmt: skip
    got = runs.step([sides[0], []], (START, START)) + runs.step([[], sides[1]], (END, END))
    assert sorted(got) == sorted(together)


REACH = (3, 2)  # of the band below
WRONG_RULES = {
    "by its own bound": lambda i, b: b[i] - REACH[i],
    "by the slower side": lambda i, b: min(b) - REACH[i],
    "by the faster side": lambda i, b: max(b) - REACH[i],
    "by the other side's reach": lambda i, b: b[1 - i] - REACH[1 - i],
    "a tick too early": lambda i, b: b[1 - i] - REACH[i] + 1,
    "a tick too late": lambda i, b: b[1 - i] - REACH[i] - 1,
    "without the reach": lambda i, b: b[1 - i],
}


@pytest.mark.parametrize("rule", [*WRONG_RULES, "right"])
def test_a_row_freed_by_a_wrong_rule_is_noticed(rule, monkeypatch):
    # Both ways: pairs that are lost, and rows that are kept though nobody can meet them.
    def run():
        for seed in range(12):
            for late in (False, True):
                run_both(spec_of(Band(2, 3), "left"), random_history(Random(seed), late))

    if rule == "right":
        return run()

    def wrong(within, i, bounds):
        return END if bounds[1 - i] >= END else WRONG_RULES[rule](i, bounds)

    monkeypatch.setattr(join_batch, "needed_from", wrong)
    monkeypatch.setattr(join_runs, "needed_from", wrong)
    with pytest.raises(AssertionError):
        run()
    return None


def row(time, number=0, key=1.0, v=0):
    return JoinRow(time, (key,), (number, v))


@pytest.mark.spec("WQ-F57", "WQ-F59", "WQ-F60")
def test_the_trace_of_the_two_unequal_ranges():
    # S0 stays joinable for 3, S1 for 2. One event per batch; the stores are what the trace says.
    runs = Runs(spec_of(Band(before=2, after=3)))
    bounds = [START, START]
    log = []

    def event(kind, side, time):
        sides = [[], []]
        if kind == "row":
            sides[side] = [row(time, time)]
        else:
            bounds[side] = time
        log.append((runs.step(sides, bounds), runs.stored(0), runs.stored(1)))

    for e in [
        ("row", 0, 10), ("row", 1, 12), ("row", 1, 9), ("bound", 1, 9), ("row", 0, 13),
        ("bound", 0, 13), ("row", 1, 16), ("row", 1, 11), ("bound", 1, 14), ("row", 0, 15),
        ("bound", 0, 18), ("row", 1, 14),
    ]:  # fmt: skip
        event(*e)
    assert log == [
        ([], [10], []),
        ([(10, 12)], [10], [12]),
        ([(10, 9)], [10], [9, 12]),
        ([], [10], [9, 12]),
        ([(13, 12)], [10, 13], [9, 12]),
        ([], [10, 13], [12]),
        ([(13, 16)], [10, 13], [12, 16]),
        ([(10, 11), (13, 11)], [10, 13], [11, 12, 16]),
        ([], [13], [11, 12, 16]),
        ([(15, 16)], [13, 15], [11, 12, 16]),
        ([], [13, 15], [16]),
        ([(13, 14), (15, 14)], [13, 15], [16]),
    ]


@pytest.mark.spec("WQ-F66", "OO-F18")
def test_a_side_far_ahead_does_not_free_its_own_rows():
    # One watermark for both, be it the smaller or the larger, would lose the pair or keep all of b.
    runs = Runs(spec_of(Band(5, 5)))
    assert runs.step([[], [row(t, t) for t in range(0, 1000, 10)]], (0, 1000)) == []
    assert runs.stored(1) == list(range(0, 1000, 10))
    assert runs.step([[row(12, 1)], []], (500, 1000)) == [(1, 10)]
    assert runs.stored(1) == list(range(500, 1000, 10))
    assert runs.stored(0) == [], "the other side is past all that these could meet"


@pytest.mark.spec("WQ-F66")
def test_a_side_that_lags_by_minutes_is_neither_short_of_pairs_nor_given_wrong_ones():
    # Q5-8 with its first input five minutes behind: 10:03:00 must not meet 10:10:59.
    minute = 60
    spec = spec_of(Band(before=2 * minute, after=3 * minute - 1))
    runs = Runs(spec)
    main1 = [row(t, t) for t in range(3 * minute, 6 * minute, 20)]
    main2 = [row(t, t) for t in range(1 * minute, 11 * minute, 20)]
    assert runs.step([[], main2], (START, 11 * minute)) == []
    got = runs.step([main1, []], (6 * minute, 11 * minute))
    expected = [
        (a.time, b.time)
        for a in main1
        for b in main2
        if a.time - 2 * minute <= b.time < a.time + 3 * minute
    ]
    assert got == sorted(expected, key=repr)


@pytest.mark.spec("XJ-F01")
@pytest.mark.parametrize(
    ("closed", "expected"),
    [("both", [8, 9, 10, 12, 13]), ("left", [8, 9, 10, 12]), ("neither", [9, 10, 12])],
)
def test_ends_of_the_band(closed, expected):
    for new_side in (0, 1):
        runs = Runs(spec_of(Band(2, 3, closed)))
        sides = [[row(10, 0)], [row(t, t) for t in (7, 8, 9, 10, 12, 13, 14)]]
        first = [side if i != new_side else [] for i, side in enumerate(sides)]
        second = [side if i == new_side else [] for i, side in enumerate(sides)]
        assert runs.step(first, (START, START)) == []
        got = runs.step(second, (START, START))
        assert sorted(b for _, b in got) == expected


def test_a_hot_key_comes_in_chunks():
    spec = join.JoinSpec(Band(10**6, 10**6), 1, (("id",), ("id",)), max_pairs=1 << 12)
    n = 300
    sides = [table([row(t, t) for t in range(n)]) for _ in range(2)]
    done = join.step(spec, sides, [_nothing, _nothing], (START, START), (END, END))
    seen = set()
    for chunk in done.output:
        assert chunk.num_rows <= 1 << 12
        seen.update(zip(chunk["_0.id"].to_pylist(), chunk["_1.id"].to_pylist(), strict=True))
    assert len(seen) == n * n
    assert [t.num_rows for t in done.finish().keep] == [0, 0]


def test_what_to_store_is_known_only_at_the_end():
    done = join.step(
        spec_of(Band(1, 1)), [table([row(1)])] * 2, [_nothing] * 2, (START,) * 2, (START,) * 2
    )
    with pytest.raises(RuntimeError, match="before all chunks"):
        done.finish()


def test_without_keys_times_alone_decide():
    spec = join.JoinSpec(Band(1, 1), 0, (("id",), ("id",)))
    a, b = table([row(5, 1, None)]), table([row(6, 2, 1.0), row(7, 3, 1.0)])
    done = join.step(spec, [a, b], [_nothing] * 2, (START,) * 2, (START,) * 2)
    assert [c["_1.id"].to_pylist() for c in done.output] == [[2]]


@pytest.mark.parametrize(
    ("kind", "a", "b", "equal"),
    [
        (pa.string(), "x", "x", True),
        (pa.string(), "x", "y", False),
        (pa.float64(), float("nan"), float("nan"), True),
        (pa.float64(), 0.0, -0.0, True),
        (pa.int64(), None, None, False),
        (pa.struct([("f", pa.int64())]), {"f": None}, {"f": None}, True),
    ],
)
def test_keys_are_equal_as_in_spark(kind, a, b, equal):
    spec = join.JoinSpec(Band(0, 0), 1, (("__sw_k0",), ("__sw_k0",)))
    sides = [
        pa.table(
            {
                "__sw_time": pa.array([1]),
                "__sw_bucket": pa.array([0], pa.int16()),
                "__sw_k0": pa.array([x], kind),
            }
        )
        for x in (a, b)
    ]
    nothing = [lambda low, high: sides[0].slice(0, 0)] * 2
    done = join.step(spec, sides, nothing, (START,) * 2, (START,) * 2)
    assert sum(c.num_rows for c in done.output) == equal
    assert [t.num_rows for t in done.finish().keep] == [int(a is not None), int(b is not None)]


def test_a_row_of_an_outer_input_that_matched_twice_is_marked_once():
    runs = Runs(spec_of(Band(5, 5), "left"))
    runs.step([[row(10, 1), row(11, 2)], [row(10, 3)]], (START, START))
    assert runs.marked(0) == [], "it met a partner when it came, so it is stored as matched"
    runs.step([[row(16, 4)], []], (START, START))
    for n in range(5, 8):
        runs.step([[], [row(18, n)]], (START, START))
    assert len(runs.marked(0)) == 1
    assert runs.step([[], []], (START, END)) == []


def test_rows_of_two_buckets_may_have_one_number():
    # Two tasks numbered their rows alike; now one task has the buckets of both.
    spec = spec_of(Band(5, 5), "left")
    schema = join.state_schema(spec, 0, SCHEMA)
    stored = pa.table([[10, 10], [1, 2], [1.0, 2.0], [1, 2], [0, 0], [7, 7], [False, False]], schema=schema)  # fmt: skip
    marks = pa.table([[7], [10], [1]], schema=join.MATCHED_SCHEMA)
    empty = SCHEMA.empty_table()
    done = join.step(
        spec,
        [empty, empty],
        [lambda low, high: stored, _nothing],
        (START, START),
        (START, 100),
        matched=[lambda low, high: marks, _nothing],
    )
    assert [c["_0.id"].to_pylist() for c in done.output] == [[2]]


def test_an_outer_row_without_a_key_leaves_at_once_and_is_not_stored():
    runs = Runs(spec_of(Band(5, 5), "full"))
    got = runs.step([[row(10, 1, None)], [row(10, 2, None)]], (START, START))
    assert got == [(1, None), (None, 2)] and not runs.rows[0] and not runs.rows[1]


def test_stored_rows_are_read_only_where_new_ones_may_meet_them():
    runs = Runs(spec_of(Band(2, 3)))
    runs.step([[row(t, t) for t in range(50)], []], (START, START))
    runs.asked.clear()
    runs.step([[], [row(30, 0), row(33, 1)]], (START, 20))
    assert runs.asked == [(0, 27, 35)]
    runs.asked.clear()
    runs.step([[], [row(19, 2)]], (START, 20))
    assert runs.asked == [(0, 17, 21)], "not below what the bounds still need"
    runs.asked.clear()
    runs.step([[row(51, 51)], []], (START, 21))
    assert runs.asked == [(1, 49, 54)]


def test_outer_joins_take_two_inputs():
    with pytest.raises(AnalysisError, match="two inputs"):
        spec_of(Reach((1, 1, 1)), "left", inputs=3)


def test_an_ended_side_frees_the_other_and_stores_nothing_of_it():
    runs = Runs(spec_of(Tumbling(TimeWindow(10, 10, 0, "t")), "left"))
    runs.step([[row(1, 1)], [row(2, 2)]], (START, START))
    assert runs.step([[row(3, 3), row(15, 4)], []], (START, END)) == [(3, 2), (4, None)]
    assert runs.stored(0) == [] and runs.stored(1) == [2]


def _nothing(low: int, high: int) -> pa.Table:
    return SCHEMA.empty_table()
