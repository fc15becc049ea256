"""Random queries, streams and feedback, small enough that the oracle runs thousands of them.

Most operators are made over rows of three columns, ``ts``, ``k`` and ``v``, and brought back to that form, so that any can
stand over any other.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from slackwater.errors import AnalysisError
from slackwater.model.arrival import at_source, with_order
from slackwater.model.node import (
    LATE_FIELDS,
    Aggregate,
    Dedup,
    Filter,
    Late,
    Node,
    Pace,
    Project,
    Sort,
    Source,
    Union,
)
from slackwater.model.policy import BoundedDelay, Ordered
from slackwater.model.reacting import Reacting
from slackwater.model.schema import Expr, Field, Named
from slackwater.model.time import TimeColumn
from slackwater.model.window import TimeWindow
from slackwater.semantics.feedback import order
from slackwater.semantics.feedback.columns import Columns, moved
from slackwater.semantics.feedback_rules import must_exploit
from slackwater.semantics.patterns import Pattern, Patterns, Test
from slackwater.testing.transcripts.join import build_join
from slackwater.testing.transcripts.lookup import build_lookup, build_relation
from slackwater.testing.transcripts.query import aggregate, expression, project
from tests.semantics.feedback.guarded import Case, Rows

FLAT = (Field("ts", "bigint"), Field("k", "bigint"), Field("v", "bigint"))
TS = TimeColumn("ts", "long", None)
NUMBER = "no"
HOWS = ("inner", "left", "right", "full", "left_semi", "left_anti")


def source(name: str, rng: random.Random) -> Source:
    policy = Ordered() if rng.random() < 0.2 else BoundedDelay(delay=rng.randint(0, 6))
    late = rng.choice(["admit", "drop"])
    return Source(FLAT, (TS,), name, policies=(policy,), late=late)  # type: ignore[arg-type]


def numbered(name: str, rng: random.Random) -> Node:
    """A stream of the same form whose rows have numbers, so that windows can count them."""
    s = source(name, rng)
    fields = (*FLAT, Field(NUMBER, "bigint"))
    return project(replace(s, schema=fields, order=(NUMBER,)), {"ts": "ts", "k": "k", "v": "v"})


def window(rng: random.Random) -> dict[str, Any]:
    slide = rng.choice([2, 3, 5])
    span = rng.choice([slide, slide, 2 * slide, slide + 1, slide + 3, max(1, slide - 1)])
    return {"range": span, "slide": slide, "origin": rng.randint(-2, 2)}


def from_window(node: Node, rng: random.Random) -> Node:
    """Results of windows as rows of three columns; their time is the end of the window."""
    names = {f.name for f in node.schema}
    k = "k" if "k" in names and ("wid" not in names or rng.random() < 0.8) else "wid"
    text = "window.end"
    columns = (
        Named("ts", Expr(text, "bigint", "struct_extract(\"window\", 'end')")),
        Named("k", expression(k if k in names else "n", node.schema)),
        Named("v", expression("n", node.schema)),
    )
    return Project(FLAT, (TS,), node, columns, (("ts", "window", 1),))


def grouped(node: Node, rng: random.Random, **others: Any) -> Node:
    by: Any = rng.choice([["k"], ["k"], {"k": "k + 0"}, ["k", "v"], {"k": "k", "l": "k"}])
    agg = rng.choice(["count(*)", "sum(v)", "max(v)", "min(v)", "count(v)"])
    return aggregate(node, {"window": window(rng), "by": by, "agg": {"n": agg}, **others})


def sessions(node: Node, rng: random.Random) -> Node:
    return aggregate(
        node, {"window": {"session": rng.randint(1, 4)}, "by": ["k"], "agg": {"n": "count(*)"}}
    )


def everything(node: Node, rng: random.Random, empty: bool = False) -> Node:
    return aggregate(node, {"window": window(rng), "agg": {"n": "count(*)"}, "emit_empty": empty})


def joined(
    left: Node, right: Node, rng: random.Random, how: str = "inner", *, bound: bool = False
) -> Node:
    """A join of two; if ``bound``, its results' times are bound to each other, as windows on both of them need."""
    within: dict[str, Any] = rng.choice(
        [
            {"band": {"before": rng.randint(0, 3), "after": rng.randint(0, 3)}},
            {"band": {"before": -1, "after": rng.randint(2, 4)}},
            {"band": {"before": rng.randint(1, 3), "after": 2, "closed": "left"}},
            {"tumbling": {"range": rng.randint(2, 5), "origin": rng.randint(0, 2)}},
            {"tumbling": {"range": 4}} if bound else {"anytime": True},
        ]
    )
    step = {"join": [{"as": "l", "from": left}, {"as": "r", "from": right}], "how": how, **within}
    # Without keys every pair would match at any distance, which the surface refuses.
    step["keys"] = rng.choice([["k"], ["k"], [["k", "v"]], ["k"] if "anytime" in step else []])
    if rng.random() < 0.2 and how not in ("left_semi", "left_anti"):
        step["where"] = "l_v <= r_v"
    return build_join(step, lambda node: node, expression)


