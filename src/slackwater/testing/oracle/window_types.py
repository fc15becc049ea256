"""Windows that are not plain time windows, by definition, for the oracle.

Every function looks at all rows that ever came and at the bounds in force when they came; nothing is kept
from step to step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from slackwater.model.window import (
    ByTuple,
    CustomWindow,
    Landmark,
    RowWindow,
    SessionWindow,
    TimeWindow,
    Window,
)
from slackwater.semantics.limits import END, START
from slackwater.testing.oracle.types import Row
from slackwater.testing.oracle.types import Window as Extent
from slackwater.testing.oracle.windows import end_of, first_not_reached, windows_holding


class Came(NamedTuple):
    """A row, when it came, its group, and the bound in force at that moment."""

    row: Row
    time: int
    key: tuple[Any, ...]
    step: int
    bound: int


class Found(NamedTuple):
    """A window that this step completes, for one group."""

    wid: int | None
    extent: Extent
    key: tuple[Any, ...]
    rows: list[Row]


def completed(
    w: Window, came: Sequence[Came], bounds: Sequence[int], key_names: Sequence[str]
) -> list[Found]:
    """The windows that the last step completes; ``bounds`` are those after each step."""
    before, after = ([START, *bounds])[-2:]
    groups: dict[tuple[Any, ...], list[Came]] = {}
    for c in came:
        groups.setdefault(c.key, []).append(c)
    if isinstance(w, RowWindow):
        return _rows(w, came, len(bounds) - 1, after >= END > before, key_names)
    if isinstance(w, SessionWindow):
        return _sessions(w, groups, bounds)
    found = []
    for key, mine in groups.items():
        if isinstance(w, Landmark):
            found += _landmark(w, key, mine, before, after)
        elif isinstance(w, ByTuple):
            found += _by_tuple(w, key, mine, before, after)
        else:
            assert isinstance(w, CustomWindow)
            found += _custom(w, key, mine, before, after)
    return found


def _landmark(
    w: Landmark, key: tuple[Any, ...], mine: list[Came], before: int, after: int
) -> list[Found]:
    slides = TimeWindow(w.slide, w.slide, w.origin, "")
    mine = [c for c in mine if c.time >= w.origin]
    if not mine:
        return []
    first = windows_holding(min(c.time for c in mine), slides)[0]
    # Without an end of the stream a group is reported for ever; with one, up to its last row.
    newest = windows_holding(max(c.time for c in mine), slides)[0]
    last = newest if after >= END else first_not_reached(after, slides) if after > START else first
    found = []
    for wid in range(first, last + 1):
        end = end_of(wid, slides)
        rows = [c.row for c in mine if c.time < end and end > c.bound]
        if rows and before < end <= after:
            found.append(Found(wid, Extent(w.origin, end), key, rows))
    return found


def _by_tuple(
    w: ByTuple, key: tuple[Any, ...], mine: list[Came], before: int, after: int
) -> list[Found]:
    if w.over == "arrival":
        arrived = _arrived(mine, w.order)
        chosen = {
            c.time for i, c in enumerate(arrived, 1) if i % w.every == 0 and c.time >= c.bound
        }
    else:
        chosen = set()
        for t in {c.time for c in mine}:
            below = sum(c.time < t for c in mine)
            here = sum(c.time == t for c in mine)
            if any(rank % w.every == 0 for rank in range(below + 1, below + here + 1)):
                chosen.add(t)
    found = []
    for t in sorted(chosen):
        if before <= t < after:
            rows = [c.row for c in mine if t - w.range < c.time <= t and t >= c.bound]
            found.append(Found(t, Extent(t - w.range, t), key, rows))
    return found


def _arrived(mine: Sequence[Came], order: Sequence[str]) -> list[Came]:
    def place(c: Came) -> Any:
        return (c.step, *(c.row[o] for o in order)) if order else (c.step, c.time)

    return sorted(mine, key=place)


def _sessions(
    w: SessionWindow, groups: dict[tuple[Any, ...], list[Came]], bounds: Sequence[int]
) -> list[Found]:
    found = []
    for key, mine in groups.items():
        open_ones: list[list[Came]] = []
        for step, after in enumerate(bounds):
            before = bounds[step - 1] if step else START
            merged = _touching(open_ones + [[c] for c in mine if c.step == step], w.gap)
            # What is behind the bound as a whole can only be late rows.
            merged = [s for s in merged if _last(s) + w.gap > before]
            open_ones = [s for s in merged if _last(s) + w.gap > after]
            if step == len(bounds) - 1:
                for s in merged:
                    if _last(s) + w.gap <= after:
                        first = min(c.time for c in s)
                        extent = Extent(first, _last(s) + w.gap)
                        found.append(Found(None, extent, key, [c.row for c in s]))
    return found


def _touching(sessions: list[list[Came]], gap: int) -> list[list[Came]]:
    """Sessions merged until no two overlap."""
    done: list[list[Came]] = []
    for s in sessions:
        again = True
        while again:
            again = False
            for other in done:
                a, b = min(c.time for c in s), min(c.time for c in other)
                if a < _last(other) + gap and b < _last(s) + gap:
                    done.remove(other)
                    s, again = other + s, True
                    break
        done.append(s)
    return done


def _last(session: Sequence[Came]) -> int:
    return max(c.time for c in session)


def _custom(
    w: CustomWindow, key: tuple[Any, ...], mine: list[Came], before: int, after: int
) -> list[Found]:
    low, high = min(c.time for c in mine), max(c.time for c in mine)
    found = []
    for wid in sorted({int(i) for i in w.windows(low + w.shift, high + 1 + w.shift)}):
        parts = _pieces(w, wid)
        end = max(b for _, b in parts)
        rows = [c.row for c in mine if any(a <= c.time < b for a, b in parts) and end > c.bound]
        if rows and before < end <= after:
            found.append(Found(wid, Extent(min(a for a, _ in parts), end), key, rows))
    return found


def _pieces(w: CustomWindow, wid: int) -> list[tuple[int, int]]:
    starts, ends = w.extent(np.array([wid], np.int64))
    pairs = zip(np.ravel(starts).tolist(), np.ravel(ends).tolist(), strict=True)
    return [(a - w.shift, b - w.shift) for a, b in pairs if a < b]


def _rows(
    w: RowWindow, came: Sequence[Came], step: int, ending: bool, key_names: Sequence[str]
) -> list[Found]:
    counted = TimeWindow(w.range, w.slide, 0, "")
    places = [list(key_names).index(p) for p in w.per]
    parts: dict[tuple[Any, ...], list[Came]] = {}
    for c in came:
        parts.setdefault(tuple(c.key[i] for i in places), []).append(c)
    found = []
    for mine in parts.values():
        groups: dict[tuple[int, tuple[Any, ...]], list[Row]] = {}
        for number, c in enumerate(_arrived(mine, w.order)):
            if w.passing is None or c.row[w.passing]:
                for wid in windows_holding(number, counted):
                    groups.setdefault((wid, c.key), []).append(c.row)
        total, earlier = len(mine), sum(c.step < step for c in mine)
        for (wid, key), rows in groups.items():
            end = end_of(wid, counted)
            if earlier < end and (end <= total or ending):
                found.append(Found(wid, Extent(end - w.range, end), key, rows))
    return found


def bound_of_results(v: int, w: Window) -> int:
    """No later result has a time (end − 1) below this, once the input's bound is ``v``."""
    if v <= START or v >= END:
        return v
    if isinstance(w, Landmark):
        slides = TimeWindow(w.slide, w.slide, w.origin, "")
        return end_of(first_not_reached(v, slides), slides) - 1
    if isinstance(w, RowWindow):
        return START
    return v - 1 if isinstance(w, ByTuple) else v


def closed_to(time: int, bound: int, w: Window) -> int:
    """How many closed windows a row of that time is known to have missed."""
    if isinstance(w, Landmark):
        count, end = 0, w.origin
        while bound > START and w.origin <= time and (end := end + w.slide) <= bound:
            count += end > time
        return count
    if isinstance(w, ByTuple):
        return int(time < bound)
    if isinstance(w, SessionWindow):
        return int(time + w.gap <= bound)
    if isinstance(w, CustomWindow):
        ids = {int(i) for i in w.windows(time + w.shift, time + 1 + w.shift)}
        return sum(max(b for _, b in _pieces(w, i)) <= bound for i in ids)
    return 0
