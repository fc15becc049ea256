"""The slack of a join with a target for recall, from delays alone: one for all inputs, reconsidered at each interval.

Inputs with slacks of their own would do no better: the streams are synchronised after it, and wait for the one that is the
furthest behind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from slackwater.semantics.quality.delays import MAX_BINS
from slackwater.semantics.quality.model import candidates, smallest
from slackwater.semantics.quality.recall import StreamDelays, immediate_recall, ordered_recall

__all__ = ["Modelled", "RecallTarget", "modelled_slack"]

RESERVE = 0.25
"""Share of what a target allows to be lost that is kept back where recall cannot be measured."""

PATIENCE = 4
"""Largest delays that the past must be long for the model to be believed."""

WARMUP = 3
"""The part of a period that must have been seen before slack follows the target."""

Method: TypeAlias = Literal["model", "equal", "controller"]
Emit: TypeAlias = Literal["ordered", "immediate"]


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
