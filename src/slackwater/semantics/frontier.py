"""Progress on several times at once: points that no later row lies below.

A stream's *frontier* over some of its times is a set of points such that every later row is, in all of these times,
at or above one of them. Individual bounds are the frontier of one point; a join knows more, since each of its later
results has a row that is yet to come (`semantics.join.corners`). So a group on the windows of two times closes when
no point is below both ends, which is earlier than either time's own bound allows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from slackwater.model.node import Aggregate, Dedup, Filter, Join, Node, Project, Union
from slackwater.semantics.bounds import shift
from slackwater.semantics.join import corners, outer_inputs
from slackwater.semantics.window_types.registry import WINDOWS
from slackwater.semantics.windows import result_bound

__all__ = ["Points", "frontier"]

Points = tuple[tuple[int, ...], ...]
BoundOf = Callable[[Node, str], int]
HoldOf = Callable[[Join], "Sequence[int] | None"]


def frontier(node: Node, columns: Sequence[str], bound: BoundOf, hold: HoldOf) -> Points:
    """The frontier of a stream over its times ``columns``, in their order.

    ``bound`` gives the bound of a node's time, ``hold`` what a join may promise of its inputs while rows of
    these wait to be joined, or None.
    """
    if isinstance(node, Filter | Dedup):
        return frontier(node.child, columns, bound, hold)
    if isinstance(node, Project):
        moves = {out: (name, ticks) for out, name, ticks in node.origins}
        below = frontier(node.child, [moves[c][0] for c in columns], bound, hold)
        return _least(
            tuple(shift(v, moves[c][1]) for v, c in zip(point, columns, strict=True))
            for point in below
        )
    if isinstance(node, Union):
        at = [[t.name for t in node.times].index(c) for c in columns]
        inputs = [
            frontier(child, [child.times[i].name for i in at], bound, hold) for child in node.inputs
        ]
        return _least(point for points in inputs for point in points)
    if isinstance(node, Aggregate) and WINDOWS[type(node.window)].TRAITS.joint:
        windows = {t.name: w for t, w in zip(node.times, node.windows, strict=True)}
        below = frontier(node.child, [windows[c].on for c in columns], bound, hold)
        return _least(
            tuple(result_bound(v, windows[c]) for v, c in zip(point, columns, strict=True))
            for point in below
        )
    if isinstance(node, Join) and not outer_inputs(node.how):
        return _joined(node, columns, bound, hold)
    # After an outer join too: an unmatched row comes out when its own time is old, whatever the other's is.
    return (tuple(bound(node, c) for c in columns),)


def _joined(node: Join, columns: Sequence[str], bound: BoundOf, hold: HoldOf) -> Points:
    bounds = [bound(child, on) for child, on in zip(node.inputs, node.on, strict=True)]
    held = hold(node)
    if held is not None:
        bounds = [min(b, h) for b, h in zip(bounds, held, strict=True)]
    place = {name: i for i, name in enumerate(node.time_names)}
    kinds = {t.name: t.kind for t in node.times}

    def time(point: Sequence[int], column: str) -> int:
        if column in place:
            return point[place[column]]
        return max(point) if kinds[column] == "greatest" else min(point)

    points = corners(node.within, bounds, node.how)
    return _least(tuple(time(point, c) for c in columns) for point in points)


def _least(points: Iterable[tuple[int, ...]]) -> Points:
    """The points that are not above another, in order."""
    found = sorted(set(points))
    return tuple(
        p
        for p in found
        if not any(q != p and all(a <= b for a, b in zip(q, p, strict=True)) for q in found)
    )
