"""Hypothesis strategies: disordered streams, windows, ways to cut a stream into batches.

The only module that imports hypothesis (``pip install slackwater[testing]``).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import cache
from typing import Any, TypeVar

from hypothesis import strategies as st

from slackwater.model.window import TimeWindow

T = TypeVar("T")


def windows(
    *, max_range: int = 20, max_slide: int = 20, on: str = "ts"
) -> st.SearchStrategy[TimeWindow]:
    """Time windows of every shape: sliding, tumbling, not dividing, with gaps, any origin."""
    return st.builds(
        TimeWindow,
        range=st.integers(1, max_range),
        slide=st.integers(1, max_slide),
        origin=st.integers(-max_range, max_range),
        on=st.just(on),
    )


@st.composite
def disordered(
    draw: st.DrawFn,
    *,
    min_rows: int = 0,
    max_rows: int = 30,
    max_delay: int = 10,
    low: int = -40,
    high: int = 60,
    keys: Sequence[Any] = ("a", "b", None),
) -> list[dict[str, Any]]:
    """Rows with a time ``ts``, a key ``k``, a value ``v`` and their place ``i`` in order of arrival.

    No row comes more than ``max_delay`` behind the newest one before it, so that a bound of
    ``newest - max_delay`` is never broken. Times tie often.
    """
    events = draw(_events(min_rows, max_rows, max_delay, low, high, tuple(keys)))
    # Whoever arrives at (time + own delay) is at most that delay behind everything before it.
    arrived = sorted(events, key=lambda e: e[0] + e[1])
    return [{"ts": t, "k": k, "v": v, "i": i} for i, (t, _, k, v) in enumerate(arrived)]


@cache
def _events(
    min_rows: int, max_rows: int, max_delay: int, low: int, high: int, keys: tuple[Any, ...]
) -> st.SearchStrategy[list[tuple[int, int, Any, int | None]]]:
    """Kept, since a new strategy is looked through in every example."""
    event = st.tuples(
        st.integers(low, high),
        st.integers(0, max_delay),
        st.sampled_from(keys),
        st.none() | st.integers(-9, 9),
    )
    return st.lists(event, min_size=min_rows, max_size=max_rows)


def cut(rows: Sequence[T], cuts: Sequence[int]) -> list[list[T]]:
    """Rows as batches, cut before the given places; some may be empty."""
    places = [0, *sorted(min(c, len(rows)) for c in cuts), len(rows)]
    return [list(rows[a:b]) for a, b in itertools.pairwise(places)]


@cache
def cuts(max_rows: int = 30, max_batches: int = 6) -> st.SearchStrategy[list[int]]:
    """Places for `cut`: anywhere, or every few rows (short streams would seldom be cut otherwise)."""
    regular = st.integers(1, max(1, max_batches)).map(lambda n: list(range(n, max_rows, n)))
    return regular | st.lists(st.integers(0, max_rows), max_size=max_batches)


@st.composite
def batches(draw: st.DrawFn, rows: st.SearchStrategy[list[T]]) -> list[list[T]]:
    """A stream cut into batches."""
    whole = draw(rows)
    return cut(whole, draw(cuts(max(1, len(whole)))))


@st.composite
def shuffled_batches(draw: st.DrawFn, rows: st.SearchStrategy[list[T]]) -> list[list[T]]:
    """A stream cut into batches whose rows lost their order, as after a shuffle."""
    return [draw(st.permutations(batch)) for batch in draw(batches(rows))]
