"""What may happen to rows inside a plan: they are shuffled, held back, split over branches, sorted; results stay."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import Phase, given
from hypothesis import strategies as st

from benchmarks.baselines.buffering import Buffering
from slackwater.kernels.windows.partials_step import ints
from slackwater.model.node import Node, Project, Source, Union
from slackwater.model.window import TimeWindow
from slackwater.testing.executors.kernel_tables import numbered, timed
from slackwater.testing.executors.kernels import KernelMachine
from slackwater.testing.oracle.nodes import Oracle
from slackwater.testing.strategies import cut, cuts, disordered
from slackwater.testing.transcripts.script import parse
from tests.examples import examples
from tests.oracle.on_engine import check_on_engine

Rows = list[dict[str, Any]]
QUICK = (Phase.explicit, Phase.generate)  # four streams shrink for minutes
DELAY = 6
STREAM = disordered(max_rows=10, max_delay=DELAY, low=-10, high=15)
CUTS = cuts(10, 3).map(lambda places: places[:3])
FEW = examples(8)
COUNTS = {"n": "count(*)", "total": "sum(v)", "high": "max(v)"}


class Juggler(KernelMachine):
    """Every edge of the plan reorders rows and holds some of them back, as long as no bound has passed them.

    ``slow_nodes`` are nodes whose rows are always held back as long as that; of others it is for chance to say.
    """

    def __init__(self, outputs: Mapping[str, Node], seed: int, *, hold: bool = True) -> None:
        super().__init__(outputs, "panes")
        self.rng = random.Random(seed)
        self.may_hold = hold
        self.slow_nodes: list[Node] = []
        self.behind: dict[tuple[int, int], pa.Table] = {}
        self.kept_back = 0
        self.shuffled = 0

    def _run(self, node, inputs, after):
        return super()._run(node, self._juggled(node, inputs, after), after)

    def _join(self, node, inputs, after, now):
        return super()._join(node, self._juggled(node, inputs, after), after, now)

    def _juggled(
        self, node: Node, inputs: Sequence[pa.Table], after: Sequence[Mapping[str, int]]
    ) -> list[pa.Table]:
        return [
            self._edge(i, node, child, table, after)
            for i, (child, table) in enumerate(zip(node.children, inputs, strict=True))
        ]

    def _edge(self, i, node, child, table, after):
        bounds = after[next(at for at, n in enumerate(self.nodes) if n is child)]
        edge = (id(node), i)
        rows = pa.concat_tables([self.behind.get(edge, table.slice(0, 0)), table])
        may = np.full(rows.num_rows, self.may_hold)
        for t in child.times:
            may &= ints(timed(child, numbered(rows), t.name), "__sw_time") >= bounds[t.name]
        always = any(child is s for s in self.slow_nodes)
        wants = np.array([always or self.rng.random() < 0.5 for _ in range(rows.num_rows)], bool)
        back = may & wants
        self.behind[edge] = rows.filter(pa.array(back))
        self.kept_back += int(back.sum())
        order = list(range(rows.num_rows - int(back.sum())))
        self.rng.shuffle(order)
        self.shuffled += order != sorted(order)
        return numbered(rows.filter(pa.array(~back)).take(pa.array(order, pa.int64())))


def script(query: Any, streams: Mapping[str, list[Rows]], progress: Any = None) -> Any:
    count = max(len(b) for b in streams.values())
    columns = {"ts": "bigint", "k": "string", "v": "bigint", "i": "bigint"}
    one = {
        "columns": columns, "time": "ts", "order": "i",
        "progress": progress or {"bounded_delay": DELAY},
    }  # fmt: skip
    steps = [{"rows": {n: b[i] for n, b in streams.items() if i < len(b)}} for i in range(count)]
    return parse(
        {
            "name": "random",
            "streams": dict.fromkeys(streams, one),
            "query": query,
            "script": [*steps, {"end": True}],
        }
    )


def by_batch(machine: Any, text: Any, output: str = "out") -> list[Counter[Any]]:
    """The results of each batch, without the windows' start and end."""
    read = {n.name for n in machine.nodes if isinstance(n, Source)}
    found = []
    for step in text.batches:
        rows = {n: r for n, r in step.rows.items() if n in read}
        seen = machine.step(rows, step.now, step.end & read).outputs[output]
        shown = (tuple((k, v) for k, v in r.items() if not k.endswith("window")) for r in seen)
        found.append(Counter(shown))
    return found


