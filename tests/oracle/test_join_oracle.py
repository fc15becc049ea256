"""The oracle of joins against SQL, scans and the definition by windows."""

from __future__ import annotations

import duckdb
from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.join import Band, Reach, Tumbling
from slackwater.semantics.limits import END, START
from slackwater.testing.oracle.join import JoinOracle, JoinRow, last_partner, pairs, whole_join
from tests.examples import examples
from tests.kernels.join_runs import bands, histories, ids, reaches, table, tumblings

FEW = examples(30)


@FEW
@given(st.one_of(bands(), tumblings(), reaches(2)), st.integers(-20, 20))
def test_the_last_partner_is_the_last_of_a_scan(within, t):
    for i, j in ((0, 1), (1, 0)):
        scan = [x for x in range(t - 30, t + 31) if pairs(within, i, j, t, x)]
        assert last_partner(within, i, j, t) == (max(scan) if scan else None)


@examples(25)
@given(
    st.one_of(bands(), tumblings()), st.sampled_from(["inner", "left", "right", "full"]), histories()
)  # fmt: skip
def test_streams_on_time_give_the_join_of_sql(within, how, history):
    oracle = JoinOracle(within, how)
    got = [r for sides, bounds in history for r in oracle.step(sides, bounds)]
    sides = [[r for side, _ in history for r in side[i]] for i in range(2)]
    if isinstance(within, Tumbling):
        w = within.window
        near = f"floor((a.__sw_time - ({w.origin})) / {w.range}) = floor((b.__sw_time - ({w.origin})) / {w.range})"
    else:
        low = ">" if within.closed == "neither" else ">="
        high = "<=" if within.closed == "both" else "<"
        near = f"b.__sw_time {low} a.__sw_time - ({within.before}) and b.__sw_time {high} a.__sw_time + ({within.after})"
    with duckdb.connect() as con:
        con.register("a", table(sides[0]))
        con.register("b", table(sides[1]))
        expected = con.execute(
            f"select a.id, b.id from a {how.replace('inner', '')} join b on a.__sw_k0 = b.__sw_k0 and {near}"
        ).fetchall()
    assert ids(got) == sorted(expected, key=repr)
    assert ids(got) == ids(whole_join(within, sides, how))


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
    a = [JoinRow(t, (), n) for n, t in enumerate(left)]
    b = [JoinRow(t, (), n) for n, t in enumerate(right)]
    together = {
        (x.value, y.value)
        for w in range(30)
        for x in a
        for y in b
        if w - range0 < x.time <= w and w - range1 < y.time <= w
    }
    found = whole_join(Band(before=range1, after=range0, closed="neither"), [a, b])
    assert sorted((x.value, y.value) for x, y in found) == sorted(together)


@examples(25)
@given(st.integers(3, 4), st.data())
def test_several_streams_join_by_their_newest_row(inputs, data):
    # In order of time, a result comes from its newest row meeting rows that are no older than their reach.
    reach = data.draw(st.lists(st.integers(0, 5), min_size=inputs, max_size=inputs))
    history = data.draw(histories(inputs, rows=3, batches=3))
    oracle = JoinOracle(Reach(tuple(reach)), inputs=inputs)
    got = [r for sides, bounds in history for r in oracle.step(sides, bounds)]
    sides = [[r for side, _ in history for r in side[i]] for i in range(inputs)]
    arrived = [[] for _ in range(inputs)]
    expected = []
    for row, i in sorted(((r, i) for i, side in enumerate(sides) for r in side), key=lambda x: x[0].time):  # fmt: skip
        partial = [()]
        for j in range(inputs):
            choice = [row] if j == i else [r for r in arrived[j] if r.time >= row.time - reach[j]]
            partial = [(*p, r) for p in partial for r in choice]
        expected += [p for p in partial if _one_key(p)]
        arrived[i].append(row)
    assert ids(got) == ids(expected)


def _one_key(rows):
    first = rows[0].key[0]
    if any(r.key[0] is None for r in rows):
        return False
    if first != first:
        return all(r.key[0] != r.key[0] for r in rows)
    return all(r.key[0] == first for r in rows)


def test_a_late_row_meets_a_row_only_while_that_is_needed():
    oracle = JoinOracle(Band(2, 2), "left")
    old = JoinRow(10, (1,), "old")
    assert oracle.step([[old], []], (10, 12)) == []
    # On time would be 12 or later. Row 10 is still needed for 12, so the late row finds it.
    late = JoinRow(9, (1,), "late")
    assert oracle.step([[], [late]], (10, 12)) == [(old, late)]
    assert oracle.step([[], []], (10, 13)) == []
    other = JoinRow(9, (1,), "later still")
    assert oracle.step([[], [other]], (10, 13)) == [], "row 10 is past use"


def test_an_unmatched_row_leaves_with_the_first_bound_that_proves_it():
    oracle = JoinOracle(Band(2, 2), "full")
    a = JoinRow(10, (1,), "a")
    assert oracle.step([[a], []], (START, START)) == []
    assert oracle.step([[], []], (END, 12)) == [], "the end of its own side proves nothing"
    assert oracle.step([[], []], (END, 13)) == [(a, None)]
