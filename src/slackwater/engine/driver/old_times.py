"""Queries on local times that meant something else to the first versions: what of them, and why.

Those versions moved the origin of windows over windows, or over a join's time, by the session's zone, and read
the clock in UTC. An origin is part of the query's text, so a text tells which meaning it has.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from slackwater.engine.plan.plan import Plan
from slackwater.model.join import Tumbling
from slackwater.model.node import Aggregate, Join, Node
from slackwater.model.policy import BoundedLatency, Policy
from slackwater.model.time import TimeColumn, written
from slackwater.model.window import JointWindow
from slackwater.model.zone import fixed_offset
from slackwater.semantics.local_time import instant_of

ORIGINS = (
    "The origin of windows on local times (timestamp_ntz) was moved by the session's time zone where the time was that of "
    "windows or of a join's results, and lost the zone that it named. Now it is the local time that was written."
)
CLOCK = (
    "Local times (timestamp_ntz) were compared with the clock as if they were UTC. Now the clock is read in the session's "
    "time zone, so that bounds which followed the clock, and rows that were taken for rows of the future, were wrong."
)
_FARTHEST = 36 * 3_600_000_000  # from one end of the world's clocks to the other
_ORIGIN = re.compile(r"\borigin (-?\d+)\b")


def moved_origins(
    before: Sequence[str], after: Sequence[str], output: Node, zone: str
) -> list[str] | None:
    """Windows whose origin was read in another way; None if the texts of the output differ in anything else."""
    nodes = list(_preorder(output))
    if not len(before) == len(after) == len(nodes):
        return None
    changes: list[str] = []
    for old, new, node in zip(before, after, nodes, strict=True):
        if old == new:
            continue
        times = list(_origin_times(node))
        origins = list(zip(_ORIGIN.findall(old), _ORIGIN.findall(new), strict=False))
        if _ORIGIN.sub("", old) != _ORIGIN.sub("", new) or len(times) != len(origins):
            return None
        for time, (one, other) in zip(times, origins, strict=True):
            if one != other and not _was_moved(time, int(one), int(other), zone):
                return None
            if one != other:
                shown = f"{written(time, int(one))} on the checkpoint and {written(time, int(other))} now"
                changes.append(f"the origin of windows on '{time.name}' is {shown}")
    return changes


def _was_moved(time: TimeColumn, before: int, after: int, zone: str) -> bool:
    if time.kind == "timestamp_ntz":  # only by a zone that the origin itself named
        return abs(after - before) <= _FARTHEST
    return time.is_local and before == instant_of(after, zone)


def wrong_clocks(plan: Plan) -> Iterator[str]:
    """Local times whose policy follows the clock, in a zone that is not UTC.

    A guard that keeps rows where they are is none of them: what it kept from moving a bound moves it now.
    """
    if fixed_offset(plan.zone) == 0:
        return
    for source in plan.sources:
        for time, policy in zip(source.times, source.policies, strict=True):
            if time.is_local and not source.replay and _follows_clock(policy):
                yield f"progress of '{time.name}' of stream '{source.given_name}'"


def _follows_clock(policy: Policy) -> bool:
    aside = policy.future == "side" and policy.guard is not None
    return isinstance(policy, BoundedLatency) or policy.idle is not None or aside


def _preorder(node: Node) -> Iterator[Node]:
    """The nodes in the order of the lines of their text."""
    yield node
    for child in node.children:
        yield from _preorder(child)


def _origin_times(node: Node) -> Iterator[TimeColumn]:
    """The times of a node's windows that have an origin, in the order of its text."""
    if isinstance(node, Join) and isinstance(node.within, Tumbling):
        yield _time(node.inputs[0], node.on[0])
    if isinstance(node, Aggregate):
        windows = node.window.windows if isinstance(node.window, JointWindow) else (node.window,)
        for w in windows:
            if hasattr(w, "origin"):
                yield _time(node.child, w.on)


def _time(node: Node, name: str) -> TimeColumn:
    return next(t for t in node.times if t.name == name)
