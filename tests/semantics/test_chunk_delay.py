"""Delays across tasks: each task sends chunks of its rows, and the whole must not be underestimated."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from slackwater.semantics.summary import Chunk, chunk_delay

TIMES = st.lists(st.integers(-50, 50), min_size=1, max_size=24)


def chunk(rows: list[tuple[int, int]]) -> Chunk:
    times = [t for _, t in rows]
    return (rows[0][0],), (rows[-1][0],), max(times), min(times)


def largest(rows: list[tuple[int, int]]) -> int:
    """By definition: how far any row lies behind one that came before it."""
    return max([0, *(a - b for i, (_, a) in enumerate(rows) for _, b in rows[i + 1 :])])


@given(TIMES, st.integers(1, 5))
def test_chunks_that_lie_apart_are_exact(times: list[int], size: int) -> None:
    rows = list(enumerate(times))
    parts = [rows[i : i + size] for i in range(0, len(rows), size)]
    found = max(chunk_delay(chunk(p) for p in parts)[0], *(largest(p) for p in parts), 0)
    assert found == largest(rows)


@given(TIMES, st.data())
def test_chunks_that_overlap_are_never_too_small(times: list[int], data: st.DataObject) -> None:
    rows = list(enumerate(times))
    owner = data.draw(st.lists(st.integers(0, 2), min_size=len(rows), max_size=len(rows)))
    tasks = [[r for r, o in zip(rows, owner, strict=True) if o == n] for n in range(3)]
    parts = [t for t in tasks if t]
    found = max(chunk_delay(chunk(p) for p in parts)[0], *(largest(p) for p in parts), 0)
    assert found >= largest(rows)
