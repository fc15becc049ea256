"""When rows that wait for segments of a relation are served: which segments a batch begins to read.

A row waits for the first of its segments that is not at hand; the rows that wait for one are its backlog. Backlogs share the room of a
group. Each read serves all that wait for a segment, so that a later read serves more, and the deadline says how late it may be.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Set
from dataclasses import dataclass
from typing import Literal

SHARE = 10
"""Rows that wait may take one part in so many of the memory of their relation, over all groups."""

FREED = 0.4
"""When the room is full, more than this share of it is made free."""

BACKLOG = 3000
"""So many rows that wait for a segment are worth a read of it, when there is nothing else to do."""

AWAITED = 1000
"""So many segments that rows wait for are known by name from batch to batch, over all groups."""

Reason = Literal["end", "deadline", "backlog", "full"]
"""Why a segment is read: all waiting rows must leave, one has waited long enough, many wait, or the room is full."""


@dataclass(frozen=True)
class Backlog:
    """The rows that wait for a segment, the bytes they take, and the clock's reading when the oldest of them came."""

    rows: int
    size: int
    oldest: int


@dataclass(frozen=True)
class WaitPolicy:
    """How rows of a group wait: no longer than ``deadline`` on the clock, in ``room`` bytes.

    A segment is read when ``backlog`` rows wait for it, in a batch that has nothing else to do, or if ``always`` in any.
    """

    deadline: int
    room: int
    backlog: int = BACKLOG
    always: bool = False

    def is_over(self, oldest: int, now: int) -> bool:
        """Whether a row that came at ``oldest`` has waited long enough."""
        return now - oldest >= self.deadline


def to_read(
    backlogs: Mapping[str, Backlog],
    policy: WaitPolicy,
    *,
    now: int,
    idle: bool = False,
    ended: bool = False,
) -> dict[str, Reason]:
    """The segments to read, by name, each with the reason.

    When the room is full the largest backlogs come first, until more than the share `FREED` of it is free.

    >>> waiting = {"a": Backlog(10, 600, 5), "b": Backlog(1, 60, 0), "c": Backlog(8, 480, 3)}
    >>> to_read(waiting, WaitPolicy(deadline=9, room=2000), now=8)
    {}
    >>> to_read(waiting, WaitPolicy(deadline=9, room=2000), now=9)
    {'b': 'deadline'}
    >>> to_read(waiting, WaitPolicy(deadline=9, room=1000), now=8)
    {'a': 'full'}
    >>> to_read(waiting, WaitPolicy(deadline=9, room=2000, backlog=8), now=8, idle=True)
    {'a': 'backlog', 'c': 'backlog'}
    """
    if ended:
        return dict.fromkeys(backlogs, "end")
    chosen: dict[str, Reason] = {
        name: "deadline" for name, b in backlogs.items() if policy.is_over(b.oldest, now)
    }
    if idle or policy.always:
        for name, waiting in backlogs.items():
            if waiting.rows >= policy.backlog:
                chosen.setdefault(name, "backlog")
    rest = {name: b for name, b in backlogs.items() if name not in chosen}
    used = sum(b.size for b in rest.values())
    if used > policy.room:
        for name in sorted(rest, key=lambda n: (-rest[n].size, n)):
            if policy.room - used > FREED * policy.room:
                break
            chosen[name] = "full"
            used -= rest[name].size
    return chosen


def is_due(rows: int, most: int, oldest: int, policy: WaitPolicy, now: int) -> bool:
    """Whether a batch without input would read something: ``rows`` wait since ``oldest``, ``most`` of them for one segment.

    >>> is_due(1, 1, 100, WaitPolicy(deadline=50, room=10), now=149)
    False
    >>> is_due(1, 1, 100, WaitPolicy(deadline=50, room=10), now=150)
    True
    """
    return rows > 0 and (most >= policy.backlog or policy.is_over(oldest, now))


def known_awaited(names: Iterable[str], groups: int) -> list[str] | None:
    """The segments that rows of one of some ``groups`` wait for, in order; None if they are more than it may name.

    >>> known_awaited({"b", "a"}, groups=2)
    ['a', 'b']
    >>> known_awaited({"b", "a"}, groups=AWAITED)
    """
    found = sorted(set(names))
    return found if len(found) <= max(1, AWAITED // groups) else None


def comes_to_hand(awaited: Collection[str] | None, fresh: Set[str]) -> bool:
    """Whether rows may have all they need at hand: segments are ``fresh`` that were not at hand when it was said which are ``awaited``.

    A row is known by the first segment that it lacks. If that has come, a batch finds out whether it lacks another one, and says
    so; it reads nothing, so that no segment is fresh after it. If it is not known what is awaited, it may be any segment.

    >>> comes_to_hand(["a", "b"], {"b", "c"}), comes_to_hand(["a"], {"b"}), comes_to_hand(None, {"b"}), comes_to_hand(None, set())
    (True, False, True, False)
    """
    return bool(fresh) if awaited is None else not fresh.isdisjoint(awaited)
