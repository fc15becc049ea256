"""What a plan requires of its sources: enough, with any punctuation of the form; and no more than that."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from slackwater.model.node import Late, Node, Source
from slackwater.model.window import Landmark, RowWindow, TimeWindow, all_time
from slackwater.semantics.bounds import topological
from slackwater.semantics.contracts.derive import derive
from slackwater.semantics.contracts.findings import check_nodes, required
from slackwater.semantics.contracts.offers import Offer
from slackwater.semantics.contracts.requirements import Demand, demanded, requirements
from slackwater.semantics.contracts.templates import Class, Template
from tests.semantics.contracts.plans import (
    grouped,
    joined,
    linear,
    plans,
    punctuated,
    selected,
    united,
)

HOUR = TimeWindow(10, 10, 0, "ts")


def lacking(nodes: tuple[Node, ...], offers: dict[str, Offer]) -> int:
    return len(derive(nodes, offers).unsafe)


@st.composite
def allowed(draw: st.DrawFn, demand: Demand, node: Source) -> Offer:
    """Any punctuation that a demand allows."""
    way = demand.way
    if way.bounds and draw(st.booleans()):
        return Offer(frozenset([draw(st.sampled_from(sorted(way.bounds)))]))
    able: list[tuple[str, Class]] = [(c, "+") for c in sorted(way.up_to)]
    able += [(c, "#") for c in sorted(way.single)]
    if not able:
        return Offer(way.bounds)
    tags = draw(st.lists(st.sampled_from(able), min_size=1, unique_by=lambda t: t[0]))
    template = Template.of(dict(tags))
    times = {t.name for t in node.times}
    if len(template.tags) == 1 and template.columns <= times and template.tags[0][1] == "+":
        return Offer(template.columns)  # up to a time, and nothing else: a bound
    return Offer(templates=frozenset([template]))


@pytest.mark.spec("FC-F79")
@given(plans(), st.data())
def test_requirements_are_enough_and_none_can_be_left_out(plan: Node, data: st.DataObject) -> None:
    nodes = topological([plan])
    made = requirements(nodes)
    demands = [r.demand for r in made if r.demand is not None]
    hopeless = [r for r in made if r.demand is None]
    assert lacking(nodes, demanded(nodes, demands)) == len(hopeless)
    # Whatever punctuation of the form a source has is enough.
    offers: dict[str, Offer] = {n.name: Offer() for n in nodes if isinstance(n, Source)}
    by_name = {n.name: n for n in nodes if isinstance(n, Source)}
    for d in demands:
        more, own = data.draw(allowed(d, by_name[d.source])), offers[d.source]
        offers[d.source] = Offer(own.bounds | more.bounds, own.templates | more.templates)
    assert lacking(nodes, offers) == len(hopeless)
    # Without one of them it is not.
    for left_out in demands:
        rest = [d for d in demands if d is not left_out]
        assert lacking(nodes, demanded(nodes, rest)) > len(hopeless)


@given(plans())
def test_a_plan_is_refused_with_a_change_that_helps(plan: Node) -> None:
    """The hint names a stream whenever punctuation of the streams would do."""
    nodes = topological([plan])
    made = check_nodes(nodes).problems
    assume(made)
    hopeless = {r.node for r in requirements(nodes) if r.demand is None}
    for p in made:
        assert p.hint and p.message
        if not hopeless and "without a window" not in p.message:
            assert "'s'" in p.hint or "'r'" in p.hint


@pytest.mark.spec("FC-F79")
def test_the_query_of_two_counts_that_are_joined() -> None:
    """Two streams, counted per window, source and destination, then joined: each needs some of time and ids."""

    def counts(name: str) -> Node:
        return grouped(linear(name), ["g", "k"], HOUR)

    first = required(topological([counts("m1")]))
    (one,) = first
    assert (one.stream, one.columns, one.template, one.declared) == ("m1", ("g", "k", "ts"), "[[ts:+]]", True)  # fmt: skip
    nodes = topological([joined(linear("m1"), linear("m2"))])
    assert [(r.stream, r.template) for r in required(nodes)] == [("m1", "[[ts:+]]"), ("m2", "[[ts:+]]")]  # fmt: skip


def test_what_another_requirement_implies_is_not_asked_for() -> None:
    first = grouped(linear("s"), ["g", "k"], HOUR)
    second = grouped(first, ["k"], TimeWindow(20, 20, 0, "window"))
    assert [r.columns for r in required(topological([second]))] == [("k", "ts")]


def test_of_several_ways_the_one_is_asked_for_that_is_declared() -> None:
    s = punctuated("s", "[[k:#]]")
    (need,) = required(topological([grouped(s, ["k"], HOUR)]))
    assert need.declared
    window = grouped(s, ["g"], HOUR)
    (need,) = required(topological([window]))
    assert not need.declared and need.columns == ("g", "ts") and "'s'" in need.message


def test_what_groups_outlive_asks_only_for_what_makes_results_come() -> None:
    (need,) = required(topological([grouped(linear("s"), ["k"], Landmark(10, 0, "ts"))]))
    assert need.template == "[[ts:+]]"
    assert required(topological([grouped(linear("s"), ["k"], RowWindow(2, 1, "ts", ("k",)))])) == ()


def test_where_only_another_plan_helps_the_requirement_names_no_stream() -> None:
    s = linear("s")
    late = Late(s.schema, s.times, s)
    (need,) = required(topological([grouped(late, ["k"], HOUR)]))
    assert need.stream == "" and "only another plan helps" in need.message
    dropped = selected(s, {"ts": "ts"})
    nothing = grouped(dropped, [], all_time("ts"))
    assert [r.stream for r in required(topological([nothing]))] == [""]


def test_all_inputs_of_a_union_are_asked() -> None:
    both = united(punctuated("s", "[[g:#]]"), punctuated("r", "[[k:#]]"))
    made = required(topological([grouped(both, ["k"], all_time("ts"))]))
    assert {(r.stream, r.template, r.declared) for r in made} == {
        ("s", "[[k:#]]", False),
        ("r", "[[k:#]]", True),
    }
