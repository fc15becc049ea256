"""The slack of a stream: the least with which every aggregate that reads it keeps its target.

`Adaptation` holds all that the next slack depends on and is durable. After rows are observed and windows have closed,
`Adaptation.adapt` finds the slack: by the model (`model.coverages` against `threshold.threshold`, corrected by how
wrong past estimates were), or by the controller on measured coverage. Until the warm-up is over, slack is the largest
delay seen, as far as the histogram of delays reaches.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from slackwater.model.window import TimeWindow
from slackwater.semantics.limits import START
from slackwater.semantics.quality.controller import Controller
from slackwater.semantics.quality.evidence import first_level, margin
from slackwater.semantics.quality.measure import Coverage, stride
from slackwater.semantics.quality.model import candidates, smallest
from slackwater.semantics.quality.moments import Moments, Recent
from slackwater.semantics.quality.needs import FEWEST, Needs
from slackwater.semantics.quality.state import AdaptationState
from slackwater.semantics.quality.statistics import StreamStatistics
from slackwater.semantics.quality.target import RETROSPECT, SETTLED, Consumer, Target
from slackwater.semantics.quality.threshold import Asked, complete_threshold, threshold
from slackwater.semantics.window_ids import last_complete

LEARNING = 0.05
"""Weight of the latest error of an estimate in their running mean."""

FEW_ROWS = 2
"""Rows that a window may miss, of which it matters whether one came after the window was judged."""
OVERLOOKED = 0.2
"""Share of the misses allowed that may be of windows which were judged before their last row came."""

SEEN, PASSED = 0, 1
"""Columns of moments that count rows: all, and those that reach the aggregate. Its values come after."""


@dataclass
class ConsumerState:
    """What is known of one consumer: counters, values, and the last judgements."""

    coverage: Coverage = field(default_factory=Coverage)
    recent: Recent = field(default_factory=lambda: Recent(2))
    latest: list[Moments] = field(default_factory=list)
    groups: list[list[float]] = field(default_factory=list)
    controller: Controller = field(default_factory=Controller)
    needs: Needs = field(default_factory=lambda: Needs(1, 0.95))
    bias: float = 0.0
    needed: float | None = None
    estimate: float | None = None
    measured: float | None = None
    measured_wid: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain lists and dicts."""
        own = {k: v for k, v in self.__dict__.items() if k not in _PARTS}
        own["latest"] = [list(m) for m in self.latest]
        return {**own, **{k: getattr(self, k).to_json() for k in _PARTS}}

    @classmethod
    def from_json(cls, json: Mapping[str, Any]) -> ConsumerState:
        """The inverse of `to_json`."""
        parts = {k: kind.from_json(json[k]) for k, kind in _PARTS.items()}
        return cls(**{**json, **parts, "latest": [Moments(*m) for m in json["latest"]]})


_PARTS: dict[str, Any] = {
    "coverage": Coverage, "recent": Recent, "controller": Controller, "needs": Needs,
}  # fmt: skip


def fresh_state(target: Target, consumer: Consumer) -> ConsumerState:
    """A consumer before its first row."""
    needs = Needs(target.granularity, first_level(target.confidence))
    return ConsumerState(recent=Recent(2 + consumer.columns), needs=needs)


@dataclass(frozen=True)
class WarmUp:
    """The beginning of a stream: the needs of ``windows`` of the ``wanted`` are known, as many as ``apart`` that share no row."""

    windows: int
    wanted: int
    apart: float = 0.0

    @property
    def expected(self) -> float:
        """The share of windows that keep the target at the least if slack is the largest need, whatever delays are like.

        >>> [round(WarmUp(n, 40, n).expected, 2) for n in (0, 9, 39)]
        [0.0, 0.9, 0.97]
        """
        return self.apart / (self.apart + 1)


