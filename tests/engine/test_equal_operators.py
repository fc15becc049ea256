"""Operators that are written twice and mean the same are one: whoever reads them, in whatever order, over restarts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slackwater.engine.driver.opening import stored_query
from slackwater.errors import AnalysisError, CheckpointError
from slackwater.model.node import Aggregate, Filter, Node, Source, Union
from slackwater.model.reacting import Reacting
from slackwater.model.relation import Relation
from slackwater.model.schema import Field
from slackwater.semantics.feedback.standing import Request
from slackwater.semantics.patterns import Pattern, Test
from slackwater.testing.local.tables import WrittenTable
from tests.engine.feedback.running import feedback_of
from tests.engine.lives import Life, made, stream, with_slack

S = stream()
COUNTS = [{"from": "s"}, {"window": {"range": 10}, "by": ["k"], "agg": {"n": "count(*)"}}]
SHOWN = ("k", "start", "n")


def counts(*more: Any) -> Node:
    return made([*COUNTS, *more], S)


@pytest.fixture
def life(tmp_path: Path) -> Iterator[Life]:
    one = Life(tmp_path)
    yield one
    one.stop()


def test_the_older_of_two_outputs_keeps_its_state(life: Life) -> None:
    """Rows at 1, 2 and 3 are counted by "all" alone; then "few" comes, and is named first."""
    life.start({"all": counts()})
    life.batch([("a", 1, 1), ("b", 2, 1), ("b", 3, 1)])
    life.start({"few": counts({"where": "k = 'b'"}), "all": counts()})
    life.batch([("b", 4, 1), ("a", 4, 1), ("b", 59, 1)])
    assert sorted(life.rows("all", *SHOWN)) == [("a", 0, 2), ("b", 0, 3)]
    # It reads an operator that was there before it: its windows are whole.
    assert life.rows("few", *SHOWN) == [("b", 0, 3)]
    life.start({"all": counts(), "few": counts({"where": "k = 'b'"})})
    life.batch([("b", 58, 1)], end=True)
    assert sorted(life.rows("all", *SHOWN)) == [("a", 0, 2), ("b", 0, 3), ("b", 50, 2)]
    assert life.rows("few", *SHOWN) == [("b", 0, 3), ("b", 50, 2)]


def test_the_newer_of_two_outputs_stays(life: Life) -> None:
    """The operator lives as long as one of its readers does."""
    life.start({"sums": counts()})
    life.batch([("a", 1, 1)])
    life.start({"sums": counts(), "peaks": counts()})
    life.batch([("a", 2, 1)])
    life.start({"peaks": counts()})
    life.batch([("a", 3, 1), ("a", 11, 1)])
    life.start({"peaks": counts(), "sums": counts()})
    life.batch([("a", 12, 1), ("a", 20, 1)])
    assert life.rows("peaks", *SHOWN) == [("a", 0, 3), ("a", 10, 2)]
    assert life.rows("sums", *SHOWN) == [("a", 10, 2)]


# ---- what else may be equal ----
DEDUP = [{"from": "s"}, {"dedup": {"subset": ["k"], "within": 20}}]
SORT = [{"from": "s"}, {"sort": "t"}]
LARGE = [*COUNTS, {"window": {"range": 20}, "by": ["k"], "agg": {"n": "sum(n)"}}]
PAIRS = [
    {"join": [{"as": n, "from": [{"from": "s"}]} for n in "lr"], "keys": ["k"], "band": {"before": 5, "after": -1}},
    {"select": {"k": "k", "t": "l_t", "v": "r_t"}},
]  # fmt: skip


@pytest.mark.parametrize(
    ("steps", "shown", "first", "second"),
    [
        # The duplicate at 5 does not come out again, and no first row is lost.
        (DEDUP, ("k", "t"), [("a", 1), ("b", 2)], [("c", 12)]),
        # Rows from 0 on wait, and leave in the output that they came for.
        (SORT, ("k", "t"), [("a", 1)], [("a", 5), ("b", 2), ("c", 12)]),
        (LARGE, SHOWN, [], [("a", 0, 2), ("b", 0, 1), ("c", 0, 1)]),
        # The partner of the row at 5 has been there since 1.
        (PAIRS, ("k", "t", "v"), [], [("a", 5, 1)]),
    ],
    ids=["dropDuplicates", "sort", "windows over windows", "join"],
)
def test_states_stay_where_they_are_whoever_is_named_first(
    life: Life, steps: Any, shown: Any, first: Any, second: Any
) -> None:
    def written(*more: Any) -> Node:
        return made([*steps, *more], S)

    life.start({"old": written()})
    life.batch([("a", 1, 1), ("b", 2, 1)])
    assert sorted(life.rows("old", *shown)) == first
    life.start({"new": written({"where": "k <> 'c'"}), "old": written()})
    life.batch([("a", 5, 1), ("c", 12, 1)])
    life.start({"old": written(), "new": written({"where": "k <> 'c'"})})
    life.batch([("c", 31, 1)])
    assert sorted(life.rows("old", *shown)) == sorted(first + second)
    # The new one has what the operator gave since, and of that what it asks for.
    assert sorted(life.rows("new", *shown)) == [r for r in second if r[0] != "c"]


def test_a_stream_is_united_and_joined_with_itself(life: Life) -> None:
    """Built apart or not: each row comes as often as it is asked for."""
    twice = [{"union": [COUNTS, COUNTS]}]
    sides = [{"as": n, "from": COUNTS} for n in "lr"]
    both: list[Any] = [{"join": sides, "keys": ["k"], "tumbling": 10}]
    shared = counts()
    life.start(
        {
            "twice": made(twice, S),
            "once": shared,
            "both": made([*both, {"select": ["l_n", "r_n"]}], S),
        }
    )
    assert [op.partition("-")[0] for op in life.operators] == ["aggregate", "join"]
    life.batch([("a", 1, 1), ("a", 2, 1), ("b", 3, 1), ("b", 10, 1)])
    life.batch(end=True)
    assert life.rows("once", *SHOWN) and sorted(life.rows("twice", *SHOWN)) == sorted(
        life.rows("once", *SHOWN) * 2
    )
    assert sorted(life.rows("both", "l_n", "r_n")) == [(1, 1), (1, 1), (2, 2)]


# ---- what is not equal ----
FIELDS = (Field("k", "string"), Field("name", "string"))
PLACE = Relation("d", "table", FIELDS, ("k",), FIELDS)


def lonely(hold: int) -> Node:
    """Rows that meet no partner for so long."""
    steps = [{"from": "s"}, {"lookup": "d", "how": "left_anti", "hold": hold}]
    return made(steps, S, relations={"d": PLACE})


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Life]:
    table = WrittenTable(tmp_path / "relations" / "d", PLACE)
    table.write([{"k": "x", "name": "x"}])
    (tmp_path / "run").mkdir()
    one = Life(tmp_path / "run", relations={"d": table.use})
    yield one
    one.stop()


def test_what_settings_tell_apart_is_told_by_the_outputs(held: Life) -> None:
    """How long rows are held may change, so that no name says it: the checkpoint knows which output reads which."""
    held.start({"short": lonely(2), "long": lonely(20)})
    first, second = held.operators
    assert second == f"{first}-2"
    held.batch([("a", 1, 1)])
    held.start({"long": lonely(20), "short": lonely(2)})
    assert held.operators == [second, first]
    held.batch([("b", 5, 1)])
    held.start({"long": lonely(15)})
    assert held.operators == [second]
    held.batch([("c", 10, 1)])
    held.start({"other": lonely(1), "long": lonely(15)})
    assert held.operators == [first, second]
    held.batch([("d", 15, 1)])
    held.batch([("e", 30, 1)])
    assert held.batches("short", "k") == {0: [], 1: [("a",)]}
    assert [sorted(rows) for rows in held.batches("long", "k").values()] == [
        [], [], [], [], [("a",), ("b",), ("c",)],
    ]  # fmt: skip
    assert [sorted(rows) for rows in held.batches("other", "k").values()] == [[], [("d",)]]


def test_outputs_that_share_what_they_did_not_share_are_refused(held: Life) -> None:
    held.start({"one": lonely(5), "two": lonely(5)})
    held.batch([("a", 1, 1)])
    shared = lonely(5)
    with pytest.raises(CheckpointError, match="output 'two' reads other operators") as caught:
        held.start({"one": shared, "two": shared})
    assert caught.value.condition == "QUERY_CHANGED"
    held.start({"two": lonely(5)})


def test_an_output_that_reads_one_operator_twice_does_not_read_two(held: Life) -> None:
    """Its text is the same."""
    shared = lonely(5)
    twice = Union(shared.schema, shared.times, (shared, shared))
    held.start({"both": twice})
    assert len(held.operators) == 1
    held.batch([("a", 1, 1)])
    with pytest.raises(CheckpointError, match="output 'both' reads other operators"):
        held.start({"both": replace(twice, inputs=(shared, lonely(5)))})


def test_joins_of_bounded_memory_have_each_their_own(life: Life) -> None:
    def pairs(memory: int) -> Node:
        return made([{**PAIRS[0], "memory": memory}, PAIRS[1]], S)

    life.start({"a": pairs(1 << 20), "b": pairs(1 << 21)})
    first, second = life.operators
    life.start({"b": pairs(1 << 20), "a": pairs(1 << 20)})
    assert life.operators == [second, first]


# ---- slacks of their own ----
def sums(source: Source) -> Node:
    return made(COUNTS, source)


def test_the_last_output_on_the_stream_s_own_slack_may_go(life: Life) -> None:
    """And it may come back."""
    alarm = with_slack(stream(delay=5), 0)
    both = {"alarm": sums(alarm), "peaks": sums(stream(delay=5))}
    life.start(both)
    life.batch([("a", 1, 1), ("a", 10, 1)])
    life.start({"alarm": both["alarm"]})
    life.batch([("a", 12, 1), ("a", 20, 1)])
    life.start(both)
    life.batch([("a", 21, 1), ("a", 35, 1)])
    assert life.rows("alarm", *SHOWN) == [("a", 0, 1), ("a", 10, 2), ("a", 20, 2)]
    assert life.rows("peaks", *SHOWN) == [("a", 20, 1)]


def test_a_query_may_begin_with_an_output_of_its_own_slack(life: Life) -> None:
    alarm = with_slack(S, 0)
    life.start({"alarm": sums(alarm)})
    life.batch([("a", 1, 1)])
    life.start({"peaks": sums(S), "alarm": sums(alarm)})
    life.batch([("a", 10, 1)])
    assert life.rows("alarm", *SHOWN) == [("a", 0, 1)]


def test_a_slack_that_two_outputs_share_stays_when_the_first_goes(life: Life) -> None:
    """Its stream keeps its name; one that comes later under the first output's name is another."""
    shared = with_slack(S, 0)

    def few(source: Source) -> Node:
        return made([*COUNTS, {"where": "n = 2"}], source)

    life.start({"all": sums(shared), "few": few(shared)})
    life.batch([("a", 1, 1), ("a", 2, 1)])
    plan = life.start({"few": few(shared)})
    assert [s.name for s in plan.sources] == ["s~all"]
    life.batch([("a", 10, 1), ("b", 11, 1)])
    plan = life.start({"all": sums(with_slack(S, 3)), "few": few(shared)})
    assert [s.name for s in plan.sources] == ["s~all'", "s~all"]
    life.batch([("b", 12, 1), ("b", 24, 1)])
    assert life.rows("few", *SHOWN) == [("a", 0, 2), ("b", 10, 2)]
    assert life.rows("all", *SHOWN) == [("b", 10, 1)]


