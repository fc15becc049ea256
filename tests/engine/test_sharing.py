"""Aggregates that share a store of panes in the engine: restarts, other members, other numbers of groups."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from slackwater.engine.driver.passes import Shown, passed
from slackwater.engine.lowlevel.inputs import SplitInput
from slackwater.engine.plan.known import renumber
from slackwater.engine.plan.layout import build
from slackwater.engine.plan.plan import Output, Plan
from slackwater.engine.plan.sharing import Record, records, share
from slackwater.engine.store import manifest as manifests
from slackwater.model.node import Late, Node, SharedPanes, Sort, Source, Union
from slackwater.model.policy import BoundedDelay, MaxDelay, Punctuated, Quality
from slackwater.model.time import TimeColumn
from slackwater.model.window import TimeWindow
from slackwater.surface.explain import explain_plan
from slackwater.surface.slack import with_policy
from tests.engine.in_process import Engine
from tests.engine.test_low_table import FIELDS, batches, counted, shown, table

TIME = TimeColumn("ts", "long", 1_000_000)
BASE = Source(FIELDS, (TIME,), "s", 0, (BoundedDelay(6),))
IN = [SplitInput(None, "in", FIELDS)]


def twin(delay: int) -> Source:
    return replace(BASE, name="s~", policies=(BoundedDelay(delay),), twin="s")


def plan_of(nodes: dict[str, Node]) -> Plan:
    outputs = renumber([Output(n, node) for n, node in nodes.items()], {0: 0})
    return build(outputs, ansi=True, zone="UTC", window_plan="panes")


def results(*names: str) -> dict[str, Node]:
    """Two slacks for one aggregate, windows that do not fit it, and windows over windows."""
    sums = counted(twin(0), ("k",), TimeWindow(12, 4, 0, "ts"), "v")
    slow = counted(twin(15), ("k",), TimeWindow(12, 4, 0, "ts"), "v")
    gaps = counted(BASE, ("k",), TimeWindow(4, 8, 2, "ts"), "v")
    found: dict[str, Node] = {
        "early": sums,
        "exact": slow,
        "gaps": gaps,
        "large": counted(slow, (), TimeWindow(24, 24, 0, "window"), "n"),
        "new": counted(twin(3), ("k",), TimeWindow(20, 4, 0, "ts"), "v"),
    }
    return {n: found[n] for n in names}


def started(engine: Engine, plan: Plan, sharing: bool, stores: dict[str, Any], **how: Any) -> dict:
    """Start as the surface does: with the stores that the checkpoint knows."""
    last = manifests.last(engine.checkpoint) if hasattr(engine, "checkpoint") else None
    known = {n: Record.from_json(r) for n, r in stores.items()}
    plan = share(plan, known, last, wanted=sharing)
    engine.start(plan, **how)
    return records(plan)


def played(found: Engine, sharing: bool, seed: int) -> list[dict[str, Any]]:
    """Four outputs; after some batches one goes and one comes, and the work is cut otherwise."""
    data = batches(seed, 10, late=True)
    stores: list[dict[str, Any]] = [{}]
    first = plan_of(results("early", "exact", "gaps", "large"))
    second = plan_of(results("early", "exact", "large", "new"))
    for i, rows in enumerate(data):
        if i in (0, 3, 6):
            if i:
                found.stop()
            plan = first if i < 6 else second
            stores.append(started(found, plan, sharing, stores[-1], groups=1 + i // 3, tasks=2))
        half = len(rows) // 2
        found.batch(*[table(part) for part in (rows[:half], rows[half:]) if part])
    found.batch(final=True)
    found.stop()
    return stores[1:]


@pytest.mark.parametrize("seed", [1, 2])
def test_sharing_does_not_show_over_restarts_and_other_members(engine: Any, seed: int) -> None:
    shared = engine("shared")
    stores = played(shared, True, seed)
    apart = engine("apart")
    assert played(apart, False, seed) == [{}, {}, {}]
    for name in ("early", "exact", "gaps", "large", "new"):
        for batch, rows in apart.results[name].items():
            assert shown(shared.results[name].get(batch, [])) == shown(rows), (name, batch)
        assert sum(map(len, apart.results[name].values())) > 0
    # One store, the same after the restart; then without the one that went, and not with the one that came.
    (store,) = stores[0]
    assert stores[1] == stores[0] and list(stores[2]) == [store]
    assert (len(stores[0][store]["members"]), len(stores[2][store]["members"])) == (3, 2)
    assert stores[0][store]["width"] == 2
    held = [sum(op["state"]["rows"] for op in r["operators"].values()) for r in shared.records[3:6]]
    held_apart = [
        sum(op["state"]["rows"] for op in r["operators"].values()) for r in apart.records[3:6]
    ]
    assert sum(held) < sum(held_apart)


def test_sorts_share_a_chain_and_each_row_reaches_each_once(engine: Any) -> None:
    """Every row's delivery to every sort is counted, over restarts with other slacks."""

    def sorts(*slacks: int) -> dict[str, Node]:
        return {f"q{i}": Sort(FIELDS, (TIME,), twin(k), "ts") for i, k in enumerate(slacks)}

    found, stores = engine("sorts"), {}
    made = batches(4, 12, late=True)
    data = [[(n + 1000 * b, t, v) for n, (_, t, v) in enumerate(r)] for b, r in enumerate(made)]
    starts = {0: (0, 4, 20), 4: (6, 2, 20), 8: (1, 30)}
    bounds = {}
    late: dict[str, set[int]] = {f"q{i}": set() for i in range(3)}
    newest, inforce = -(10**9), dict.fromkeys(late, -(10**9))
    for i, rows in enumerate(data):
        if i in starts:
            if i:
                found.stop()
            slacks = starts[i]
            stores = started(found, plan_of(sorts(*slacks)), True, stores, groups=1 + i // 4)
            bounds = {f"q{n}": k for n, k in enumerate(slacks)}
        for q in bounds:
            late[q] |= {k for k, t, _ in rows if t < inforce[q]}
        found.batch(*[table(part) for part in (rows[::2], rows[1::2]) if part])
        newest = max([newest, *(t for _, t, _ in rows)])
        inforce.update({q: max(inforce[q], newest - k) for q, k in bounds.items()})
    found.batch(final=True)
    found.stop()
    assert len(stores) == 1 and [len(r["operators"]) for r in found.records] == [1] * 13
    every = {k for rows in data for k, _, _ in rows}
    for q in ("q0", "q1"):
        got = found.rows(q)
        assert [r["ts"] for r in got] == sorted(r["ts"] for r in got)
        assert sorted(r["k"] for r in got) == sorted(every - late[q])
    assert late["q0"] - late["q1"] and late["q0"] != every
    # The one that is gone got each row once, too, as far as it came.
    gone = [r["k"] for r in found.rows("q2")]
    assert len(gone) == len(set(gone)) > 0


@pytest.mark.spec("QD-F2")
def test_each_result_has_its_own_target_over_shared_panes(engine: Any) -> None:
    """Slacks that follow targets are those of the same results by themselves, and so are the results."""

    def nodes() -> dict[str, Node]:
        found: dict[str, Node] = {}
        for name, share_ in (("rough", 0.6), ("fine", 0.999)):
            policy = Quality(coverage=share_, warmup=1, granularity=1)
            source = replace(BASE, name="s~", policies=(policy,), twin="s")
            found[name] = counted(source, ("k",), TimeWindow(8, 4, 0, "ts"), "v")
        return found

    rng = random.Random(3)
    data = [
        [
            (
                rng.randrange(9),
                max(0, 30 * b + i // 10 - (rng.random() < 0.3) * rng.randrange(40)),
                i,
            )
            for i in range(300)
        ]
        for b in range(9)
    ]
    runs = []
    for sharing in (True, False):
        found = engine(f"quality-{sharing}")
        stores = started(found, plan_of(nodes()), sharing, {})
        assert len(stores) == sharing
        for rows in data:
            found.batch(*[table(part) for part in (rows[::2], rows[1::2]) if part])
        found.batch(final=True)
        found.stop()
        runs.append(found)
    shared, apart = runs
    for name in ("rough", "fine"):
        assert shown(shared.rows(name)) == shown(apart.rows(name)) != []
    slack = [
        {n: s["bounds"]["ts"]["behind"] for n, s in r["streams"].items()} for r in shared.records
    ]
    assert slack == [
        {n: s["bounds"]["ts"]["behind"] for n, s in r["streams"].items()} for r in apart.records
    ]
    assert any((s["s~rough"] or 0) < (s["s~fine"] or 0) for s in slack)


def operators(plan: Plan) -> list[str]:
    return [op.id.partition("-")[0] for op in plan.operators]


def test_who_shares_and_who_does_not() -> None:
    one, two = TimeWindow(12, 4, 0, "ts"), TimeWindow(8, 4, 0, "ts")

    def shared(a: Source, b: Source, keys: tuple[str, ...] = ("k",), window: Any = two) -> int:
        nodes = {"a": counted(a, ("k",), one, "v"), "b": counted(b, keys, window, "v")}
        return sum(
            isinstance(op.node, SharedPanes) for op in share(plan_of(nodes), {}, None).operators
        )

    assert shared(BASE, BASE) == 1
    assert shared(twin(1), twin(2)) == 1
    assert shared(BASE, replace(BASE, name="t", policies=(MaxDelay(),))) == 1
    # Other keys, windows that fit badly.
    assert shared(BASE, BASE, ()) == 0
    assert shared(BASE, BASE, window=TimeWindow(9999, 9999, 0, "ts")) == 0
    # Rows that one of them leaves out: late ones, punctuation, times in the future.
    assert shared(replace(BASE, late="drop"), replace(twin(2), late="drop")) == 0
    drops = replace(BASE, late="drop")
    assert shared(drops, drops) == 1
    aside = BoundedDelay(1).futureGuard(5, future="side")
    other = replace(BASE, name="t", policies=(aside,))
    assert shared(BASE, other) == 0
    said = replace(BASE, name="t", policies=(Punctuated(column="v"),))
    assert shared(BASE, said) == 0
    assert operators(share(plan_of(results("early", "exact")), {}, None, wanted=False)) == [
        "aggregate", "aggregate",
    ]  # fmt: skip


def test_a_twin_is_named_after_its_output() -> None:
    plan = plan_of({**results("early", "exact"), "both": results("exact")["exact"]})
    assert [s.name for s in plan.sources] == ["s~early", "s~exact", "s~both"]
    # The same names whatever else is started with them.
    again = plan_of(results("exact"))
    assert [s.name for s in again.sources] == ["s~exact"]
    assert {op.id for op in again.operators} <= {op.id for op in plan.operators}


def test_explain_shows_stores_and_chains() -> None:
    sorts = {f"q{k}": Sort(FIELDS, (TIME,), twin(k), "ts") for k in (4, 20)}
    plan = share(plan_of({**results("early", "exact"), **sorts}), {}, None)
    text = explain_plan(passed(plan, Shown(IN)), IN)
    names = [op.id for op in plan.unshared.operators]
    assert "one store of panes of 4 for 2 aggregates over the same rows" in text
    assert f"read by {names[0]}: 3 panes per window, each 1 of the store's" in text
    assert "one chain of slack buffers on ts for 2 sorts of the same rows" in text
    assert f"below the rows: 4 -> {names[2]}, +16 -> {names[3]}" in text
    assert "rows of 20 are held, by themselves 24" in text


def test_a_slack_of_its_own_keeps_what_the_stream_says_of_partitions() -> None:
    class Held:
        """As much of a stream as is needed here."""

        def __init__(self, node: Node):
            self._node = node
            self._with = Held

    own = BoundedDelay(6).idleAfter("1 minute").lagLimit(90).futureGuard(5, future="side")
    base = replace(BASE, policies=(own,))
    late = Late(FIELDS, (TIME,), base)
    node = Union(FIELDS, (TIME,), (Sort(FIELDS, (TIME,), base, "ts"), late))
    stream: Any = Held(node)
    first, second = with_policy(stream, MaxDelay().lagLimit(7))._node.children
    found = first.children[0]
    assert (found.twin, found.policies) == (
        "s", (MaxDelay(idle="1 minute", lag=7, guard=5, future="side"),),
    )  # fmt: skip
    # Late rows are those of the stream itself.
    assert second.source is base
