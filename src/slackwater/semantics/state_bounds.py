"""What keeps an operator's state from growing for ever, and queries of which nothing does.

Bounds free what they complete, so the state of most operators is what lies between the bound and the newest rows.
State that no bound can free must not grow with the rows: then the query is refused before it runs.
"""

from __future__ import annotations

from slackwater.errors import AnalysisError
from slackwater.model.node import Aggregate, Node
from slackwater.semantics.operators.registry import RULES
from slackwater.semantics.window_types.registry import WINDOWS

_SMALLER = {
    "count_distinct": "approx_count_distinct",
    "percentile": "percentile_approx",
    "percentile_disc": "percentile_approx",
    "heavy_hitters": "sw.heavyHitters(..., error=0.001)",
    "mode": "sw.heavyHitters(..., error=0.001)",
}


def freed_by(node: Node) -> str:
    """What a stateful operator keeps, and what frees it; for people."""
    return RULES[type(node)].keeps(node)


def check_bounded(node: Aggregate) -> None:
    """Refuse an aggregate whose state grows with every row, for ever."""
    if WINDOWS[type(node.window)].traits.ends:
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
