"""A placement as routes, and when rows are sent along other routes."""

from __future__ import annotations

import random

import pytest

from slackwater.semantics.slack.placement import memory, optimal, unshared
from slackwater.semantics.slack.routes import (
    ROOT,
    Routes,
    decide,
    hastened,
    held,
    place,
    routes_of,
    whole,
)
from slackwater.semantics.slack.tree import Consumer, Stage, stages, with_slack
from slackwater.semantics.slack.trigger import Penalty, Reports
from tests.semantics.test_slack_placement import one_branch, random_tree, two_branches

FREE = Penalty()


def test_routes_hold_what_the_placement_holds() -> None:
    """On random trees, with the optimal placement, one chain for all, and a buffer for each."""
    rng = random.Random(5)
    for _ in range(500):
        tree = random_tree(rng, 5)
        for found in (optimal(tree), unshared(tree)):
            assert held(tree, routes_of(tree, found)) == pytest.approx(memory(tree, found))
        longest = max(c.slack for c in tree.consumers)
        assert held(tree, whole([c.name for c in tree.consumers])) == pytest.approx(longest)


def test_a_route_ends_with_the_consumer_s_own_bound_and_waits_as_long_as_its_slack() -> None:
    rng = random.Random(6)
    for _ in range(300):
        tree = random_tree(rng, 5)
        slack = {c.name: c.slack for c in tree.consumers}
        places = {place(tree, s.name): {c.name for c in s.consumers} for s, _ in stages(tree)}
        for name, route in routes_of(tree, optimal(tree)).items():
            assert route[-1][1] == name
            waits = [slack[who] for _, who in route]
            assert waits == sorted(waits) and waits[-1] == slack[name]
            for at, _ in route:
                assert at == name or name in places[at]


def test_routes_through_two_filters() -> None:
    tree = two_branches(0.8, 0.5, 0.3, 0.4)
    found = routes_of(tree, optimal(tree))
    assert found == {
        "Q3": ((ROOT, "Q5"), (place(tree, "F6"), "Q3")),
        "Q4": ((ROOT, "Q5"), (place(tree, "F8"), "Q4")),
        "Q5": ((ROOT, "Q5"),),
    }
    # What comes out of both filters counts, not what goes in: 0.6 and a half of 0.7 are less than one.
    less = two_branches(0.6, 0.5, 0.3, 0.4)
    assert all(len(way) == 1 for way in routes_of(less, optimal(less)).values())
    # From one chain to this, rows leave the stream's buffer sooner; back again, nothing has to move.
    slack = {c.name: c.slack for c in tree.consumers}
    one = whole(slack)
    assert hastened(one, found, slack) == {ROOT} and hastened(found, one, slack) == frozenset()


def reports(tree: Stage, wanted: dict[str, int]) -> Reports:
    return Reports({c.name: c.slack for c in tree.consumers}, wanted)


def decided(
    tree: Stage,
    routes: Routes,
    wanted: dict[str, int],
    penalty: Penalty = FREE,
    moved: int = 0,
) -> tuple[Routes, Reports]:
    found = decide(tree, routes, reports(tree, wanted), penalty, lambda _: moved)
    return found.routes, found.reports


def test_filters_that_let_through_less_than_was_thought_are_enough_for_a_change() -> None:
    tree = one_branch(0.2, 0.2, 0.2)
    one = whole(["Q1", "Q2", "Q3"])
    # Not before half of the queries have said how far they are behind.
    assert decided(tree, one, {"Q1": 2}) == (one, reports(tree, {"Q1": 2}))
    routes, left = decided(tree, one, {"Q1": 2, "Q2": 4})
    assert routes == routes_of(tree, optimal(tree)) != one and left == reports(tree, {})
    # Filters that overlap stay as they are, and so do those that save little.
    assert decided(one_branch(0.9, 0.9, 0.9), one, {"Q1": 2, "Q2": 4})[0] == one
    little = Stage("s", (Consumer("a", 100), Stage("x", (Consumer("b", 105),), 0.5)))
    assert routes_of(little, optimal(little)) != whole("ab")
    assert decided(little, whole("ab"), {"a": 100, "b": 105})[0] == whole("ab")


def test_slacks_that_change_move_rows_and_small_changes_do_not() -> None:
    tree = Stage("s", (Consumer("a", 10), Stage("x", (Consumer("b", 10),), 0.5)))
    one = routes_of(tree, optimal(tree))
    assert [p for p, _ in one["b"]] == [ROOT]
    routes, left = decided(tree, one, {"b": 40})
    assert [p for p, _ in routes["b"]] == [ROOT, place(tree, "x")]
    assert left.current == {"a": 10, "b": 40}
    # A slack that shrinks by less than the band is kept as it was.
    grown = with_slack(tree, {"b": 40})
    _, left = decided(grown, routes, {"b": 37})
    assert left.current == {"a": 10, "b": 40}


@pytest.mark.spec("QD-F16")
def test_moving_that_costs_more_than_is_gained_is_put_off() -> None:
    """Slack shrinks: the change is made only if it gains more than moving the rows takes."""
    tree = Stage(
        "s", (Stage("x", (Consumer("a", 100),), 0.6), Stage("y", (Consumer("b", 90),), 0.6))
    )
    one = whole("ab")
    dear, cheap = Penalty().seen(10, 200.0), Penalty().seen(10, 1.0)
    fewer = {"a": 100, "b": 20}
    routes, left = decided(tree, one, fewer, dear, moved=10)
    assert routes == one and left.wanted == fewer, "the report still stands"
    routes, left = decided(tree, one, fewer, cheap, moved=10)
    assert [p for p, _ in routes["a"]] == [ROOT, place(tree, "x")] and not left.wanted
    # A slack that grows is followed at any price.
    assert decided(tree, one, {"a": 300, "b": 90}, dear, moved=10)[0] != one
