"""Sorts behind different filters in the engine: where their rows wait shows in what is held, never in what comes out."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from benchmarks.simulations.placements import candidates
from slackwater.engine.driver import loop as loops
from slackwater.engine.driver.passes import Shown, passed
from slackwater.engine.lowlevel.inputs import SplitInput
from slackwater.engine.paths.batch import Settings
from slackwater.engine.plan.placing import decisions, stores, tree_of, waiting
from slackwater.engine.plan.plan import Plan
from slackwater.engine.plan.sharing import MAX_BITS, Record, records, share
from slackwater.engine.store import manifest as manifests
from slackwater.model.node import Filter, Node, Sort, Source
from slackwater.model.policy import BoundedDelay, MaxDelay, Policy
from slackwater.model.rewrite import Rewrite
from slackwater.model.schema import Expr
from slackwater.model.time import TimeColumn
from slackwater.semantics.slack.placement import optimal, unshared
from slackwater.semantics.slack.routes import ROOT, Decision, place, routes_of
from slackwater.semantics.slack.trigger import Penalty
from slackwater.semantics.slack.waiting import Waiting
from slackwater.surface.explain import explain_plan
from slackwater.testing.local.host import LocalHost
from slackwater.testing.transcripts.script import oracle, parse
from tests.engine import test_join_engine as joins
from tests.engine.in_process import Engine
from tests.engine.test_low_table import FIELDS, table
from tests.engine.test_sharing import plan_of
from tests.examples import examples

TIME = TimeColumn("ts", "long", 1_000_000)
BASE = Source(FIELDS, (TIME,), "s", 0, (BoundedDelay(6),))
IN = [SplitInput(None, "in", FIELDS)]
Rows = list[tuple[int, int, int]]

TESTS = {
    "v % 2 = 0": lambda v: v % 2 == 0,
    "v % 3 = 0": lambda v: v % 3 == 0,
    "v < 60": lambda v: v < 60,
    "v >= 10": lambda v: v >= 10,
}
"""Conditions on v, which lies in 0 .. 99."""


@dataclass(frozen=True)
class Query:
    """A sort of the rows that meet all ``tests``, with its own slack."""

    slack: int
    tests: tuple[str, ...] = ()

    @property
    def node(self) -> Node:
        source: Node = replace(BASE, name="s~", policies=(BoundedDelay(self.slack),), twin="s")
        for text in self.tests:
            condition = Expr(text, "boolean", text.replace("v", '"v"'))
            source = Filter(FIELDS, (TIME,), source, condition)
        return Sort(FIELDS, (TIME,), source, "ts")

    def wants(self, row: tuple[int, int, int]) -> bool:
        return all(TESTS[t](row[2]) for t in self.tests)


class Expected:
    """What one sort gives by itself: rows that are not late when they come, once the bound has passed them."""

    def __init__(self) -> None:
        self.bound = -(10**9)
        self.waits: Rows = []
        self.late = 0

    def batch(self, query: Query, rows: Rows, newest: int) -> Rows:
        mine = [r for r in rows if query.wants(r)]
        self.late += sum(r[1] < self.bound for r in mine)
        self.waits += [r for r in mine if r[1] >= self.bound]
        self.bound = max(self.bound, newest - query.slack)
        out = sorted(r for r in self.waits if r[1] < self.bound)
        self.waits = [r for r in self.waits if r[1] >= self.bound]
        return out


class Run:
    """A query whose sorts come, go and change their slack at restarts, held against what each must give."""

    def __init__(self, engine: Engine, *, sharing: bool = True):
        self.engine = engine
        self.sharing = sharing
        self.stores: dict[str, Any] = {}
        self.queries: dict[str, Query] = {}
        self.expected: dict[str, Expected] = {}
        self.got: dict[str, list[int]] = {}
        self.newest = -(10**9)

    def restart(self, queries: Mapping[str, Query], **how: Any) -> Plan:
        last = None
        if self.queries:
            self.engine.stop()
            last = manifests.last(self.engine.checkpoint)
        self.queries = dict(queries)
        self.expected = {n: self.expected.get(n, Expected()) for n in queries}
        known = {n: Record.from_json(r) for n, r in self.stores.items()}
        plan = share(
            plan_of({n: q.node for n, q in queries.items()}), known, last, wanted=self.sharing
        )
        self.engine.start(plan, **how)
        self.stores = records(plan)
        return plan

    def batch(self, rows: Rows, final: bool = False) -> None:
        number = len(self.engine.batches)
        late = {n: e.late for n, e in self.expected.items()}
        self.newest = 10**9 if final else max([self.newest, *(t for _, t, _ in rows)])
        want = {n: self.expected[n].batch(q, rows, self.newest) for n, q in self.queries.items()}
        self.engine.batch(*[table(p) for p in (rows[::2], rows[1::2]) if p], final=final)
        for name in self.queries:
            found = [(r["k"], r["ts"], r["v"]) for r in self.engine.results[name].get(number, [])]
            times = [t for _, t, _ in found]
            assert times == sorted(times), (number, name)
            assert sorted(found) == sorted(want[name]), (number, name)
            self.got.setdefault(name, []).extend(k for k, _, _ in found)
        if self.engine.records and self.engine.records[-1]["batchId"] == number:
            counted = sum(op["late"] for op in self.engine.records[-1]["operators"].values())
            assert counted == sum(e.late - late[n] for n, e in self.expected.items())

    @property
    def known(self) -> Waiting:
        """What the newest manifest says of the one store."""
        last = manifests.last(self.engine.checkpoint)
        assert last is not None
        (store,) = self.stores
        known = last.statistics[store].waiting
        assert known is not None
        return known

    @property
    def held(self) -> int:
        return sum(op["state"]["rows"] for op in self.engine.records[-1]["operators"].values())


@pytest.fixture
def run(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Any:
    def make(**how: Any) -> Run:
        return Run(Engine(tmp_path_factory.mktemp("run"), monkeypatch), **how)

    return make


def stream(seed: int, count: int, each: int = 30, span: int = 10) -> list[Rows]:
    """Batches of rows with a number each; some come late, by up to three batches."""
    rng = random.Random(seed)
    made, number = [], 0
    for b in range(count):
        rows = []
        for _ in range(each):
            behind = rng.choice([0, 0, 0, 1, span, 3 * span])
            rows.append(
                (number, max(0, b * span + rng.randrange(span) - behind), rng.randrange(100))
            )
            number += 1
        made.append(rows)
    return made


QUERIES = {
    "all": Query(2),
    "even": Query(30, ("v % 2 = 0",)),
    "third": Query(40, ("v % 2 = 0", "v % 3 = 0")),
    "low": Query(20, ("v < 60",)),
}


@pytest.mark.spec("QD-F1", "QD-F3", "QD-F4", "QD-F7", "QD-F9")
def test_rows_wait_where_the_measured_filters_say(run: Any) -> None:
    """One chain while nothing is known; then slack moves behind the filters that let through little."""
    data, shared = stream(1, 14), run()
    plan = shared.restart(QUERIES)
    places, held = [], []
    for rows in data:
        shared.batch(rows)
        places.append({n: [p for p, _ in way] for n, way in shared.known.routes.items()})
        held.append(shared.held)
    (store,) = shared.stores
    operator = plan.operator(store)
    assert operator is not None
    known = shared.known
    # Selectivities are those of the rows, older ones counting less.
    for name, upper in (
        ("v % 2 = 0", None),
        ("v % 2 = 0 and v % 3 = 0", "v % 2 = 0"),
        ("v < 60", None),
    ):
        into = out = 0.0
        for rows in data:
            above = [v for *_, v in rows if upper is None or TESTS[upper](v)]
            into = into * 0.9 + len(above)
            out = out * 0.9 + sum(all(TESTS[t](v) for t in name.split(" and ")) for v in above)
        assert known.selectivity[name].value == pytest.approx(out / into)
    # The first batch has one chain as long as all can share it, the last the chains of the optimal placement.
    tree = tree_of(operator, known.reports.current, known.selectivity)
    even, third = place(tree, "v % 2 = 0"), place(tree, "v % 2 = 0 and v % 3 = 0")
    named = dict(zip([op.id for op in plan.unshared.operators], QUERIES, strict=True))
    first, last = ({named[n]: way for n, way in found.items()} for found in (places[0], places[-1]))
    assert first == {"all": [ROOT], "even": [ROOT], "third": [ROOT, even], "low": [ROOT]}
    assert last == {
        "all": [ROOT],
        "even": [ROOT, even],
        "third": [ROOT, even, third],
        "low": [ROOT],
    }
    assert known.routes == routes_of(tree, optimal(tree))
    changes = sum(a != b for a, b in pairwise(places))
    assert 1 <= changes <= 3, "not with every batch"
    # What following the new routes took longer than usual is known for the next change.
    assert known.penalty.n == changes and known.penalty.x > 0
    shared.batch([], final=True)
    assert all(len(set(got)) == len(got) > 0 for got in shared.got.values())
    # Fewer rows are held than by each sort for itself.
    apart = run(sharing=False)
    apart.restart(QUERIES)
    alone = []
    for rows in data:
        apart.batch(rows)
        alone.append(apart.held)
    assert sum(held[7:]) < sum(alone[7:])


def at_random(rng: random.Random) -> Any:
    """Rows are sent elsewhere at random batches: any placement there is, for any slacks, in place of the best."""

    def decisions(plan: Plan, last: Any) -> dict[str, Decision]:
        found = {}
        for store in stores(plan):
            known = waiting(plan, store, last)
            routes = known.routes
            if rng.random() < 0.5:
                tree = tree_of(store, {n: rng.choice([0, 5, 9, 20]) for n in store.producers})
                routes = routes_of(
                    tree, rng.choice([*islice(candidates(tree), 50), unshared(tree)])
                )
            found[store.id] = Decision(routes, known.reports)
        return found

    return decisions


@pytest.mark.spec("QD-F12")
@examples(8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 10**9))
def test_deliveries_over_restarts_other_slacks_other_sorts_and_other_places(
    run: Any, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Filters, slacks, members, places at random; every batch against the definition, every delivery counted."""
    rng, found = random.Random(seed), run()
    if rng.random() < 0.75:
        monkeypatch.setattr(loops, "decisions", at_random(rng))
    else:
        monkeypatch.setattr(loops, "decisions", decisions)

    def query() -> Query:
        return Query(
            rng.choice([0, 5, 12, 25, 60]),
            tuple(sorted(rng.sample(sorted(TESTS), rng.randrange(3)))),
        )

    queries = {f"q{i}": query() for i in range(3)}
    count = 3
    for i, rows in enumerate(stream(rng.randrange(1000), 8, each=16)):
        if i == 0 or rng.random() < 0.3:
            # Slacks change; filters are what a sort is, and stay.
            queries = {
                n: replace(q, slack=rng.choice([q.slack, 3, 30])) for n, q in queries.items()
            }
            if i and rng.random() < 0.5:
                queries[f"q{count}"] = query()
                count += 1
            if len(queries) > 2 and rng.random() < 0.4:
                queries.pop(rng.choice(sorted(queries)))
            found.restart(queries, groups=rng.randint(1, 2), settings=Settings(compact_runs=2))
            assert len(found.stores) == 1, "a new sort joins those that are there"
        found.batch(rows)
    found.batch([], final=True)
    found.engine.stop()
    assert found.held == 0
    for name, got in found.got.items():
        assert max(Counter(got).values(), default=0) <= 1, name


