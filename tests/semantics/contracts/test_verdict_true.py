"""The verdict is true: streams that obey their schemes run on the kernels.

State of safe plans is empty again after covering punctuation, and all results of the batch query have come. State of unsafe
plans grows with every round, though the stream obeys. What grows with the groups grows with nothing else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.kernels.windows.pattern_match import matching
from slackwater.model.join import is_existence
from slackwater.model.node import Aggregate, Dedup, Join, Late, Node, Source
from slackwater.model.policy import Punctuated
from slackwater.model.window import (
    ByTuple,
    Landmark,
    RowWindow,
    SessionWindow,
    TimeWindow,
    is_all_time,
)
from slackwater.semantics.bounds import topological
from slackwater.semantics.contracts.derive import derive, promises
from slackwater.semantics.contracts.findings import check_nodes
from slackwater.semantics.contracts.finite import is_grammatical, obeys
from slackwater.semantics.contracts.needs import Need
from slackwater.semantics.contracts.template_text import parse_template
from slackwater.semantics.contracts.templates import Template
from slackwater.testing.executors.kernels import KernelMachine
from tests.examples import examples
from tests.semantics.contracts.plans import (
    bound,
    covering,
    grouped,
    plans,
    punctuated,
    punctuation,
    rows_of,
    source,
    united,
)

Rows = Sequence[tuple[int, int, int]]
ROUNDS = 3
FAR = 8
"""Rounds that the last punctuation is ahead of the rows: further than any window or band reaches."""


def scheme_of(node: Source) -> list[Template]:
    (policy,) = node.policies
    assert isinstance(policy, Punctuated)
    return [parse_template(t) for t in policy.scheme or ("[[ts:+]]",)]


def said(node: Source, round: int, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Punctuation of a round: a bound, or of each form that is declared."""
    (policy,) = node.policies
    if isinstance(policy, Punctuated) and policy.scheme is None:
        return [bound(round)]
    return [punctuation(covering(t, round, rows)) for t in scheme_of(node)]


class Long:
    """A plan on the kernels, fed round by round."""

    def __init__(self, *outputs: Node):
        self.machine = KernelMachine({str(i): o for i, o in enumerate(outputs)}, "panes")
        self.sources = [n for n in self.machine.nodes if isinstance(n, Source)]
        self.results: Counter[str] = Counter()
        self.fed: dict[str, list[dict[str, Any]]] = {n.name: [] for n in self.sources}

    def step(self, rows: Mapping[str, list[dict[str, Any]]], end: bool = False) -> None:
        names = frozenset(self.fed if end else ())
        seen = self.machine.step(rows, None, names)
        for found in seen.outputs.values():
            self.results.update(str(sorted(r.items(), key=str)) for r in found)

    def round(self, number: int, rows: Rows, without: str = "") -> None:
        """Rows, then punctuation that covers them; stream ``without`` is punctuated, and has no rows."""
        fresh = rows_of(number, rows)
        for name in self.fed:
            self.fed[name] += fresh
        self.step(
            {
                n.name: (fresh if n.name != without else []) + said(n, number, self.fed[n.name])
                for n in self.sources
            }
        )

    def cover(self, number: int) -> None:
        """Punctuation far ahead of all rows."""
        self.step({n.name: said(n, number, self.fed[n.name]) for n in self.sources})
        self.step({})

    @property
    def state(self) -> int:
        """Rows of state; a key that a pattern names counts as forgotten, since the kernels' dedup leaves that to the engine."""
        m = self.machine
        rows = sum(p.rows for p in m.programs.values())
        rows += sum(j._machine.rows for j in m.joins.values())
        for node in m.nodes:
            kept = m.kept.get(id(node))
            if kept is None:
                continue
            rows += kept.num_rows
            if isinstance(node, Dedup) and kept.num_rows:
                at = next(i for i, n in enumerate(m.nodes) if n is node.child)
                usable = [p for p in m.stated_after[at] if set(p.columns) <= set(node.subset)]
                rows -= int(matching(tuple(usable), kept, node.on)[0].sum()) if usable else 0
        return rows


cells = st.lists(st.tuples(*[st.integers(0, 9)] * 3), min_size=1, max_size=4)


def long_run(plan: Node, rounds: Sequence[Rows]) -> Long:
    run = Long(plan)
    for number, rows in enumerate(rounds):
        run.round(number, rows)
    return run


@pytest.mark.spec("FC-F66")
@examples(80)
@given(plans(), st.lists(cells, min_size=ROUNDS, max_size=ROUNDS))
def test_a_verdict_is_true_of_streams_that_obey(plan: Node, rounds: list[Rows]) -> None:
    nodes = topological([plan])
    verdict = derive(nodes, {n: p.declared for n, p in promises(nodes).items()})
    assert not verdict.growing
    for node in nodes:
        if isinstance(node, Source):
            scheme, stream, fed = scheme_of(node), list[Any](), list[dict[str, Any]]()
            for number, rows in enumerate(rounds):
                fed += (fresh := rows_of(number, rows))
                stream += [*fresh, *(covering(t, number, fed) for t in scheme)]
            assert is_grammatical(stream) and obeys(stream, scheme)
    if verdict.unsafe and all(_waits_for_partners(u.node, u.need) for u in verdict.unsafe):
        run = Long(plan)
        for number, rows in enumerate(rounds):
            run.round(number, rows, without="r")
        assert run.state >= len([r for rows in rounds for r in rows])
        return
    run = long_run(plan, rounds)
    if not verdict.unsafe:
        run.cover(ROUNDS + FAR)
        assert run.state == 0
        whole = Long(plan)
        whole.step(run.fed)
        whole.step({}, end=True)
        assert run.results == whole.results
        return
    sizes = []
    for number in range(ROUNDS, 2 * ROUNDS):
        run.round(number, rounds[number - ROUNDS])
        sizes.append(run.state)
    if any(isinstance(n, Aggregate) and is_all_time(n.window) and not n.keys for n in nodes):
        assert not run.results  # one group of all rows does not grow, but never comes out
    else:
        assert 0 < sizes[0] < sizes[-1]


