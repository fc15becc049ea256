"""Lateness judged row by row in order of arrival: the same however arrivals were cut into batches.

A bound moves with each row that moves the current time. Whenever it passes the end of a window the slack is
reconsidered, with all that is known at that row and nothing that comes later. Between two such rows the slack is
constant, so they are found by a search in the running maximum, not by a loop over rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slackwater.semantics.limits import START
from slackwater.semantics.quality.adapt import PASSED, SEEN, Adaptation
from slackwater.semantics.quality.delays import Floats, Ints
from slackwater.semantics.quality.late_sums import LateSums
from slackwater.semantics.quality.measure import tally
from slackwater.semantics.quality.moments import Moments
from slackwater.semantics.window_ids import closed_by

STEP = 10
"""Granules by which the bound moves between two looks at the slack where there is no time window."""


@dataclass(frozen=True)
class Feed:
    """Rows of a consumer beside the stream's rows: which of them reach it, and their values by column."""

    passed: np.typing.NDArray[np.bool_]
    values: Sequence[Floats]


@dataclass(frozen=True)
class Judged:
    """Per row the bound in force when it came; the bound after the last; and each change of slack as (row, slack)."""

    bounds: Ints
    bound: int
    changes: list[tuple[int, int]]


def judge(adaptation: Adaptation, times: Ints, feeds: Sequence[Feed], bound: int) -> Judged:
    """Take rows in order of arrival, after others that left the bound at ``bound``.

    A row with time equal to the bound is on time. Rows that move the current time are never late.
    """
    bounds = np.empty(len(times), np.int64)
    changes: list[tuple[int, int]] = []
    if len(times) == 0:
        return Judged(bounds, bound, changes)
    newest = adaptation.statistics.newest
    clocks = np.maximum.accumulate(np.maximum(times, START if newest is None else newest))
    start = 0
    while start < len(times):
        slack, clock = adaptation.slack, adaptation.statistics.newest
        stop = start + _first_closing(adaptation, clocks[start:], bound)
        piece = slice(start, stop)
        reach = np.maximum(clocks[piece] - slack, bound)
        bounds[start] = bound
        bounds[start + 1 : stop] = reach[:-1]
        _observe(adaptation, times[piece], bounds[piece], feeds, piece)
        after = int(reach[-1])
        if _close(adaptation, bound, after, clock) and adaptation.adapt() != slack:
            changes.append((stop - 1, adaptation.slack))
        bound, start = after, stop
    return Judged(bounds, bound, changes)


def _first_closing(adaptation: Adaptation, clocks: Ints, bound: int) -> int:
    """How many rows there are up to and with the first that closes a window; all if none does."""
    first = len(clocks)
    for consumer in adaptation.consumers:
        if bound <= START:
            return 1  # the first row of all
        window = consumer.window
        if window is None:
            end = bound + STEP * adaptation.statistics.granularity
        else:
            end = window.origin + (closed_by(bound, window) + 2) * window.slide
        at = int(np.searchsorted(clocks, end + adaptation.slack))
        newest = adaptation.statistics.newest
        if window is not None and newest is not None and adaptation.beginning:
            # Nothing may close for long: the largest delay is waited for until windows have come to their ends.
            ended = window.origin + (closed_by(newest, window) + 2) * window.slide
            at = min(at, int(np.searchsorted(clocks, ended)))
        first = min(first, at + 1)
    return first


def _observe(
    adaptation: Adaptation, times: Ints, before: Ints, feeds: Sequence[Feed], piece: slice
) -> None:
    newest = adaptation.statistics.newest
    observed = adaptation.statistics.observe(times)
    clocks = np.concatenate([[START if newest is None else newest], observed.clocks[:-1]])
    granularity = adaptation.statistics.granularity
    for at, (consumer, feed) in enumerate(zip(adaptation.consumers, feeds, strict=True)):
        state = adaptation.states[at]
        passed = feed.passed[piece]
        columns = state.latest or [Moments()] * (2 + consumer.columns)
        state.latest = [
            columns[SEEN].plus(Moments.ones(len(times))),
            columns[PASSED].plus(Moments.ones(int(passed.sum()))),
            *(m.then(v[piece][passed]) for m, v in zip(columns[2:], feed.values, strict=True)),
        ]
        if consumer.window is not None:
            w = consumer.window
            state.coverage.add(tally(times, closed_by(before, w), w))
            if adaptation.by_needs:
                values = [v[piece][passed] for v in feed.values]
                late = LateSums.of(times[passed], clocks[passed], values, w, granularity)
                state.needs.add(late, granularity)


def _close(adaptation: Adaptation, bound: int, after: int, clock: int | None) -> bool:
    """Tell the adaptation which windows have closed; whether there were any, or in the beginning any that ended after ``clock``."""
    some, beginning = False, adaptation.beginning
    for at, consumer in enumerate(adaptation.consumers):
        if consumer.window is None:
            some |= after - bound >= STEP * adaptation.statistics.granularity
            continue
        last, now = closed_by(bound, consumer.window), closed_by(after, consumer.window)
        newest = adaptation.statistics.newest
        if beginning and clock is not None and newest is not None:
            some |= closed_by(newest, consumer.window) > closed_by(clock, consumer.window)
        if now > last:
            some = True
            if last > START:
                adaptation.closed(at, last + 1, now, after if newest is None else newest)
    if some:
        adaptation.took()
    return some
