"""Recall of a join as a function of slack: what share of its results comes out if rows may be so much late.

A result has the greatest of its rows' times. In an *ordered* join a result is lost if one of its rows comes when slack
has let that time pass. The model counts rows per delay: the row that completes a result must be in order behind the
slack, and finds of each other stream the part of its window that has arrived by then; old parts of a window are more
complete than new ones.

In an *immediate* join late rows look for partners as well, and slack only says how long rows are kept to be found. A
result is lost if its last row comes when another one has been given up (`immediate_recall`).

Delays are known as histograms, by bins of a granularity, bin 0 for rows in order. All candidates of slack are computed
at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from slackwater.semantics.quality.delays import Floats, Ints
from slackwater.semantics.quality.model import coverages, cumulated, shares

__all__ = [
    "StreamDelays", "immediate_recall", "instant_requirement", "kept_share", "ordered_recall",
]  # fmt: skip


DEVIATIONS = 2.0
"""Standard deviations of a period's recall that are held in reserve."""


@dataclass(frozen=True, eq=False)
class StreamDelays:
    """What is known of one input: delays per bin, how long its rows stay joinable, and the slack it has for nothing.

    ``sync`` is by how much the stream is ahead of the slowest one, on the mean: its rows wait that long anyhow.
    ``rows`` is how many rows come in the period of a target, 0 if that does not matter.
    """

    counts: Ints
    granularity: int
    window: int
    sync: int = 0
    rows: float = 0.0


def ordered_recall(
    streams: Sequence[StreamDelays], slacks: Ints, piece: int | None = None
) -> Floats:
    """Recall of an ordered join for each slack, if it is as selective for late rows as for others.

    ``piece`` is the length of the pieces of a window in which rows are taken to be equally old.

    >>> delays = StreamDelays(np.array([6, 2, 1, 1]), 1, 4)
    >>> ordered_recall([delays, delays], np.arange(4)).round(6).tolist()
    [0.495, 0.74, 0.8775, 1.0]
    """
    in_order, parts = [], []
    for stream in streams:
        f = shares(stream.counts)
        c = cumulated(f)
        shifts = (slacks + stream.sync) // stream.granularity
        in_order.append(c[np.minimum(shifts, len(c) - 1)])
        width = max(1, stream.window)
        covered = coverages(
            f, width, stream.granularity, slacks, piece=piece, sync=float(stream.sync)
        )
        parts.append(covered)
    # Results whose newest row is of stream i: in proportion to the product of the other windows.
    weight = np.array([1.0 / max(1, s.window) for s in streams])
    weight /= weight.sum()
    total = np.zeros(len(slacks))
    for i in range(len(streams)):
        others = [p for j, p in enumerate(parts) if j != i]
        total += weight[i] * in_order[i] * np.prod(others, axis=0)
    return np.clip(total, 0.0, 1.0)


def instant_requirement(target: float, produced: float, true: float, expected: float) -> float:
    """The recall that the time to come needs so that past and future together reach the target.

    ``produced`` of ``true`` results came out in the past; ``expected`` true ones will come. What the past has in excess is
    there to be used up; if it falls short by more than can be made up, all that comes is needed.

    >>> [round(instant_requirement(0.95, n, 1000, 50), 9) for n in (940, 970, 1000)]
    [1.0, 0.55, 0.0]
    """
    if expected <= 0:
        return target
    return float(min(1.0, max(0.0, (target * (true + expected) - produced) / expected)))


# ---- joins whose results leave at once ----


def immediate_recall(streams: Sequence[StreamDelays], slacks: Ints) -> Floats:
    """Least recall of a join whose rows are kept by each slack longer than the windows ask.

    Losses through late rows of different streams are added up, so what is lost twice counts twice. If it is known how
    many rows a period has, it is the recall that all periods but one in forty keep, where rows are late one by one; else
    that of the mean.

    >>> delays = StreamDelays(np.array([6, 2, 1, 1]), 1, 4)
    >>> immediate_recall([delays, delays], np.arange(4)).round(6).tolist()
    [0.825, 0.925, 0.975, 1.0]
    """
    windows = tuple(max(1, s.window) for s in streams)
    lost, spread = np.zeros(len(slacks)), np.zeros(len(slacks))
    for i, stream in enumerate(streams):
        f = shares(stream.counts)
        # Rows of delay bin d, behind a slack of s bins, miss what rows of d - s bins miss.
        missed = 1.0 - kept_share(windows, i, stream.granularity, len(f))
        at = (slacks + stream.sync) // stream.granularity
        inside, at = at < len(f), np.minimum(at, len(f) - 1)
        lost += np.where(inside, _correlated(f, missed)[at], 0.0)
        if stream.rows > 0:
            spread += np.where(inside, _correlated(f, missed**2)[at], 0.0) / stream.rows
    return np.clip(1.0 - lost - DEVIATIONS * np.sqrt(spread), 0.0, 1.0)


def _correlated(f: Floats, missed: Floats) -> Floats:
    """For each shift s: the sum over d > s of ``f[d] * missed[d - s]``."""
    size = 1 << (2 * len(f) - 1).bit_length()
    product = np.fft.rfft(f, size) * np.conj(np.fft.rfft(missed, size))
    loss = np.fft.irfft(product, size)[: len(f)]
    # Rounding of the transform must not invent a loss where none can be.
    return np.where(loss < 1e-12, 0.0, loss)


@lru_cache(maxsize=64)
def kept_share(windows: tuple[int, ...], i: int, granularity: int, bins: int) -> Floats:
    """What share of its results a row of stream i still finds that comes 0, 1, 2, ... granules after its slack.

    It is the share of the volume in which the times of a result lie; for two streams it falls evenly from 1 to 0 over the
    sum of the windows.

    >>> kept_share((4, 4), 0, 1, 9).tolist()
    [1.0, 0.875, 0.75, 0.625, 0.5, 0.375, 0.25, 0.125, 0.0]
    """
    late = np.arange(bins, dtype=np.float64) * granularity
    sizes = np.array(windows, np.float64)
    others = [j for j in range(len(windows)) if j != i]
    # The row is the newest: its partners must not be older than their windows less its lateness.
    volume = np.prod([np.clip(sizes[j] - late, 0, None) for j in others], axis=0)
    for k in others:
        rest = [j for j in others if j != k]
        if not rest:
            volume = volume + np.clip(sizes[i] - np.clip(late - sizes[k], 0, None), 0, None)
            continue
        # Stream k has the newest row, and this one is ``age`` older: that much less is asked of the rest.
        pieces = 128
        age = (np.arange(pieces) + 0.5) / pieces * sizes[i]
        behind = late[:, None] - age[None, :]
        inside = np.prod(
            [np.clip(sizes[j] - np.clip(behind, 0, None), 0, None) for j in rest], axis=0
        )
        volume = volume + np.where(behind <= sizes[k], inside, 0.0).sum(axis=1) * sizes[i] / pieces
    whole = sum(np.prod(np.delete(sizes, k)) for k in range(len(windows)))
    return np.asarray(volume / whole)