def _waits_for_partners(node: Node, need: Need) -> bool:
    """Whether only rows without a partner would stay: of the left side of a semi or anti join."""
    return isinstance(node, Join) and is_existence(node.how) and need.input == 1


GROWING = {
    "landmark": (Landmark(10, 0, "ts"), ["k"]),
    "rows": (RowWindow(2, 1, "ts", ("k",)), ["k"]),
    "tuples": (ByTuple(5, 2, "rank", "ts"), ["k"]),
}


@pytest.mark.parametrize("name", GROWING)
def test_what_grows_with_the_groups_grows_with_nothing_else(name: str) -> None:
    window, keys = GROWING[name]
    plan = grouped(source(), keys, window)
    (caution,) = check_nodes(topological([plan])).cautions
    assert caution.kind == "groups" and "k" in caution.message

    def after(rounds: int, groups: int) -> int:
        run = Long(plan)
        for number in range(rounds):
            rows = [{"k": g, "g": 0, "ts": number * 10 + t, "p": None, "b": None} for g in range(groups) for t in (1, 4)]  # fmt: skip
            run.step({"s": sorted(rows, key=lambda r: r["ts"])})
        run.step({"s": [{"k": 0, "g": 0, "ts": 1000, "p": None, "b": None}]})
        run.step({"s": [{"k": 0, "g": 0, "ts": 2000, "p": None, "b": None}]})
        return run.state

    assert after(4, 2) == after(12, 2) < after(4, 6)
    closing = grouped(punctuated("s", "[[k:#]]"), keys, window)
    made = check_nodes(topological([closing]))
    assert not made.problems and [c.kind for c in made.cautions] == ["values"]
    run = long_run(closing, [[(1, 1, 1), (2, 2, 2), (1, 3, 5)]] * 3)
    run.cover(ROUNDS + FAR)
    assert run.state == 0


@pytest.mark.parametrize("window", [Landmark(10, 0, "ts"), RowWindow(2, 1, "ts")])
def test_without_groups_there_is_one_state_and_nothing_to_say(window: Any) -> None:
    found = check_nodes(topological([grouped(source(), [], window)]))
    assert found.problems == found.cautions == ()


@pytest.mark.parametrize("window", [TimeWindow(10, 10, 0, "ts"), SessionWindow(3, "ts")])
def test_late_rows_free_nothing_before_their_stream_ends(window: Any) -> None:
    s = source()
    late = Late(s.schema, s.times, s)
    (problem,) = check_nodes(topological([grouped(late, ["k"], window)])).problems
    assert "late rows promise nothing" in problem.hint
    assert check_nodes(topological([grouped(united(late, s), ["k"], window)])).problems
    run = Long(grouped(late, ["k"], window))
    sizes = []
    for number in range(1, 5):
        row = {"k": number, "g": 0, "p": None, "b": None}
        run.step({"s": [{**row, "ts": number * 100}]})
        run.step({"s": [{**row, "ts": number * 100 - 50}]})
        sizes.append(run.state)
    assert sizes == sorted(set(sizes)) and sizes[0] > 0
    run.step({}, end=True)
    assert sum(run.results.values()) == 4


def test_patterns_free_the_keys_of_a_dedup_and_the_time_in_its_subset_does_it_by_bounds() -> None:
    by_bound = Dedup(source().schema, source().times, source(), ("k", "ts"), None, "ts")
    assert not check_nodes(topological([by_bound])).problems
    for scheme, free in ((("[[k:#]]",), True), (("[[g:#]]",), False), (("[[k:+, ts:+]]",), True)):
        s = punctuated("s", *scheme)
        node = Dedup(s.schema, s.times, s, ("k", "ts"), None, "ts")
        assert bool(check_nodes(topological([node])).problems) != free


def test_a_plan_with_every_kind_of_window_is_made() -> None:
    """What the random test is about is really drawn."""
    drawn: set[str] = set()

    @examples(200, database=None)
    @given(plans())
    def draw(plan: Node) -> None:
        nodes = topological([plan])
        drawn.update(type(n.window).__name__ if isinstance(n, Aggregate) else type(n).__name__ for n in nodes)  # fmt: skip
        safe = not derive(nodes, {n: p.declared for n, p in promises(nodes).items()}).unsafe
        drawn.add(f"{type(plan).__name__} {'safe' if safe else 'unsafe'}")

    draw()
    assert drawn >= {
        "TimeWindow", "SessionWindow", "ByTuple", "Sort", "Dedup", "Join", "Union", "Project",
        "Aggregate safe", "Aggregate unsafe", "Join safe", "Join unsafe", "Sort safe", "Sort unsafe",
        "Dedup safe", "Dedup unsafe",
    }  # fmt: skip
