"""No name of ours hides a user's: queries give the same rows whatever names are given to their columns and streams."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from slackwater.engine.plan.layout import build
from slackwater.engine.plan.plan import Output, Plan
from slackwater.engine.plan.sharing import share
from slackwater.model.node import Node
from slackwater.model.policy import Punctuated, Quality
from slackwater.model.window import JointWindow
from tests.engine.given_names import EXTRA, PLAIN, STRUCTS, Given
from tests.engine.in_process import Engine, Make

RELATIONS = [
    "q",
    "s0",
    "s1",
    "s2",
    "r0",
    "r1",
    "r2",
    "t",
    "main",
    "memory",
    "_rows",
    "unnamed_subquery",
    "unnamed_subquery2",
    "read_parquet",
    "batch",
    "view",
    "information_schema",
    "pragma",
]
"""What sub-queries and tables are or were called: a struct of that name is the trap."""
OURS = [
    "_pane",
    "_pane1",
    "_time",
    "_bucket",
    "_row",
    "_k0",
    "_k1",
    "_for",
    "_matched",
    "_pass",
    "_code",
    "_found",
    "__src",
    "__row",
    "__p0",
    "__p1",
    "__c0_0",
    "__c1_0",
    "_part",
    "_verdict0",
    "_verdict1",
    "_n",
    "_hi0",
    "_lo0",
    "_p0",
    "_a0",
    "_a1",
    "_a0_n",
    "_a0_s",
    "__e0",
    "__e1",
    "__key0",
    "__order0",
    "__pass",
    "__window",
    "_wid",
    "_first",
    "_start",
    "_end",
    "_window",
    "_x0",
    "_o0",
    "_mark",
    "_rank",
    "_since",
    "_expiring",
    "_slot",
    "_i",
    "h",
    "m",
    "c0",
    "c1",
    "v0",
    "v1",
    "route",
    "blob",
    "bits",
    "_0",
    "_1",
    "_late",
    "x__sw_y",
    "_sw",
    "_sw_pass",
]
"""What columns of ours were called."""
WORDS = [
    "select",
    "from",
    "where",
    "group",
    "order",
    "by",
    "end",
    "start",
    "case",
    "when",
    "then",
    "else",
    "null",
    "true",
    "false",
    "table",
    "timestamp",
    "interval",
    "user",
    "current_date",
    "current_user",
    "date",
    "array",
    "struct",
    "map",
    "union",
    "all",
    "distinct",
    "having",
    "limit",
    "offset",
    "values",
    "with",
    "over",
    "range",
    "filter",
    "in",
    "is",
    "not",
    "and",
    "or",
    "as",
    "on",
    "using",
    "key",
    "value",
    "count",
    "sum",
    "max",
    "min",
    "first",
    "last",
    "unnest",
    "list",
    "rowid",
    "filename",
    "file_row_number",
    "file_index",
    "ROWID",
    "Select",
]
"""Reserved words, functions, and columns that the column engine has without being asked."""
ODD = ["a.b", "a b", "ü", 'x"y', "it's", "a`b", "100%", "-", "#", "{", "\\"]

POOL = [*OURS, *WORDS, *ODD]
BATCHES = 2
AGGREGATES = {"total": "sum {s}.{y}", "low": "min {p}.{y}", "n": "count"}


def draws(count: int) -> Iterator[dict[str, str]]:
    """Names for all plain ones: `RELATIONS` for structs, `OURS` for columns that go along, in turn any for the others."""
    rng = random.Random(7)
    queues = [list(RELATIONS), list(OURS), list(POOL)]
    for queue in queues:
        rng.shuffle(queue)
    relations, ours, pool = queues
    others = [p for p in PLAIN if p not in STRUCTS and p not in EXTRA]
    for _ in range(count):
        taken: set[str] = set()
        names = {}
        for plain, queue in (
            *((p, relations) for p in STRUCTS),
            *((p, pool) for p in others),
            *((p, ours) for p in EXTRA),
        ):
            name = next(n for n in queue if n.lower() not in taken)
            queue.remove(name)
            queue.append(name)
            taken.add(name.lower())
            names[plain] = name
        yield names


DRAWS = list(draws(9))


def test_the_draws_use_every_name() -> None:
    given = [(n, p) for names in DRAWS for p, n in names.items()]
    assert {n for n, p in given if p in STRUCTS} == set(RELATIONS)
    assert {n for n, p in given if p in EXTRA} == set(OURS)
    assert {n for n, p in given if p not in STRUCTS and p not in EXTRA} == set(POOL)


def rows() -> list[list[dict[str, int]]]:
    rng = random.Random(3)
    made, seq = [], 0
    for b in range(BATCHES):
        batch = []
        for _ in range(20):
            seq += 1
            time = max(0, 9 * b + rng.randrange(-9, 9))
            other = max(0, 9 * b + rng.randrange(-3, 9))
            batch.append({"ts": time, "tb": other, "k": rng.randrange(3), "v": rng.randrange(9),
                          "x": rng.randrange(50, 99), "y": rng.randrange(500, 999), "seq": seq})  # fmt: skip
        made.append(batch)
    return made


def fused(g: Given) -> dict[str, Node]:
    """One path from a scan to partial aggregates, with filters and projections on the way."""
    node = g.where(g.source(late="drop", partition=g.name("k")), "({s}.{x} > 0L)")
    chosen = g.select(node, ts="{ts}", k="{p}.{x}", s="{s}", p="{u}", v="({u}.{y} + {y})")
    kept = g.where(chosen, "({p}.{y} > 3L)")
    keys = {"key": "{s}.{x}", "key2": "{k}"}
    return {"fused": g.agg(kept, g.time_window(8, 4), keys, AGGREGATES)}


def by_window(g: Given) -> dict[str, Node]:
    return {"wids": g.agg(g.source(), g.time_window(7, 3), {"key": "{s}.{x}"}, AGGREGATES)}


def adaptive(g: Given) -> dict[str, Node]:
    return {"lazy": g.agg(g.source(), g.time_window(7, 3), {"key": "{s}.{x}"}, AGGREGATES)}


def aggregates(g: Given) -> dict[str, Node]:
    """Windows of every type, over one source with an order of arrival."""
    source = g.source(order=(g.name("seq"),))
    keys = {"key": "{s}.{x}"}
    kept = g.where(source, "({p}.{x} > 0L)")
    small = g.agg(kept, g.time_window(6, 3), keys, AGGREGATES)
    over = g.where(small, "({w}.end > 3L)")
    calls = {"total": "sum {total}", "low": "max {w}.start"}
    found: dict[str, Node] = {
        "small": small,
        "other": g.agg(kept, g.time_window(9, 3), keys, AGGREGATES),
        "large": g.agg(over, g.time_window(12, 12, "w"), {"n": "{key}"}, calls, ["w2"]),
    }
    for name, window in g.other_windows().items():
        found[name] = g.agg(kept, window, keys, AGGREGATES)
    chosen = g.select(kept, ts="{ts}", key="{s}.{x}", s="{p}", p="{u}", v="{y}")
    node, window = g.at_source(chosen, 5)
    found["counted"] = g.agg(node, window, {}, AGGREGATES)
    node, window = g.by_rows(chosen, 4)
    found["per"] = g.agg(node, window, {"key": "{key}"}, AGGREGATES)
    node, tuples = g.by_tuple(chosen, 6)
    found["tuples"] = g.agg(node, tuples, {"key": "{key}"}, AGGREGATES)
    return found


def stored_rows(g: Given) -> dict[str, Node]:
    """Operators that keep users' rows."""
    source = g.source(times=("ts", "tb"))
    extra = {c: f"{{{c}}}" for c in EXTRA[:16]}
    left = g.select(source, ts="{ts}", k="{s}.{x}", v="{s}.{y}", s="{s}", **extra)
    right = g.select(source, tb="{tb}", k="{p}.{x}", v="{p}.{y}", p="{p}", **extra)
    third = g.select(source, ts="{ts}", k="{u}.{x}", u="{u}")
    band = {"band": {"before": 3, "after": 2}}
    inner = g.join([left, right], where="({s}.{y} < {p}.{y})", **band)
    return {
        "sorted": g.sort(g.where(source, "({s}.{y} > 20L)")),
        "sorted2": g.sort(g.where(source, "({s}.{y} < 70L)")),
        "distinct": g.dedup(source, "ts", "k", "s"),
        "within": g.dedup(g.select(source, ts="{ts}", p="{p}", k="{s}.{x}"), "k", "p", within=4),
        "union": g.union(g.select(source, ts="{ts}", v="{s}.{y}"), g.select(source, ts="{ts}", v="{y}")),
        "late": g.where(g.late(source), "({s}.{y} > 0L)"),
        "inner": inner,
        "full": g.join([left, right], how="full", **band),
        "bounded": g.join([left, right], how="full", memory=4000, **band),
        "three": g.join([left, right, third], reach=[1, 1, 1]),
        "joint": g.agg(
            inner,
            JointWindow((g.time_window(6, 3), g.time_window(4, 4, "tb"))),
            {"key": "{s}.{x}"},
            {"total": "sum {p}.{y}", "n": "count"},
            ["w", "w2"],
        ),
        "joined": g.agg(inner, g.time_window(6, 6, "tb"), {"key": "{s}.{x}"}, {"n": "count"}),
    }  # fmt: skip


