"""What an aggregate costs with panes and without, per window of results.

Cutting a window into panes reduces each row once instead of once per window it is in, and then
merges panes; it loses when panes hide little, that is, with many groups per pane or few panes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from slackwater.model.window import TimeWindow
from slackwater.semantics.panes import Panes
from slackwater.semantics.windows import TimePlan


@dataclass(frozen=True)
class Constants:
    """Costs in one unit of choice (say ns); the defaults are ratios, good enough to choose by.

    ``row``: reduce a row into a pane. ``pane_out``: hand a pane's group on. ``pane_in``: merge a
    pane's group into a window. ``row_window``: reduce a row into one window. ``differential``: a
    window is made from the one before it, by adding what enters and taking away what leaves.
    """

    row: float = 1.0
    pane_out: float = 0.5
    pane_in: float = 0.5
    row_window: float = 1.0
    differential: bool = False


@dataclass(frozen=True)
class PlanChoice:
    """The cheaper plan, what both would cost per window, and why."""

    plan: TimePlan
    panes: float
    wids: float
    why: str


@dataclass(frozen=True)
class Measured:
    """What earlier batches showed: ``rows`` that came, and the ``partials`` they were reduced to.

    A partial is a group in a pane, or under the plan "wids" a group in a window.
    """

    rows: int
    partials: int
    plan: str = "panes"

    def per_window(self, w: TimeWindow) -> tuple[float, float]:
        """Rows in a window and groups in a pane, per group of a pane.

        Only their ratio matters to the choice. From counts of windows the groups of a pane are not known,
        only that there are no more of them than groups in the window, or rows in the pane.
        """
        many = Panes.of(w).per_window
        if self.plan == "panes":
            return self.rows / self.partials * many, 1.0
        rows = self.rows * w.range / w.slide / self.partials
        return rows, min(1.0, rows / many)


def panes_cost(w: TimeWindow, rows: float, groups: float, k: Constants) -> float:
    """Cost of one window with panes; ``rows`` are in a window, ``groups`` in a pane.

    Only the rows and panes of one slide are new per window.
    """
    p = Panes.of(w)
    new = k.row * rows * w.slide / w.range + k.pane_out * groups * p.per_slide
    if k.differential:
        return new + 2 * k.pane_in * groups * p.per_slide
    return new + k.pane_in * p.per_window * groups


def wids_cost(w: TimeWindow, rows: float, k: Constants) -> float:
    """Cost of one window when each row updates every window it is in."""
    if k.differential:
        return 2 * k.row_window * w.slide * rows / w.range
    return k.row_window * rows


def choose_plan(
    window: TimeWindow,
    rows_per_window: float | None = None,
    groups: float | None = None,
    constants: Constants | None = None,
    *,
    measured: Measured | None = None,
) -> PlanChoice:
    """The cheaper of panes and window ids; ``groups`` are per pane. ``measured`` stands for both.

    Without statistics the plan that cannot go wrong by much is taken: panes, wherever a window has
    several (at worst each row is a pane's group of its own; window ids copy it into every window).

    >>> choose_plan(TimeWindow(60, 1, 0, "ts"), 1_000_000, 100).plan
    'panes'
    >>> choose_plan(TimeWindow(60, 30, 0, "ts"), 1_000, 1_000).plan
    'wids'
    """
    k = constants or Constants()
    if measured is not None:
        rows_per_window, groups = measured.per_window(window)
    known = rows_per_window is not None and groups is not None
    rows = 1.0 if rows_per_window is None else rows_per_window
    panes = panes_cost(window, rows, 1.0 if groups is None else groups, k)
    wids = wids_cost(window, rows, k)
    if window.is_tumbling:
        return PlanChoice("panes", panes, wids, "a tumbling window is its own pane")
    if Panes.of(window).per_window == 1:
        return PlanChoice("wids", panes, wids, "one pane per window saves nothing")
    if not known:
        return PlanChoice("panes", panes, wids, "nothing is known of the rows yet")
    plan: Literal["panes", "wids"] = "panes" if panes <= wids else "wids"
    return PlanChoice(plan, panes, wids, f"panes cost {panes:.4g} a window, window ids {wids:.4g}")
