"""How complete a window is when it closes, as a function of the slack.

A window of length W closes when the current time is its end plus the slack. Rows near its end have had little time
to arrive by then, rows near its beginning more. So the window is cut into pieces of equal length; of the piece that
ends ``x`` before the window's end all rows are there whose delay exceeds the slack by at most ``x``.
The estimate errs to the low side, the less the finer the pieces.
"""

from __future__ import annotations

import numpy as np

from slackwater.semantics.quality.delays import Floats, Ints


def shares(counts: Ints) -> Floats:
    """The share of rows per bin; all rows in order if there is none."""
    total = counts.sum()
    return np.asarray(counts / total) if total else np.ones(1)


def cumulated(f: Floats) -> Floats:
    """The share of rows up to each bin; exactly 1 at the last."""
    c = np.cumsum(f)
    return np.asarray(c / c[-1])


def masses(
    f: Floats,
    width: int,
    granularity: int,
    slacks: Ints,
    *,
    piece: int | None = None,
    sync: float = 0.0,
) -> Floats:
    """For each slack: the length of time whose rows a window of ``width`` holds when it closes.

    ``f`` are the shares of delays; ``piece`` the length of a piece (one granule by default); ``sync`` what
    synchronising with other streams adds to the slack. Times the rate this is a number of rows, over the width it is
    the window's coverage.
    """
    piece = granularity if piece is None else piece
    c = cumulated(f)
    last = len(c) - 1
    pieces = -(-width // piece)
    shift = np.minimum((slacks + int(sync)) // granularity, last)
    rest = width - (pieces - 1) * piece
    final = c[np.minimum(shift + (pieces - 1) * piece // granularity, last)]
    if piece == granularity:
        # Sums of neighbouring terms of c are differences of its prefix sums; beyond its end c is 1.
        prefix = np.concatenate([[0.0], np.cumsum(c)])
        stop = shift + pieces - 1
        inner = prefix[np.minimum(stop, last + 1)] - prefix[np.minimum(shift, last + 1)]
        inner = inner + np.maximum(stop - (last + 1), 0)
        return np.asarray(piece * inner + rest * final)
    # Pieces that begin later than every delay are whole.
    partial = min(pieces - 1, -(-(last + 1) * granularity // piece))
    ages = np.arange(partial, dtype=np.int64) * piece // granularity
    inner = c[np.minimum(shift[:, None] + ages[None, :], last)].sum(axis=1)
    return np.asarray(piece * (inner + (pieces - 1 - partial)) + rest * final)


def coverages(
    f: Floats,
    width: int,
    granularity: int,
    slacks: Ints,
    *,
    piece: int | None = None,
    sync: float = 0.0,
) -> Floats:
    """For each slack: the share of a window's rows that are there when it closes.

    >>> f = np.array([.6, .2, .1, .1])
    >>> coverages(f, 4, 1, np.arange(4)).round(4).tolist()
    [0.825, 0.925, 0.975, 1.0]
    """
    return masses(f, width, granularity, slacks, piece=piece, sync=sync) / width


def edge_coverages(counts: Ints, rows: float, width: int, granularity: int, slacks: Ints) -> Floats:
    """The same where windows close at the edges of batches, and it is known how far behind them rows came.

    A window that ends one slack before an edge misses the rows that come after the edge and are behind it by more than
    the slack and at most the slack and the width. ``counts`` are such rows by bin, over all edges; ``rows`` is how many
    belong to one window at each of them.

    >>> edge_coverages(np.array([90, 4, 2, 1]), 20.0, 2, 1, np.arange(4)).tolist()
    [0.7, 0.85, 0.95, 1.0]
    """
    if rows <= 0:
        return np.ones(len(slacks))
    last = len(counts) - 1
    prefix = np.concatenate([[0], np.cumsum(counts[1:])])
    low = np.minimum(slacks // granularity, last)
    high = np.minimum(-(-(slacks + width) // granularity), last)
    return np.asarray(np.clip(1.0 - (prefix[high] - prefix[low]) / rows, 0.0, 1.0))


def candidates(largest: int, granularity: int, most: int | None = None) -> Ints:
    """The slacks to try: multiples of the granularity, up to the first that is at least the largest delay."""
    stop = -(-largest // granularity)
    if most is not None and most < min(largest, granularity):
        return np.array([0, most])  # bins have grown beyond it, with delays
    if most is not None:
        stop = min(stop, most // granularity)
    return np.arange(stop + 1, dtype=np.int64) * granularity


def smallest(values: Floats, slacks: Ints, needed: float) -> int:
    """The first slack whose value reaches ``needed``, or the last one.

    Values need not rise with the slack, so this is a scan from the first.
    """
    reached = np.flatnonzero(values >= needed - 1e-12)
    return int(slacks[reached[0] if len(reached) else -1])
