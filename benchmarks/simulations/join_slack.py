"""The slack of a join that follows a profile of results by delay, reconsidered at each interval.

Queries use `semantics.quality.join_measured` and `join_kept` instead. This is the older way, which
`make bench-quality` compares them with.

An interval in which no row came in order tells nothing: when slack grows the join falls silent for as long as it
grew by, and to learn from that silence would make it shrink again. So nothing changes then, and the interval goes on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks.simulations.join_profile import Maps
from slackwater.semantics.quality.controller import JOIN_WEIGHTS, Controller
from slackwater.semantics.quality.delays import Floats, Ints
from slackwater.semantics.quality.join_slack import RecallTarget
from slackwater.semantics.quality.model import candidates, smallest
from slackwater.semantics.quality.recall import (
    StreamDelays,
    immediate_recall,
    instant_requirement,
    ordered_recall,
)

__all__ = ["JoinSlack", "common_slack", "selectivity_ratio"]


def common_slack(clocks: Sequence[int], slacks: Sequence[int]) -> int:
    """The one slack for all inputs that does what these do, as long as their current times are ``clocks``.

    >>> common_slack([100, 90], [10, 5])
    5
    """
    return min(clocks) - min(c - k for c, k in zip(clocks, slacks, strict=True))


def selectivity_ratio(cross: Ints, joined: Ints, limits: Ints) -> Floats:
    """How selective the join is for rows of a delay up to a bin, against all rows; for each bin in ``limits``.

    ``cross`` and ``joined`` are combinations and results by the bin of the delay of the row that brought them.

    >>> cross, joined = np.array([100, 40, 20, 40]), np.array([10, 8, 2, 12])
    >>> selectivity_ratio(cross, joined, np.arange(4)).round(5).tolist()
    [0.625, 0.80357, 0.78125, 1.0]
    """
    if not cross.sum() or not joined.sum():
        return np.ones(len(limits))
    looked = np.cumsum(cross)[np.minimum(limits, len(cross) - 1)].astype(np.float64)
    found = np.cumsum(joined)[np.minimum(limits, len(joined) - 1)].astype(np.float64)
    ratio = np.divide(found, looked, out=np.ones(len(limits)), where=looked > 0)
    return np.where(looked > 0, ratio * (float(cross.sum()) / float(joined.sum())), 1.0)


@dataclass
class JoinSlack:
    """Adapts the slack of one join. ``sizes`` has produced and true results of past intervals, oldest first."""

    target: RecallTarget
    slack: int = 0
    sizes: list[tuple[int, int]] = field(default_factory=list)
    controller: Controller = field(default_factory=lambda: Controller(*JOIN_WEIGHTS))
    needed: float = 0.0
    expected: float | None = None

    def adapt(
        self, streams: Sequence[StreamDelays], largest: int, maps: Maps, produced: int
    ) -> int:
        """An interval ends: the slack for the next one.

        ``largest`` is the largest delay, in the statistics' windows for the model, ever for the controller; ``produced``
        counts the results that came out in the interval.
        """
        if not maps.rows:
            return self.slack
        self.sizes = [*self.sizes, (produced, maps.results)][-self.target.intervals :]
        if self.target.method == "controller":
            self.slack = self._controlled(largest)
        else:
            self.slack = self._modelled(streams, largest, maps)
        return self.slack

    def _controlled(self, largest: int) -> int:
        made, true = self._past(self.target.intervals)
        self.controller.step(self.target.recall, min(1.0, made / true) if true else 1.0)
        return self.controller.slack(largest)

    def _modelled(self, streams: Sequence[StreamDelays], largest: int, maps: Maps) -> int:
        made, true = self._past(self.target.intervals - 1)
        self.needed = instant_requirement(self.target.recall, made, true, maps.results)
        slacks = candidates(largest, self.target.granularity, self.target.limit)
        curve = self.curve(streams, slacks, maps)
        slack = smallest(curve, slacks, self.needed)
        self.expected = float(curve[np.searchsorted(slacks, slack)])
        return slack

    def curve(self, streams: Sequence[StreamDelays], slacks: Ints, maps: Maps) -> Floats:
        """The recall that the model expects for each slack."""
        if self.target.emit == "immediate":
            found = immediate_recall(streams, slacks)
        else:
            found = ordered_recall(streams, slacks, self.target.piece)
        if self.target.method == "model":
            limits = slacks // self.target.granularity
            found = found * selectivity_ratio(maps.cross, maps.joined, limits)
        return np.asarray(np.clip(found, 0.0, 1.0))

    def _past(self, intervals: int) -> tuple[int, int]:
        """Produced and true results of the last intervals."""
        chosen = self.sizes[-intervals:] if intervals else []
        return sum(s[0] for s in chosen), sum(s[1] for s in chosen)

    @property
    def estimated(self) -> float | None:
        """The recall of the period so far, by the profile's estimate of what there was to find."""
        made, true = self._past(self.target.intervals)
        return min(1.0, made / true) if true else None

    def to_json(self) -> dict[str, Any]:
        """Plain lists and numbers; the target is the query's."""
        return {
            "slack": self.slack,
            "sizes": [list(s) for s in self.sizes],
            "controller": self.controller.to_json(),
            "needed": self.needed,
            "expected": self.expected,
        }

    @classmethod
    def from_json(cls, target: RecallTarget, json: Mapping[str, Any]) -> JoinSlack:
        """The inverse of `to_json`."""
        return cls(
            target,
            json["slack"],
            [(int(a), int(b)) for a, b in json["sizes"]],
            Controller.from_json(json["controller"]),
            json["needed"],
            json["expected"],
        )
