"""What keeps an operator's state from growing for ever, and queries of which nothing does.

Bounds free what they complete, so the state of most operators is what lies between the bound and the newest rows.
State that no bound can free must not grow with the rows: then the query is refused before it runs.
"""

from __future__ import annotations

from slackwater.errors import AnalysisError
from slackwater.model.node import Aggregate, Dedup, Join, Node, Sort
from slackwater.model.window import (
    ByTuple,
    JointWindow,
    Landmark,
    RowWindow,
    SessionWindow,
    is_all_time,
)

_SMALLER = {
    "count_distinct": "approx_count_distinct",
    "percentile": "percentile_approx",
    "percentile_disc": "percentile_approx",
    "heavy_hitters": "sw.heavyHitters(..., error=0.001)",
    "mode": "sw.heavyHitters(..., error=0.001)",
}


def freed_by(node: Node) -> str:
    """What a stateful operator keeps, and what frees it; for people."""
    if isinstance(node, Sort):
        return f"rows at or above the bound on {node.times[0].name}"
    if isinstance(node, Dedup):
        what = f"the {', '.join(node.subset)} of rows"
        far = "" if node.within is None else f", for {node.within} ticks more"
        return f"{what} at or above the bound on {node.on}{far}"
    if isinstance(node, Join):
        return (
            f"rows that may still find a partner, by the other side's bound on {', '.join(node.on)}"
        )
    assert isinstance(node, Aggregate)
    w, each = node.window, "a partial result per group"
    if any(not p.traits.bounded for p in node.primitives):
        each = "a table of values per group"
    if is_all_time(w):
        return f"{each}, until punctuation on {', '.join(k.name for k in node.keys)} completes it"
    if isinstance(w, Landmark):
        return f"{each}, kept for ever: it grows with the number of groups"
    if isinstance(w, RowWindow):
        per = ", ".join(w.per) or "the stream"
        return f"{each} of the last {w.range} rows of {per}, and a counter that stays"
    if isinstance(w, JointWindow):
        times = " and ".join(one.on for one in w.windows)
        return f"{each} and part of windows on {times}, until no later row can be in both"
    if isinstance(w, ByTuple):
        return f"{each} and tick from {w.range} ticks below the bound on {w.on}"
    if isinstance(w, SessionWindow):
        return f"{each} and session that the bound on {w.on} has not closed"
    return f"{each} and part of windows that the bound on {w.on} has not closed"


def check_bounded(node: Aggregate) -> None:
    """Refuse an aggregate whose state grows with every row, for ever."""
    if not isinstance(node.window, Landmark):
        return
    growing = next((p for p in node.primitives if not p.traits.bounded), None)
    if growing is None:
        return
    smaller = _SMALLER.get(growing.function)
    instead = f"use {smaller}, whose state does not grow, or " if smaller else ""
    # Without what the analysis adds: the time of a collected value, constants.
    given = growing.args[:1] if growing.function == "collect_list" else growing.args
    call = f"{growing.function}({', '.join(a.sql for a in given)})"
    raise AnalysisError(
        "UNBOUNDED_STATE",
        f"{call} over a landmark window keeps all values there ever were: a landmark window never ends, "
        f"so no bound on '{node.window.on}' frees them",
        hint=f'{instead or "use "}a window that ends: sw.window("1 day", "1 hour")',
        call=call,
    )