def three(nodes: Sequence[Node], rng: random.Random) -> Node:
    inputs = [{"as": f"i{n}", "from": node} for n, node in enumerate(nodes)]
    reach = [rng.randint(0, 3) for _ in nodes]
    return build_join(
        {"join": inputs, "keys": ["k"], "reach": reach}, lambda node: node, expression
    )


def from_join(node: Node, rng: random.Random) -> Node:
    """Results of a join as rows of three columns, on a time that is never null, or windows of the greatest time."""
    names = [f.name for f in node.schema]
    times = [t.name for t in node.times if t.name in names]
    if not times or rng.random() < 0.3:
        key = next((n for n in names if n == "k"), names[-1])
        counted = aggregate(
            node, {"window": window(rng), "by": {"k": key}, "agg": {"n": "count(*)"}}
        )
        return from_window(counted, rng)
    others = [n for n in names if n not in [t.name for t in node.times]]
    return project(
        node, {"ts": rng.choice(times), "k": rng.choice(others), "v": rng.choice(others)}
    )


def projected(node: Node, rng: random.Random) -> Node:
    moved_by = rng.choice(["ts", "ts + 2", "ts - 3"])
    k, v = rng.choice([("k", "v"), ("v", "k"), ("k", "k"), ("k", "v + 1"), ("k", "ts")])
    return project(node, {"ts": moved_by, "k": k, "v": v})


def filtered(node: Node, rng: random.Random) -> Node:
    text = rng.choice(["v >= 1", "k IS NOT NULL", "k < 2 OR v = 0"])
    return Filter(node.schema, node.times, node, expression(text, node.schema))


def distinct(node: Node, rng: random.Random) -> Node:
    subset, within = rng.choice(
        [
            (("ts", "k"), None),
            (("k", "ts", "v"), None),
            (("ts",), None),
            (("k",), 3),
            (("k", "v"), 2),
        ]
    )
    return Dedup(node.schema, node.times, node, subset, within, "ts")


def ordered(node: Node, rng: random.Random) -> Node:
    return Sort(node.schema, node.times, node, "ts")


def from_rows(node: Node, rng: random.Random) -> Node:
    return from_window(node, rng) if isinstance(node, Aggregate) else node


def paced(node: Node, rng: random.Random) -> Node:
    """A pace, where the oracle knows the newest time of the rows."""
    limit = rng.randint(1, 8)
    return Pace(node.schema, node.times, node, "ts", limit) if _has_newest(node) else node


def _has_newest(node: Node) -> bool:
    if isinstance(node, Aggregate):
        below = _has_newest(node.child) and isinstance(node.window, TimeWindow)
        return below and not node.emit_empty
    known = isinstance(node, (Source, Filter, Dedup, Pace, Project, Union, Sort))
    return known and all(_has_newest(c) for c in node.children)


def by_rows(node: Node, rng: random.Random) -> Node:
    """Windows of so many rows, where rows have an order."""
    if not with_order(node).order:
        return node
    try:
        counted = at_source(node) if rng.random() < 0.5 else None
    except AnalysisError:
        counted = None
    spec: dict[str, Any] = {
        "rows": rng.randint(1, 3),
        "at": "operator" if counted is None else "source",
    }
    if rng.random() < 0.5:
        spec["slide"] = rng.randint(1, 3)
    if rng.random() < 0.5:
        spec["per"] = ["k"]
    return aggregate(node, {"window": spec, "by": ["k"], "agg": {"n": "count(*)"}})