def punctuated(g: Given) -> dict[str, Node]:
    source = g.source(policy=Punctuated(g.name("third"), data=True))
    return {"ended": g.ungrouped(source)}


def judged(g: Given) -> dict[str, Node]:
    """Slack that follows values of the rows, by group; and lateness row by row."""
    policy = Quality(error=0.05, per="group", granularity=1, warmup=2)
    source = g.source(policy=policy, order=(g.name("seq"),))
    kept = g.where(source, "({s}.{x} > 0L)")
    return {"error": g.agg(kept, g.time_window(6, 3), {"key": "{p}.{x}"}, AGGREGATES)}


def strict(g: Given) -> dict[str, Node]:
    policy = Quality(error=0.05, strict=True, granularity=1, warmup=2)
    source = g.source(policy=policy, order=(g.name("seq"),))
    chosen = g.select(source, ts="{ts}", s="{p}", p="{s}", k="{u}.{x}")
    return {"strict": g.agg(chosen, g.time_window(6, 3), {"key": "{s}.{x}"}, AGGREGATES)}


QUERIES = {
    f.__name__: f
    for f in (fused, by_window, adaptive, aggregates, stored_rows, punctuated, judged, strict)
}
PLANS = {"by_window": "wids", "adaptive": "adaptive"}


def plan_of(query: str, g: Given) -> Plan:
    outputs = [Output(name, node) for name, node in QUERIES[query](g).items()]
    plan = build(outputs, ansi=True, zone="UTC", window_plan=PLANS.get(query, "auto"))
    return share(plan, {}, None, wanted=True)