def test_equal_slacks_stay_apart(life: Life) -> None:
    """Each may change from start to start."""
    plan = life.start({"one": sums(with_slack(S, 0)), "two": sums(with_slack(S, 0))})
    assert [s.name for s in plan.sources] == ["s~one", "s~two"]
    life.batch([("a", 1, 1), ("a", 10, 1)])
    life.start({"two": sums(with_slack(S, 4)), "one": sums(with_slack(S, 0))})
    life.batch([("a", 11, 1), ("a", 20, 1)])
    assert life.batches("one", *SHOWN) == {0: [("a", 0, 1)], 1: [("a", 10, 2)]}
    assert life.batches("two", *SHOWN) == {0: [("a", 0, 1)], 1: []}


# ---- the order of streams ----
def test_the_rest_may_read_the_streams_in_another_order(life: Life) -> None:
    a, b = stream("a", key=7), stream("b", key=8)

    def both(*names: str) -> Node:
        return made([{"union": [[{"from": n}] for n in names]}, {"sort": "t"}], a, b)

    life.start({"x": both("a", "b"), "y": both("b", "a")})
    life.batch({7: [("a", 1, 1)], 8: [("b", 2, 1)]})
    life.start({"y": both("b", "a")})
    life.batch({7: [("a", 3, 1)], 8: [("b", 4, 1)]})
    life.start({"y": both("b", "a"), "x": both("a", "b")})
    life.batch({7: [("a", 5, 1)], 8: [("b", 6, 1)]}, end=True)
    assert life.rows("y", "k", "t") == [(k, t) for t, k in enumerate("ababab", 1)]
    # A stream that nobody reads any more, or that is new, is another query.
    with pytest.raises(CheckpointError, match=r"streams: checkpoint .*, this query"):
        life.start({"z": made([{"from": "b"}], b)})