def test_slacks_that_follow_the_delays_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slack grows while the query runs, past the others, and rows are sent elsewhere; results are those of the sorts apart."""

    def node(policy: Policy, *tests: str) -> Node:
        made = Query(0, tests).node
        return Rewrite(lambda source: replace(source, policies=(policy,)))(made)

    nodes = {
        "most": node(MaxDelay(), "v % 2 = 0"),
        "few": node(BoundedDelay(15), "v % 2 = 0", "v % 3 = 0"),
        "fixed": node(BoundedDelay(8), "v < 60"),
    }
    rng, data = random.Random(8), []
    for b in range(12):
        # Disorder grows tenfold in the middle.
        reach = 4 if b < 5 else 40
        data.append([(40 * b + i, max(0, 10 * b + rng.randrange(10) - rng.randrange(reach)),
                      rng.randrange(100)) for i in range(40)])  # fmt: skip
    runs, ways = [], []
    for sharing in (True, False):
        (tmp_path / str(sharing)).mkdir()
        engine = Engine(tmp_path / str(sharing), monkeypatch)
        plan = share(plan_of(nodes), {}, None, wanted=sharing)
        engine.start(plan)
        for rows in data:
            engine.batch(table(rows))
            if sharing:
                (known,) = (s.waiting for s in engine.loop.last.statistics.values())  # type: ignore[union-attr]
                ways.append((known.routes, known.reports.current))
        engine.batch(final=True)
        engine.stop()
        runs.append(engine.results)
    for name in nodes:
        for batch, want in runs[1][name].items():
            found = runs[0][name].get(batch, [])
            assert [r["ts"] for r in found] == [r["ts"] for r in want], (name, batch)
            assert sorted(r["k"] for r in found) == sorted(r["k"] for r in want), (name, batch)
    assert len({str(routes) for routes, _ in ways}) > 1
    slacks = [list(current.values()) for _, current in ways if len(current) == 3]
    assert max(slacks[-1]) > 2 * max(slacks[2])


def test_a_sort_that_comes_back_is_new(run: Any) -> None:
    """Rows that waited for it when it went are not for the one that comes: its bit is another one."""
    data, found = stream(3, 6), run()
    two = {"a": Query(25), "b": Query(25, ("v < 60",))}
    found.restart(two)
    found.batch(data[0])
    (store,) = found.stores
    bits = found.stores[store]["bits"]
    found.restart({"a": two["a"]})
    found.batch(data[1])
    found.expected.pop("b", None)
    found.restart(two)
    assert found.stores[store]["used"] == 3 and found.stores[store]["bits"] != bits
    found.expected["b"].bound = -(10**9)
    for rows in data[2:]:
        found.batch(rows)
    found.batch([], final=True)
    assert not {k for k, *_ in data[0]} & set(found.got["b"])


def test_sorts_that_all_went_and_came_back_are_new(run: Any) -> None:
    """Before a batch is there without them, what waited for them is stored still, under the bits that they had."""
    data, found = stream(5, 5), run()
    two = {"a": Query(25), "b": Query(25, ("v < 60",))}
    found.restart(two)
    found.batch(data[0])
    (store,) = found.stores
    bounds = {n: e.bound for n, e in found.expected.items()}
    found.restart({"other": Query(3)})
    found.restart({"b": two["b"], "a": two["a"]})
    assert len(found.stores) == 1 and store not in found.stores
    for name, bound in bounds.items():
        found.expected[name].bound = bound
    for rows in data[1:]:
        found.batch(rows)
    found.batch([], final=True)


@pytest.mark.spec("QD-F18")
def test_where_rows_wait_next_is_worked_out_while_the_job_runs(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job does not end before the placement is there, which a driver that does one after the other never sees."""
    found, planned = run(), threading.Event()
    host = found.engine.host

    def plan(*given: Any) -> Any:
        made = decisions(*given)
        planned.set()
        return made

    def job(*given: Any) -> Any:
        assert planned.wait(60)
        planned.clear()
        return LocalHost.run_job(host, *given)

    monkeypatch.setattr(loops, "decisions", plan)
    monkeypatch.setattr(host, "run_job", job)
    found.restart(QUERIES)
    for rows in stream(2, 5):
        found.batch(rows)
    assert any(len(way) > 1 or way[0][0] != ROOT for way in found.known.routes.values())


