"""Paces in the batch loop: the marks that a batch goes by, what they let inputs drop, and what is reported of them.

A batch that is tried again starts from the same manifest and takes the clock's reading from its intent, so it judges the same
rows in the same way; nothing of a pace is looked up anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from slackwater.engine.driver.feedback import Arranged, Bounds, Reach, wanted_later
from slackwater.engine.driver.records import show
from slackwater.engine.plan.paces import pace_guards, paces_of, place_of
from slackwater.engine.plan.plan import Plan
from slackwater.engine.progress.recall import recall_joins
from slackwater.engine.progress.step import marks_by_name
from slackwater.engine.store.manifest import Manifest
from slackwater.semantics.limits import START
from slackwater.semantics.pace import limit


def marks_in_force(plan: Plan, base: Manifest | None, now: int | None) -> dict[str, int]:
    """The marks of a batch on ``base``, whose clock reads ``now``: rows of the batch itself move none."""
    states = base.sources if base is not None else {}
    holds, earlier = (base.holds, base.marks) if base is not None else ({}, {})
    return marks_by_name(plan, states, holds, earlier, now)


def with_paces(
    feedback: Arranged,
    plan: Plan,
    marks: Mapping[str, int],
    base: Manifest | None,
    bounds: Bounds,
    reach: Reach,
) -> Arranged:
    """The feedback of a batch, with what paces let their inputs drop."""
    if not marks or reach in ("off", "output") or recall_joins(plan):
        return feedback
    over = wanted_later(plan, base, bounds)
    made = pace_guards(plan, marks, over, sources=reach == "source")
    return replace(feedback, guards=feedback.guards.and_also(made))


def pace_lines(plan: Plan, last: Manifest | None, reach: Reach) -> list[str]:
    """For people: the paces after a batch, and where their inputs drop rows in the next; the clock may move both."""
    if last is None or not last.marks:
        return []
    lines = []
    for name, node in paces_of(plan).items():
        mark = last.marks.get(name, START)
        newest, oldest = (show(node.time, t, plan.zone) for t in (mark, limit(node, mark)))
        lines.append(f"{name}: the newest {node.on} is {newest}, drops rows below {oldest}")
    made = with_paces(Arranged(), plan, last.marks, last, last.bounds, reach).guards
    for path in plan.paths:
        for at, guard in made.of(path):
            text = f"{guard.place} -> {path.consumer}, behind {at} step(s): may drop"
            lines.append(f"{text} {guard.match.sql}, for a pace")
    return lines


def behind(plan: Plan, dropped: dict[str, int]) -> dict[str, int]:
    """The rows that paces dropped, by their names; they are taken out of what guards dropped."""
    return {name: dropped.pop(place_of(name), 0) for name in paces_of(plan)}


def pace_record(
    plan: Plan, marks: Mapping[str, int], done: Manifest, dropped: Mapping[str, int]
) -> dict[str, Any]:
    """Of each pace the mark by which rows were judged, their limit, the mark after the batch, and the rows that it dropped."""
    found = {}
    for name, node in paces_of(plan).items():
        mark = marks.get(name, START)
        found[name] = {
            "on": node.on,
            "mark": show(node.time, mark, plan.zone),
            "limit": show(node.time, limit(node, mark), plan.zone),
            "newMark": show(node.time, done.marks.get(name), plan.zone),
            "rowsDropped": dropped.get(name, 0),
        }
    return found