def test_streams_over_one_input_come_and_go(life: Life) -> None:
    one, other = stream("one", delay=5), stream("other")
    steps = {n: [{"from": n}, *COUNTS[1:]] for n in ("one", "other")}
    both = {n: made(steps[n], one, other) for n in steps}
    life.start(both)
    life.batch([("a", 1, 1), ("a", 10, 1)])
    life.start({"one": both["one"]})
    life.batch([("a", 9, 1), ("a", 15, 1)])
    life.start(both)
    life.batch([("a", 16, 1), ("a", 25, 1)])
    assert life.rows("one", *SHOWN) == [("a", 0, 2), ("a", 10, 3)]
    assert life.rows("other", *SHOWN) == [("a", 0, 1), ("a", 10, 1)]
    for name in ("one", "other"):
        life.start({name: both[name]})
    with pytest.raises(CheckpointError, match="streams: checkpoint"):
        life.start({"new": sums(S)})


def test_two_inputs_of_one_name_are_refused(life: Life) -> None:
    """Also where one of them is only read with a slack of its own: by its name an input keeps its number."""
    with pytest.raises(AnalysisError, match="two streams are called 's'") as caught:
        life.start({"one": sums(with_slack(S, 0)), "other": sums(stream(key=1))})
    assert caught.value.condition == "DUPLICATE_NAME"


