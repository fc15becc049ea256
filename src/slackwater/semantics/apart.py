"""Which partition alone is to blame for most of how far a bound is behind.

The partition that holds a bound back is the least one, but it is to blame only if the others agree with each other. Where one
clock is ahead, all others are behind it, and the bound is behind its newest time through no fault of theirs.
"""

from __future__ import annotations

from dataclasses import dataclass

from slackwater.semantics.progress import ColumnState
from slackwater.semantics.summary import greatest


@dataclass(frozen=True, slots=True)
class Apart:
    """A partition, and how far it is ``ahead`` of all others, in ticks; below zero: how far its bound is behind theirs."""

    partition: str
    ahead: int


def apart(column: ColumnState) -> Apart | None:
    """The partition without which a bound would be at most half as far behind, if no other one is like that.

    Without a partition, the newest time is that of the others, and the bound is the least of the others that are waited for, but
    never below the one in force; it stays where it is while a partition is awaited that nobody has seen. Where no other is waited
    for, nobody can tell. A partition that lags too far stays left out, and is never named.
    Of two partitions nobody can tell which is wrong: the one that is named is ahead, since the other one holds the bound
    back and is named for that.
    """
    heard = {n: p for n, p in column.partitions.items() if p.hi is not None and not p.excluded}
    waited = {n for n, p in heard.items() if not p.idle}
    if len(heard) < 2 or not column.behind or column.behind < 0:
        return None
    # None but these two makes a difference: the newest time is of one, or the bound.
    first = max(heard, key=lambda n: heard[n].hi or 0)
    last = min(waited, key=lambda n: heard[n].bound, default=first)
    blamed = [one for name in dict.fromkeys([first, last]) if (one := _apart(column, name))]
    if len(blamed) == 1 or {one.partition for one in blamed} == waited:
        return next(iter(blamed), None)
    return None


def _apart(column: ColumnState, name: str) -> Apart | None:
    """A partition, if `ColumnState.behind` would be at most half without it."""
    others = [p for n, p in column.partitions.items() if n != name]
    newest, hi = greatest(p.hi for p in others), column.hi
    own = [p.bound for p in others if not (p.idle or p.excluded)]
    assert newest is not None and hi is not None
    if not own:
        return None
    bound = column.bound if column.awaits_unseen else max(column.bound, min(own))
    if 2 * (newest - bound) > hi - column.bound:
        return None
    ahead, below = hi - newest, bound - column.bound
    return Apart(name, ahead if ahead >= below else -below)
