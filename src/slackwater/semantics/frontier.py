"""Progress on several times at once: points that no later row lies below.

A stream's *frontier* over some of its times is a set of points such that every later row is, in all of these times,
at or above one of them. Individual bounds are the frontier of one point; a join knows more, since each of its later
results has a row that is yet to come (`semantics.join.corners`). So a group on the windows of two times closes when
no point is below both ends, which is earlier than either time's own bound allows.
"""

from __future__ import annotations

from collections.abc import Sequence

from slackwater.model.node import Node
from slackwater.semantics.operators.answers import BoundOf, HoldOf, Known, Points
from slackwater.semantics.operators.registry import RULES

__all__ = ["Points", "frontier"]


def frontier(node: Node, columns: Sequence[str], bound: BoundOf, hold: HoldOf) -> Points:
    """The frontier of a stream over its times ``columns``, in their order.

    ``bound`` gives the bound of a node's time, ``hold`` what a join may promise of its inputs while rows of
    these wait to be joined, or None.
    """

    def of(node: Node, columns: Sequence[str]) -> Points:
        return RULES[type(node)].frontier(node, columns, known)

    known = Known(of, bound, hold)
    return of(node, columns)
