"""Streams whose disorder is known, and what a target makes of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slackwater.model.window import TimeWindow
from slackwater.semantics.limits import START
from slackwater.semantics.quality.adapt import Adaptation
from slackwater.semantics.quality.state import AdaptationState
from slackwater.semantics.quality.strict import Feed, judge
from slackwater.semantics.quality.target import Consumer, Target
from slackwater.semantics.quality.threshold import Asked
from slackwater.semantics.window_ids import wid_range

Ints = NDArray[np.int64]
Draw = Callable[[np.random.Generator, int], NDArray[np.float64]]

DELAYS: dict[str, Draw] = {
    "exponential": lambda r, n: r.exponential(1, n),
    "uniform": lambda r, n: r.uniform(0, 2, n),
    "Pareto": lambda r, n: 1.5 * r.pareto(2.5, n),
    "bimodal": lambda r, n: r.exponential(np.where(r.random(n) < 0.9, 0.25, 5)),
}
"""Delays with a mean of about 1."""


def arrivals(seed: int, rows: int, mean: float, delays: str, apart: int = 10) -> Ints:
    """Times in order of arrival, of a row every ``apart`` ticks."""
    rng = np.random.default_rng(seed)
    made = apart * np.arange(rows)
    return made[np.argsort(made + mean * DELAYS[delays](rng, rows), kind="stable")]


def days(seed: int, number: int, per_day: int) -> Ints:
    """Seconds in order of arrival: 95 % of a day's delays are below 18 to 268 minutes, which changes by up to six times overnight.

    This is the shape of a year of real events: the tail is that of a lognormal distribution.
    """
    rng = np.random.default_rng(seed)
    low, high, step = np.log(18 * 60), np.log(268 * 60), np.log(6)
    level = [rng.uniform(low, high)]
    for _ in range(number):
        level.append(rng.uniform(max(low, level[-1] - step), min(high, level[-1] + step)))
    made = np.sort(rng.integers(0, number * 86_400, number * per_day))
    usual = np.exp(np.array(level)[made // 86_400])
    delays = usual * np.exp(1.2 * (rng.normal(size=len(made)) - 1.645))
    return np.asarray(made[np.argsort(made + delays, kind="stable")])


@dataclass(frozen=True)
class Course:
    """What became of rows: the bound before each, and the slack after each."""

    times: Ints
    bounds: Ints
    slacks: Ints

    def at(self, clocks: Ints) -> Ints:
        """The slack in force at these times of arrival."""
        return np.asarray(self.slacks[np.searchsorted(np.maximum.accumulate(self.times), clocks)])


def count_target(window: TimeWindow, **target: Any) -> Adaptation:
    """A count over a window under a target."""
    asked = Target(**{"granularity": 10, **target})
    return Adaptation.fresh(asked, [Consumer(window, (Asked("count"),), 0)])


def resumed(kept: str, like: Adaptation) -> Adaptation:
    """An adaptation from its JSON."""
    return Adaptation.resumed(
        AdaptationState.from_json(json.loads(kept)), like.target, like.consumers
    )


def course(adaptation: Adaptation, times: Ints, bound: int = START) -> Course:
    """Judge rows; the adaptation goes on."""
    before = adaptation.slack
    judged = judge(adaptation, times, [Feed(np.ones(len(times), bool), [])], bound)
    slacks = np.zeros(len(times), np.int64)
    at, values = [0], [before]
    for row, slack in judged.changes:
        at, values = [*at, row], [*values, slack]
    slacks = np.array(values)[np.searchsorted(at, np.arange(len(times)), side="right") - 1]
    return Course(times, judged.bounds, slacks)


def kept(found: Course, window: TimeWindow, ends: Sequence[int], most: float) -> NDArray[np.bool_]:
    """By window, given by its end: whether it misses no more than the share ``most`` of its rows."""
    first, stop = wid_range(found.times, window)
    base = int(first.min())
    size = int(stop.max()) - base + 1
    closed = np.clip(found.bounds // window.slide, first, stop)
    closed = np.where(found.bounds <= START, first, closed)

    def rows(of: Ints) -> NDArray[np.float64]:
        change = np.bincount(first - base, minlength=size + 1).astype(float)
        return np.cumsum(change - np.bincount(of - base, minlength=size + 1))

    every, missing = rows(stop), rows(closed)
    at = np.asarray(ends) // window.slide - 1 - base
    return np.asarray(missing[at] <= (most + 1e-12) * every[at])