@dataclass
class Adaptation:
    """One stream under a target. ``edges`` are the newest times after recent batches, by partition of the source."""

    target: Target
    consumers: Sequence[Consumer]
    statistics: StreamStatistics
    states: list[ConsumerState]
    slack: int = 0
    first: int | None = None
    edges: dict[str, list[int]] = field(default_factory=dict)

    @classmethod
    def fresh(cls, target: Target, consumers: Sequence[Consumer]) -> Adaptation:
        """Before the first row."""
        states = [fresh_state(target, c) for c in consumers]
        statistics = StreamStatistics.fresh(target.granularity)
        return cls(target, consumers, statistics, states)

    # ---- what was seen ----
    def took(self) -> None:
        """The moments of the latest rows (see `SEEN`) become one piece of what is recent."""
        newest = self.statistics.newest
        for consumer, state in zip(self.consumers, self.states, strict=True):
            if newest is not None and state.latest:
                state.recent.add(newest, state.latest, consumer.width)
            state.latest = []

    def closed(self, at: int, first: int, last: int, clock: int, edge: int | None = None) -> None:
        """Windows of a consumer have closed, under the slack in force, at the current time ``clock``.

        Where batches close windows, the model's estimate is about those from ``edge`` on, at the batch's end; those
        before it fare better.
        """
        state, window = self.states[at], self.consumers[at].window
        if window is None:
            return
        estimate = 1.0 if state.estimate is None else state.estimate
        state.coverage.close(first if edge is None else max(first, edge), last, estimate, window)
        if self.by_needs:
            state.needs.close(first, last, clock, window)

    # ---- the next slack ----
    @property
    def by_needs(self) -> bool:
        """Whether slack follows what past windows needed; the needs of single groups are not known."""
        t = self.target
        return t.method == "model" and t.calibrate == "needs" and t.per == "total"

    @property
    def warm(self) -> bool:
        """Whether enough was seen for slack to follow the model."""
        s = self.statistics
        if s.newest is None or self.first is None or s.disorder.rows < self.target.warm_rows:
            return False
        wait = self.target.warmup
        if wait is None:
            wait = max((c.width for c in self.consumers), default=1)
        return s.newest - self.first >= wait

    @property
    def beginning(self) -> bool:
        """Whether the needs of too few windows are known for slack to follow them."""
        return self.by_needs and any(
            c.window is not None and not s.needs.known
            for c, s in zip(self.consumers, self.states, strict=True)
        )

    def adapt(self) -> int:
        """Measure, judge, and set the slack for what comes next."""
        s = self.statistics
        if self.first is None:
            self.first = s.newest
        if s.newest is None:
            return self.slack
        warm = self.warm
        calm = self._calm() if self.by_needs else None
        slacks = []
        for consumer, state in zip(self.consumers, self.states, strict=True):
            fresh = self._measure(consumer, state, calm)
            state.needed = self._needed(consumer, state)
            if self.target.method == "pd":
                if fresh and warm and state.measured is not None:
                    state.controller.step(state.needed, state.measured)
                slacks.append(state.controller.slack(s.reach))
                continue
            slacks.append(self._least(consumer, state))
        chosen = max(slacks, default=0) if warm else self._longest
        if self.target.limit is not None:
            chosen = min(chosen, self.target.limit)
        for consumer, state in zip(self.consumers, self.states, strict=True):
            state.estimate = float(s.coverages(consumer.width, np.array([chosen]))[0])
        self.slack = chosen
        return chosen

    def _least(self, consumer: Consumer, state: ConsumerState) -> int:
        """The least slack by what windows needed; by the model as long as there are too few."""
        if not self.by_needs or consumer.window is None:
            return self._modelled(consumer, state)
        w, asked = consumer.window, (*self._asked(consumer), self.target.confidence)
        last = self._last_settled(consumer, state, w)
        slack, enough = state.needs.slack(*asked, _overlap(w), self._whole(w), last)
        # Where one row spoils a window, the largest delay is the largest need, and known sooner.
        if slack is None or (not enough and self._one_spoils(consumer, state)):
            return self._longest
        return slack if enough else max(slack, self._modelled(consumer, state))

    def _last_settled(self, consumer: Consumer, state: ConsumerState, window: TimeWindow) -> int:
        """The last window whose late rows have come."""
        settled = self._settled(consumer, state)
        return START if settled is None else last_complete(settled, window)

    @property
    def warmup(self) -> WarmUp | None:
        """How far the beginning is; None once slack follows what most windows needed, or the model where that is asked for."""
        if not self.by_needs:
            return None if self.warm else WarmUp(0, 1)
        if self.first is None:
            return WarmUp(0, FEWEST)
        known = []
        for consumer, state in zip(self.consumers, self.states, strict=True):
            w = consumer.window
            if w is not None and not state.needs.known:
                seen = state.needs.seen(self._whole(w), self._last_settled(consumer, state, w))
                known.append(WarmUp(min(seen, FEWEST), FEWEST, seen / _overlap(w)))
        if not known and not self.warm:
            return WarmUp(0, 1)
        return min(known, key=lambda w: w.windows, default=None)

    @property
    def _longest(self) -> int:
        """The largest delay seen, with a margin for what few windows cannot have shown where slack follows these."""
        s = self.statistics
        if not self.by_needs or s.newest is None or self.first is None:
            return s.reach
        width = max((c.width for c in self.consumers), default=1)
        # Of what is more recent long delays cannot be known.
        seen = max(0, s.newest - self.first - s.reach)
        more = margin(seen / width, self.target.confidence)
        return math.ceil(s.reach * more / s.granularity) * s.granularity

    def _whole(self, window: TimeWindow) -> int:
        """The first window that the beginning of the stream does not cut: those hold few rows but late ones."""
        first = 0 if self.first is None else self.first
        return last_complete(first + window.range - 1, window) + 1

    def _modelled(self, consumer: Consumer, state: ConsumerState) -> int:
        """The least slack by the model, corrected by how wrong past estimates were."""
        s = self.statistics
        slacks = candidates(s.window_largest, s.granularity, self.target.limit)
        curve = s.coverages(consumer.width, slacks)
        shifted = np.clip(curve - state.bias, 0.0, 1.0)
        # With no delay beyond the slack nothing can be missed, whatever past errors say.
        shifted[-1] = max(shifted[-1], curve[-1])
        return smallest(shifted, slacks, 1.0 if state.needed is None else state.needed)

    def _measure(self, consumer: Consumer, state: ConsumerState, calm: int | None) -> bool:
        """Read the coverage of the latest window that can be judged; True if it is a new one."""
        s, window = self.statistics, consumer.window
        if window is None or s.newest is None:
            return False
        latest = state.coverage.measure(s.newest - s.quantile(RETROSPECT), window)
        last = state.measured_wid
        fresh = latest is not None and (last is None or latest[0] > last)
        if latest is not None and fresh:
            state.measured_wid, state.measured = latest
            if self.target.calibrate == "bias":
                off = state.coverage.estimates[latest[0]] - latest[1]
                state.bias += LEARNING * (off - state.bias)
        if self.by_needs:
            state.needs.rebin(s.granularity)
            settled = self._settled(consumer, state)
            asked = (*self._asked(consumer), self.target.confidence, _overlap(window))
            if settled is not None:
                last = last_complete(settled, window)
                state.needs.judge(last, *asked, self._whole(window))
            if state.needs.rose(*asked) or self._fell(consumer, state, calm):
                s.forget()
        state.coverage.purge(s.newest - s.reach - window.range - window.slide, window)
        return fresh

    def _rows(self, consumer: Consumer, state: ConsumerState) -> float:
        """How many rows a window has about now."""
        seen, passed = state.recent.of(SEEN).rows, state.recent.of(PASSED).rows
        return self.statistics.rate * consumer.width * (passed / seen if seen else 1.0)

    def _one_spoils(self, consumer: Consumer, state: ConsumerState) -> bool:
        """Whether a window can miss a row or two at the most; then none may be overlooked."""
        return self._rows(consumer, state) * self._asked(consumer)[1] < FEW_ROWS

    def _settled(self, consumer: Consumer, state: ConsumerState) -> int | None:
        """The time before which late rows have come, but for so few that it does not matter which windows have them."""
        after = 1 - SETTLED
        if self._one_spoils(consumer, state):
            seldom = (1 - self.target.confidence) * OVERLOOKED
            after = min(after, seldom / max(1.0, self._rows(consumer, state)))
        return self.statistics.settled(1 - after)

    def _calm(self) -> int | None:
        """How long nearly all rows take now, if that is much less than before; since when is in the statistics."""
        s = self.statistics
        width = max((c.width for c in self.consumers), default=1)
        wait = s.shorter(max(2 * width, s.quantile(RETROSPECT)), SETTLED)
        s.calm = None if wait is None else s.recent.begun if s.calm is None else s.calm
        return wait

    def _fell(self, consumer: Consumer, state: ConsumerState, wait: int | None) -> bool:
        """Whether windows need so much less that those of before count no more."""
        s, window = self.statistics, consumer.window
        if wait is None or s.calm is None or s.newest is None or window is None:
            return False
        first = last_complete(s.calm + window.range - 1, window) + 1
        last = last_complete(s.newest - wait, window)
        asked = self._asked(consumer)
        return state.needs.fell(first, last, stride(window), *asked, self.target.confidence)

    def _asked(self, consumer: Consumer) -> tuple[Sequence[Asked], float]:
        """By what a window is judged, and the most that it may be off."""
        if self.target.error is not None:
            return consumer.asked, self.target.error
        return (Asked("count"),), 1.0 - (self.target.coverage or 1.0)

    def _needed(self, consumer: Consumer, state: ConsumerState) -> float:
        """The coverage that the consumer needs now."""
        target = self.target
        if target.error is None:
            return 1.0 if target.coverage is None else target.coverage
        rows = self._rows(consumer, state)
        spreads = [state.recent.of(2 + i).spread for i in range(consumer.columns)]
        if target.per == "total" or not state.groups:
            return threshold(consumer.asked, target.error, target.confidence, rows, spreads)
        # Groups in a sample: their share of the rows, then the spreads of their values.
        return max(
            min(
                threshold(consumer.asked, target.error, target.confidence, rows * share, spread),
                complete_threshold(target.confidence, rows * share),
            )
            for share, *spread in state.groups
        )

    # ---- durable ----
    @property
    def kept(self) -> AdaptationState:
        """What is durable: target and consumers are the query's and stay out."""
        states = {c.name: s.to_json() for c, s in zip(self.consumers, self.states, strict=True)}
        return AdaptationState(
            self.statistics.to_json(), states, self.slack, self.first, self.edges
        )

    @classmethod
    def resumed(
        cls,
        kept: AdaptationState,
        target: Target,
        consumers: Sequence[Consumer],
        statistics: StreamStatistics | None = None,
    ) -> Adaptation:
        """The inverse of `kept`; consumers that are new on a restart begin afresh. ``statistics`` are those of the stream, if they are known."""
        states = [
            ConsumerState.from_json(kept.states[c.name])
            if c.name in kept.states
            else fresh_state(target, c)
            for c in consumers
        ]
        if statistics is None:
            statistics = StreamStatistics.from_json(kept.statistics)
        statistics.window.base = target.granularity
        edges = {name: list(times) for name, times in kept.edges.items()}
        return cls(target, consumers, statistics, states, kept.slack, kept.first, edges)


def _overlap(window: TimeWindow) -> float:
    """How many of the windows that are judged share a row."""
    return max(1.0, window.range / (window.slide * stride(window)))
