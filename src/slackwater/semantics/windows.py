"""What every type of window answers: its class, its extents, what a bound closes, what results promise.

The answers of each type are in `window_types`, the arithmetic of time windows in `window_ids`.
"""

from __future__ import annotations

import numpy as np

from slackwater.model.window import Window
from slackwater.semantics.limits import END, START
from slackwater.semantics.window_types.registry import WINDOWS
from slackwater.semantics.window_types.rules import ContextClass, Ints, TimePlan, WindowPlan

__all__ = [
    "ContextClass", "TimePlan", "WindowPlan", "besides_time", "closing", "context_class", "extents",
    "keeps_rows", "missed", "needs_rows", "plan_of", "reaching", "result_bound", "shifted",
]  # fmt: skip


def context_class(w: Window) -> ContextClass:
    """What must be known, besides a row itself, to tell its windows.

    ``CF``: nothing. ``FCF``: rows that came before it (a counter). ``FCA``: also rows that come after it.

    >>> from slackwater.model.window import SessionWindow, TimeWindow
    >>> context_class(TimeWindow(10, 5, 0, "ts")), context_class(SessionWindow(10, "ts"))
    ('CF', 'FCA')
    """
    return WINDOWS[type(w)].traits.context


def plan_of(w: Window, sliding: TimePlan = "panes") -> WindowPlan:
    """How windows of a type are computed; ``sliding`` is the choice for time windows.

    A context-free type needs no state to place a row, so rows are reduced where they are read. Where
    rows must be counted first, they travel to their counter. Where windows depend on rows to come,
    rows are reduced per tick and put together when the bound has passed.
    """
    return WINDOWS[type(w)].traits.plan or sliding


def keeps_rows(plan: str) -> bool:
    """Whether rows, of all groups or of some, are kept as they came until their windows close."""
    return plan in ("buffered", "adaptive")


def needs_rows(w: Window) -> bool:
    """Whether rows must be counted in order of arrival, so that partial aggregates would not do."""
    return WINDOWS[type(w)].needs_rows(w)


def besides_time(w: Window) -> tuple[str, ...]:
    """Columns of the input that are read to place a row, besides its time: an order of arrival, a verdict of filters."""
    return WINDOWS[type(w)].besides_time(w)


def extents(wids: Ints, w: Window) -> tuple[Ints, Ints]:
    """What the ``window`` column shows of each id: start and end (of the hull, for a custom type).

    The start is inclusive and the end exclusive; for `ByTuple` it is the other way round. Sessions
    have no ids.
    """
    return WINDOWS[type(w)].extents(wids, w)


def result_bound(bound: int, w: Window) -> int:
    """Bound of the results that come later, on their time (``window.end`` − 1 tick).

    What remains open ends after ``bound``; for `ByTuple` it ends at the bound or later. How far row
    windows are is known only where rows are counted, so until the end nothing is promised of them.

    >>> from slackwater.model.window import Landmark, SessionWindow
    >>> result_bound(12, Landmark(5, 0, "ts")), result_bound(12, SessionWindow(3, "ts"))
    (14, 12)
    """
    if bound <= START:
        return START
    if bound >= END:
        return END
    return WINDOWS[type(w)].result_bound(bound, w)


def missed(times: Ints, bound: int, w: Window) -> Ints:
    """How many windows closed by ``bound`` each time would have been in.

    Where that depends on other rows only the row's own window counts: that at its time (`ByTuple`),
    that of a row by itself (sessions). Row windows take any row.
    """
    rules = WINDOWS[type(w)]
    return np.zeros(len(times), np.int64) if bound <= START else rules.missed(times, bound, w)


def closing(hi: int, w: Window) -> int:
    """The bound that closes every window which holds a row of time ``hi``, the newest."""
    return WINDOWS[type(w)].closing(hi, w)


def reaching(needed: int, w: Window) -> int:
    """The least bound whose `result_bound` is at least ``needed``."""
    return WINDOWS[type(w)].reaching(needed, w)


def shifted(w: Window, ticks: int) -> Window:
    """The window for times that are ``ticks`` smaller."""
    return w if ticks == 0 else WINDOWS[type(w)].shifted(w, ticks)
