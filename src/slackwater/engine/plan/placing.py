"""Where rows wait that sorts behind different filters share: decided from what batches measured, kept in the manifest.

What is known of a store of rows (its routes, how much each filter lets through, how far each sort is behind) stands in the
manifest's statistics. A batch takes its routes from the manifest it starts from. While its job runs, the driver works out from
the same manifest whether rows should wait elsewhere, and the batch's own manifest then says so: the next batch follows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from slackwater.engine.plan.plan import Operator, Plan
from slackwater.engine.store.manifest import Manifest, Run
from slackwater.kernels.rows.waiting import Marks, Places
from slackwater.model.node import SharedSort, Source
from slackwater.semantics.limits import END, START
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
from slackwater.semantics.slack.trigger import Penalty, Reports, Trigger

TRIGGER = Trigger()
ROWS = "the rows"
"""The name of the stream in a tree of filters."""


@dataclass(frozen=True)
class Waiting:
    """What is known of a store of rows: see the module's text.

    ``newest`` is the greatest time it has seen, ``usual`` the seconds that a batch takes it. Routes that are ``changed`` have not
    been followed yet: what the next batch takes longer than usual is their price.
    """

    routes: Routes
    marks: Marks = field(default_factory=dict)
    selectivity: Mapping[str, Selectivity] = field(default_factory=dict)
    reports: Reports = Reports({})  # noqa: RUF009
    penalty: Penalty = Penalty()  # noqa: RUF009
    newest: int = START
    usual: float = 0.0
    changed: bool = False

    def to_json(self) -> dict[str, Any]:
        """For the manifest."""
        return {
            "routes": {c: [list(step) for step in route] for c, route in self.routes.items()},
            "marks": {p: dict(known) for p, known in self.marks.items()},
            "selectivity": {n: [s.rows_in, s.rows_out] for n, s in self.selectivity.items()},
            "reports": self.reports.to_json(),
            "penalty": [*vars(self.penalty).values()],
            "newest": self.newest,
            "usual": self.usual,
            "changed": self.changed,
        }

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Waiting:
        """From the manifest."""
        return cls(
            {c: tuple((p, who) for p, who in route) for c, route in found["routes"].items()},
            found["marks"],
            {n: Selectivity(*counts) for n, counts in found["selectivity"].items()},
            Reports.from_json(found["reports"]),
            Penalty(*found["penalty"]),
            found["newest"],
            found["usual"],
            found["changed"],
        )


def fixed_slack(plan: Plan, sort: str) -> int | None:
    """The slack of a sort whose stream says it in advance, or None."""
    path = next(plan.unshared.paths_to(sort))
    source = plan.node(path.producer)
    if not isinstance(source, Source):
        return None
    found = next((s for s in resolve_source(source) if s.column == path.time), None)
    return None if found is None else {"delay": found.delay, "ordered": 0}.get(found.kind)


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
    stored = {} if last is None else last.statistics.get(store.id, {}).get("waiting", {})
    found = Waiting.from_json(stored) if stored else Waiting({})
    names = store.producers
    if last is not None:
        live = {run.part for group in last.runs.get(store.id, []) for run in group}
        found = replace(found, marks={p: m for p, m in found.marks.items() if p in live})
    if set(found.routes) == set(names):
        return found
    reported = {**found.reports.current, **found.reports.wanted}
    slack = {n: reported.get(n, fixed_slack(plan, n)) for n in names}
    sure = {n: k for n, k in slack.items() if k is not None}
    routes = whole(names)
    if sure:
        tree = tree_of(store, sure, found.selectivity)
        routes.update(routes_of(tree, optimal(tree)))
    return replace(found, routes=routes, reports=found.reports.members(names, sure))


def placed(plan: Plan, last: Manifest | None) -> Plan:
    """The plan of a batch: each store with the places of its rows."""
    if not stores(plan):
        return plan
    found = {}
    for store in stores(plan):
        known = waiting(plan, store, last)
        found[store.id] = replace(
            store, places=Places(known.routes, known.marks, _stage_bits(store))
        )
    return replace(plan, operators=tuple(found.get(op.id, op) for op in plan.operators))


def _stage_bits(store: Operator) -> dict[str, int]:
    node = store.node
    assert isinstance(node, SharedSort)
    bits = dict(zip(store.producers, node.bits, strict=True))
    tree = tree_of(store, dict.fromkeys(store.producers, 0))
    return {s.name: sum(bits[c.name] for c in s.consumers) for s, _ in stages(tree)}


def decisions(plan: Plan, last: Manifest | None) -> dict[str, Decision]:
    """Where rows of each store should wait after the batch that follows ``last``."""
    found = {}
    for store in stores(plan):
        known = waiting(plan, store, last)
        rows: dict[str, int] = {}
        for run in (r for g in (last.runs.get(store.id, []) if last else []) for r in g):
            rows[run.part] = rows.get(run.part, 0) + run.rows

        slack = {n: known.reports.current.get(n, 0) for n in store.producers}

        def moved(
            new: Routes,
            old: Routes = known.routes,
            slack: Mapping[str, int] = slack,
            rows: Mapping[str, int] = rows,
        ) -> int:
            return sum(rows.get(at, 0) for at in hastened(old, new, slack))

        tree = tree_of(store, slack, known.selectivity)
        found[store.id] = decide(tree, known.routes, known.reports, known.penalty, moved, TRIGGER)
    return found


def measured(
    plan: Plan,
    last: Manifest | None,
    decided: Mapping[str, Decision],
    found: Sequence[Mapping[str, Any]],
    bounds: Mapping[str, Mapping[str, int]],
) -> dict[str, dict[str, Any]]:
    """What is known of each store after a batch, for the manifest; ``found`` is what its tasks say."""
    out = {}
    for store in stores(plan):
        before = waiting(plan, store, last)
        (seen,) = [
            d["operators"][store.id]["statistics"]["waiting"]
            for d in found
            if d["group"] == 0 and store.id in d["operators"]
        ]
        newest = before.newest if seen["newest"] is None else max(before.newest, seen["newest"])
        behind = {}
        for name, child, on in zip(
            store.producers, store.node.children, store.columns, strict=True
        ):
            node = plan.name_of(child)
            old = last.bounds.get(node, {}).get(on, START) if last is not None else START
            if START < bounds[node][on] < END and bounds[node][on] > old:
                behind[name] = max(0, newest - bounds[node][on])
        reports = decided[store.id].reports.members(store.producers, behind)
        for name, slack in behind.items():
            reports = reports.heard(name, slack)
        penalty, usual, unit = before.penalty, before.usual, store.node.times[0].unit
        if not before.changed:
            usual = 0.9 * usual + 0.1 * seen["seconds"] if usual else seen["seconds"]
        elif unit:
            penalty = penalty.seen(seen["moved"], max(0.0, seen["seconds"] - usual) * 1e6 / unit)
        out[store.id] = Waiting(
            decided[store.id].routes,
            seen["marks"],
            _selectivity(store, before.selectivity, seen["rows"]),
            reports,
            penalty,
            newest,
            round(usual, 6),
            decided[store.id].routes != before.routes,
        ).to_json()
    return out


def _selectivity(
    store: Operator, before: Mapping[str, Selectivity], rows: Mapping[str, int]
) -> dict[str, Selectivity]:
    """Rows that reached each filter and rows it let through, those that no sort behind it wants left out."""
    found = {}

    def visit(stage: Stage) -> None:
        for c in stage.children:
            if isinstance(c, Stage):
                known = before.get(c.name, Selectivity())
                found[c.name] = known.seen(rows[stage.name], rows[c.name])
                visit(c)

    visit(tree_of(store, dict.fromkeys(store.producers, 0)))
    return found


def buffers(operator: Operator, runs: Sequence[Run]) -> dict[str, dict[str, int]]:
    """For the progress record: rows by place, as people know it; nothing of other operators."""
    if not isinstance(operator.node, SharedSort):
        return {}
    tree = tree_of(operator, dict.fromkeys(operator.producers, 0))
    titles = {place(tree, s.name): s.name for s, _ in stages(tree)}
    found: dict[str, int] = {}
    for run in runs:
        title = titles.get(run.part, run.part)
        found[title] = found.get(title, 0) + run.rows
    return {"buffers": found}