def test_sorts_of_one_join_s_results_share_what_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As ``emit="ordered"`` makes them, behind filters of their own, held against the oracle batch by batch."""
    data = joins.batches(3, 9, 18)
    text = joins.transcript(data).text
    ordered = {
        "some": [{"from": "pairs"}, {"where": "v < 20"}, {"sort": "x"}],
        "others": [{"from": "pairs"}, {"where": "v >= 10"}, {"sort": "x"}],
        "first": [{"from": "pairs"}, {"where": "k = 1"}, {"where": "v < 20"}, {"sort": "x"}],
    }
    script = parse({**text, "query": {"pairs": text["query"]["pairs"], **ordered}})
    plan = share(joins.plan_of(script), {}, None)
    assert [type(op.node).__name__ for op in plan.operators] == ["Join", "SharedSort"]
    engine, seen = Engine(tmp_path, monkeypatch), oracle(script)
    engine.start(plan, groups=2)
    for rows in data:
        engine.batch(*[joins.table(rows)])
    engine.batch(final=True)
    for name in ordered:
        for i, o in enumerate(seen):
            found = engine.results[name].get(i, [])
            assert [r["x"] for r in found] == sorted(r["x"] for r in found)
            assert joins.counted(found) == joins.counted(o.outputs[name]), (name, i)
        assert len(engine.rows(name)) > 10


def test_no_more_sorts_than_bits() -> None:
    many = {f"q{i}": Query(i, ("v < 60",)) for i in range(MAX_BITS + 3)}
    plan = share(plan_of({n: q.node for n, q in many.items()}), {}, None)
    assert [len(op.producers) for op in plan.operators] == [MAX_BITS, 3]


def test_explain_shows_filters_and_where_rows_wait(run: Any) -> None:
    found = run()
    plan = found.restart(QUERIES)
    ids = dict(zip(QUERIES, [op.id for op in plan.unshared.operators], strict=True))

    def explained(**more: Any) -> list[str]:
        text = explain_plan(passed(plan, Shown(IN)), IN, **more)
        at = text.index("slack buffers on ts for 4 sorts behind 3 filter(s)")
        return [line.strip() for line in text[at:].splitlines()][2:8]

    # Before anything is measured, filters are taken to let everything through.
    assert explained()[:3] == [
        f"below the rows: 2 -> {ids['all']}, +18 -> {ids['low']}, +10 -> {ids['even']}, v % 2 = 0",
        f"below v % 2 = 0: 10 -> {ids['third']}",
        "rows of 40 are held, by themselves 92",
    ]
    for rows in stream(1, 14):
        found.batch(rows)
    last = found.engine.loop.last
    lines = explained(statistics=last.statistics)
    share_ = found.known.selectivity["v % 2 = 0"].value
    assert lines[0] == f"below the rows: 2 -> {ids['all']}, +18 -> {ids['low']}, v % 2 = 0"
    assert f"v % 2 = 0 lets through {share_:.3g}" in lines
    # A sort that has gone since the last batch is not shown.
    plan = found.restart({n: q for n, q in QUERIES.items() if n != "low"})
    text = explain_plan(passed(plan, Shown(IN)), IN, statistics=last.statistics)
    assert ids["even"] in text and ids["low"] not in text


@pytest.mark.spec("QD-F16")
@pytest.mark.parametrize(
    ("names", "cost", "moved"),
    [(("third",), 0.0, False), (("third", "even"), 0.0, True), (("third", "even"), 1e9, False)],
    ids=["one of four", "half", "at a price"],
)
def test_rows_are_sent_elsewhere_once_half_of_the_slacks_have_changed_and_it_pays(
    run: Any, monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...], cost: float, moved: bool
) -> None:
    """No newer time comes, so that bounds move, and sorts report, by another slack alone."""
    monkeypatch.setattr(Penalty, "of", lambda self, rows: cost)
    found = run()
    found.restart(QUERIES)
    for rows in stream(1, 8):
        found.batch(rows)
    before = found.known.routes
    found.restart({n: replace(q, slack=4) if n in names else q for n, q in QUERIES.items()})
    for i in range(3):
        found.batch([(10_000 + 100 * i + j, found.newest - j % 3, j % 100) for j in range(20)])
    assert (found.known.routes != before) == moved
    assert sum(k == 4 for k in found.known.reports.current.values()) == len(names) * moved
