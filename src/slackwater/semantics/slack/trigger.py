"""When buffers are changed: after how many reports, for how large a difference, and at what price."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from slackwater.model.codec import positional

SHARE = 0.5
"""The part of a stream's queries that must have reported since the last change."""

BAND = 0.1
"""The part by which a slack must have become smaller before that counts.

A slack that grows is wanted for the promise's sake and counts at once. One that shrinks a little is not worth a change, and
might grow again.
"""


def followed(current: int, wanted: int) -> int:
    """The slack to use, of the one in use and the one that is wanted.

    >>> followed(100, 101), followed(100, 91), followed(100, 90)
    (101, 100, 90)
    """
    return wanted if wanted > current or wanted <= current * (1 - BAND) else current


@dataclass(frozen=True)
class Reports:
    """What the queries over one stream want, since its buffers were last changed.

    ``current`` is the slack in use by query, ``wanted`` the newest report of those that reported.
    """

    current: Mapping[str, int]
    wanted: Mapping[str, int] = field(default_factory=dict)

    def heard(self, query: str, slack: int) -> Reports:
        """After a report; one of a query that is not over this stream changes nothing."""
        if query not in self.current:
            return self
        return replace(self, wanted={**self.wanted, query: slack})

    def followed(self) -> dict[str, int]:
        """The slack of every query, were the buffers changed now."""
        return {
            q: followed(k, self.wanted[q]) if q in self.wanted else k
            for q, k in self.current.items()
        }

    def enough(self) -> bool:
        """Whether enough queries have reported."""
        return bool(self.wanted) and len(self.wanted) >= SHARE * len(self.current)

    def done(self, slack: Mapping[str, int]) -> Reports:
        """After a change to ``slack``; reports start anew."""
        return Reports(dict(slack))

    def members(self, queries: Collection[str], slack: Mapping[str, int]) -> Reports:
        """With these queries instead; one that is new starts with its ``slack``."""
        return Reports(
            {q: self.current.get(q, slack.get(q, 0)) for q in queries},
            {q: k for q, k in self.wanted.items() if q in queries},
        )


@positional
@dataclass(frozen=True)
class Penalty:
    """What a change delays results by, in ticks, as a line over the rows it moves; learnt from changes made.

    The sums are those of a least-squares fit. Before two different sizes were seen, the mean ratio is used.
    """

    n: int = 0
    x: float = 0.0
    y: float = 0.0
    xx: float = 0.0
    xy: float = 0.0

    def seen(self, rows: int, ticks: float) -> Penalty:
        """After a change that moved ``rows`` and took ``ticks``."""
        return Penalty(
            self.n + 1,
            self.x + rows,
            self.y + ticks,
            self.xx + rows * rows,
            self.xy + rows * ticks,
        )

    def of(self, rows: int) -> float:
        """The delay to expect; 0 before anything was seen.

        >>> p = Penalty().seen(100, 20).seen(200, 30)
        >>> p.of(400), Penalty().of(400)
        (50.0, 0.0)
        """
        spread = self.n * self.xx - self.x * self.x
        if spread <= 0:
            return max(0.0, self.y / self.x * rows if self.x else 0.0)
        slope = (self.n * self.xy - self.x * self.y) / spread
        return max(0.0, (self.y - slope * self.x) / self.n + slope * rows)


def worthwhile(
    penalty: Penalty, moved: int, current: Mapping[str, int], wanted: Mapping[str, int]
) -> bool:
    """Whether to make a change that moves that many rows.

    Yes if a slack grows (a promise depends on it) or none changes (only memory is to be gained, and the caller
    has compared that). A change that only shortens waits must shorten one by more than it costs.
    """
    gains = [k - wanted[q] for q, k in current.items() if q in wanted]
    if not gains or min(gains) < 0 or max(gains) == 0:
        return True
    return penalty.of(moved) < max(gains)