@pytest.fixture(autouse=True)
def _no_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waiting for the disk would take half of the time, and nothing here is about crashes."""
    monkeypatch.setattr("os.fsync", lambda fd: None)


def run(engine: Engine, query: str, g: Given) -> dict[str, Counter[Any]]:
    """The rows of all outputs, by the places of their columns."""
    engine.start(plan_of(query, g), tasks=1)
    for batch in rows():
        if g.patterns and engine.batches:
            batch = [*batch, {**batch[0], "k": 2, "v": 1, "ends": 0}]
        engine.batch(g.table(batch))
    engine.batch(final=True)
    engine.stop()
    return {n: Counter(_bare(r) for r in engine.rows(n)) for n in engine.results}


def _bare(value: Any) -> Any:
    return tuple(map(_bare, value.values())) if isinstance(value, dict) else value


PLAIN_RESULTS: dict[str, dict[str, Counter[Any]]] = {}


@pytest.fixture
def expected(engine: Make, request: pytest.FixtureRequest) -> dict[str, Counter[Any]]:
    """The rows of the query with plain names."""
    query: str = request.node.callspec.params["query"]
    if query not in PLAIN_RESULTS:
        PLAIN_RESULTS[query] = run(engine("plain"), query, Given(patterns=query == "punctuated"))
    return PLAIN_RESULTS[query]


LARGE = ("aggregates", "stored_rows")
"""Many operators at once: only a third of the draws, the others with the faults."""
RUNS = [
    pytest.param(q, d, marks=[pytest.mark.faults] if q in LARGE and d % 3 else [])
    for q in QUERIES
    for d in range(len(DRAWS))
]


@pytest.mark.parametrize(("query", "draw"), RUNS)
def test_other_names_give_the_same_rows(
    engine: Make, expected: dict[str, Counter[Any]], query: str, draw: int
) -> None:
    assert all(expected.values()), "each output must have rows for this test to tell anything"
    given = Given(DRAWS[draw], patterns=query == "punctuated")
    found = run(engine("given"), query, given)
    for name, want in expected.items():
        assert found[name] == want, name
