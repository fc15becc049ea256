"""Joins: a later result holds a row that has not arrived yet (see `semantics.join`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slackwater.model.join import Tumbling, Within, is_existence
from slackwater.model.node import Join
from slackwater.semantics.join import (
    corners,
    max_bound,
    min_bound,
    outer_inputs,
    reaches,
    time_bounds,
)
from slackwater.semantics.limits import Bounds
from slackwater.semantics.operators import common
from slackwater.semantics.operators.answers import Known, Points, Trace, Traced, least

wants = common.no_wants
patterns = common.no_patterns
copies = common.no_copies  # an output may be of either input, or null


def entering(node: Join) -> tuple[str, ...]:
    return node.on


def bounds(node: Join, inputs: Sequence[Bounds], sources: Mapping[str, Bounds]) -> dict[str, int]:
    """Bounds of a join's own time (the greatest), of the least, and of each input's time that is kept."""
    own = [b[on] for b, on in zip(inputs, node.on, strict=True)]
    if is_existence(node.how):
        (time,) = node.times
        return {time.name: max_bound(node.within, own, node.how)}
    kept = dict(zip(node.time_names, time_bounds(node.within, own), strict=True))
    output = {}
    for time in node.times:
        # An input that is a join itself may have a greatest time of its own.
        if time.name in kept:
            output[time.name] = kept[time.name]
        elif time.kind == "greatest":
            output[time.name] = max_bound(node.within, own, node.how)
        else:
            output[time.name] = min_bound(node.within, own)
    return output


def frontier(node: Join, columns: Sequence[str], known: Known) -> Points:
    if outer_inputs(node.how) or is_existence(node.how):
        # An unmatched row comes out when its own time is old, whatever the other's is.
        return common.bounds_alone(node, columns, known)
    bounds = [known.bound(child, on) for child, on in zip(node.inputs, node.on, strict=True)]
    held = known.hold(node)
    if held is not None:
        bounds = [min(b, h) for b, h in zip(bounds, held, strict=True)]
    place = {name: i for i, name in enumerate(node.time_names)}
    kinds = {t.name: t.kind for t in node.times}

    def time(point: Sequence[int], column: str) -> int:
        if column in place:
            return point[place[column]]
        return max(point) if kinds[column] == "greatest" else min(point)

    points = corners(node.within, bounds, node.how)
    return least(tuple(time(point, c) for c in columns) for point in points)


def trace(node: Join, name: str, ask: Trace) -> list[Traced]:
    if not ask.joins:
        return []  # which windows the results of a row are in is not for the row to say
    # Whatever time of the results is followed, its bound is behind the inputs' by the widest span at most.
    behind = _lag(node.within)
    return [
        (chain, moved - behind)
        for child, on in zip(node.inputs, node.on, strict=True)
        for chain, moved in ask.below(child, on)
    ]


def _lag(within: Within) -> int:
    """How far a bound of the results may lie behind the least bound of the inputs."""
    return within.window.slide if isinstance(within, Tumbling) else max(0, *reaches(within))


def keeps(node: Join) -> str:
    if is_existence(node.how):
        return (
            "left rows that have found no partner yet, right rows that may still be one, by the other side's bound "
            f"on {', '.join(node.on)}"
        )
    return f"rows that may still find a partner, by the other side's bound on {', '.join(node.on)}"
