"""Sealed panes in a query: later rows of a hot group are dropped, and no result differs but those that were given up."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from slackwater.engine.driver.feedback import guard_lines
from slackwater.engine.store import failpoints
from slackwater.engine.store.feedback_log import state_of
from slackwater.model.node import Aggregate, Filter, Node, Source
from slackwater.model.reacting import Reacting
from slackwater.semantics.feedback.standing import Request
from slackwater.testing.feedback import frozen
from slackwater.testing.local.run import LocalInput, LocalRun, failing, scratch_folder
from slackwater.testing.transcripts.join import build_join
from slackwater.testing.transcripts.query import aggregate, expression
from tests.engine.feedback.test_filters import planned
from tests.engine.feedback.viewport import Asked, Viewed, said, source

WINDOW = {"range": 10, "slide": 4}
HOT = 0


def rows(batches: int = 8) -> list[pa.Table]:
    """One group has most of the rows, and the stream is slow: a pane gets rows in several batches."""
    rng = random.Random(5)
    made = []
    for n in range(batches):
        segments = [HOT] * 36 + [rng.randint(1, 9) for _ in range(10)]
        ts = [2 * n + rng.randint(-2, 3) for _ in segments]
        made.append(
            pa.table({"segment": segments, "ts": ts, "v": [rng.randint(0, 99) for _ in ts]})
        )
    return made


def counted(stream: Source | None = None, **agg: str) -> Node:
    step = {"window": WINDOW, "by": ["segment"], "agg": {"n": "count(*)", **agg}}
    return sealing(aggregate(stream or source(), step))


def sealing(node: Node, seal: bool | None = True) -> Node:
    return replace(node, reacting=Reacting(seal=seal))


def rare(node: Node, text: str = "n < 8") -> Node:
    return Filter(node.schema, node.times, node, expression(text, node.schema))


def run_of(
    *outputs: Node, reach: Any = "source", splits: bool = True, asked: Asked | None = None,
    tables: Sequence[pa.Table] = (),
) -> Viewed:  # fmt: skip
    with scratch_folder() as folder:
        run = Viewed(folder, planned(*outputs), splits=splits)
        run.run.reach = reach
        run.give(tables or rows())
        run.run.start()
        run.all(asked)
        run.run.stop()
    return run


def rows_in(run: Viewed) -> int:
    return sum(op["rowsIn"] for m in run.manifests for op in m.progress["operators"].values())


def read(run: Viewed) -> int:
    """Rows that no guard dropped at the stream."""
    total = sum(m.progress["numInputRows"] for m in run.manifests)
    return total - state_of(run.manifests[-1]).dropped.get("cars", 0)


def bag(found: Sequence[Any]) -> Counter[Any]:
    return Counter(map(frozen, found))


@pytest.mark.parametrize("splits", [True, False])
@pytest.mark.parametrize(
    ("agg", "text"),
    [
        ({}, "n < 8"),
        ({"m": "max(v)", "a": "avg(v)"}, "m <= 80"),
        ({"m": "min(v)"}, "m > 20"),
        ({}, "n < 8 AND segment <> 3"),
        ({"m": "max(v)"}, "n < 8 OR segment > 1"),
    ],
)
@pytest.mark.spec("FC-F35")
def test_later_rows_of_sealed_panes_are_dropped(
    agg: dict[str, str], text: str, splits: bool
) -> None:
    without = run_of(rare(counted(**agg), text), reach="off", splits=splits)
    run = run_of(rare(counted(**agg), text), splits=splits)
    assert bag(run.rows()) == bag(without.rows()) and run.rows()
    assert read(run) < read(without) - 40
    (name,) = {n for m in run.manifests for n in state_of(m).sealed}
    assert name == run.plan.operators[0].id
    assert max(m.progress["feedback"].get("sealed", {}).get(name, 0) for m in run.manifests) >= 2
    assert not state_of(run.manifests[-1]).sealed or state_of(run.manifests[-1]).sealed[name]
    assert not any(state_of(m).shades for m in run.manifests), "nothing ended"


@pytest.mark.parametrize("reach", ["off", "output"])
def test_the_option_switches_it_off(reach: Any) -> None:
    run = run_of(rare(counted()), reach=reach)
    assert not any(state_of(m).sealed for m in run.manifests)


def test_where_more_read_the_rows_below_each_drops_its_own() -> None:
    stream = source()
    both = [
        rare(counted(stream)),
        aggregate(stream, {"window": WINDOW, "by": ["segment"], "agg": {"s": "sum(v)"}}),
    ]
    runs = []
    for reach in ("off", "source"):
        with scratch_folder() as folder:
            run = Viewed(folder, planned(*both))
            run.run.reach = reach  # type: ignore[assignment]
            run.run.share_panes = False
            run.give(rows())
            run.run.start()
            run.all()
            run.run.stop()
        runs.append(run)
    assert all(bag(runs[0].rows(n)) == bag(runs[1].rows(n)) for n in ("map", "more1"))
    assert any(state_of(m).sealed for m in runs[1].manifests)
    assert read(runs[1]) > read(runs[0]) - 250, "the sums need them"


def test_panes_that_several_aggregates_read_are_not_sealed() -> None:
    stream = source()
    both = [
        rare(counted(stream)),
        aggregate(
            stream, {"window": {"range": 8, "slide": 4}, "by": ["segment"], "agg": {"s": "sum(v)"}}
        ),
    ]
    run = run_of(*both)
    assert run.run.loop.query.plan.operators[0].producers != (
        run.run.loop.query.plan.operators[0].id,
    )
    assert not any(state_of(m).sealed for m in run.manifests)
    there = guard_lines(run.run.loop.query.plan, run.manifests[3], "source")
    assert any("of the query itself: ~{n >= 8" in line for line in there)
    assert not any("seals" in line for line in there)


def asks(number: int, text: str | None) -> Any:
    def ask(run: Viewed) -> None:
        made = None if text is None else said(text, run.plan)
        run.run.send(
            Request("send", "map", "view", made) if made else Request("retract", target=number)
        )

    return ask


@pytest.mark.parametrize("splits", [True, False])
def test_after_a_retraction_a_window_that_appears_is_whole(splits: bool) -> None:
    reference = run_of(counted(), splits=splits)
    run = run_of(counted(), splits=splits, asked={1: asks(0, "~{n >= 8}"), 4: asks(1, None)})
    sealed = [bool(state_of(m).sealed) for m in run.manifests]
    assert sealed[1] and sealed[3] and not any(sealed[4:])
    assert state_of(run.manifests[4]).shades, "what was sealed is dark"
    got, whole = bag(run.rows()), bag(reference.rows())
    assert not got - whole, "a partial window came out"
    lost = [dict(r) for r in (whole - got).elements()]
    assert lost and {r["segment"] for r in lost} == {HOT}
    assert max(r["wid"] for r in lost) < max(
        r["wid"] for r in reference.rows() if r["segment"] == HOT
    )


def test_another_view_keeps_what_follows_from_it() -> None:
    """The limit falls: what was proven of the higher one still is. It rises: nothing is known of the new one."""
    for text, stays in (
        ("~{n >= 5}", True),
        ("~{n >= 40}", False),
        ("~{n >= 8, segment = 0}", True),
        ("~{n >= 8, segment = 1}", False),
    ):
        run = run_of(counted(), asked={1: asks(0, "~{n >= 8}"), 3: asks(0, text)})
        before, after = (state_of(run.manifests[n]) for n in (2, 3))
        dark = {d.record for shades in after.dark.values() for d in shades}
        assert before.sealed and bool(dark) == stays, text
        assert bool(after.shades) != stays


@pytest.mark.parametrize("splits", [True, False])
def test_a_reader_that_comes_later_gets_whole_windows_only(tmp_path: Path, splits: bool) -> None:
    reference = run_of(counted(), splits=splits)
    node = counted()
    run = Viewed(tmp_path, planned(rare(node)), splits=splits)
    run.give(rows())
    run.run.start()
    for _ in range(4):
        run.step()
    run.run.stop()
    assert state_of(run.manifests[-1]).sealed
    run.run.plan = planned(rare(node), node)
    run.run.published["more1"] = {}
    run.run.start()
    first = run.step()
    assert state_of(first).shades and not state_of(first).sealed
    run.all()
    run.run.stop()
    whole = bag(reference.rows())
    assert not bag(run.rows("more1")) - whole, "a partial window came out"
    assert bag(run.rows()) == bag([r for r in reference.rows() if r["n"] < 8])
    hot = [r["wid"] for r in run.rows("more1") if r["segment"] == HOT]
    assert hot, "it comes back"
    later = bag([r for r in reference.rows() if r["wid"] > min(hot)])
    assert later == bag([r for r in run.rows("more1") if r["wid"] > min(hot)])


@pytest.mark.parametrize(
    "point", ["intent.after", "job.after", "manifest.before", "manifest.after"]
)
def test_a_batch_that_is_repeated_drops_the_same_rows(tmp_path: Path, point: str) -> None:
    """What the first try proved is not known to the second."""
    reference = run_of(rare(counted()))
    run = Viewed(tmp_path, planned(rare(counted())))
    run.give(rows())
    run.run.start()
    run.step()
    for at in (2, 1):
        try:
            with failing(f"{point}@{at}"):
                for _ in range(at):
                    run.step()
        except failpoints.InjectedFailure:
            run.run.stop()
            run.run.start(3)
    run.all()
    run.run.stop()
    assert bag(run.rows()) == bag(reference.rows())
    states = {m.batch: state_of(m) for m in run.manifests}
    for m in reference.manifests:
        if m.batch in states:
            assert states[m.batch].dropped == state_of(m).dropped
            assert states[m.batch].sealed == state_of(m).sealed


def test_most_groups_at_a_time_and_no_longer_than_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slackwater.semantics.sealing.together.__defaults__", (2,))
    run = run_of(rare(counted(), "n < 1"))
    kept = [len(s) for m in run.manifests for s in state_of(m).sealed.values()]
    assert max(kept) == 2
    assert not run.rows()


def test_explain_says_it() -> None:
    run = run_of(rare(counted()))
    name = run.plan.operators[0].id
    before = guard_lines(run.plan, None, "source")
    assert f"{name} seals panes whose rows alone pass n >= 8" in before
    during = guard_lines(run.plan, run.manifests[3], "source")
    assert any(line.startswith(f"{name} -> ") for line in during)
    assert not any("seals" in line for line in guard_lines(run.plan, None, "output"))


def test_the_rule_is_about_the_pane_and_not_the_window() -> None:
    """Each pane has 6 rows of the group, each window 30: no pane proves that, so no row may go."""
    tables = [pa.table({"segment": [1] * 6, "ts": [2 * n] * 6, "v": [0] * 6}) for n in range(8)]
    run = run_of(rare(counted()), tables=tables)
    assert not any(state_of(m).sealed for m in run.manifests)
    assert isinstance(run.plan.operators[0].node, Aggregate)


def test_below_a_join_no_pair_is_made_of_what_is_sealed() -> None:
    """Without a word: two streams of one hot key, whose pairs nobody wants from the eighth on."""
    rng = random.Random(3)
    ab = [replace(source(), name=name, input=i) for i, name in enumerate("ab")]
    step = {"join": [{"as": "l", "from": ab[0]}, {"as": "r", "from": ab[1]}], "keys": ["segment"]}
    join = build_join({**step, "band": {"before": 2, "after": 2}}, lambda node: node, expression)
    pairs = aggregate(
        join, {"window": {"time": "l_ts", **WINDOW}, "by": ["segment"], "agg": {"n": "count(*)"}}
    )

    def table(n: int) -> pa.Table:
        segments = [HOT] * 12 + [rng.randint(1, 9) for _ in range(6)]
        ts = [2 * n + rng.randint(-2, 3) for _ in segments]
        return pa.table({"segment": segments, "ts": ts, "v": ts})

    tables = [{0: table(n), 1: table(n)} for n in range(6)]
    found = []
    for seal in (False, None):
        with scratch_folder() as folder:
            plan = planned(rare(sealing(pairs, seal)))
            inputs = [LocalInput(s.schema, True) for s in plan.sources]
            run = LocalRun(folder, plan, inputs)
            for one in tables:
                run.give(one)
            run.start()
            for _ in tables:
                run.step()
            run.step(final=True)
            run.stop()
        made = sum(
            op["rowsOut"]
            for r in run.loop.records
            for op in r["operators"].values()
            if op["kind"] == "Join"
        )
        results = [r for t in run.published["map"].values() for r in t.to_pylist()]
        found.append((made, bag(results)))
    assert found[0][1] == found[1][1] and found[0][1]
    assert found[1][0] < found[0][0] / 2