UNARY: list[Callable[[Node, random.Random], Node]] = [
    projected,
    filtered,
    distinct,
    ordered,
    lambda n, rng: from_window(grouped(n, rng), rng),
    lambda n, rng: from_window(grouped(n, rng), rng),
    lambda n, rng: from_window(sessions(n, rng), rng),
    lambda n, rng: from_window(everything(n, rng, empty=True), rng),
    paced,
    lambda n, rng: from_rows(by_rows(n, rng), rng),
]
TOPS: list[Callable[[Node, random.Random], Node]] = [
    lambda n, rng: n,
    grouped,
    grouped,
    lambda n, rng: everything(n, rng, empty=rng.random() < 0.5),
    sessions,
    by_rows,
]


def plan(rng: random.Random, sources: Sequence[Node], depth: int) -> Node:
    if not depth:
        return rng.choice(sources)
    if rng.random() < 0.25:
        sides = [plan(rng, sources, depth - 1) for _ in range(2)]
        if rng.random() < 0.3:
            return Union(FLAT, (TS,), tuple(sides))
        return from_join(joined(sides[0], sides[1], rng, rng.choice(HOWS)), rng)
    return rng.choice(UNARY)(plan(rng, sources, depth - 1), rng)


def streams(rng: random.Random, names: Sequence[str], batches: int) -> list[Rows]:
    made: list[Rows] = []
    for n in range(batches):
        rows: dict[str, list[dict[str, Any]]] = {}
        for name in names:
            at = n * 5
            rows[name] = [
                {
                    "ts": at + rng.randint(-4, 6),
                    "k": rng.choice([0, 0, 1, 2, None]),
                    "v": rng.choice([0, 1, 1, 2, None]),
                }
                for _ in range(rng.randint(0, 4))
            ]
        made.append(rows)
    return made


def record(rng: random.Random, node: Node, most: int = 25) -> Pattern:
    """A record on one to three columns of an output."""
    columns = Columns.of(node)
    names = columns.names()
    made = Pattern(())
    for name in rng.sample(names, min(len(names), rng.choice([1, 1, 2, 2, 3]))):
        column = columns.column(name.split(".") if "window." in name else [name])
        if column.type != "bigint":
            continue
        far = any(w in name for w in ("ts", "window"))
        value = rng.randint(-2, most) if far else rng.randint(0, 5 if name == "wid" else 2)
        test = rng.choice([order.below, order.from_, order.equal, order.above])(value, "bigint")
        if rng.random() < 0.2:
            test |= order.equal(value + 3, "bigint") | Test((), rng.random() < 0.7)
        made &= Pattern.of({column.name: moved(test, -1) if column.ends else test})
    return made


def records_over_time(
    rng: random.Random, outputs: Mapping[str, Node], batches: int
) -> list[dict[str, Patterns]]:
    """For each batch what each output asserts: records that come, and that may go again."""
    timeline: list[dict[str, Patterns]] = [{} for _ in range(batches)]
    for name, node in outputs.items():
        for _ in range(rng.choice([1, 1, 2])):
            made = record(rng, node)
            if not made.tests or made.empty:
                continue
            first = rng.randint(0, batches - 1)
            after = batches if rng.random() < 0.5 else rng.randint(first + 1, batches)
            for n in range(first, after):
                timeline[n][name] = (*timeline[n].get(name, ()), made)
    return timeline


def case(rng: random.Random, depth: int = 2) -> Case:
    """A query of one or two outputs, which may share what is below them."""
    sources = [rng.choice([source, numbered])(name, rng) for name in "ab"]
    shared = plan(rng, sources, rng.randint(0, depth))
    outputs: dict[str, Node] = {"x": rng.choice(TOPS)(shared, rng)}
    other = rng.random()
    if other < 0.25:
        outputs["y"] = rng.choice(TOPS)(shared, rng)
    elif other < 0.35:
        outputs["y"] = outputs["x"]
    elif other < 0.45:
        (late,) = _sources(sources[0])
        outputs["y"] = Late((*late.schema, *LATE_FIELDS), (TS,), late)
    elif other < 0.6:
        outputs["x"] = joined(shared, rng.choice(sources), rng, rng.choice(HOWS))
    return finished(rng, outputs)


