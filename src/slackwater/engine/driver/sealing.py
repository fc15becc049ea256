"""Sealed panes in the batch loop: what partials are looked through for, what was proven, and what a batch asserts of it.

Tasks report what the partials of a batch prove. That goes into the manifest, and acts from the batch on that builds on it:
a batch that is tried again starts from the same manifest, and drops the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

from slackwater.engine.paths.reports import TaskReport, reports_of
from slackwater.engine.plan.plan import Plan
from slackwater.model.node import Aggregate, Node
from slackwater.model.same import Same
from slackwater.semantics.feedback.columns import Columns
from slackwater.semantics.feedback.value import Feedback
from slackwater.semantics.feedback_rules import Layout
from slackwater.semantics.patterns import Patterns
from slackwater.semantics.sealing import (
    Proof,
    Seals,
    as_records,
    panes_of,
    proofs,
    reaching_back,
    seal,
    standing,
    together,
)

Proofs = Mapping[str, tuple[Proof, ...]]
Sealed = Mapping[str, Seals]
Bounds = Mapping[str, Mapping[str, int]]


@lru_cache(maxsize=8)
def proofs_in(plan: Same[Plan], layout: Same[Layout]) -> Proofs:
    """By operator what its partials can prove, where it alone reads them."""
    alone = {o.id for o in plan.it.operators if o.producers == (o.id,)}
    found = {}
    for node, name, place in zip(plan.it.nodes, plan.it.names, layout.it.places, strict=True):
        mine = proofs(node, place.asserted) if name in alone else ()
        if mine:
            found[name] = mine
    return found


def still_sealed(
    plan: Plan,
    known: Proofs,
    before: Sealed,
    bounds: Bounds,
    over: Callable[[Node, Patterns], Patterns],
) -> Sealed:
    """What was sealed, as far as it still follows from what is asserted, and later rows may match it."""
    kept = {}
    for name, seals in before.items():
        if name not in known:
            continue
        node = _node(plan, name)
        left = _standing(Same(seals), Same(known[name]))
        records = tuple(s.record for s in left)
        open = over(node, records)
        if open is not records:
            wanted = set(open)
            left = tuple(s for s in left if s.record in wanted)
        time = node.times[0].name
        bound = bounds.get(name, {}).get(time)
        left = reaching_back(left, {} if bound is None else {time: bound})
        if left:
            kept[name] = left
    return kept


@lru_cache(maxsize=16)
def _standing(seals: Same[Seals], known: Same[tuple[Proof, ...]]) -> Seals:
    return standing(seals.it, known.it)


def asserted_by(plan: Plan, sealed: Sealed) -> tuple[tuple[int, Same[Patterns]], ...]:
    """What operators know of their own results, by their place in the plan."""
    places = {name: i for i, name in enumerate(plan.names)}
    return tuple((places[name], Same(_records(Same(seals)))) for name, seals in sealed.items())


@lru_cache(maxsize=16)
def _records(seals: Same[Seals]) -> Patterns:
    return as_records(seals.it)


def sealed_after(
    plan: Plan, known: Proofs, before: Sealed, reports: Sequence[TaskReport]
) -> Sealed:
    """What is sealed with what the tasks of a batch proved: first what was sealed before, then the largest and newest."""
    after = dict(before)
    for name, mine in known.items():
        found = {p for r in reports_of(reports, name) for p in r.proven}
        if not found:
            continue
        node = _node(plan, name)
        ordered = sorted(found, key=lambda p: (-p.weight, -p.windows[1], repr(p)))
        old = before.get(name, ())
        made = (seal(node, mine[p.proof], p.group, p.windows) for p in ordered)
        new = together(node, (*old, *made))
        after[name] = old if new == old else new
    return after


def sealed_panes(plan: Plan, sealed: Sealed, bounds: Bounds) -> dict[str, int]:
    """How many panes of groups get no more rows, by operator."""
    counts = {}
    for name, seals in sealed.items():
        node = _node(plan, name)
        below = bounds.get(plan.name_of(node.child), {})
        counts[name] = panes_of(node, seals, below.get(node.window.on, 0))
    return counts


def sealing_lines(plan: Plan, known: Proofs) -> list[str]:
    """For people: which panes are sealed, by operator."""
    lines = []
    for name, mine in known.items():
        columns = Columns.of(_node(plan, name), plan.zone)
        for claim in dict.fromkeys(p.claim for p in mine):
            tested = [columns.column([c]) for c in claim.columns]
            text = str(Feedback((claim,), tuple(tested)))[2:-1]
            lines.append(f"{name} seals panes whose rows alone pass {text}")
    return lines


def _node(plan: Plan, name: str) -> Aggregate:
    node = plan.node(name)
    assert isinstance(node, Aggregate)
    return node
