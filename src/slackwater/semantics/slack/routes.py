"""A placement as the engine follows it: for each consumer the places where its rows wait, one after the other.

A place is the stream (`ROOT`), a filter, or a consumer's own buffer. A row waits in a place until the bound of the consumer
that the route names has passed it; the last place is left when the bound of the consumer itself has, and the row is
handed over. Bounds instead of sizes: slacks that change move a row's way on, never its delivery.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from slackwater.semantics.slack.placement import Placement, applied, optimal
from slackwater.semantics.slack.tree import Consumer, Stage, stages, with_slack
from slackwater.semantics.slack.trigger import BAND, Penalty, Reports, worthwhile

ROOT = ""
"""The place of rows right behind the stream."""

Route = tuple[tuple[str, str], ...]
"""Places in order, each with the consumer whose bound moves rows on."""

Routes = Mapping[str, Route]
"""By consumer."""


def place(tree: Stage, stage: str) -> str:
    """The place below a stage: short, and the same whenever the filter is."""
    if stage == tree.name:
        return ROOT
    return f"filter-{hashlib.sha256(stage.encode()).hexdigest()[:6]}"


def whole(consumers: Collection[str]) -> dict[str, Route]:
    """One chain below the stream for all: the best there is as long as nothing is known of the filters.

    >>> whole(["a"])
    {'a': (('', 'a'),)}
    """
    return {c: ((ROOT, c),) for c in consumers}


def routes_of(tree: Stage, placement: Placement) -> dict[str, Route]:
    """The routes of a placement. A chain's level is the slack of some consumer, whose bound ends it.

    >>> tree = Stage("s", (Consumer("a", 2), Stage("x", (Consumer("b", 5),), 0.5)))
    >>> routes_of(tree, optimal(tree))["b"]
    (('', 'a'), ('filter-2d7116', 'b'))
    """
    reached = applied(tree, placement)
    routes: dict[str, Route] = {}

    def ending(slack: int, below: tuple[Consumer, ...]) -> str:
        """Whose bound ends a level: one of those that read it, if it is theirs."""
        names = [c.name for c in below if c.slack == slack]
        return min(names or [c.name for c in tree.consumers if c.slack == slack])

    def visit(stage: Stage, way: Route) -> None:
        for c in stage.children:
            leaf = isinstance(c, Consumer)
            end = reached[c.name] - (placement.size(c.name) if leaf else 0)
            mine = way
            if end > reached[stage.name]:
                below = (c,) if isinstance(c, Consumer) else c.consumers
                mine = (*mine, (place(tree, stage.name), ending(end, below)))
            if isinstance(c, Stage):
                visit(c, mine)
            else:
                done = bool(mine) and mine[-1][1] == c.name
                routes[c.name] = mine if done else (*mine, (c.name, c.name))

    visit(tree, ())
    return routes


def held(tree: Stage, routes: Routes) -> float:
    """Rows held for each row a tick of the stream, when rows wait along ``routes``; see `placement.memory`."""
    slack = {c.name: c.slack for c in tree.consumers}
    rates: dict[str, float] = {}
    for stage, out in stages(tree):
        rates[place(tree, stage.name)] = out
        rates.update({c.name: out for c in stage.children if isinstance(c, Consumer)})
    spans: dict[str, tuple[int, int]] = {}
    for name, route in routes.items():
        begin = 0
        for at, follows in route:
            end = min(slack[follows], slack[name])
            low, high = spans.get(at, (begin, end))
            spans[at] = min(low, begin), max(high, end)
            begin = max(begin, end)
    return sum(rates.get(at, 1.0) * max(0, high - low) for at, (low, high) in spans.items())


@dataclass(frozen=True)
class Decision:
    """Where rows are to wait from now on, and the reports that are left to be heeded."""

    routes: Routes
    reports: Reports


def decide(
    tree: Stage,
    routes: Routes,
    reports: Reports,
    penalty: Penalty,
    moved: Callable[[Routes], int],
) -> Decision:
    """Whether rows are to wait elsewhere: ``tree`` has the filters as measured, ``moved`` says how many rows a change moves.

    Enough consumers must have reported, the best placement must hold fewer rows than the one in use by more than
    `BAND`, and moving must not cost more than is gained.
    """
    if not reports.enough():
        return Decision(routes, reports)
    slack = reports.followed()
    tree = with_slack(tree, slack)
    best = routes_of(tree, optimal(tree))
    now = held(tree, routes)
    if now - held(tree, best) <= BAND * now:
        return Decision(routes, reports.done(slack))
    if not worthwhile(penalty, moved(best), reports.current, slack):
        return Decision(routes, reports)
    return Decision(best, reports.done(slack))


def describe(tree: Stage, routes: Routes, span: Callable[[int], str] = str) -> list[str]:
    """One line per place with rows in it, for people.

    >>> tree = Stage("s", (Consumer("a", 2), Stage("x", (Consumer("b", 5),), 0.5)))
    >>> describe(tree, routes_of(tree, optimal(tree)))
    ['below s: 2 -> a, x', 'below x: 3 -> b']
    """
    slack = {c.name: c.slack for c in tree.consumers}
    titles = {place(tree, s.name): s.name for s, _ in stages(tree)}
    begins: dict[str, int] = {}
    levels: dict[str, dict[int, set[str]]] = {at: {} for at in [*titles, *slack]}
    for name, route in routes.items():
        begin = 0
        for i, (at, who) in enumerate(route):
            following = titles.get(route[i + 1][0], name) if i + 1 < len(route) else name
            begins[at] = min(begin, begins.get(at, begin))
            begin = max(begin, slack[who])
            levels.setdefault(at, {}).setdefault(slack[who], set()).add(following)
    lines = []
    for at, followers in levels.items():
        before = begins.get(at, 0)
        parts: list[str] = []
        for k in sorted(followers):
            if k > before:
                parts.append(
                    f"{'+' if parts else ''}{span(k - before)} -> {', '.join(sorted(followers[k]))}"
                )
                before = k
        if parts:
            where = f"below {titles[at]}" if at in titles else f"before {at}"
            lines.append(f"{where}: {', '.join(parts)}")
    return lines


def hastened(old: Routes, new: Routes, slack: Mapping[str, int]) -> frozenset[str]:
    """Places that some consumer's rows must leave sooner than they would have: these rows are moved at once.

    What waits in a place that is not on the new route stays there until it is handed over.
    """
    places = set()
    for name in old.keys() & new.keys():
        ends = dict(new[name])
        places |= {at for at, who in old[name] if at in ends and slack[ends[at]] < slack[who]}
    return frozenset(places)