# ---- feedback ----
def test_what_one_output_ignores_the_other_gets(life: Life) -> None:
    """Feedback on an operator that both read acts where both ignore the rows."""
    nodes: Mapping[str, Node] = {"one": counts(), "two": counts()}
    life.start(nodes)
    ignored = feedback_of(nodes["one"], (Pattern.of({"k": Test.among(["a"])}),))
    life.running.send(Request("send", "one", "ignored", ignored))
    life.batch([("a", 1, 1), ("b", 2, 1)])
    life.batch([("a", 3, 1), ("b", 4, 1), ("b", 10, 1)])
    assert life.rows("one", *SHOWN) == [("b", 0, 2)]
    assert sorted(life.rows("two", *SHOWN)) == [("a", 0, 2), ("b", 0, 2)]
    # Once both do, their operator takes no such rows.
    life.running.send(Request("send", "two", "ignored", ignored))
    life.batch([("a", 11, 1), ("a", 12, 1), ("b", 20, 1)])
    assert life.running.loop.records[-1]["feedback"]["places"]["s"]["rowsDropped"] == 2
    assert life.rows("two", *SHOWN)[2:] == [("b", 10, 1)]


def test_settings_of_equal_operators_are_agreed(life: Life) -> None:
    one, two = counts(), counts({"where": "n > 0"})
    assert isinstance(two, Filter) and isinstance(two.child, Aggregate)
    calm = replace(two.child, reacting=Reacting(exploit=False, propagate=False, log=True))
    plan = life.start({"one": one, "two": replace(two, child=calm)})
    assert [op.node.reacting for op in plan.operators] == [Reacting(False, False, True)]


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        (Reacting(), Reacting(), Reacting()),
        (Reacting(seal=True), Reacting(), Reacting(seal=True)),
        (Reacting(seal=True), Reacting(seal=False), Reacting(seal=False)),
        (Reacting(seal=True), Reacting(propagate=False), Reacting(propagate=False)),
        (
            Reacting(exploit=False, propagate=False),
            Reacting(log=True),
            Reacting(False, False, True),
        ),
    ],
)
def test_settings_agreed(one: Reacting, other: Reacting, both: Reacting) -> None:
    assert one.and_also(other) == other.and_also(one) == both


