"""``stream.pace``: rows too far behind the newest are left out, and can be had as a stream."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from slackwater.engine.clock import Clock, NoClock
from slackwater.engine.plan.plan import Plan
from slackwater.errors import AnalysisError
from slackwater.model.node import Outpaced, Pace, Source
from slackwater.model.time import parse_span
from slackwater.semantics.bounds import topological
from slackwater.surface.stream import Stream


def outpaced(stream: Stream, node: Pace) -> Stream:
    """The rows that the pace ``node`` drops, with the columns of the others.

    An output that reads them needs them, so they are read and brought here like others.
    """
    return stream._with(Outpaced(**{f.name: getattr(node, f.name) for f in fields(node)}))


def with_pace(stream: Stream, limit: Any, *, on: str | None, clock: bool) -> Stream:
    """The stream without rows that are more than ``limit`` behind its newest time."""
    if not isinstance(clock, bool):
        raise AnalysisError(
            "BAD_OPTION",
            f"pace: clock={clock!r} is not possible",
            hint="give clock=True to measure against the clock, too",
        )
    time = stream._time(on, "pace")
    span = parse_span(limit, time, what="pace")
    if clock and time.unit is None:
        raise AnalysisError(
            "UNIT_NEEDED",
            f"pace: '{time.name}' holds integers, and nothing says how they relate to the clock",
            hint='say what one unit is, as in sw.stream(..., timeUnit="second"), or leave clock=True out',
            column=time.name,
        )
    node = stream._node
    zone = next((n.zone for n in topological([node]) if isinstance(n, Source)), "UTC")
    paced = Pace(node.schema, node.times, node, time.name, span, clock, zone)
    return stream._with(paced)


def check_pace(plan: Plan, clock: Clock) -> None:
    """Refuse a pace by the clock in a query that has none."""
    if not isinstance(clock, NoClock):
        return
    for node in plan.nodes:
        if isinstance(node, Pace) and node.clock:
            raise AnalysisError(
                "NO_CLOCK",
                f"pace(clock=True) on '{node.on}' needs a clock, and a query over replays alone has none",
                hint="leave clock=True out: the newest time of the stream counts then",
                column=node.on,
            )