def shape(draw: st.DrawFn) -> dict[str, Any]:
    return {"range": draw(st.integers(1, 12)), "slide": draw(st.integers(3, 12))}


# --- reordering anywhere ------------------------------------------------------------------------------


@st.composite
def plans(draw: st.DrawFn) -> list[dict[str, Any]]:
    kind = draw(st.sampled_from(["plain", "union", "join", "dedup"]))
    steps: list[dict[str, Any]] = [{"from": "s"}]
    if draw(st.booleans()):
        steps.append({"where": "v > -5 OR v IS NULL"})
    if kind == "union":
        steps.append({"union": ["r"]})
    if kind == "dedup":
        # Of rows that are the same one is as good as another.
        steps += [{"select": {"ts": "ts", "k": "k", "v": "1"}}, {"dedup": {"subset": ["k", "ts"]}}]
    if kind == "join":
        band = {"before": draw(st.integers(0, 5)), "after": draw(st.integers(0, 5))}
        steps = [{"join": [{"as": "a", "from": steps}, {"as": "b", "from": "r"}], "band": band, "keys": ["k"]}]  # fmt: skip
        steps.append({"select": {"a_ts": "a_ts", "b_ts": "b_ts", "k": "k", "v": "a_v"}})
        steps.append({"window": {**shape(draw), "time": draw(st.sampled_from(["a_ts", "b_ts"]))}, "by": ["k"], "agg": COUNTS})  # fmt: skip
    else:
        steps.append({"window": shape(draw), "by": ["k"], "agg": COUNTS})
    if draw(st.booleans()):
        steps.append({"window": shape(draw), "by": [], "agg": {"m": "sum(n)", "w": "count(*)"}})
    return steps


@pytest.mark.spec("WQ-F103")
@FEW
@given(query=plans(), rows=st.tuples(STREAM, STREAM), places=CUTS, seed=st.integers(0, 999))
def test_operators_that_reorder_and_hold_back_rows_change_nothing(query, rows, places, seed):
    """Behind every operator at once, and no result comes in another batch either."""
    streams = {n: cut(r, places) for n, r in zip("sr", rows, strict=True)}
    text = script(query, streams)
    nodes = {"out": text.outputs["out"].node}
    assert by_batch(Juggler(nodes, seed), text) == by_batch(Oracle(nodes), text)


@pytest.mark.spec("WQ-F103")
@FEW
@given(rows=STREAM, window=st.builds(lambda r, s: {"range": r, "slide": s}, st.integers(1, 12), st.integers(3, 12)),
       places=CUTS, where=st.integers(0, 3))  # fmt: skip
def test_a_sort_wherever_it_is_put_changes_nothing(rows, window, places, where):
    steps: list[dict[str, Any]] = [
        {"from": "s"}, {"where": "v > -5 OR v IS NULL"}, {"select": {"ts": "ts + 2", "k": "k", "v": "v"}},
        {"union": [[{"from": "s"}, {"select": {"ts": "ts", "k": "k", "v": "v"}}]]},
        {"window": window, "by": ["k"], "agg": COUNTS},
    ]  # fmt: skip
    streams = {"s": cut(rows, places)}
    plain = script(steps, streams)
    sorting = script([*steps[: where + 1], {"sort": "ts"}, *steps[where + 1 :]], streams)
    expected = by_batch(Oracle({"out": plain.outputs["out"].node}), plain)
    for machine in (Oracle, lambda n: KernelMachine(n, "panes")):
        assert by_batch(machine({"out": sorting.outputs["out"].node}), sorting) == expected


def test_the_juggler_does_juggle_and_holding_rows_behind_a_bound_is_noticed():
    class Careless(Juggler):
        """Holds rows back although the bound has passed them."""

        def _edge(self, i, node, child, table, after):
            low = [dict.fromkeys(b, -(1 << 61)) for b in after]
            return super()._edge(i, node, child, table, low)

    rows = [{"ts": t, "k": "a", "v": t, "i": t} for t in range(40)]
    query = [{"from": "s"}, {"where": "v >= 0"}, {"window": {"range": 5}, "by": ["k"], "agg": COUNTS}]  # fmt: skip
    text = script(query, {"s": cut(rows, list(range(0, 40, 4)))})
    nodes = {"out": text.outputs["out"].node}
    juggler = Juggler(nodes, 1)
    expected = by_batch(Oracle(nodes), text)
    assert by_batch(juggler, text) == expected
    assert juggler.kept_back > 20 and juggler.shuffled > 5
    assert by_batch(Careless(nodes, 1), text) != expected


