"""The slack of an ordered join from the measured lateness of its results.

What the period so far lacks of the target is made good over the time to come, as in `join_slack`; but over a third of a
period, not over one interval. A small lack, divided by one interval's results, would ask for all of them, and slack would
swing between nothing and the largest delay. What it has in excess is not used up: the next periods would lack it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from slackwater.semantics.quality.controller import JOIN_WEIGHTS, Controller
from slackwater.semantics.quality.join_slack import WARMUP, RecallTarget
from slackwater.semantics.quality.recall import instant_requirement
from slackwater.semantics.quality.recall_lateness import ResultLateness, lateness_edges
from slackwater.semantics.quality.recall_state import RecallState

__all__ = ["MeasuredSlack"]

AHEAD = 3
"""The time in which past lacks are made good is the period divided by this."""


STEADY = (0.1, 0.6)
"""Between which parts of what may be lost the recall stays that is aimed at. A little more than asked for keeps a stretch from falling
short, and what one lacks is not made good by waiting for nearly all results, which takes many times as long.
"""


@dataclass
class MeasuredSlack:
    """Adapts the slack of one join. ``reached``: all results up to there have left, or never will."""

    target: RecallTarget
    lateness: ResultLateness
    slack: int = 0
    reached: int | None = None
    first: int | None = None
    needed: float | None = None
    expected: float | None = None
    estimated: float | None = None
    warmup: int = 0
    controller: Controller = field(default_factory=lambda: Controller(*JOIN_WEIGHTS))

    @classmethod
    def fresh(cls, target: RecallTarget) -> MeasuredSlack:
        """Before the first result."""
        lateness = ResultLateness(target.granularity, target.interval, target.period)
        return cls(target, lateness, warmup=target.period // WARMUP)

    def adapt(self, clock: int, reached: int, largest: int) -> int:
        """The slack from now on.

        ``clock`` is how far the slowest stream has come, ``reached`` how far the join has; ``largest`` is the largest
        delay seen, which is the slack until enough is known.
        """
        if self.first is None:
            self.first = reached
        if self.reached is not None and reached <= self.reached:
            # Nothing has left the join since the last time, so nothing was learnt.
            return self.slack
        self.reached = reached
        target = self.target
        shares = self.lateness.shares(clock)
        ahead = max(target.interval, target.period // AHEAD)
        made, true = self.lateness.past(clock, reached - (target.period - ahead), reached, shares)
        seen = min(target.period - ahead, max(target.interval, reached - self.first))
        needed = instant_requirement(target.recall, made, true, true * ahead / max(1, seen))
        least, most = (target.recall + part * (1 - target.recall) for part in STEADY)
        self.needed = max(least, min(needed, most))
        made, true = self.lateness.past(clock, reached - target.period, reached, shares)
        self.estimated = float(min(1.0, made / true)) if true else None
        edges = lateness_edges(len(shares), target.granularity)
        if target.method == "controller":
            measured = target.recall if self.estimated is None else self.estimated
            self.controller.step(target.recall, measured)
            chosen = self.controller.slack(largest)
        else:
            chosen = int(edges[np.flatnonzero(shares >= self.needed - 1e-12)[0]])
        if reached - self.first < self.warmup:
            chosen = max(chosen, largest)
        if target.limit is not None:
            chosen = min(chosen, target.limit)
        self.expected = float(shares[np.searchsorted(edges, chosen, side="right") - 1])
        self.slack = chosen
        self.lateness.purge(clock)
        return chosen

    @property
    def kept(self) -> RecallState:
        """What is durable; the target is the query's."""
        return RecallState(
            self.slack,
            self.first,
            self.needed,
            self.expected,
            self.estimated,
            self.reached,
            self.lateness.intervals,
            replace(self.controller),
        )

    @classmethod
    def resumed(cls, target: RecallTarget, kept: RecallState) -> MeasuredSlack:
        """The inverse of `kept`. A join that went by something else so far starts anew."""
        made = cls.fresh(target)
        if kept.lateness is None or kept.controller is None:
            return made
        for interval in kept.lateness:
            made.lateness.put(interval.key, np.array(interval.counts, np.int64), interval.made)
        made.controller = replace(kept.controller)
        made.slack, made.first, made.reached = kept.slack, kept.first, kept.reached
        made.needed, made.expected, made.estimated = kept.needed, kept.expected, kept.estimated
        return made