def finished(rng: random.Random, outputs: Mapping[str, Node], batches: int | None = None) -> Case:
    """A case of a query: random streams and feedback."""
    count = batches or rng.randint(2, 6)
    read = {n.name: n for o in outputs.values() for n in _sources(o)}
    made = streams(rng, sorted(read), count)
    for name, node in read.items():
        if node.field(NUMBER) is not None:
            for number, row in enumerate(row for rows in made for row in rows[name]):
                row[NUMBER] = number  # type: ignore[index]
    return Case(outputs, made, records_over_time(rng, outputs, count))


def _sources(node: Node) -> list[Source]:
    if isinstance(node, Source):
        return [node]
    return [s for c in node.children for s in _sources(c)]


def sliding(rng: random.Random) -> Case:
    return finished(rng, {"x": grouped(source("a", rng), rng)})


def nested(rng: random.Random) -> Case:
    inner = from_window(grouped(source("a", rng), rng), rng)
    return finished(rng, {"x": grouped(inner, rng)})


def over_rows(rng: random.Random) -> Case:
    """Windows of rows, which let no row go below them."""
    below = plan(rng, [numbered("a", rng)], 1)
    counted = by_rows(below, rng)
    return finished(
        rng, {"x": grouped(from_rows(counted, rng), rng) if rng.random() < 0.3 else counted}
    )


def over_pace(rng: random.Random) -> Case:
    """Paces over all that tells its newest time, and what reads them."""
    sides = [plan(rng, [source(name, rng)], rng.randint(0, 1)) for name in "ab"]
    below: Node = Union(FLAT, (TS,), tuple(sides)) if rng.random() < 0.7 else sides[0]
    return finished(rng, {"x": rng.choice(TOPS)(paced(below, rng), rng)})


def at_any_distance(rng: random.Random) -> Case:
    """Joins that bind no time: what lacks rows lacks them for good."""
    step = {
        "join": [{"as": "l", "from": source("a", rng)}, {"as": "r", "from": source("b", rng)}],
        "anytime": True, "keys": ["k"], "how": rng.choice(HOWS),
    }  # fmt: skip
    join = build_join(step, lambda node: node, expression)
    over = rng.random() < 0.4 and join.how != "full"
    return finished(rng, {"x": grouped(from_join(join, rng), rng) if over else join})


def over_distinct(rng: random.Random) -> Case:
    below = distinct(source("a", rng), rng)
    return finished(rng, {"x": grouped(below, rng) if rng.random() < 0.3 else below})


def over_join(rng: random.Random) -> Case:
    below = joined(source("a", rng), source("b", rng), rng)
    return finished(
        rng, {"x": grouped(from_join(below, rng), rng) if rng.random() < 0.5 else below}
    )


def outer(rng: random.Random) -> Case:
    below = joined(source("a", rng), source("b", rng), rng, rng.choice(HOWS[1:]))
    return finished(
        rng, {"x": grouped(from_join(below, rng), rng) if rng.random() < 0.3 else below}
    )


def windows_of_outer(rng: random.Random) -> Case:
    """Aggregates right over the greatest time of an outer join."""
    below = joined(source("a", rng), source("b", rng), rng, rng.choice(["left", "right", "full"]))
    key = "k" if below.field("k") else "l_k"
    step = {"window": window(rng), "by": {"k": key}, "agg": {"n": "count(*)"}}
    return finished(rng, {"x": aggregate(below, step)})


def three_way(rng: random.Random) -> Case:
    return finished(rng, {"x": three([source(name, rng) for name in "abc"], rng)})


def shared(rng: random.Random) -> Case:
    below = plan(rng, [source("a", rng)], 1)
    return finished(rng, {"x": grouped(below, rng), "y": rng.choice(TOPS)(below, rng)})


def reporting_empty(rng: random.Random) -> Case:
    return finished(rng, {"x": everything(source("a", rng), rng, empty=True)})


