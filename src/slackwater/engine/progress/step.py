"""New bounds of a batch, by pure functions: what every group task computes from the same summaries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from slackwater.engine.paths.batch import Batch
from slackwater.engine.paths.reports import Bounds, Progress, SourceReport
from slackwater.engine.plan.plan import Operator, Plan
from slackwater.model.node import Aggregate, Source
from slackwater.model.window import is_all_time
from slackwater.semantics.bounds import marks_of, propagate
from slackwater.semantics.feedback_rules import Reached
from slackwater.semantics.frontier import Points, frontier
from slackwater.semantics.limits import START
from slackwater.semantics.pace import Marks
from slackwater.semantics.pattern_rules import NO_WANTS, Wants, propagate_patterns
from slackwater.semantics.patterns import Patterns
from slackwater.semantics.progress import SourceState, advance, initial_state
from slackwater.semantics.settings import resolve_source
from slackwater.semantics.summary import SourceSummary, merge
from slackwater.semantics.window_chains import flush_bound, window_chains
from slackwater.semantics.window_types.registry import WINDOWS

T = TypeVar("T")


def new_progress(batch: Batch, reports: Sequence[SourceReport]) -> Progress:
    """The progress of a batch, from what its low-level tasks report of the sources."""
    reports = (*reports, *batch.skipped)
    states: dict[str, SourceState] = {}
    merged: dict[str, SourceSummary] = {}
    samples = sorted(r.sample for r in reports if r.sample)
    for source in batch.plan.sources:
        settings = resolve_source(source)
        summary = merge((r.summary for r in reports if r.source == source.name), settings)
        state = batch.states.get(source.name) or initial_state(source)
        ended = source.name in batch.ended
        backlog = source.name in batch.backlog
        state = advance(source, settings, state, summary, batch.now, ended=ended, backlog=backlog)
        if batch.flush and not ended:
            state = _flushed(batch.plan, source, state)
        states[source.name] = state
        merged[source.name] = summary
    sources = {name: state.bounds for name, state in states.items()}
    marks = known_marks(batch.plan, states, batch.marks, batch.now)
    bounds = bounds_of(batch.plan, sources, batch.holds, marks)
    return Progress(states, merged, bounds, samples[0] if samples else None)


def _flushed(plan: Plan, source: Source, state: SourceState) -> SourceState:
    """The state with bounds that close every window which holds a row seen so far."""
    outputs = [o.node for o in plan.outputs]
    columns = dict(state.columns)
    for name, column in columns.items():
        if column.hi is not None:
            chains = window_chains(outputs, source, name)
            # A group without a window is complete when punctuation says so; no bound on time can close it.
            chains = tuple(c for c in chains if not any(is_all_time(w) for w in c))
            reach = flush_bound(column.hi, chains)
            columns[name] = replace(column, bound=max(column.bound, reach))
    return replace(state, columns=columns)


def bounds_of(
    plan: Plan,
    sources: Mapping[str, Mapping[str, int]],
    holds: Mapping[str, Sequence[int]] | None = None,
    marks: Marks | None = None,
) -> dict[str, dict[str, int]]:
    """Bounds of every node by name; ``holds`` is what joins may promise of their inputs, by name."""
    places = _by_place(plan, holds or {})
    return dict(zip(plan.names, propagate(plan.nodes, sources, places, marks), strict=True))


def marks_by_name(
    plan: Plan,
    states: Mapping[str, SourceState],
    holds: Mapping[str, Sequence[int]],
    earlier: Mapping[str, int],
    now: int | None,
) -> dict[str, int]:
    """The marks of the operators that keep a pace, by name, with the states of the sources and the clock's reading; see `Marks`."""
    known = {s.name for s in plan.sources}
    bounds = {n: s.bounds for n, s in states.items() if n in known}
    marks = known_marks(plan, states, earlier, now)
    found = marks_of(plan.nodes, bounds, _by_place(plan, holds), marks)
    return {plan.names[place]: mark for place, mark in found.items() if mark > START}


def known_marks(
    plan: Plan, states: Mapping[str, SourceState], earlier: Mapping[str, int], now: int | None
) -> Marks:
    """What marks are made of, after those that were ``earlier``, by name."""
    return Marks(_newest(states), _by_place(plan, earlier), now)


def _by_place(plan: Plan, named: Mapping[str, T]) -> dict[int, T]:
    return {plan.names.index(n): value for n, value in named.items() if n in plan.names}


def _newest(states: Mapping[str, SourceState]) -> dict[str, dict[str, int]]:
    return {
        name: {c: START if s.hi is None else s.hi for c, s in state.columns.items()}
        for name, state in states.items()
    }


def held_bounds(
    batch: Batch, progress: Progress, holds: Mapping[str, Sequence[int]]
) -> dict[str, dict[str, int]]:
    """The bounds of a batch's progress once it is known what the joins hold back."""
    sources = {n: s.bounds for n, s in progress.states.items()}
    marks = known_marks(batch.plan, progress.states, batch.marks, batch.now)
    return bounds_of(batch.plan, sources, holds, marks)


def reached(plan: Plan, states: Mapping[str, SourceState], bounds: Bounds) -> Reached:
    """How far a plan is: the newest plausible times of its sources, and bounds by node."""
    return Reached(_newest(states), lambda node: bounds.get(plan.name_of(node), {}))


def patterns_of(
    plan: Plan, states: Mapping[str, SourceState], bounds: Bounds, more: Wants = NO_WANTS
) -> dict[str, Patterns]:
    """Patterns of every node by name, from the states of the sources and the bounds that go with them; see `propagate_patterns`."""
    sources = {s.name: states[s.name].patterns if s.name in states else () for s in plan.sources}
    linear = [bounds.get(name, {}) for name in plan.names]
    found = propagate_patterns(plan.nodes, linear, sources, more)
    return dict(zip(plan.names, found, strict=True))


def frontiers_of(
    batch: Batch,
    operator: Operator,
    bounds: Bounds,
    holds: Mapping[str, Sequence[int]],
) -> tuple[Points, Points]:
    """The frontiers of a group-by on several times, before the batch and with the new bounds and holds."""
    node, plan = operator.node, batch.plan
    # All other operators, of whatever type, go by their bounds alone.
    if not isinstance(node, Aggregate) or not WINDOWS[type(node.window)].traits.joint:
        return (), ()
    columns = [w.on for w in node.windows]
    old = frontier(
        node.child,
        columns,
        lambda n, c: batch.bound(plan.name_of(n), c),
        lambda n: batch.holds.get(plan.name_of(n)),
    )
    new = frontier(
        node.child,
        columns,
        lambda n, c: bounds[plan.name_of(n)][c],
        lambda n: holds.get(plan.name_of(n)),
    )
    return old, new
