"""A table of fixed size at the low level: when its entries leave, and what may be promised while they stay.

An entry is a partial aggregate of a group and a pane; here "pane" is whatever the plan counts in (a window, in plan
"wids"). Entries of finished panes are *old*. They may stay for a while, so that the end of a window costs nothing:
a newcomer that needs their slot sends them on (lazy flush), or one goes every ``every`` arrivals (slow flush), and none
stays longer than ``windows`` windows. While entries stay, the bound of the low level is held back with them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from slackwater.semantics.limits import END, START


@dataclass(frozen=True)
class LowTable:
    """``slots``: entries that the table of a task holds; ``every``: arrivals per old entry that is sent on, 0: none is
    (lazy flush); ``windows``: how many windows an entry may stay after its own ended; ``probe``: a newcomer whose
    slot is taken tries the neighbouring slot first.
    """

    slots: int
    every: int = 0
    windows: int = 2
    probe: bool = False

    @property
    def size(self) -> int:
        """Slots, an even number where they are neighbours by twos."""
        return self.slots + self.slots % 2 if self.probe else self.slots


def first_open(bound: int, origin: int, size: int) -> int:
    """The first pane of ``size`` ticks that is not finished: panes below it are old.

    >>> first_open(29, 0, 10), first_open(30, 0, 10)
    (2, 3)
    """
    if bound <= START or bound >= END:
        return bound
    return (bound - origin) // size


def due(open_pane: int, per_slide: int, windows: int) -> int:
    """Panes below this may stay no longer, when ``open_pane`` is the first that is not finished.

    >>> due(30, 3, 2)
    24
    """
    if open_pane <= START or open_pane >= END:
        return open_pane
    return max(START, open_pane - windows * per_slide)


def held_pane(open_pane: int, present: Iterable[int]) -> int:
    """All panes below this are finished and have left: what the low level may promise. ``present`` are the panes of the
    entries that stay.
    """
    return min([open_pane, *present])


def bound_of_pane(pane: int, bound: int, origin: int, size: int) -> int:
    """The bound that says that panes below ``pane`` are finished, and no more than ``bound``.

    >>> bound_of_pane(2, 47, 0, 10), bound_of_pane(4, 47, 0, 10)
    (20, 47)
    """
    if pane >= first_open(bound, origin, size):
        return bound
    return START if pane <= START else max(START, origin + pane * size)


def old_to_send(carry: int, arrivals: int, every: int) -> tuple[int, int]:
    """How many old entries ``arrivals`` send on, and the arrivals that count for the next one.

    >>> old_to_send(3, 10, 4), old_to_send(3, 10, 0)
    ((3, 1), (0, 0))
    """
    return divmod(carry + arrivals, every) if every else (0, 0)
