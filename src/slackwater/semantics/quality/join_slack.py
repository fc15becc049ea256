"""The slack of a join with a target for recall: one for all inputs, reconsidered at each interval.

Inputs with slacks of their own would do no better: the streams are synchronised after it, and wait for the one that is the
furthest behind (`common_slack`).

An interval in which no row came in order tells nothing: when slack grows the join falls silent for as long as it
grew by, and to learn from that silence would make it shrink again. So nothing changes then, and the interval goes on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from slackwater.semantics.quality.controller import JOIN_WEIGHTS, Controller
from slackwater.semantics.quality.delays import MAX_BINS, Floats, Ints
from slackwater.semantics.quality.join_profile import Maps
from slackwater.semantics.quality.model import candidates, smallest
from slackwater.semantics.quality.recall import (
    StreamDelays,
    immediate_recall,
    instant_requirement,
    ordered_recall,
    selectivity_ratio,
)

__all__ = ["JoinSlack", "Modelled", "RecallTarget", "common_slack", "modelled_slack"]

RESERVE = 0.25
"""Share of what a target allows to be lost that is kept back where recall cannot be measured."""

PATIENCE = 4
"""Largest delays that the past must be long for the model to be believed."""

WARMUP = 3
"""The part of a period that must have been seen before slack follows the target."""

Method: TypeAlias = Literal["model", "equal", "controller"]
Emit: TypeAlias = Literal["ordered", "immediate"]


def common_slack(clocks: Sequence[int], slacks: Sequence[int]) -> int:
    """The one slack for all inputs that does what these do, as long as their current times are ``clocks``.

    >>> common_slack([100, 90], [10, 5])
    5
    """
    return min(clocks) - min(c - k for c, k in zip(clocks, slacks, strict=True))


@dataclass(frozen=True)
class RecallTarget:
    """What was asked: ``recall`` over the last ``period``, reconsidered at each ``interval``; times in ticks.

    ``method`` is ``"model"`` (selectivity by delay), ``"equal"`` (one selectivity) or ``"controller"``.
    """

    recall: float
    period: int
    interval: int
    granularity: int
    method: Method = "model"
    emit: Emit = "ordered"
    piece: int | None = None
    limit: int | None = None

    @property
    def intervals(self) -> int:
        """Whole intervals in the period."""
        return max(1, self.period // self.interval)


class Modelled(NamedTuple):
    """A slack, the recall it must give by the model, and the one it does give."""

    slack: int
    needed: float
    expected: float


def modelled_slack(
    target: RecallTarget,
    streams: Sequence[StreamDelays],
    largest: int,
    past: int,
    recall: float | None = None,
) -> Modelled:
    """The slack of a join that cannot see what it lost, from delays alone.

    ``largest`` is the largest delay in the statistics' windows, ``past`` how long the past is that they speak of;
    ``recall`` what the time to come needs, if not just what was asked.
    """
    step = target.granularity
    while min(largest, largest if target.limit is None else target.limit) > step * MAX_BINS:
        step *= 2
    slacks = candidates(largest, step, target.limit)
    needed = target.recall if recall is None else recall
    if target.emit == "immediate":
        curve = immediate_recall(streams, slacks)
    else:
        # This model speaks of the mean, so half of all periods would fall below it.
        curve = ordered_recall(streams, slacks, target.piece)
        needed += (1.0 - target.recall) * RESERVE
    slack = smallest(curve, slacks, needed)
    # Of a short past only short delays are known: until it is some times as long as they are, wait for all.
    if past < max(target.period // WARMUP, PATIENCE * largest):
        slack = int(slacks[-1])
    return Modelled(slack, needed, float(curve[np.searchsorted(slacks, slack)]))


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