# --- a split over branches ----------------------------------------------------------------------------


@pytest.mark.spec("OO-F27")
@FEW
@given(rows=STREAM, places=CUTS, seed=st.integers(0, 999), data=st.data())
def test_a_stream_is_split_over_branches_of_unequal_cost_and_united_again(rows, places, seed, data):
    """The branch that costs more has its rows out as late as can be; windows close at the same moment, and complete."""
    window = {"window": shape(data.draw), "by": ["k"], "agg": COUNTS}  # type: ignore[arg-type]
    names = {"ts": "ts", "k": "k", "v": "v"}
    cheap = [{"from": "s"}, {"where": "v > 0"}, {"select": names}]
    costly = [{"from": "s"}, {"where": "NOT (v > 0) OR v IS NULL"}, {"select": names}]
    streams = {"s": cut(rows, places)}
    whole = script([{"from": "s"}, {"select": names}, window], streams)
    parted = script([*cheap, {"union": [costly]}, window], streams)
    expected = by_batch(Oracle({"out": whole.outputs["out"].node}), whole)
    machine = Juggler({"out": parted.outputs["out"].node}, seed)
    (union,) = [n for n in machine.nodes if isinstance(n, Union)]
    machine.slow_nodes = [union.inputs[1]]
    assert isinstance(union.inputs[1], Project)
    assert by_batch(machine, parted) == expected


# --- order where it is wanted -------------------------------------------------------------------------


@pytest.mark.spec("OO-F26")
@examples(15)
@given(rows=STREAM, places=CUTS, range_=st.integers(1, 12), slide=st.integers(3, 12))
def test_an_operator_that_needs_order_works_behind_a_sort(rows, places, range_, slide):
    """An aggregate that keeps rows, and refuses those that are not in order, gives our results in the same batches."""
    streams = {"s": cut(rows, places)}
    ordered = script([{"from": "s"}, {"sort": "ts"}], streams)
    query = [{"from": "s"}, {"window": {"range": range_, "slide": slide}, "by": [], "agg": {"n": "count(*)", "total": "sum(v)"}}]  # fmt: skip
    direct = script(query, streams)
    expected = by_batch(KernelMachine({"out": direct.outputs["out"].node}, "panes"), direct)
    sorter = KernelMachine({"out": ordered.outputs["out"].node}, "panes")
    schema = pa.schema([("__sw_time", pa.int64()), ("v", pa.int64())])

    def reduce(some: pa.Table) -> pa.Table:
        values = [v for v in some["v"].to_pylist() if v is not None]
        return pa.table({"n": [some.num_rows], "total": [sum(values) if values else None]})

    operator = Buffering(TimeWindow(range_, slide, 0, "ts"), reduce)
    for step, right in zip(ordered.batches, expected, strict=True):
        found = sorter.step(step.rows, step.now, step.end).outputs["out"]
        table = pa.Table.from_pylist([{"__sw_time": r["ts"], "v": r["v"]} for r in found], schema)
        got = operator.step(table, sorter.before[-1]["ts"])
        counted = Counter(tuple({"wid": wid, **t.to_pylist()[0]}.items()) for wid, t in got)
        assert counted == right


# --- rows that are counted ----------------------------------------------------------------------------


