"""A relation counts as a stream that has ended: a join with one asks nothing of the plan, and says what the stream says."""

from __future__ import annotations

from typing import Any

import pytest

from slackwater.model.node import LATE_FIELDS, Dedup, Late, Node, Sort
from slackwater.semantics.bounds import propagate, topological
from slackwater.semantics.contracts.derive import derive, promises
from slackwater.semantics.contracts.offers import Offer
from slackwater.semantics.feedback import order
from slackwater.semantics.limits import END, START
from slackwater.semantics.operators.registry import RULES
from slackwater.semantics.pattern_rules import propagate_patterns
from slackwater.semantics.patterns import Pattern
from slackwater.testing.transcripts.lookup import build_lookup, build_relation
from slackwater.testing.transcripts.query import expression
from tests.semantics.contracts.plans import linear, punctuated

RELATION = build_relation("d", {"columns": {"id": "bigint", "name": "string"}, "key": "id"})


def joined(child: Node, **more: Any) -> Any:
    return build_lookup(child, RELATION, {"lookup": "d", "keys": [["k", "id"]], **more}, expression)


def offered(*nodes: Node) -> tuple[Offer, int]:
    plan = topological(nodes)
    known = {name: p.declared for name, p in promises(plan).items()}
    found = derive(plan, known)
    return found.offer(nodes[-1]), len(found.unsafe)


@pytest.mark.spec("FC-F37")
@pytest.mark.parametrize("how", ["inner", "left", "left_semi", "left_anti"])
def test_a_join_with_a_relation_has_the_streams_scheme(how: str) -> None:
    for source in (linear(), punctuated("s", "[[k:#]]")):
        own, _ = offered(source)
        assert offered(joined(source, how=how).result) == (own, 0)


def test_what_waits_needs_a_bound_and_passes_bounds_alone() -> None:
    offer, unsafe = offered(joined(linear(), hold=5).result)
    assert (str(offer), unsafe) == ("[[ts:+]]", 0)
    # Bounds of late rows stand still: what waits would wait for ever.
    source = linear()
    late = Late((*source.schema, *LATE_FIELDS), source.times, source)
    assert offered(joined(late, hold=5).result)[1] == 1
    assert offered(joined(late).result)[1] == 0


def test_bounds_pass_and_what_waits_holds_them_back() -> None:
    source = linear()
    result = joined(source, hold=5, how="left").result
    nodes = topological([result])
    (at,) = [i for i, n in enumerate(nodes) if type(n).__name__ == "Held"]
    sources = {"s": {"ts": 20}}
    assert propagate(nodes, sources)[-1] == {"ts": 20}
    assert propagate(nodes, sources, {at: [7]})[-1] == {"ts": 7}
    assert propagate(nodes, {"s": {"ts": END}}, {at: [END]})[-1] == {"ts": END}


@pytest.mark.parametrize("how", ["inner", "left", "left_semi", "left_anti"])
def test_rows_that_wait_for_a_read_hold_bounds_back_and_need_no_promise(how: str) -> None:
    source = linear()
    join = joined(source, deadline="5 seconds", how=how)
    late = Late((*source.schema, *LATE_FIELDS), source.times, source)
    assert offered(joined(late, deadline="5 seconds").result)[1] == 0  # the clock frees them
    for result in (join.result, join.unmatched):
        offer, unsafe = offered(result)
        assert (str(offer), unsafe) == ("[[ts:+]]", 0)
        nodes = topological([result])
        (at,) = [i for i, n in enumerate(nodes) if type(n).__name__ == "Waiting"]
        assert propagate(nodes, {"s": {"ts": 20}})[-1] == {"ts": 20}
        assert propagate(nodes, {"s": {"ts": 20}}, {at: [7]})[-1] == {"ts": 7}
        assert propagate(nodes, {"s": {"ts": END}}, {at: [7]})[-1] == {"ts": 7}


def test_patterns_pass_unless_rows_wait() -> None:
    """A reader that groups by the key wants them, and gets them."""
    source = punctuated("s", "[[k:#]]")
    pattern = Pattern.of({"k": order.equal(3, "bigint")})
    waits: dict[str, Any] = {"deadline": "5 seconds", "how": "left"}
    for more, passes in (({}, True), ({"hold": 5, "how": "left"}, False), (waits, False)):
        result = joined(source, **more).result
        nodes = topological([Dedup(result.schema, result.times, result, ("k",), 5, "ts")])
        bounds = [dict.fromkeys((t.name for t in n.times), START) for n in nodes]
        seen = propagate_patterns(nodes, bounds, {"s": (pattern,)})[-2]
        assert (seen == (pattern,)) is passes


def test_feedback_on_the_streams_columns_goes_on_and_on_the_relations_does_not() -> None:
    node = joined(linear()).result
    own = Pattern.of({"k": order.below(3, "bigint")})
    theirs = Pattern.of({"k": order.below(3, "bigint"), "id": order.equal(1, "bigint")})
    reaction = RULES[type(node)].feedback(node, (own, theirs))
    assert reaction.inputs == ((own,),) and reaction.guard == (theirs,) and not reaction.dark
    held = next(n for n in topological([joined(linear(), hold=3).unmatched]) if hasattr(n, "hold"))
    assert RULES[type(held)].feedback(held, (own,)).inputs == ((),)


def test_a_sort_behind_a_join_with_a_relation_is_freed() -> None:
    node = joined(linear()).result
    assert offered(Sort(node.schema, node.times, node, "ts"))[1] == 0
