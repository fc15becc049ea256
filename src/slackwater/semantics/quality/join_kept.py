"""The slack of a join whose results leave at once: it bounds how long rows are kept, and with that what late rows find.

What a late row misses follows from how late it is behind the slack (`recall.kept_share`). So although results that were
missed are never seen, the recall of the period so far is known as well as delays are: from the rows that came and the slack
that was in force when they did. What it lacks of the target is made good over the next third of a period, as in
`join_measured`. The model alone would not see it: it speaks of the delays to come, and if those come in bursts it has forgotten
the last one when the next is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from slackwater.semantics.quality.delays import Ints
from slackwater.semantics.quality.join_measured import AHEAD
from slackwater.semantics.quality.join_slack import Modelled, RecallTarget, modelled_slack
from slackwater.semantics.quality.recall import StreamDelays, instant_requirement, kept_share
from slackwater.semantics.quality.recall_state import RecallState

__all__ = ["KeptSlack", "lost"]


def lost(counts: Ints, windows: Sequence[int], i: int, granularity: int, slack: int) -> float:
    """How many rows' worth of results rows of stream i missed; ``counts`` is by bin of their delays.

    >>> lost(np.array([6, 2, 1, 1]), (4, 4), 0, 1, 1)
    0.375
    """
    sizes = tuple(max(1, w) for w in windows)
    shift = slack // granularity
    behind = counts[shift:]
    if not len(behind):
        return 0.0
    return float(behind @ (1.0 - kept_share(sizes, i, granularity, len(behind))))


@dataclass
class KeptSlack:
    """Adapts the slack of one join. ``past`` has per interval its number, then rows and lost ones of each stream."""

    target: RecallTarget
    slack: int = 0
    first: int | None = None
    past: list[tuple[int, list[int], list[float]]] = field(default_factory=list)
    needed: float | None = None
    expected: float | None = None
    estimated: float | None = None

    def arrived(self, clock: int, rows: Sequence[int], missed: Sequence[float]) -> None:
        """Rows came while the slack was in force: how many of each stream, and how many of them got lost (see `lost`)."""
        key = clock // self.target.interval
        if self.past and self.past[-1][0] >= key:
            last, have, gone = self.past.pop()
            rows = [a + b for a, b in zip(have, rows, strict=True)]
            missed = [a + b for a, b in zip(gone, missed, strict=True)]
            key = last
        self.past.append((key, list(rows), list(missed)))

    def adapt(self, streams: Sequence[StreamDelays], largest: int, clock: int) -> int:
        """The slack from now on; ``largest`` is the largest delay in the statistics' windows."""
        target = self.target
        if self.first is None:
            self.first = clock
        self.past = [p for p in self.past if p[0] > (clock - target.period) // target.interval]
        ahead = max(target.interval, target.period // AHEAD)
        seen = min(target.period - ahead, max(target.interval, clock - self.first))
        recent = self.recall(clock - (target.period - ahead))
        needed = instant_requirement(target.recall, recent * seen, seen, ahead)
        self.estimated = self.recall(clock - target.period)
        modelled: Modelled = modelled_slack(
            target, streams, largest, clock - self.first, max(target.recall, needed)
        )
        self.slack, self.needed, self.expected = modelled
        return self.slack

    def recall(self, since: int) -> float:
        """About the recall of what came since then; 1 if nothing did."""
        mine = [p for p in self.past if p[0] > since // self.target.interval]
        if not mine:
            return 1.0
        rows = np.array([p[1] for p in mine], np.float64).sum(axis=0)
        gone = np.array([p[2] for p in mine], np.float64).sum(axis=0)
        return float(np.clip(1.0 - (gone / np.maximum(rows, 1.0)).sum(), 0.0, 1.0))

    @property
    def kept(self) -> RecallState:
        """What is durable; the target is the query's."""
        return RecallState(
            self.slack,
            self.first,
            self.needed,
            self.expected,
            self.estimated,
            past=tuple(self.past),
        )

    @classmethod
    def resumed(cls, target: RecallTarget, kept: RecallState) -> KeptSlack:
        """The inverse of `kept`; of a join that went by something else so far, what there is in common."""
        past = list(kept.past or ())
        return cls(target, kept.slack, kept.first, past, kept.needed, kept.expected, kept.estimated)
