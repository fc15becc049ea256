"""Feedback goes through each operator of a running query as its rule says: rows go where nobody needs them, and nowhere else."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pytest

from slackwater.engine.driver.passes import Written, passed
from slackwater.engine.plan.layout import build
from slackwater.engine.plan.plan import Output, Plan
from slackwater.engine.store.feedback_log import state_of
from slackwater.model.node import Filter, Node, Sort, Source, Union
from slackwater.model.policy import Ordered
from slackwater.model.reacting import Reacting
from slackwater.model.schema import Field
from slackwater.model.time import TimeColumn
from slackwater.semantics.feedback.columns import Columns
from slackwater.semantics.feedback.standing import Request
from slackwater.semantics.feedback.text import parsed
from slackwater.testing.feedback import frozen
from slackwater.testing.local.run import LocalInput, LocalRun, scratch_folder
from slackwater.testing.transcripts.join import build_join
from slackwater.testing.transcripts.query import aggregate, expression, project

FIELDS = (Field("ts", "bigint"), Field("k", "bigint"), Field("v", "bigint"))
TS = TimeColumn("ts", "long", None)
COUNTS = {"n": "count(*)"}
Row = Mapping[str, Any]
Test = Callable[[Row], bool]


def source(name: str, number: int = 0) -> Source:
    return Source(FIELDS, (TS,), name, number, policies=(Ordered(),))


@lru_cache
def rows(name: str) -> list[pa.Table]:
    """In order of time, so that none is late."""
    rng = random.Random(name)
    tables = []
    for n in range(5):
        ts = sorted(rng.randint(6 * n, 6 * n + 5) for _ in range(24))
        k, v = ([rng.randint(0, 4) for _ in ts] for _ in "kv")
        tables.append(pa.table({"ts": ts, "k": k, "v": v}))
    return tables


@dataclass
class Ran:
    """Rows of each output, and how many were dropped at each place: streams, operators, outputs."""

    rows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    dropped: dict[str, int] = field(default_factory=dict)


def ran(outputs: Mapping[str, Node], asked: Mapping[str, str], splits: bool) -> Ran:
    """A run of all rows, with feedback on its outputs from the first batch on."""
    made = build([Output(n, o) for n, o in outputs.items()], ansi=True, zone="UTC")
    plan: Plan = passed(made, Written())
    out = Ran()
    with scratch_folder() as folder:
        run = LocalRun(folder, plan, [LocalInput(s.schema, splits) for s in plan.sources])
        run.share_panes = False
        for batch in zip(*(rows(s.name) for s in plan.sources), strict=True):
            run.give(dict(enumerate(batch)))
        run.start()
        for output, text in asked.items():
            columns = Columns.of(next(o.node for o in plan.outputs if o.name == output))
            said = parsed(str(parsed(text, columns)), columns)
            run.send(Request("send", output, output, said))
        while run.done < len(run.host.batches):
            last = run.step()
        last = run.step(final=True)
        assert last is not None
        out.dropped = {n: count for n, count in state_of(last).dropped.items() if count}
        for name, tables in run.published.items():
            out.rows[name] = [r for b in sorted(tables) for r in tables[b].to_pylist()]
        run.stop()
    return out


def bag(found: list[dict[str, Any]]) -> Counter[Any]:
    return Counter(map(frozen, found))


@dataclass(frozen=True)
class Case:
    """What is asked of one output, the results that match it, the rows of each stream that then go, and where else rows do."""

    node: Callable[[], Node]
    text: str
    ignored: Test
    gone: Mapping[str, Test] = field(default_factory=dict)
    elsewhere: tuple[str, ...] = ()


def per(child: Node, by: Any = ("k",), **window: int) -> Node:
    return aggregate(child, {"window": window or {"range": 6}, "by": by, "agg": COUNTS})


def where(child: Node, text: str) -> Filter:
    return Filter(child.schema, child.times, child, expression(text, child.schema))


def both() -> Union:
    other = project(source("b", 1), {"ts": "ts", "k": "v", "v": "k"})
    return Union(FIELDS, (TS,), (source("a"), other))


def pairs(how: str = "inner") -> Node:
    step = {
        "join": [{"as": "l", "from": source("a")}, {"as": "r", "from": source("b", 1)}],
        "keys": ["k"],
        "how": how,
        "band": {"before": 2, "after": 3},
    }
    return build_join(step, lambda node: node, expression)


def low(column: str) -> Test:
    return lambda row: bool(row[column] < 2)


SIDE = Case(pairs, "~{l_v < 2}", low("l_v"), {"a": low("v")})
MIXED = Case(
    pairs, "~{l_v < 2, r_v < 2}", lambda r: r["l_v"] < 2 and r["r_v"] < 2, elsewhere=("out:out",)
)
OTHERS = {"ts": "ts - 2", "key": "k", "w": "v"}
CASES = [
    pytest.param(
        Case(lambda: per(where(source("a"), "v > 1")), "~{k < 2}", low("k"), {"a": low("k")}),
        id="filter", marks=pytest.mark.spec("FC-F6", "FC-F22"),
    ),
    pytest.param(
        Case(
            lambda: Sort(FIELDS, (TS,), source("a"), "ts"),
            "~{v 3, k 1}",
            lambda r: (r["v"], r["k"]) == (3, 1),
            {"a": lambda r: (r["v"], r["k"]) == (3, 1)},
        ),
        id="sort",
    ),
    pytest.param(
        Case(
            lambda: per(project(source("a"), OTHERS), ("key",)),
            "~{key < 2}", low("key"), {"a": low("k")},
        ),
        id="renamed", marks=pytest.mark.spec("FC-F23"),
    ),
    pytest.param(
        Case(
            lambda: per(project(source("a"), {"ts": "ts", "k": "k", "x": "v - 1"}), ("k", "x")),
            "~{k < 2, x < 2}", lambda r: r["k"] < 2 and r["x"] < 2, elsewhere=("project",),
        ),
        id="computed", marks=pytest.mark.spec("FC-F15", "FC-F23"),
    ),
    pytest.param(
        Case(
            lambda: per(source("a"), {"k": "k", "x": "v - 1"}),
            "~{k < 2, x < 2}", lambda r: r["k"] < 2 and r["x"] < 2, elsewhere=("out:out",),
        ),
        id="computed_group", marks=pytest.mark.spec("FC-F15"),
    ),
    pytest.param(
        Case(lambda: per(both()), "~{k < 2}", low("k"), {"a": low("k"), "b": low("v")}),
        id="union", marks=pytest.mark.spec("FC-F24"),
    ),
    pytest.param(
        Case(lambda: per(source("a")), "~{wid < 2}", low("wid"), {"a": lambda r: r["ts"] < 12}),
        id="tumbling", marks=pytest.mark.spec("FC-F29"),
    ),
    pytest.param(
        Case(
            lambda: per(source("a"), range=6, slide=3),
            "~{wid < 4}",
            lambda r: r["wid"] < 4,
            {"a": lambda r: r["ts"] < 9},  # those up to 11 are in window 4, too
            ("aggregate",),
        ),
        id="sliding", marks=pytest.mark.spec("FC-F30"),
    ),
    pytest.param(
        Case(pairs, "~{k < 2}", low("k"), {"a": low("k"), "b": low("k")}),
        id="join_key", marks=pytest.mark.spec("FC-F26"),
    ),
    pytest.param(SIDE, id="join_side", marks=pytest.mark.spec("FC-F26")),
    pytest.param(MIXED, id="join_both", marks=pytest.mark.spec("FC-F27")),
    pytest.param(
        Case(
            lambda: replace(per(source("a")), reacting=Reacting(propagate=False)),
            "~{k < 2}", low("k"), elsewhere=("out:out",),
        ),
        id="ignored", marks=pytest.mark.spec("FC-F13"),
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_rows_go_where_the_rule_of_the_operator_says(case: Case) -> None:
    splits = len(case.text) % 2 == 0  # both ways of reading, one per case
    whole = ran({"out": case.node()}, {}, splits).rows["out"]
    less = ran({"out": case.node()}, {"out": case.text}, splits)
    assert bag(less.rows["out"]) == bag([r for r in whole if not case.ignored(r)])
    assert len(less.rows["out"]) < len(whole)
    streams = {n: given(n, test) for n, test in case.gone.items()}
    assert {n: count for n, count in less.dropped.items() if n in ("a", "b")} == streams
    places = {n.partition("-")[0] for n in less.dropped if n not in ("a", "b")}
    assert places == set(case.elsewhere)


def given(name: str, test: Test) -> int:
    return sum(test(r) for t in rows(name) for r in t.to_pylist())


@pytest.mark.spec("FC-F36")
def test_of_what_two_read_goes_what_both_ignore() -> None:
    counts = per(source("a"))
    outputs = {"x": counts, "y": counts}
    whole = ran(outputs, {}, True).rows["x"]
    less = ran(outputs, {"x": "~{k < 3}", "y": "~{k < 2} ~{k > 3}"}, True)
    assert bag(less.rows["x"]) == bag([r for r in whole if r["k"] >= 3])
    assert bag(less.rows["y"]) == bag([r for r in whole if 2 <= r["k"] <= 3])
    assert less.dropped["a"] == given("a", low("k"))