@pytest.mark.spec("OO-F12")
@FEW
@given(
    rows=STREAM,
    size=st.integers(1, 5),
    slide=st.integers(1, 4),
    places=CUTS,
    seed=st.integers(0, 999),
)
def test_rows_are_numbered_as_they_enter_whatever_the_plan_does_to_them(rows, size, slide, places, seed):  # fmt: skip
    """Each batch is shuffled on every edge, a filter lets some through, times tell nothing of the order."""
    query = [
        {"from": "s"}, {"where": "v > -5 OR v IS NULL"}, {"select": {"ts": "ts + 1", "k": "k", "i": "i"}},
        {"window": {"rows": size, "slide": slide}, "by": [], "agg": {"n": "count(*)", "first": "min(i)", "last": "max(i)"}},
    ]  # fmt: skip
    text = script(query, {"s": cut(rows, places)})
    nodes = {"out": text.outputs["out"].node}
    found = sum(by_batch(Juggler(nodes, seed, hold=False), text), Counter())
    passing = [r["i"] for r in rows if r["v"] is None or r["v"] > -5]
    expected: Counter[Any] = Counter()
    for wid in range(len(rows) // slide + size):
        end = (wid + 1) * slide
        inside = [i for i in passing if end - size <= i < end]
        if inside:
            expected[("wid", wid), ("n", len(inside)), ("first", min(inside)), ("last", max(inside))] += 1  # fmt: skip
    assert found == expected


# --- plans nested in each other -----------------------------------------------------------------------


def nested(kind: str) -> list[dict[str, Any]]:
    both = [{"from": "a"}, {"union": ["b"]}]
    other = [{"from": "c"}, {"union": ["d"]}]
    count = {"n": "count(*)"}
    if kind == "join of unions":
        return [{"join": [{"as": "x", "from": both}, {"as": "y", "from": other}], "tumbling": 8, "keys": ["k"]}]  # fmt: skip
    if kind == "aggregate of a join of unions":
        return [
            {"join": [{"as": "x", "from": both}, {"as": "y", "from": other}], "band": {"before": 2, "after": 4}, "keys": ["k"]},
            {"window": {"range": 6, "slide": 3, "time": "x_ts"}, "by": ["k"], "agg": count},
        ]  # fmt: skip
    if kind == "join of aggregates":
        sums = [
            [*side, {"window": {"range": 8, "slide": 4}, "by": ["k"], "agg": {"n": "count(*)", "total": "sum(v)"}}]
            for side in (both, other)
        ]  # fmt: skip
        return [{"join": [{"as": "x", "from": sums[0]}, {"as": "y", "from": sums[1]}], "band": {"before": 0, "after": 0}, "keys": ["k"]},
                {"select": {"k": "k", "x_window": "x_window", "y_window": "y_window", "n": "x_n", "m": "y_n", "total": "x_total"}}]  # fmt: skip
    # A join of one stream with itself under two names, aggregated, united with an aggregate, aggregated again.
    self_join = [
        {"join": [{"as": "x", "from": "a"}, {"as": "y", "from": [{"from": "a"}, {"where": "v > 0"}]}], "band": {"before": 3, "after": 3}, "keys": ["k"]},
        {"window": {"range": 6, "time": "x_ts"}, "by": ["k"], "agg": count},
        {"select": {"k": "k", "window": "window", "n": "n"}},
    ]  # fmt: skip
    plain = [*other, {"window": {"range": 6}, "by": ["k"], "agg": count},
             {"select": {"k": "k", "window": "window", "n": "n"}}]  # fmt: skip
    return [*self_join, {"union": [plain]}, {"window": {"range": 12}, "by": [], "agg": {"all": "sum(n)", "groups": "count(*)"}}]  # fmt: skip


KINDS = (
    "join of unions",
    "aggregate of a join of unions",
    "join of aggregates",
    "self-join in a union",
)


@pytest.mark.spec("WQ-F97")
@pytest.mark.parametrize("kind", KINDS)
@examples(20, phases=QUICK)
@given(
    rows=st.tuples(STREAM, STREAM, STREAM, STREAM), places=CUTS, groups=st.sampled_from([1, 1, 2])
)
def test_nested_plans_on_the_engine(kind, rows, places, groups):
    streams = {n: cut(r, places[:2]) for n, r in zip("abcd", rows, strict=True)}
    check_on_engine(script(nested(kind), streams), groups)


@pytest.mark.spec("WQ-F97")
@pytest.mark.parametrize("kind", KINDS)
@examples(4)
@given(rows=st.tuples(STREAM, STREAM, STREAM, STREAM), places=CUTS, seed=st.integers(0, 999))
def test_unions_aliases_joins_and_aggregates_nest_in_each_other(kind, rows, places, seed):
    streams = {n: cut(r, places) for n, r in zip("abcd", rows, strict=True)}
    text = script(nested(kind), streams)
    nodes = {"out": text.outputs["out"].node}
    expected = by_batch(Oracle(nodes), text)
    assert by_batch(Juggler(nodes, seed, hold=False), text) == expected
