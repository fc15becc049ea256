"""What is known of a query's operators after a batch: what was known before, and what the tasks of the batch report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from slackwater.engine.paths.reports import Bounds, TaskReport, reports_of
from slackwater.engine.plan.placing import stores, tree_of, waiting
from slackwater.engine.plan.plan import Operator, Plan
from slackwater.engine.store.manifest import Manifest, Run
from slackwater.engine.store.statistics import OperatorStatistics
from slackwater.model.window import TimeWindow
from slackwater.semantics.limits import END, START
from slackwater.semantics.slack.routes import Decision
from slackwater.semantics.slack.tree import Selectivity, Stage
from slackwater.semantics.slack.waiting import Waiting
from slackwater.semantics.summary import SourceSummary


def gathered(
    plan: Plan,
    base: Manifest | None,
    reports: Sequence[TaskReport],
    summaries: Mapping[str, SourceSummary],
    runs: Mapping[str, list[list[Run]]],
) -> dict[str, OperatorStatistics]:
    """The statistics after a batch: those before it, and what its tasks report."""
    out: dict[str, OperatorStatistics] = {}
    for operator in plan.operators:
        spec, mine = operator.spec, reports_of(reports, operator.id)
        state = list({r.name: r for g in runs.get(operator.id, []) for r in g}.values())
        before = None if base is None else base.statistics.get(operator.id)
        before = before or OperatorStatistics()
        same = spec is None or before.plan in (None, spec.plan)
        counted = before if same else OperatorStatistics()
        known = OperatorStatistics(
            max(before.peak_rows, sum(r.rows for r in state)),
            max(before.peak_bytes, sum(r.bytes for r in state)),
            counted.results + sum(r.rows_out for r in mine),
            round(counted.seconds + sum(r.seconds for r in mine), 6),
        )
        if spec is not None and isinstance(spec.window, TimeWindow):
            rows = counted.rows + _rows(plan, operator, reports, summaries)
            partials = counted.partials + sum(r.figures.partials or 0 for r in mine)
            known = replace(known, plan=spec.plan, rows=rows, partials=partials)
        out[operator.id] = known
    return out


def _rows(
    plan: Plan,
    operator: Operator,
    reports: Sequence[TaskReport],
    summaries: Mapping[str, SourceSummary],
) -> int:
    """Rows of a batch that set out for an operator; filters on the way are not counted off."""
    rows = 0
    for path in plan.paths_to(operator.id):
        if path.producer in summaries:
            rows += summaries[path.producer].rows
        rows += sum(r.rows_out for r in reports_of(reports, path.producer))
        # Of aggregates that share their state, each is a producer, but not an operator.
        stated = [of for r in reports for of in r.operators.values()]
        rows += sum(of.readers.get(path.producer, 0) for of in stated)
    return rows


def measured(
    plan: Plan,
    last: Manifest | None,
    decided: Mapping[str, Decision],
    reports: Sequence[TaskReport],
    bounds: Bounds,
) -> dict[str, Waiting]:
    """What is known of each store of rows after a batch."""
    out = {}
    for store in stores(plan):
        before = waiting(plan, store, last)
        (seen,) = [
            of.figures.waiting
            for of in reports_of([r for r in reports if r.group == 0], store.id)
            if of.figures.waiting is not None
        ]
        newest = before.newest if seen.newest is None else max(before.newest, seen.newest)
        behind = {}
        for name, child, on in zip(
            store.producers, store.node.children, store.columns, strict=True
        ):
            node = plan.name_of(child)
            old = last.bounds.get(node, {}).get(on, START) if last is not None else START
            if START < bounds[node][on] < END and bounds[node][on] > old:
                behind[name] = max(0, newest - bounds[node][on])
        slacks = decided[store.id].reports.members(store.producers, behind)
        for name, slack in behind.items():
            slacks = slacks.heard(name, slack)
        penalty, usual, unit = before.penalty, before.usual, store.node.times[0].unit
        if not before.changed:
            usual = 0.9 * usual + 0.1 * seen.seconds if usual else seen.seconds
        elif unit:
            penalty = penalty.seen(seen.moved, max(0.0, seen.seconds - usual) * 1e6 / unit)
        out[store.id] = Waiting(
            decided[store.id].routes,
            seen.marks,
            _selectivity(store, before.selectivity, seen.rows),
            slacks,
            penalty,
            newest,
            round(usual, 6),
            decided[store.id].routes != before.routes,
        )
    return out


def _selectivity(
    store: Operator, before: Mapping[str, Selectivity], rows: Mapping[str, int]
) -> dict[str, Selectivity]:
    """Rows that reached each filter and rows it let through, those that no sort behind it wants left out."""
    after = {}

    def visit(stage: Stage) -> None:
        for c in stage.children:
            if isinstance(c, Stage):
                known = before.get(c.name, Selectivity())
                after[c.name] = known.seen(rows[stage.name], rows[c.name])
                visit(c)

    visit(tree_of(store, dict.fromkeys(store.producers, 0)))
    return after
