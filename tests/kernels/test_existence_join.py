"""Semi and anti joins batch by batch, against the oracle and against SQL over the whole streams."""

from __future__ import annotations

from random import Random
from typing import Any

import duckdb
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.errors import AnalysisError
from slackwater.kernels.joins import batch as join_batch
from slackwater.kernels.joins import step as join
from slackwater.kernels.joins.band_join import TimeIndex
from slackwater.model.join import Band
from slackwater.semantics.limits import END, START
from slackwater.testing.oracle.join import JoinRow, whole_join
from tests.examples import examples
from tests.kernels import join_runs
from tests.kernels.join_runs import (
    Runs,
    bands,
    condition,
    histories,
    ids,
    random_history,
    reaches,
    run_both,
    spec_of,
    table,
    tumblings,
)

HOWS = st.sampled_from(["left_semi", "left_anti"])
WITHIN = st.one_of(bands(), tumblings(), reaches(2))


@examples(150)
@given(WITHIN, HOWS, st.booleans(), st.booleans(), st.sampled_from([1, 3, 1000]), st.data())
def test_every_batch_is_that_of_the_definition(within, how, where, leftovers, max_pairs, data):
    history = data.draw(histories(late=data.draw(st.booleans())))
    run_both(spec_of(within, how, max_pairs=max_pairs), history, where=where, leftovers=leftovers)


@examples(40)
@given(bands(), st.booleans(), histories())
def test_the_whole_answer_is_that_of_sql_and_each_row_comes_once(within, where, history):
    sides = [[r for side, _ in history for r in side[i]] for i in range(2)]
    low = ">" if within.closed == "neither" else ">="
    high = "<=" if within.closed == "both" else "<"
    near = (
        f"a.__sw_k0 = b.__sw_k0 and b.__sw_time {low} a.__sw_time - ({within.before}) "
        f"and b.__sw_time {high} a.__sw_time + ({within.after})"
    )
    near += " and (a.v + b.v) % 3 <> 0" if where else ""
    found: list[Any] = []
    with duckdb.connect() as con:
        con.register("a", table(sides[0]))
        con.register("b", table(sides[1]))
        for how in ("left_semi", "left_anti"):
            got = run_both(spec_of(within, how), history, where=where)
            kind = how.removeprefix("left_")
            expected = con.execute(f"select a.id from a {kind} join b on {near}").fetchall()
            assert sorted(got) == sorted(expected)
            test = condition if where else None
            assert sorted(got, key=repr) == ids(whole_join(within, sides, how, test))
            found += got
    # Each left row is in one of the two, once.
    assert sorted(found) == sorted((r.value[0],) for r in sides[0])


@examples(40)
@given(bands(), HOWS, histories(), st.randoms(use_true_random=False))
def test_how_the_stream_is_cut_into_batches_changes_nothing(within, how, history, random):
    cut, bounds = [], (START, START)
    for sides, after in history:
        first = [[r for r in side if random.random() < 0.5] for side in sides]
        rest = [[r for r in side if r not in part] for side, part in zip(sides, first, strict=True)]
        cut += [(first, bounds), (rest, after)]
        bounds = after
    spec = spec_of(within, how)
    assert sorted(run_both(spec, history)) == sorted(run_both(spec, cut))


@examples(60)
@given(WITHIN, histories(late=True))
def test_rows_leave_an_anti_join_when_null_rows_leave_a_left_join(within, history):
    left, anti = Runs(spec_of(within, "left")), Runs(spec_of(within, "left_anti"))
    for sides, bounds in history:
        alone = [(a,) for a, b in left.step(sides, bounds) if b is None]
        assert anti.step(sides, bounds) == alone


def row(time, number=0, key=1.0, v=0):
    return JoinRow(time, (key,), (number, v))


def test_a_row_that_has_met_a_partner_is_not_kept():
    for how, first in (("left_semi", [(1,)]), ("left_anti", [])):
        runs = Runs(spec_of(Band(5, 5), how))
        # 1 meets its partner on arrival and is not stored; 2 is.
        assert runs.step([[row(10, 1), row(30, 2)], [row(11, 100)]], (0, 0)) == first
        assert runs.stored(0) == [2] and runs.stored(1) == [100]
        assert runs.marked(0) == []
        # Its partner comes later: it leaves once, and is marked once.
        second = [(2,)] if how == "left_semi" else []
        assert runs.step([[], [row(31, 101)]], (0, 0)) == second
        assert runs.stored(0) == [] and runs.stored(1) == [100, 101] and len(runs.marked(0)) == 1
        assert runs.step([[], [row(32, 102)]], (0, 0)) == []
        assert len(runs.marked(0)) == 1
        # A left row may still come, so right rows are kept.
        assert runs.step([[row(12, 3)], []], (12, 0)) == ([(3,)] if how == "left_semi" else [])
        assert runs.step([[], []], (END, END)) == []