def other_windows(rng: random.Random) -> Case:
    """Windows that let no row go, by themselves or with time windows over their results."""
    spec: Any = rng.choice(
        [
            {"landmark": rng.randint(2, 4), "origin": rng.randint(-3, 3)},
            {"by_tuple": rng.randint(2, 5), "over": "rank"},
            {"custom": "shifts"},
            {"session": rng.randint(1, 4)},
        ]
    )
    step = {"window": spec, "by": ["k"], "agg": {"n": "count(*)"}}
    made = aggregate(source("a", rng), step)
    above = made if rng.random() < 0.4 else grouped(from_window(made, rng), rng)
    return finished(rng, {"x": above})


def two_times(rng: random.Random) -> Case:
    """Windows of both times of a join's results."""
    join = joined(source("a", rng), source("b", rng), rng, bound=True)
    windows = [{"time": "l_ts", **window(rng)}, {"time": "r_ts", **window(rng)}]
    key = "k" if join.field("k") else "l_k"
    step = {"windows": windows, "by": {"k": key}, "agg": {"n": "count(*)"}}
    return finished(rng, {"x": aggregate(join, step)})


# --- what happens seldom, often --------------------------------------------------------------------------


def dense(rng: random.Random, outputs: Mapping[str, Node], made: Mapping[str, Pattern]) -> Case:
    """Many rows of few values, and a record per output that ends while rows still come."""
    count = rng.randint(3, 5)
    names = sorted({n.name for o in outputs.values() for n in _sources(o)})

    def row(n: int) -> dict[str, Any]:
        return {
            "ts": 3 * n + rng.randint(-3, 4), "k": rng.randint(0, 1), "v": rng.choice([0, 1, None]),
        }  # fmt: skip

    batches: list[Rows] = [
        {name: [row(n) for _ in range(rng.randint(1, 5))] for name in names} for n in range(count)
    ]
    first, after = rng.choice([(0, 1), (0, 2), (1, 2)])
    wanted: dict[str, Patterns] = {name: (r,) for name, r in made.items()}
    return Case(outputs, batches, [wanted if first <= n < after else {} for n in range(count)])


def tested(rng: random.Random, *columns: str) -> Pattern:
    """A record on one of the columns; the most likely values of a key are 0 and 1."""
    name = rng.choice(columns)
    if name in ("k", "v", "n"):
        test = rng.choice(
            [order.equal(0, "bigint"), order.below(1, "bigint"), order.from_(1, "bigint")]
        )
    else:
        test = rng.choice([order.below, order.from_])(rng.randint(0, 9), "bigint")
    return Pattern.of({name: test})


def band(rng: random.Random) -> Case:
    spans = rng.sample([0, 1, 3, 4], 2)
    step = {
        "join": [{"as": "l", "from": source("a", rng)}, {"as": "r", "from": source("b", rng)}],
        "keys": ["k"],
        "band": {"before": spans[0], "after": spans[1]},
    }
    join = build_join(step, lambda node: node, expression)
    return dense(rng, {"x": join}, {"x": tested(rng, "l_ts", "r_ts")})


def unmatched(rng: random.Random) -> Case:
    how = rng.choice(["left", "right", "full", "left_anti"])
    step = {
        "join": [{"as": "l", "from": source("a", rng)}, {"as": "r", "from": source("b", rng)}],
        "keys": ["k"],
        "band": {"before": rng.randint(0, 4), "after": rng.randint(0, 4)},
        "how": how,
    }
    join = build_join(step, lambda node: node, expression)
    return dense(rng, {"x": join}, {"x": tested(rng, "k")})


def repeated(rng: random.Random) -> Case:
    below = distinct(source("a", rng), rng)
    return dense(rng, {"x": below}, {"x": tested(rng, "k", "k", "ts", "v")})


def repeated_at(rng: random.Random) -> Case:
    """Duplicates that differ in a second time."""
    fields = (*FLAT, Field("at", "bigint"))
    times = (TS, TimeColumn("at", "long", None))
    policies = (BoundedDelay(delay=4), BoundedDelay(delay=4))
    s = Source(fields, times, "a", policies=policies)
    node = Dedup(fields, times, s, ("ts", "k"), None, "ts")
    made = dense(rng, {"x": node}, {"x": tested(rng, "k", "k", "ts")})
    for n, rows in enumerate(made.batches):
        for row in rows["a"]:
            row["at"] = 3 * n + rng.randint(0, 3)  # type: ignore[index]
    return made