def test_results_that_an_output_had_given_up_stay_back_for_one_that_joins(life: Life) -> None:
    """Nobody wanted rows of "a" while "few" was alone: windows that lack some do not come out as if they were whole."""
    life.start({"few": counts({"where": "k = 'b'"})})
    life.batch([("a", 1, 1), ("b", 2, 1)])
    life.start({"all": counts(), "few": counts({"where": "k = 'b'"})})
    life.batch([("a", 3, 1), ("b", 4, 1), ("a", 15, 1)])
    life.batch([("a", 29, 1)], end=True)
    assert life.rows("few", *SHOWN) == [("b", 0, 2)]
    assert sorted(life.rows("all", *SHOWN)) == [("a", 10, 1), ("a", 20, 1), ("b", 0, 2)]


# ---- checkpoints of earlier versions ----
def as_of(life: Life, meaning: int) -> None:
    """The checkpoint as if a version of that meaning had written it."""
    checkpoint = life.running.checkpoint
    checkpoint.acquire()
    stored = checkpoint.open_query({})
    checkpoint.update_query({**stored, "meaning": meaning, "names": {}})
    checkpoint.release()


def test_a_checkpoint_whose_states_nobody_can_tell_apart_is_refused(held: Life) -> None:
    held.start({"short": lonely(2), "long": lonely(20)})
    held.batch([("a", 1, 1)])
    held.stop()
    as_of(held, 1)
    with pytest.raises(CheckpointError, match="told apart by the order") as caught:
        held.start({"short": lonely(2), "long": lonely(20)})
    assert caught.value.condition == "MEANING_CHANGED"
    assert caught.value.parameters["reason"] == "EQUAL_OPERATORS"


def test_an_old_checkpoint_without_equal_operators_goes_on(life: Life) -> None:
    life.start({"one": counts()})
    life.batch([("a", 1, 1)])
    life.stop()
    as_of(life, 1)
    life.start({"two": counts(), "one": counts()})
    life.batch([("a", 10, 1)])
    assert life.rows("one", *SHOWN) == [("a", 0, 1)]
    assert stored_query(life.running.checkpoint).names == {}