def test_null_keys_and_ends():
    history = [([[row(1, 1, None), row(1, 2), row(3, 3)], [row(1, 9, None)]], (0, 0)), ([[], []], (END, END))]  # fmt: skip
    assert run_both(spec_of(Band(1, 1), "left_semi"), history) == []
    # A null key waits for nothing: it leaves at once, the others when the right side has ended.
    runs = Runs(spec_of(Band(1, 1), "left_anti"))
    assert [runs.step(*step) for step in history] == [[(1,)], [(2,), (3,)]]


def test_a_hot_key_makes_no_pairs(monkeypatch):
    monkeypatch.setattr(join_batch.JoinBatch, "combinations", lambda self: 1 / 0)
    runs = Runs(spec_of(Band(10**6, 10**6), "left_semi", max_pairs=1000))
    rows = [row(t, t) for t in range(3000)]
    assert len(runs.step([rows, rows], (START, START))) == 3000
    assert runs.stored(0) == [] and len(runs.stored(1)) == 3000


def test_a_condition_is_asked_until_it_holds():
    asked = []

    def predicate(chunk):
        asked.append(chunk.num_rows)
        return join_runs.predicate(chunk)

    runs = Runs(spec_of(Band(9, 9), "left_semi", max_pairs=10))
    right = [row(1, t, v=1) for t in range(1000)]
    assert runs.step([[row(1, 1, v=1)], right], (START, START), predicate) == [(1,)]
    assert asked == [10]


@examples(60)
@given(
    st.lists(st.tuples(st.integers(-1, 2), st.integers(0, 9)), max_size=12),
    st.lists(st.tuples(st.integers(-1, 2), st.integers(0, 9), st.integers(-1, 4)), max_size=12),
)
def test_covered_rows_are_those_of_the_pairs(rows, probes):
    codes, times = (np.array([r[i] for r in rows], dtype=np.int64) for i in (0, 1))
    code, low, span = (np.array([p[i] for p in probes], dtype=np.int64) for i in (0, 1, 2))
    index = TimeIndex(codes, times)
    spans = index.find(code, low, low + span)
    pairs = {int(y) for _, ys in index.pairs(spans, 3) for y in ys}
    covered = index.covered(spans).tolist()
    assert len(covered) == len(set(covered)) and set(covered) == pairs


MUTANTS = (
    "marks are forgotten",
    "met rows are stored",
    "given up by its own bound",
    "no old rows meet",
)


@pytest.mark.parametrize("mutant", [*MUTANTS, "none"])
def test_a_wrong_rule_is_noticed(mutant, monkeypatch):
    def run():
        for seed in range(12):
            for how in ("left_semi", "left_anti"):
                run_both(spec_of(Band(2, 3), how), random_history(Random(seed), seed % 2 == 1))

    if mutant == "none":
        return run()
    if mutant == "marks are forgotten":
        monkeypatch.setattr(join, "without_marked", lambda stored, marked: stored)
    elif mutant == "met rows are stored":
        kept = join_batch.JoinBatch.kept

        def stored(self, row_base, marks):
            side = self.sides[0]
            side.stays = (side.new_times >= side.needed) & (side.new_codes >= 0)
            return kept(self, row_base, marks)

        monkeypatch.setattr(join_batch.JoinBatch, "kept", stored)
    elif mutant == "given up by its own bound":
        right = join_batch.needed_from
        monkeypatch.setattr(
            join_batch, "needed_from", lambda w, i, b: right(w, i, (b[i], b[i]) if i == 0 else b)
        )
    else:
        whole = join_batch.JoinBatch.partnered

        def new_only(self):
            met = whole(self)
            met[: self.sides[0].old_rows] = False
            return met

        monkeypatch.setattr(join_batch.JoinBatch, "partnered", new_only)
    with pytest.raises(AssertionError):
        run()
    return None


def test_only_two_inputs():
    with pytest.raises(AnalysisError, match="takes two inputs"):
        spec_of(Band(1, 1), "left_semi", inputs=3)
