"""New bounds of a batch, by pure functions: what every group task computes from the same summaries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from slackwater.engine.paths.batch import Batch
from slackwater.engine.plan.plan import Operator, Plan
from slackwater.model.node import Aggregate, Source
from slackwater.model.window import JointWindow, is_all_time
from slackwater.semantics.bounds import propagate
from slackwater.semantics.frontier import Points, frontier
from slackwater.semantics.pattern_rules import propagate_patterns
from slackwater.semantics.patterns import Pattern, Patterns
from slackwater.semantics.progress import SourceState, advance, initial_state
from slackwater.semantics.settings import resolve_source
from slackwater.semantics.summary import SourceSummary, merge
from slackwater.semantics.window_chains import flush_bound, window_chains


def new_progress(batch: Batch, summaries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """States of the sources and bounds of all nodes after the batch, with the merged summaries."""
    states: dict[str, Any] = {}
    merged: dict[str, Any] = {}
    sources: dict[str, dict[str, int]] = {}
    samples = sorted(s["sample"] for s in summaries if s.get("sample"))
    for source in batch.plan.sources:
        settings = resolve_source(source)
        parts = [
            SourceSummary.from_json(s["summary"]) for s in summaries if s["source"] == source.name
        ]
        summary = merge(parts, settings)
        state = state_of(batch.states, source.name) or initial_state(source)
        ended = source.name in batch.ended
        backlog = source.name in batch.backlog
        state = advance(source, settings, state, summary, batch.now, ended=ended, backlog=backlog)
        if batch.flush and not ended:
            state = _flushed(batch.plan, source, state)
        states[source.name] = state.to_json()
        merged[source.name] = summary.to_json()
        sources[source.name] = {c: s.bound for c, s in state.columns.items()}
    return {
        "states": states,
        "summaries": merged,
        "bounds": bounds_of(batch.plan, sources, batch.holds),
        "sample": samples[0] if samples else None,
    }


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
) -> dict[str, dict[str, int]]:
    """Bounds of every node by name; ``holds`` is what joins may promise of their inputs, by name."""
    places = {plan.names.index(n): h for n, h in (holds or {}).items() if n in plan.names}
    return dict(zip(plan.names, propagate(plan.nodes, sources, places), strict=True))


def held_bounds(
    plan: Plan, progress: Mapping[str, Any], holds: Mapping[str, Sequence[int]]
) -> dict[str, dict[str, int]]:
    """The bounds of a batch's progress once it is known what the joins hold back."""
    sources = {
        name: {c: s["bound"] for c, s in state["columns"].items()}
        for name, state in progress["states"].items()
    }
    return bounds_of(plan, sources, holds)


def patterns_of(
    plan: Plan, states: Mapping[str, Any], bounds: Mapping[str, Mapping[str, int]]
) -> dict[str, Patterns]:
    """Patterns of every node by name, from the states of the sources and the bounds that go with them."""
    sources = {
        s.name: tuple(Pattern.from_json(p) for p in states.get(s.name, {}).get("patterns", ()))
        for s in plan.sources
    }
    linear = [bounds.get(name, {}) for name in plan.names]
    return dict(zip(plan.names, propagate_patterns(plan.nodes, linear, sources), strict=True))


def frontiers_of(
    batch: Batch,
    operator: Operator,
    bounds: Mapping[str, Mapping[str, int]],
    holds: Mapping[str, Sequence[int]],
) -> tuple[Points, Points]:
    """The frontiers of a group-by on several times, before the batch and with the new bounds and holds."""
    node, plan = operator.node, batch.plan
    if not (isinstance(node, Aggregate) and isinstance(node.window, JointWindow)):
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


def state_of(states: Mapping[str, Any], name: str) -> SourceState | None:
    """A source's stored state, or None before its first batch."""
    return SourceState.from_json(states[name]) if name in states else None