def values(rng: random.Random) -> Case:
    step = {"window": window(rng), "by": ["k"], "agg": {"n": "max(v)"}}
    return dense(rng, {"x": aggregate(source("a", rng), step)}, {"x": tested(rng, "n")})


def ended(rng: random.Random) -> Case:
    step = {"window": window(rng), "by": ["k"], "agg": {"n": "count(*)"}}
    made = tested(rng, "k", "wid")
    return dense(rng, {"x": aggregate(source("a", rng), step)}, {"x": made})


def ended_over_join(rng: random.Random) -> Case:
    join = joined(source("a", rng), source("b", rng), rng)
    key = "k" if join.field("k") else "l_k"
    step = {"window": window(rng), "by": {"k": key}, "agg": {"n": "count(*)"}}
    return dense(rng, {"x": aggregate(join, step)}, {"x": tested(rng, "k", "wid")})


def ended_outer(rng: random.Random) -> Case:
    join = joined(source("a", rng), source("b", rng), rng, rng.choice(["left", "right", "full"]))
    key = "k" if join.field("k") else "l_k"
    step = {"window": window(rng), "by": {"k": key}, "agg": {"n": "count(*)"}}
    return dense(rng, {"x": aggregate(join, step)}, {"x": tested(rng, "k", "wid", "wid")})


def future(rng: random.Random) -> Case:
    """Some times lie further ahead of the clock than is plausible."""
    guarded = BoundedDelay(delay=rng.randint(0, 3)).futureGuard(
        rng.randint(0, 4), future=rng.choice(["keep", "side"])
    )
    time = TimeColumn("ts", "long", 1)
    s = Source(FLAT, (time,), "a", policies=(guarded,))
    moved_on = project(s, {"ts": "ts", "k": "k", "v": "v + 0"})
    step = {"window": window(rng), "by": {"k": rng.choice("kv")}, "agg": {"n": "count(*)"}}
    node: Node = aggregate(rng.choice([s, moved_on]), step)
    made = dense(rng, {"x": node}, {"x": tested(rng, "k", "wid")})
    for rows in made.batches:
        for row in rows["a"]:
            if rng.random() < 0.3:
                row["ts"] += rng.choice([5, 9, 14])  # type: ignore[index]
    return replace(made, clock=[3 * n + 2 for n in range(len(made.batches))])


def with_relation(rng: random.Random) -> Case:
    """A stream and a table that changes, all kinds of joins, rows that wait or not; what reads of it may be a window."""
    relation = build_relation("d", {"columns": {"id": "bigint", "w": "bigint"}, "key": "id"})
    step: dict[str, Any] = {"lookup": "d", "keys": [["k", "id"]]}
    step["how"] = rng.choice(["inner", "left", "left_semi", "left_anti"])
    if rng.random() < 0.4:
        step["where"] = "v <= w"
    if rng.random() < 0.5:
        step["hold"] = rng.randint(0, 6)
    join = build_lookup(source("a", rng), relation, step, expression)
    outputs = {"x": join.result}
    if rng.random() < 0.3:
        outputs = {"x": grouped(join.result, rng)}
    elif rng.random() < 0.4 and step["how"] in ("inner", "left_semi"):
        outputs["y"] = join.unmatched
    made = finished(rng, outputs)
    table: list[dict[str, Any]] = []
    tables = []
    for _ in made.batches:
        if not table or rng.random() < 0.5:
            count = rng.randint(1, 3)
            table = [{"id": rng.choice([0, 1, 2, None]), "w": rng.choice([0, 1, 2])} for _ in range(count)]  # fmt: skip
        tables.append({"d": table})
    return replace(made, tables=tables)


# --- what the query says itself --------------------------------------------------------------------------


def condition(rng: random.Random, node: Node) -> str:
    """A condition on results of an aggregate ``n`` per ``k`` and window: some parts are no tests of a single column."""
    parts = {
        "n": lambda: rng.choice(
            ["n >= 1", "n > 0", "n <= 0", "n < 2", "n = 1", "n <> 0", "n IS NOT NULL", "n IS NULL", "NOT n < 1", "n >= 1 OR n IS NULL", "n > 0 AND n <> 2"]
        ),
        "k": lambda: rng.choice(["k = 0", "k >= 1", "k IS NOT NULL", "NOT (k > 1)", "k = n", "k + 0 = 1"]),
        "wid": lambda: rng.choice(["wid >= 1", "wid < 2", "wid = 1"]),
        "window": lambda: rng.choice(["window.end > 6", "window.start >= 3"]),
    }  # fmt: skip
    names = [n for n in parts if node.field(n) is not None]
    chosen = [parts[rng.choice([*names, "n"])]() for _ in range(rng.choice([1, 1, 2]))]
    return rng.choice([" AND ", " AND ", " OR "]).join(chosen)


