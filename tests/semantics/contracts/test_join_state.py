"""What joins keep: no more than about twice what punctuation has left open, and nothing for a side that has ended."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from slackwater.model.join import Anytime, Band, How, Within
from slackwater.model.join_times import join_times
from slackwater.model.node import Join
from slackwater.model.schema import Named, column
from slackwater.model.time import TimeColumn
from slackwater.semantics.join_patterns import closing, passed
from slackwater.semantics.patterns import Pattern, Test
from slackwater.testing.executors.kernels import KernelMachine
from tests.semantics.contracts.plans import joined, punctuated

HOWS: tuple[How, ...] = ("inner", "left", "right", "full", "left_semi", "left_anti")


def machine(within: Within = Anytime(), how: How = "inner") -> tuple[KernelMachine, Any]:  # noqa: B008
    plan = joined(punctuated("s", "[[k:#]]"), punctuated("r", "[[k:#]]"), within=within, how=how)
    made = KernelMachine({"out": plan}, "panes")
    (kept,) = made.joins.values()
    return made, kept._machine


def row(k: int | None, ts: int) -> dict[str, Any]:
    return {"k": k, "g": 0, "ts": ts, "p": None, "b": None}


def closed(*keys: int) -> dict[str, Any]:
    tests = {"k": {"op": "in", "value": str(list(keys))}}
    return {"k": None, "g": None, "ts": None, "p": tests, "b": None}


def by_input(state: Any) -> list[int]:
    return [sum(r.rows for r in state.runs if r.part == part) for part in ("0", "1")]


@pytest.mark.spec("FC-F25")
@pytest.mark.parametrize("how", HOWS)
def test_at_most_twice_the_open_rows_are_kept(how: How) -> None:
    made, state = machine(how=how)
    open_: set[int] = set()
    for batch in range(12):
        fresh = list(range(batch * 20, batch * 20 + 20))
        open_ |= set(fresh)
        done = [k for k in sorted(open_) if (k * 7 + batch) % 3 or k < fresh[0] - 40]
        open_ -= set(done)
        lines = [row(k, batch) for k in fresh]
        paid = [row(k + 10_000, batch) for k in fresh]  # of other orders, so that all rows wait
        made.step({"s": [*lines, closed(*(k + 10_000 for k in done))], "r": [*paid, closed(*done)]}, None, frozenset())  # fmt: skip
        assert all(n <= 2 * len(open_) + len(fresh) for n in by_input(state)), (batch, by_input(state))  # fmt: skip
    made.step({"s": [closed(*range(10_000, 20_000))], "r": [closed(*range(10_000))]}, None, frozenset())  # fmt: skip
    assert state.rows == 0


@pytest.mark.spec("FC-F25")
@pytest.mark.parametrize("within", [Anytime(), Band(3, 3)])
@pytest.mark.parametrize("how", HOWS)
def test_a_side_that_has_ended_lets_the_other_store_nothing(how: How, within: Within) -> None:
    made, state = machine(within, how)
    made.step({"s": [row(1, 1)], "r": [row(7, 1), row(2, 2)]}, None, frozenset())
    assert by_input(state) == [1, 2]
    made.step({"s": [row(2, 2), row(5, 3)]}, None, frozenset(["r"]))
    assert by_input(state)[0] == 0
    found = made.step({"s": [row(2, 3), row(8, 3)]}, None, frozenset()).outputs["out"]
    assert by_input(state)[0] == 0
    pairs = {"inner": 1, "left": 2, "right": 1, "full": 2, "left_semi": 1, "left_anti": 1}
    assert len(found) == pairs[how]
    made.step({}, None, frozenset(["s"]))
    assert state.rows == 0


def test_its_own_punctuation_frees_nothing_and_another_column_makes_it_useless() -> None:
    made, state = machine()
    made.step({"s": [row(1, 1), closed(1)]}, None, frozenset())
    assert by_input(state) == [1, 0]
    node = joined(punctuated("s", "[[k:#]]"), punctuated("r", "[[k:#]]"), within=Anytime())
    one, other = Pattern.of({"k": Test.among([1])}), Pattern.of({"k": Test.among([1]), "g": Test.among([2])})  # fmt: skip
    assert closing(node, 1, (one,), {}) and not closing(node, 1, (other,), {})
    timed = Pattern.of({"k": Test.among([1]), "ts": Test.below(9)})
    assert not closing(node, 1, (timed,), {})
    assert closing(replace(node, within=Band(1, 1)), 1, (timed,), {})


def test_what_one_side_has_closed_is_not_passed_on() -> None:
    node = joined(punctuated("s", "[[k:#]]"), punctuated("r", "[[k:#]]"), within=Anytime())
    one = (Pattern.of({"k": Test.among([1, 2, None])}),)
    assert passed(node, [one, ()], [{}, {}]) == ()
    both = passed(node, [one, (Pattern.of({"k": Test.below(2)}),)], [{}, {}])
    assert {tuple(p.tests) for p in both} == {((name, Test.among([1])),) for name in ("k0", "k1")}
    band = replace(node, within=Band(before=2, after=3))
    said = passed(band, [one, ()], [{"ts": 5}, {"ts": 20}])
    shown = {c: t for p in said for c, t in p.tests if c != "k0" and c != "k1"}
    # Left is closed for these keys, right up to 20: later pairs have right rows from 20 on, left ones from 17 on.
    assert shown == {"ts0": Test.below(17), "ts1": Test.below(20), "greatest(ts0, ts1)": Test.below(20), "least(ts0, ts1)": Test.below(17)}  # fmt: skip
    assert passed(replace(band, memory=10), [one, one], [{}, {}]) == ()


@pytest.mark.parametrize("once", [False, True])
def test_a_time_that_is_a_key_is_closed_only_where_both_sides_have_closed_it(once: bool) -> None:
    """Left has closed the time 5 alone, so a result at any other time may still come, however far right is."""
    node = joined(punctuated("s", "[[k:#]]"), punctuated("r", "[[k:#]]"), within=Band(0, 0))
    time = Named("ts", column("ts", "bigint"))
    node = replace(node, keys=tuple((*keys, time) for keys in node.keys))
    if once:  # as with on=["k", "ts"]: one column is both times
        own = [TimeColumn("ts0", "long", None)] * 2
        node = replace(node, times=join_times(own, "inner"), time_names=("ts0", "ts0"))
    left = (Pattern.of({"ts": Test.among([5])}),)
    for right in (3, 9):
        said = passed(node, [left, ()], [{}, {"ts": right}])
        for at in range(12):
            result = dict.fromkeys(("ts0", "ts1", *(t.name for t in node.times)), at)
            closed = any(all(t.matches(result[c]) for c, t in p.tests) for p in said)
            assert closed == (at == 5 < right), (right, at, said)


@pytest.mark.spec("FC-F25")
def test_a_bound_and_a_pattern_close_together_what_neither_closes_alone() -> None:
    """The left row at 5 meets right ones from 2 to 8: those below 5 are closed by the bound, the rest by the pattern."""
    made, _ = machine(Band(3, 3), "left")
    made.step({"s": [row(1, 5), row(2, 5)]}, None, frozenset())
    tests = {"k": {"op": "=", "value": "1"}, "ts": {"op": "in", "value": "[5, 6, 7, 8, null]"}}
    pattern = {"k": None, "g": None, "ts": None, "p": tests, "b": None}
    assert len(made.step({"r": [pattern]}, None, frozenset()).outputs["out"]) == 0
    bound = {**pattern, "p": {"ts": {"op": "<", "value": "5"}}}
    found = made.step({"r": [bound]}, None, frozenset()).outputs["out"]
    assert [r["k0"] for r in found] == [1]


def test_a_join_with_itself_needs_both_of_its_sides_closed() -> None:
    s = punctuated("s", "[[k:#]]")
    plan: Join = joined(s, s, within=Anytime())
    made = KernelMachine({"out": plan}, "panes")
    first = made.step({"s": [row(1, 1), row(1, 2), row(None, 3)]}, None, frozenset()).outputs["out"]
    assert len(first) == 4
    made.step({"s": [closed(1)]}, None, frozenset())
    (kept,) = made.joins.values()
    assert kept._machine.rows == 0


@pytest.mark.parametrize("how", HOWS)
def test_a_late_row_does_not_meet_what_is_closed_though_it_is_still_stored(how: How) -> None:
    """One of five rows is closed, which is too little to write the others anew."""
    made, state = machine(how=how)
    made.step({"s": [row(k, k) for k in range(5)]}, None, frozenset())
    made.step({"r": [closed(1)]}, None, frozenset())
    assert by_input(state)[0] == 5
    found = made.step({"r": [row(1, 9)]}, None, frozenset()).outputs["out"]
    # Of order 1 nothing is left but the late row itself, which waits for partners of its own.
    assert len(found) == 0
    again = made.step({"r": [row(2, 9)], "s": [closed(1)]}, None, frozenset()).outputs["out"]
    # That one had none is never said: order 1 was closed before it came, and may have had a partner.
    assert len(again) == (how != "left_anti")
