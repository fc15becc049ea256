"""Late rows: which they are, and what happens to them.

Whether a row is late is defined here, in three forms. `judge` is the definition, for one row on one of
its time columns. `judge_column` is the same for an array of times, and `verdict_sql` for a column of a
query, in the SQL that DuckDB and Spark share. The tests hold both against `judge`. The engine and the
kernels decide by these functions alone whether a row is late.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from slackwater.errors import LateRowError
from slackwater.model.node import Dedup, LateSetting
from slackwater.semantics.limits import EARLIEST, END, LATEST, START, shift

Ticks = NDArray[np.int64]
Mask = NDArray[np.bool_]

Reason = Literal["late", "null_time", "future"]

REASONS: tuple[Reason | None, ...] = (None, "late", "null_time", "future")
"""The reasons by their numbers in `Verdicts.reasons`; 0 is no reason."""


# ---- the three comparisons ----
@overload
def is_late(time: int, bound: int) -> bool: ...
@overload
def is_late(time: Ticks, bound: int | Ticks) -> Mask: ...
def is_late(time: int | Ticks, bound: int | Ticks) -> bool | Mask:
    """Whether a row of that time breaks the bound in force when its batch began; equal is on time."""
    return time < bound


@overload
def is_beyond(time: int, limit: int | None) -> bool: ...
@overload
def is_beyond(time: Ticks, limit: int | None) -> Mask: ...
def is_beyond(time: int | Ticks, limit: int | None) -> bool | Mask:
    """Whether a time is implausibly far ahead; ``limit`` is the greatest plausible one, None if any is."""
    if limit is not None:
        return time > limit
    return False if isinstance(time, int) else np.zeros(len(time), np.bool_)


def has_time(time: int | None) -> bool:
    """Whether a row has a time at all: one so near the ends of int64 that it has no windows counts as none."""
    return time is not None and EARLIEST <= time <= LATEST


# ---- one row ----
class Verdict(NamedTuple):
    """What is found of one row on one time column.

    ``null``: it has no time. ``future``: its time is implausibly far ahead, and advances no bound.
    ``aside``: it is future, and the policy sends such rows aside (``future="side"``). ``late``: it breaks
    a bound or a pattern in force; a row that was sent aside is not held against these. ``broken`` is the
    greatest bound on this time that a late row breaks; None if it breaks none, but a pattern that sets
    no bound on the time.
    """

    null: bool
    future: bool
    aside: bool
    late: bool
    broken: int | None


def judge(
    time: int | None,
    bound: int,
    limit: int | None = None,
    *,
    side: bool = False,
    patterns: Iterable[int | None] = (),
) -> Verdict:
    """The verdict on one row, on one progressing column: the definition of lateness.

    Parameters
    ----------
    bound
        The bound in force, `START` if there is none yet.
    limit
        The greatest plausible time (`progress.guard_limit`); None if any time is.
    side
        Whether the policy sends rows beyond the limit aside.
    patterns
        The patterns in force that the row matches, each as the end v of its test "time below v"; None
        for a pattern without such a test.

    >>> judge(4, 5), judge(5, 5).late
    (Verdict(null=False, future=False, aside=False, late=True, broken=5), False)
    """
    if time is None or not has_time(time):
        return Verdict(null=True, future=False, aside=False, late=False, broken=None)
    future = is_beyond(time, limit)
    if future and side:
        return Verdict(null=False, future=True, aside=True, late=False, broken=None)
    matched = list(patterns)
    broken = [v for v in matched if v is not None] + [bound] * is_late(time, bound)
    late = bool(broken or matched)
    return Verdict(False, future, False, late, max(broken, default=None))


def reason(verdict: Verdict) -> Reason | None:
    """Why a row goes to the late stream; None if it does not."""
    if verdict.null:
        return "null_time"
    if verdict.aside:
        return "future"
    return "late" if verdict.late else None


def enters(verdict: Verdict, setting: LateSetting) -> bool:
    """Whether a row goes on to the operators that progress on the column judged.

    A late row does under ``admit`` (they take it into the windows still open). A row without a time
    belongs to no window, and a future row was sent aside: neither does, in any setting. ``raise``
    never answers for a late row: see `late_row_error`.
    """
    why = reason(verdict)
    return why is None or (why == "late" and setting == "admit")


def judged_by(verdict: Verdict, limit: int | None) -> int | None:
    """The bound that a late row shows: the limit for a row sent aside, else the bound that it breaks."""
    return limit if verdict.aside else verdict.broken


def late_by(time: int | None, verdict: Verdict, limit: int | None) -> int | None:
    """Ticks by which a row misses what it was judged by: below the bound, or above the limit."""
    end = judged_by(verdict, limit)
    if time is None or end is None:
        return None
    return time - end if verdict.aside else end - time


# ---- an array of rows ----
@dataclass(frozen=True)
class Verdicts:
    """`Verdict` for an array of times, element by element; ``broken`` is `START` where that has None."""

    ticks: Ticks
    null: Mask
    future: Mask
    aside: Mask
    late: Mask
    broken: Ticks

    def take(self, places: NDArray[np.intp]) -> Verdicts:
        """The verdicts on the rows at these places."""
        return Verdicts(
            self.ticks[places],
            self.null[places],
            self.future[places],
            self.aside[places],
            self.late[places],
            self.broken[places],
        )

    @property
    def plausible(self) -> Mask:
        """Which rows have a time that may advance a bound."""
        return ~(self.null | self.future)

    @property
    def reasons(self) -> NDArray[np.int8]:
        """`reason` of each row, as a place in `REASONS`."""
        number = REASONS.index
        reasons = np.zeros(len(self.ticks), np.int8)
        reasons[self.late] = number("late")
        reasons[self.null] = number("null_time")
        reasons[self.aside] = number("future")
        return reasons

    def entering(self, setting: LateSetting) -> Mask:
        """`enters` of each row."""
        out = self.null | self.aside
        return ~out if setting == "admit" else ~(out | self.late)

    def judged_by(self, limit: int | None) -> Ticks:
        """`judged_by` of each row, `START` where that is None."""
        return self.broken if limit is None else np.where(self.aside, limit, self.broken)

    def late_by(self, limit: int | None) -> Ticks:
        """`late_by` of each row; of no meaning where `judged_by` is `START`."""
        above = self.ticks - self.judged_by(limit)
        return np.where(self.aside, above, -above)


def usable_times(ticks: Ticks, null: Mask) -> tuple[Ticks, Mask]:
    """Times and the mask of those missing, with `has_time` asked of each; a time that is none becomes 0."""
    if len(ticks) and (ticks.min() < EARLIEST or ticks.max() > LATEST):
        absurd = (ticks < EARLIEST) | (ticks > LATEST)
        ticks, null = np.where(absurd, 0, ticks), null | absurd
    return ticks, null


def judge_column(
    ticks: Ticks,
    null: Mask,
    bound: int | Ticks,
    limit: int | None = None,
    *,
    side: bool = False,
    patterns: tuple[Mask, Ticks] | None = None,
) -> Verdicts:
    """`judge` for an array of times.

    Parameters
    ----------
    ticks, null
        As `usable_times` gives them.
    bound
        One bound for all rows, or one for each.
    patterns
        Which rows match a pattern in force, and the greatest end v of a test "time below v" among the
        patterns that a row matches: `START` if none of these has one.
    """
    there = ~null
    future = is_beyond(ticks, limit) & there
    aside = future if side else np.zeros(len(ticks), np.bool_)
    judged = there & ~future if side else there
    late = is_late(ticks, bound) & judged
    broken = np.where(late, bound, START)
    if patterns is not None:
        matched = patterns[0] & judged
        broken = np.maximum(broken, np.where(matched, patterns[1], START))
        late = late | matched
    return Verdicts(ticks, null, future, aside, late, broken)


# ---- a column of a query ----
LATE, FUTURE = 1, 2
"""The two parts of a verdict in SQL: it is their sum, 0 for a row that is neither, and null for a row without a time."""


def usable_sql(ticks: str) -> str:
    """Ticks of a time column, null where there is none by `has_time`."""
    return f"CASE WHEN {ticks} BETWEEN {EARLIEST} AND {LATEST} THEN {ticks} END"


def late_sql(ticks: str, bound: str) -> str:
    """`is_late`, null for a row without a time."""
    return f"({ticks} < {bound})"


def beyond_sql(ticks: str, limit: str) -> str:
    """`is_beyond`, null for a row without a time; ``limit`` is a number, too: `limit_or_end`."""
    return f"{ticks} > {limit}"


def verdict_sql(ticks: str, bound: str, limit: str) -> str:
    """`judge` where no row is sent aside and there are no patterns, as one number: see `LATE`.

    ``ticks`` are those of `usable_sql`. ``limit`` is a number, too: `limit_or_end`.
    """
    late, beyond = late_sql(ticks, bound), beyond_sql(ticks, limit)
    return (
        f"CASE WHEN {late} THEN CASE WHEN {beyond} THEN {LATE + FUTURE} ELSE {LATE} END "
        f"WHEN {beyond} THEN {FUTURE} WHEN {ticks} IS NOT NULL THEN 0 END"
    )


def limit_or_end(limit: int | None) -> int:
    """A limit where a number is needed: no usable time is beyond `END`."""
    return END if limit is None else limit


def enters_sql(verdict: str, setting: LateSetting) -> str:
    """`enters`, of a verdict of `verdict_sql`."""
    if setting == "admit":
        return f"({verdict} IS NOT NULL)"
    return f"coalesce({verdict} IN (0, {FUTURE}), FALSE)"


def entering_verdicts(setting: LateSetting) -> tuple[int, ...]:
    """`enters`, as the verdicts of `verdict_sql` that rows have which do.

    >>> entering_verdicts("admit"), entering_verdicts("drop")
    ((0, 1, 2, 3), (0, 2))
    """
    return (0, LATE, FUTURE, LATE + FUTURE) if setting == "admit" else (0, FUTURE)


# ---- what happens to late rows ----
def late_row_error(stream: str, column: str, row: object, bound: object) -> LateRowError:
    """The error of ``late="raise"``, which shows the row."""
    return LateRowError(
        "LATE_ROW",
        f"stream '{stream}': a row came late on '{column}', whose bound is {bound}: {row}",
        hint='restart with late="admit" or late="drop", or with a progress policy that waits longer',
        stream=stream,
        column=column,
        row=row,
        bound=bound,
    )


def dedup_frontier(bound: int, node: Dedup) -> int:
    """Times below this are no longer told apart: such a row is dropped and counted late.

    What was seen must be remembered down to `dedup_memory`.
    """
    if node.on in node.subset or node.within is None:
        return bound
    return shift(bound, -node.within)


def dedup_memory(bound: int, node: Dedup) -> int:
    """Seen rows below this time can be forgotten: no row that may still come equals them.

    A row at the frontier can repeat one that is ``within`` older than itself, so with ``within`` the
    memory reaches back twice that far.
    """
    frontier = dedup_frontier(bound, node)
    if node.on in node.subset or node.within is None:
        return frontier
    return shift(frontier, -node.within)