def having(node: Node, rng: random.Random) -> Node:
    return Filter(node.schema, node.times, node, expression(condition(rng, node), node.schema))


def said(rng: random.Random) -> Case:
    """Filters above aggregates, and nobody sends anything; other outputs may read the same without a filter."""
    s = source("a", rng)
    full = rng.random() < 0.3
    if full:
        s = replace(s, schema=(*FLAT[:2], replace(FLAT[2], nullable=False)))
    agg = rng.choice([{"n": "max(v)"}, {"n": "min(v)"}, {"n": "max(v)"}, {"n": "min(v)"},
                      {"n": "max(v)", "c": "count(*)"}, {"n": "count(*)"}, {"n": "sum(v)"},
                      {"n": "max(if(k > 0, v, null))"}])  # fmt: skip
    by = rng.choice([["k"], ["k"], ["k"], []])
    below: Node = rng.choice([s, s, s, distinct(s, rng), projected(s, rng)])
    if rng.random() < 0.2:
        below = from_window(grouped(below, rng), rng)
    inner = aggregate(below, {"window": window(rng), "by": by, "agg": agg})
    outputs = {"x": having(inner, rng)}
    other = rng.random()
    if other < 0.15:
        outputs["y"] = inner
    elif other < 0.4:
        outputs["y"] = having(inner, rng)
    elif other < 0.5:
        outputs["y"] = grouped(below, rng)
    elif other < 0.6:
        outputs["x"] = grouped(from_window(outputs["x"], rng), rng)
    made = dense(rng, outputs, {name: tested(rng, "n") for name in outputs})
    for row in (row for rows in made.batches for row in rows["a"] if full):
        row["v"] = row["v"] or 0  # type: ignore[index]
    return replace(made, records=[{} for _ in made.records])


# --- values that move one way ----------------------------------------------------------------------------


def one_way(rng: random.Random, node: Node) -> Pattern:
    """A record that gives up results from a limit on: some partials prove it, some tests stand in the way of that."""
    made = {
        "n": rng.choice([order.from_, order.above])(rng.randint(0, 3), "bigint"),
        "m": order.up_to(rng.randint(-1, 1), "bigint"),
        "p": order.from_(rng.randint(0, 2), "bigint"),
    }
    tests = {rng.choice(list(made)): Test()}
    if rng.random() < 0.2:
        tests[rng.choice(list(made))] = Test()
    tests = {name: made[name] for name in tests}
    for name in tests:
        if rng.random() < 0.4:
            tests[name] |= Test((), True)
        elif rng.random() < 0.15:
            tests[name] = order.equal(1, "bigint") | order.from_(3, "bigint")
    if rng.random() < 0.3:
        tests["k"] = rng.choice(
            [order.equal(0, "bigint"), order.from_(1, "bigint") | Test((), True)]
        )
    if rng.random() < 0.3:
        tests["wid"] = rng.choice([order.below, order.from_])(rng.randint(0, 4), "bigint")
    return Pattern.of(tests)


def slow(rng: random.Random, outputs: Mapping[str, Node]) -> Case:
    """Streams that stay for long where they are, so that rows come to panes that are sealed."""
    count = rng.randint(4, 8)
    names = sorted({n.name for o in outputs.values() for n in _sources(o)})

    def row(n: int) -> dict[str, Any]:
        k, v = rng.choice([0, 0, 1, None]), rng.choice([0, 1, 1, 2, None])
        return {"ts": n + rng.randint(-2, 4), "k": k, "v": v}

    batches: list[Rows] = [
        {name: [row(n) for _ in range(rng.randint(2, 9))] for name in names} for n in range(count)
    ]
    wanted: dict[str, Patterns] = {name: (one_way(rng, node),) for name, node in outputs.items()}
    first = rng.choice([0, 0, 1])
    after = rng.choice([count, rng.randint(first + 1, count)])
    return Case(outputs, batches, [wanted if first <= n < after else {} for n in range(count)])


