"""Late rows: which they are, what happens to them, and what a flush must reach."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from slackwater.errors import LateRowError
from slackwater.model.node import Aggregate, Dedup, LateSetting, Node, Source
from slackwater.model.window import Window
from slackwater.semantics.bounds import shift, topological
from slackwater.semantics.operators.answers import Chain, Trace, Traced
from slackwater.semantics.operators.registry import RULES
from slackwater.semantics.window_types.registry import WINDOWS
from slackwater.semantics.windows import closing, reaching

Reason = Literal["late", "null_time", "future"]


def is_late(time: int, bound: int) -> bool:
    """Whether a row of that time breaks the bound in force when its batch began; equal is on time."""
    return time < bound


def reason(
    time: int | None, bound: int, limit: int | None = None, *, side: bool = False
) -> Reason | None:
    """Why a row goes to the late stream, on one progressing column; None if it does not.

    ``limit`` is the greatest plausible time (`progress.guard_limit`); rows beyond it are late rows
    only where the policy says ``future="side"``.
    """
    if time is None:
        return "null_time"
    if side and limit is not None and time > limit:
        return "future"
    return "late" if is_late(time, bound) else None


def enters(why: Reason | None, setting: LateSetting) -> bool:
    """Whether a row goes on to the operators that progress on the column judged.

    A late row does under ``admit`` (they take it into the windows still open). A row without a time
    belongs to no window, and a future row was sent aside: neither does, in any setting. ``raise``
    never answers for a late row: see `late_row_error`.
    """
    if why is None:
        return True
    return why == "late" and setting == "admit"


def late_by(time: int | None, bound: int, limit: int | None, why: Reason) -> int | None:
    """Ticks by which a row misses: below the bound, or above the limit for a future row."""
    if time is None or why == "null_time":
        return None
    if why == "future":
        return None if limit is None else time - limit
    return bound - time


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


def window_chains(outputs: Sequence[Node], source: Source, column: str) -> tuple[Chain, ...]:
    """The windows that rows of ``source`` meet on the way to ``outputs``, by the time ``column``.

    One chain per path: the first window is on the source's own times (the shift of a projection
    moves its origin), each further one on the times of the results before it. Chains that are the
    beginning of another are given too. Paths that leave the column behind give none.
    """
    chains: list[Chain] = []
    for node in topological(outputs):
        if isinstance(node, Aggregate):
            for time in node.times:
                for chain, _ in _paths(node, time.name, source, column):
                    if chain not in chains:
                        chains.append(chain)
    return tuple(chains)


def window_readers(
    outputs: Sequence[Node], source: Source, column: str
) -> tuple[tuple[Aggregate, int], ...]:
    """The aggregates that rows of ``source`` reach by the time ``column``, before any other aggregate or join.

    With each comes the shift of its own time column against the source's. Which of its windows are
    closed to a row is told by the bound of its input: behind a union that is not the source's own.
    """
    found: list[tuple[Aggregate, int]] = []
    for node in topological(outputs):
        if not isinstance(node, Aggregate):
            continue
        for chain, moved in _paths(node.child, node.window.on, source, column, joins=False):
            if not chain and not any(n is node and m == moved for n, m in found):
                found.append((node, moved))
    return tuple(found)


def _paths(
    node: Node, name: str, source: Source, column: str, *, joins: bool = True
) -> list[Traced]:
    """Chains from the source's column to column ``name`` of ``node``, and the shift since the last.

    Without ``joins`` only paths that lead through none.
    """

    def below(node: Node, name: str) -> list[Traced]:
        return RULES[type(node)].trace(node, name, ask)

    ask = Trace(source, column, joins, below)
    return below(node, name)


def flush_bound(hi: int, windows: Sequence[Window | Chain]) -> int:
    """The bound that closes everything a row of time ``hi``, the newest, is in.

    That is the largest end of a window that holds ``hi``, or ``hi + 1`` where none does. A chain
    (see `window_chains`) is closed through to its last window: the results of its first windows
    are rows of the next.

    >>> from slackwater.model.window import TimeWindow
    >>> flush_bound(7, [TimeWindow(10, 5, 0, "ts")]), flush_bound(7, [])
    (15, 8)
    """
    chains = [w if isinstance(w, tuple) else (w,) for w in windows]
    return max([hi + 1, *(_closing(hi, chain) for chain in chains)])


def _closing(hi: int, chain: Chain) -> int:
    if not chain:
        return hi + 1
    w, rest = chain[0], chain[1:]
    end = closing(hi, w)
    if not rest or not WINDOWS[type(w)].holds(hi, w):
        return end
    # The least bound v whose result_bound(v) is at least what the rest of the chain needs.
    return max(end, reaching(_closing(end - 1, rest), w))
