"""Where rows wait that sorts behind different filters share: decided from what batches measured, kept in the manifest.

What is known of a store of rows (its routes, how much each filter lets through, how far each sort is behind) stands in the
manifest's statistics. A batch takes its routes from the manifest it starts from. While its job runs, the driver works out from
the same manifest whether rows should wait elsewhere, and the batch's own manifest then says so: the next batch follows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from slackwater.engine.plan.plan import Operator, Plan
from slackwater.engine.store.manifest import Manifest, Run
from slackwater.kernels.rows.waiting import Places
from slackwater.model.node import SharedSort, Source
from slackwater.semantics.settings import resolve_source
from slackwater.semantics.slack.placement import optimal
from slackwater.semantics.slack.routes import (
    Decision,
    Routes,
    decide,
    hastened,
    place,
    routes_of,
    whole,
)
from slackwater.semantics.slack.tree import Query, Selectivity, Stage, global_plan, stages
from slackwater.semantics.slack.waiting import Waiting

ROWS = "the rows"
"""The name of the stream in a tree of filters."""


def fixed_slack(plan: Plan, sort: str) -> int | None:
    """The slack of a sort whose stream says it in advance, or None."""
    path = next(plan.unshared.paths_to(sort))
    source = plan.node(path.producer)
    if not isinstance(source, Source):
        return None
    settings = next((s for s in resolve_source(source) if s.column == path.time), None)
    return None if settings is None else {"delay": settings.delay, "ordered": 0}.get(settings.kind)


def tree_of(
    store: Operator, slack: Mapping[str, int], known: Mapping[str, Selectivity] | None = None
) -> Stage:
    """The filters of those sorts of a store that ``slack`` names, with what they let through."""
    node = store.node
    assert isinstance(node, SharedSort)
    queries = [
        Query(name, slack[name], frozenset(c.sql for c in filters))
        for (name, _), filters in zip(node.readers, node.filters, strict=True)
        if name in slack
    ]
    return global_plan(ROWS, queries, {n: s.value for n, s in (known or {}).items()})


def stores(plan: Plan) -> list[Operator]:
    """The operators that hold rows for several sorts."""
    return [op for op in plan.operators if isinstance(op.node, SharedSort)]


def waiting(plan: Plan, store: Operator, last: Manifest | None) -> Waiting:
    """What is known of a store when a batch starts; sorts that are new to it get a route here."""
    measured = None if last is None else last.statistics.get(store.id)
    known = Waiting({}) if measured is None or measured.waiting is None else measured.waiting
    names = store.producers
    if last is not None:
        live = {run.part for group in last.runs.get(store.id, []) for run in group}
        known = replace(known, marks={p: m for p, m in known.marks.items() if p in live})
    if set(known.routes) == set(names):
        return known
    reported = {**known.reports.current, **known.reports.wanted}
    slack = {n: reported.get(n, fixed_slack(plan, n)) for n in names}
    sure = {n: k for n, k in slack.items() if k is not None}
    routes = whole(names)
    if sure:
        tree = tree_of(store, sure, known.selectivity)
        routes.update(routes_of(tree, optimal(tree)))
    return replace(known, routes=routes, reports=known.reports.members(names, sure))


def placed(plan: Plan, last: Manifest | None) -> Plan:
    """The plan of a batch: each store with the places of its rows."""
    if not stores(plan):
        return plan
    with_places = {}
    for store in stores(plan):
        known = waiting(plan, store, last)
        with_places[store.id] = replace(
            store, places=Places(known.routes, known.marks, _stage_bits(store))
        )
    return replace(plan, operators=tuple(with_places.get(op.id, op) for op in plan.operators))


def _stage_bits(store: Operator) -> dict[str, int]:
    node = store.node
    assert isinstance(node, SharedSort)
    bits = dict(zip(store.producers, node.bits, strict=True))
    tree = tree_of(store, dict.fromkeys(store.producers, 0))
    return {s.name: sum(bits[c.name] for c in s.consumers) for s, _ in stages(tree)}


def decisions(plan: Plan, last: Manifest | None) -> dict[str, Decision]:
    """Where rows of each store should wait after the batch that follows ``last``."""
    decided = {}
    for store in stores(plan):
        known = waiting(plan, store, last)
        rows: dict[str, int] = {}
        for run in (r for g in (last.runs.get(store.id, []) if last else []) for r in g):
            rows[run.part] = rows.get(run.part, 0) + run.rows

        slack = {n: known.reports.current.get(n, 0) for n in store.producers}

        moved = partial(_moved, known.routes, slack, rows)
        tree = tree_of(store, slack, known.selectivity)
        decided[store.id] = decide(tree, known.routes, known.reports, known.penalty, moved)
    return decided


def _moved(old: Routes, slack: Mapping[str, int], rows: Mapping[str, int], new: Routes) -> int:
    """How many rows a change of routes moves; ``rows`` has those that wait by place."""
    return sum(rows.get(at, 0) for at in hastened(old, new, slack))


def buffers(operator: Operator, runs: Sequence[Run]) -> dict[str, dict[str, int]]:
    """For the progress record: rows by place, as people know it; nothing of other operators."""
    if not isinstance(operator.node, SharedSort):
        return {}
    tree = tree_of(operator, dict.fromkeys(operator.producers, 0))
    titles = {place(tree, s.name): s.name for s, _ in stages(tree)}
    rows: dict[str, int] = {}
    for run in runs:
        title = titles.get(run.part, run.part)
        rows[title] = rows.get(title, 0) + run.rows
    return {"buffers": rows}