def best(rng: random.Random) -> Node:
    s = source("a", rng)
    below: Node = rng.choice([s, s, s, distinct(s, rng), projected(s, rng), filtered(s, rng)])
    by: Any = rng.choice([["k"], ["k"], ["k"], {"k": "k", "l": "v"}, {"k": "k", "l": "k + 0"}])
    agg = {"n": rng.choice(["count(*)", "count(v)", "max(v)"]), "m": "min(v)", "p": "max(v)"}
    node = aggregate(below, {"window": window(rng), "by": by, "agg": agg})
    return replace(node, reacting=Reacting(seal=True))


def over_pairs(rng: random.Random) -> Case:
    """Groups of pairs, where panes are sealed without a word."""
    join = joined(
        source("a", rng), source("b", rng), rng, rng.choice(["inner", "inner", *HOWS[1:4]])
    )
    key = "k" if join.field("k") else "l_k"
    step = {"window": window(rng), "by": {"k": key}, "agg": {"n": "count(*)"}}
    node = aggregate(join, {**step, "agg": {"n": "count(*)"}})
    made = slow(rng, {"x": node})
    wanted: Patterns = (Pattern.of({"n": order.from_(rng.randint(1, 3), "bigint")}),)
    return replace(made, records=[{"x": wanted} if one else {} for one in made.records])


def hot(rng: random.Random) -> Case:
    """Groups that reach a limit from which on nobody wants them; what was asked for may end, and others may read."""
    node = best(rng)
    outputs = {"x": node}
    if rng.random() < 0.3:
        outputs["y"] = rng.choice([node, grouped(node.children[0], rng)])
    made = slow(rng, outputs)
    if set(made.outputs) == {"x", "y"} and outputs["y"] is not node:
        made = replace(
            made, records=[{n: r for n, r in one.items() if n == "x"} for one in made.records]
        )
    return made


def hot_said(rng: random.Random) -> Case:
    """The same of filters; nobody sends anything."""
    node = best(rng)
    text = rng.choice(
        ["n < 2", "n <= 1", "n < 3", "NOT n > 2", "m >= 1", "m > 0", "p < 2", "n < 2 AND m > 0", "n < 2 OR m > 0",
         "n < 2 OR k = 1", "n < 2 AND wid > 1", "n < 2 OR wid > 1", "n < 2 OR n > 4", "n IS NULL OR n < 2"]
    )  # fmt: skip
    outputs: dict[str, Node] = {
        "x": Filter(node.schema, node.times, node, expression(text, node.schema))
    }
    if rng.random() < 0.2:
        outputs["y"] = node
    made = slow(rng, outputs)
    return replace(made, records=[{} for _ in made.records])


def with_settings(rng: random.Random) -> Case:
    """Operators that are told how to deal with feedback, each in one of the ways that it may have."""
    made = rng.choice([case, sliding, shared, over_join, unmatched, ended, nested, repeated, said])(
        rng
    )
    told: dict[int, Node] = {}

    def setting(node: Node) -> Node:
        if id(node) in told:
            return told[id(node)]
        if isinstance(node, (Late, Source)):
            told[id(node)] = node  # a stream and its late rows are about one source
            return node
        ways = [Reacting(), Reacting(exploit=False, propagate=False), Reacting(propagate=False)]
        if not must_exploit(node):
            ways.append(Reacting(exploit=False))
        below = node.with_children(*(setting(c) for c in node.children))
        told[id(node)] = replace(below, reacting=rng.choice([*ways, ways[0]]))
        return told[id(node)]

    return replace(made, outputs={name: setting(node) for name, node in made.outputs.items()})


FAMILIES: dict[str, Callable[[random.Random], Case]] = {
    f.__name__: f
    for f in (
        case, sliding, nested, over_distinct, over_join, outer, windows_of_outer, three_way, shared, reporting_empty,
        other_windows, two_times, over_rows, over_pace, at_any_distance,
        band, unmatched, repeated, repeated_at, values, ended, ended_over_join, ended_outer, future,
        with_relation, said, hot, hot_said, over_pairs, with_settings,
    )
}  # fmt: skip
