"""Duplicate elimination: the first row of each key, once and for all or within a span of time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slackwater.kernels.buckets import bucket_of, flat
from slackwater.kernels.order import group_codes
from slackwater.model.names import BUCKET, TIME
from slackwater.semantics.lateness import is_late
from slackwater.semantics.limits import END, LEAST, MOST, clamp

Ints = npt.NDArray[np.int64]


class Deduped(NamedTuple):
    """``kept`` rows in their order, the ``state`` to add for them, how many rows were late."""

    kept: pa.Table
    state: pa.Table
    late: int


def step(
    new: pa.Table,
    state: pa.Table,
    subset: Sequence[str],
    time: str = TIME,
    within: int | None = None,
    frontier: int = -END,
) -> Deduped:
    """Rows of ``new`` that no earlier kept row equals in ``subset`` (nulls are equal).

    Earlier = in ``state``, or in ``new`` with a smaller (time, position). With ``within`` only kept rows
    at most that far away in time count, both ends included. Rows older than ``frontier`` are late.
    ``state`` is what earlier steps returned, in any order, purged or not.
    """
    times = _ints(new, time)
    on_time = ~is_late(times, clamp(frontier))
    late = int(len(times) - np.count_nonzero(on_time))
    if late:
        new = new.filter(pa.array(on_time))
        times = times[on_time]
    n = new.num_rows
    old = _ints(state, time)
    both = [
        pa.chunked_array(
            [*new.column(c).chunks, *state.column(c).cast(new.schema.field(c).type).chunks],
            type=new.schema.field(c).type,
        )
        for c in subset
    ]
    codes = group_codes(both, n + len(old)).codes
    chosen = _first(codes[:n], times) if within is None else None
    if chosen is not None:
        chosen &= ~np.isin(codes[:n], codes[n:])
    else:
        chosen = _spaced(codes[:n], times, codes[n:], old, within or 0)
    kept = new.filter(pa.array(chosen))
    return Deduped(kept, _state(kept, subset, time), late)


def _state(kept: pa.Table, subset: Sequence[str], time: str) -> pa.Table:
    columns = {c: kept.column(c) for c in subset}
    columns[time] = kept.column(time)
    if BUCKET in kept.column_names:
        columns[BUCKET] = kept.column(BUCKET)
    else:
        keys = [kept.column(c) for c in subset]
        columns[BUCKET] = pa.array(bucket_of(keys, rows=kept.num_rows))
    return pa.table(columns)


def _first(codes: Ints, times: Ints) -> npt.NDArray[np.bool_]:
    """Whether a row has the smallest (time, position) of its code."""
    order = np.lexsort((times, codes))
    ordered = codes[order]
    chosen = np.zeros(len(codes), dtype=np.bool_)
    chosen[order[np.flatnonzero(np.diff(ordered, prepend=np.int64(-1)))]] = True
    return chosen


def _spaced(
    codes: Ints, times: Ints, old_codes: Ints, old_times: Ints, within: int
) -> npt.NDArray[np.bool_]:
    """Whether a row is kept when kept rows of one code lie more than ``within`` apart."""
    order = np.lexsort((times, codes))
    ticks = np.unique(np.concatenate([times, old_times]))
    places = _Places(ticks)
    code, t = codes[order], times[order]
    past = np.sort(places.of(old_codes, old_times))
    low = np.searchsorted(past, places.of(code, _minus(t, within)))
    high = np.searchsorted(past, places.after(code, _plus(t, within)))
    order, code, t = (x[low == high] for x in (order, code, t))
    n = len(order)
    chosen = np.zeros(len(codes), dtype=np.bool_)
    if not n:
        return chosen
    place = places.of(code, t)
    # The next row of the same code that is far enough; n = none.
    after = np.searchsorted(place, places.after(code, _plus(t, within)))
    after = np.where((after < n) & (code[np.minimum(after, n - 1)] == code), after, n)
    after = np.append(after, n)
    # Rows reachable from the first of each code: steps of 1, 2, 4... double what is known.
    reached = np.zeros(n + 1, dtype=np.bool_)
    reached[np.flatnonzero(np.diff(code, prepend=np.int64(-1)))] = True
    count = -1
    while count != (count := int(np.count_nonzero(reached[:n]))):
        reached[after[reached]] = True
        after = after[after]
    chosen[order[reached[:n]]] = True
    return chosen


class _Places:
    """(code, time) as one integer, with times as ranks."""

    def __init__(self, ticks: Ints) -> None:
        self.ticks = ticks
        self.width = np.int64(len(ticks) + 1)

    def of(self, code: Ints, time: Ints) -> Ints:
        """Place of the first possible row of the code at or after the time."""
        return np.asarray(code * self.width + np.searchsorted(self.ticks, time, side="left"))

    def after(self, code: Ints, time: Ints) -> Ints:
        """Place of the first possible row of the code after the time."""
        return np.asarray(code * self.width + np.searchsorted(self.ticks, time, side="right"))


def _plus(t: Ints, span: int) -> Ints:
    top = np.int64(clamp(MOST - span))
    return np.asarray(np.minimum(t, top) + np.int64(clamp(span)))


def _minus(t: Ints, span: int) -> Ints:
    bottom = np.int64(clamp(LEAST + span))
    return np.asarray(np.maximum(t, bottom) - np.int64(clamp(span)))


def _ints(table: pa.Table, name: str) -> Ints:
    return np.asarray(flat(table.column(name)).cast(pa.int64()).to_numpy(zero_copy_only=False))
