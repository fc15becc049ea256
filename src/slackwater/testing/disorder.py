"""Disorder made to order: event times, and when they arrive. Columns of numbers, the same for the same seed.

An `Arrivals` starts in order (`events`); each method delays, holds back or removes rows and gives a new
one. Times are ints, in whatever unit the caller likes.

Examples
--------
>>> calm = events(6, every=10, seed=7)
>>> bool((calm.delays() == 0).all())
True
>>> rough = calm.band(25)
>>> bool(rough.delays().max() <= 25)
True
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from slackwater.errors import AnalysisError

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

__all__ = ["Arrivals", "delays", "events", "is_progressing", "low_water_marks"]


@dataclass(frozen=True, eq=False)
class Arrivals:
    """Rows in order of arrival.

    ``time`` is when a row happened, ``arrival`` when it comes, both in the same unit; ``source`` is the
    number of its source, ``key`` of its group; ``number`` counts rows in the order they happened, so that
    a row is known again in another arrangement of the same events.
    """

    time: Ints
    arrival: Ints
    source: Ints
    key: Ints
    number: Ints
    seed: int
    drawn: int = 0

    def __len__(self) -> int:
        return len(self.time)

    # ---- disorder ----
    def band(self, limit: int) -> Arrivals:
        """Each row is delayed by 0 to ``limit``, evenly: none falls further than that behind the newest."""
        _at_least(limit, 0, "limit")
        rng, drawn = self._rng()
        return self._delayed(rng.integers(0, limit, len(self), endpoint=True), drawn)

    def exponential(self, mean: float, limit: int | None = None) -> Arrivals:
        """Most rows are delayed a little, few much: by an exponential law, cut at ``limit``."""
        _at_least(mean, 0, "mean")
        rng, drawn = self._rng()
        delay = rng.exponential(mean, len(self))
        if limit is not None:
            delay = np.minimum(delay, limit)
        return self._delayed(delay.astype(np.int64), drawn)

    def stragglers(self, share: float, limit: int) -> Arrivals:
        """A ``share`` of the rows is delayed by 1 to ``limit``, the others not at all."""
        _share(share)
        _at_least(limit, 1, "limit")
        rng, drawn = self._rng()
        delay = rng.integers(1, limit, len(self), endpoint=True)
        return self._delayed(np.where(rng.random(len(self)) < share, delay, 0), drawn)

    def blocks(self, size: int) -> Arrivals:
        """Sorted by block: spans of ``size`` come one after the other, each in any order inside.

        A block arrives as a whole when it is over, as when a router empties its cache. After the last
        row of a block no time below the block's end comes: see `block_ends`.
        """
        _at_least(size, 1, "size")
        rng, drawn = self._rng()
        shuffled = self._taken(rng.permutation(len(self)), drawn)
        return shuffled._arriving((shuffled.time // size + 1) * size, drawn)

    def skew(self, delay: int, source: int = 0) -> Arrivals:
        """All rows of one source come later by ``delay``; a negative one makes it earlier."""
        return self._delayed(np.where(self.source == source, delay, 0), self.drawn)

    def lull(self, begin: int, end: int, source: int | None = None) -> Arrivals:
        """Nothing comes in [begin, end): what was due arrives at ``end``, as a burst. Of one source, or all."""
        held = self._of(source) & (self.arrival >= begin) & (self.arrival < end)
        return self._arriving(np.where(held, end, self.arrival), self.drawn)

    def silence(self, begin: int, end: int, source: int | None = None) -> Arrivals:
        """Nothing *happens* in [begin, end): rows of these times are gone. Of one source, or all."""
        gone = self._of(source) & (self.time >= begin) & (self.time < end)
        return self._taken(np.flatnonzero(~gone), self.drawn)

    def burst(self, begin: int, end: int, times: int, source: int | None = None) -> Arrivals:
        """In [begin, end) there are ``times`` as many rows, each a copy of one that is there, numbered anew."""
        _at_least(times, 1, "times")
        copied = np.flatnonzero(self._of(source) & (self.time >= begin) & (self.time < end))
        rows = np.concatenate([np.arange(len(self)), np.tile(copied, times - 1)])
        grown = self._taken(rows, self.drawn)
        fresh = np.arange(len(grown)) + (self.number.max(initial=-1) + 1)
        number = np.where(np.arange(len(grown)) < len(self), grown.number, fresh)
        return replace(grown, number=number)._arriving(grown.arrival, self.drawn)

    def keyed(self, keys: int, skew: float = 0.0) -> Arrivals:
        """Keys 0 to ``keys`` - 1; the k-th is ``(k+1) ** -skew`` times as frequent as the first."""
        _at_least(keys, 1, "keys")
        rng, drawn = self._rng()
        weight = (np.arange(keys) + 1.0) ** -float(skew)
        # Drawn by number, so that a row has the same key however the rows are arranged.
        drawn_keys = rng.choice(keys, int(self.number.max(initial=-1)) + 1, p=weight / weight.sum())
        return replace(self, key=drawn_keys.astype(np.int64)[self.number], drawn=drawn)

    # ---- what came of it ----
    def delays(self) -> Ints:
        """By how much each row is behind the newest before it, over all sources; 0 in order."""
        return delays(self.time)

    def block_ends(self, size: int) -> Ints:
        """Per row of `blocks`: the end of its block if it is the block's last row, else -1.

        That is the punctuation such a source sends.
        """
        block = self.time // size
        last = np.append(block[1:] != block[:-1], True)[: len(block)]
        return np.where(last, (block + 1) * size, -1)

    def batches(self, *, every: int | None = None, rows: int | None = None) -> list[Ints]:
        """Places of the rows of each micro-batch: cut ``every`` so much arrival time, or so many ``rows``."""
        if (every is None) == (rows is None):
            raise _bad("batches() takes every= or rows=, one of the two", "for example every=1000")
        if not len(self):
            return []
        if rows is not None:
            _at_least(rows, 1, "rows")
            number = np.arange(len(self)) // rows
        else:
            _at_least(every or 0, 1, "every")
            number = (self.arrival - self.arrival[0]) // every
        cuts = np.searchsorted(number, np.arange(1, int(number[-1]) + 1))
        return [np.asarray(part, np.int64) for part in np.split(np.arange(len(self)), cuts)]

    def tuples(self, places: Ints | None = None) -> list[tuple[int, int, int, int]]:
        """Rows (time, source, key, number) at these places, as plain Python: what `run` and replays take."""
        at = slice(None) if places is None else places
        columns = [c[at].tolist() for c in (self.time, self.source, self.key, self.number)]
        return list(zip(*columns, strict=True))

    # ---- inside ----
    def _rng(self) -> tuple[np.random.Generator, int]:
        """Randomness for one step, and how many steps have drawn then."""
        return np.random.default_rng([self.seed, self.drawn]), self.drawn + 1

    def _of(self, source: int | None) -> Mask:
        return np.ones(len(self), bool) if source is None else np.asarray(self.source == source)

    def _delayed(self, by: npt.NDArray[Any], drawn: int) -> Arrivals:
        return self._arriving(self.arrival + by.astype(np.int64), drawn)

    def _arriving(self, arrival: Ints, drawn: int) -> Arrivals:
        """The rows at other times of arrival; of rows that arrive together the order stays."""
        moved = replace(self, arrival=np.asarray(arrival, np.int64), drawn=drawn)
        return moved._taken(np.argsort(moved.arrival, kind="stable"), drawn)

    def _taken(self, places: Ints, drawn: int) -> Arrivals:
        return Arrivals(
            self.time[places],
            self.arrival[places],
            self.source[places],
            self.key[places],
            self.number[places],
            self.seed,
            drawn,
        )


def events(
    rows: int,
    *,
    every: float,
    seed: int = 0,
    start: int = 0,
    sources: int = 1,
    steady: bool = False,
) -> Arrivals:
    """So many rows from ``start`` on, ``every`` so often on average, each in order and at once.

    The gaps are exponential, as of independent events, or all alike with ``steady``. Rows are dealt to the
    ``sources`` at random.
    """
    _at_least(rows, 0, "rows")
    _at_least(every, 0, "every")
    _at_least(sources, 1, "sources")
    rng = np.random.default_rng([seed, 0])
    gaps = np.full(rows, float(every)) if steady else rng.exponential(every, rows)
    time = start + np.floor(np.cumsum(gaps) - (gaps[0] if rows else 0.0)).astype(np.int64)
    source = rng.integers(0, sources, rows)
    key, number = np.zeros(rows, np.int64), np.arange(rows, dtype=np.int64)
    return Arrivals(time, time.copy(), source.astype(np.int64), key, number, seed, 1)


def delays(times: Sequence[int] | Ints) -> Ints:
    """By how much each row is behind the newest of the rows up to it.

    >>> delays([5, 3, 8, 6]).tolist()
    [0, 2, 0, 2]
    """
    column = np.asarray(times, np.int64)
    return np.asarray(np.maximum.accumulate(column) - column) if len(column) else column


def low_water_marks(times: Sequence[int] | Ints) -> Ints:
    """After each prefix of a finite stream the least time still to come: the best bound there could be.

    Entry n is for the first n rows, n from 0; after the last row nothing comes, so there is none for it.

    >>> low_water_marks([5, 3, 8, 6]).tolist()
    [3, 3, 6, 6]
    """
    column = np.asarray(times, np.int64)
    return np.asarray(np.minimum.accumulate(column[::-1])[::-1])


def is_progressing(times: Sequence[int] | Ints, limit: int) -> bool:
    """Whether a finite stream progresses on these times with room ``limit``: its low-water mark is never
    further than that behind the newest time.

    >>> is_progressing([5, 3, 8, 6], 2), is_progressing([5, 3, 8, 1], 2)
    (True, False)
    """
    return bool((delays(times) <= limit).all())


def _bad(message: str, hint: str) -> AnalysisError:
    return AnalysisError("BAD_DISORDER", message, hint=hint)


def _at_least(value: float, least: float, name: str) -> None:
    if not value >= least:
        raise _bad(f"{name}={value!r} is below {least}", f"give a number of {least} or more")


def _share(value: float) -> None:
    if not 0 <= value <= 1:
        raise _bad(f"share={value!r} is no share", "give a number from 0 to 1")
