"""Rows that wait in several places for several consumers, each of which gets a row when its bound passes it.

A row carries the set of consumers that want it (`FOR`, one bit each). It may lie in several places, but is owed to a consumer
from one of them only: there it has the consumer's bit, and its time is at or above the consumer's **mark** of that
place, below which rows have been passed on. A mark never falls while its place holds rows, so a row is passed on once, and
no stored row is ever changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slackwater.kernels.buckets import flat
from slackwater.model.names import FOR, TIME
from slackwater.semantics.lateness import is_late
from slackwater.semantics.limits import END, START
from slackwater.semantics.slack.routes import ROOT, Routes
from slackwater.semantics.slack.waiting import Marks

Mask = NDArray[np.bool_]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Places:
    """Where rows wait in a batch: routes, the marks of places with rows, and the bits of the consumers below each stage."""

    routes: Routes
    marks: Marks
    stages: Mapping[str, int]


Read = Callable[[str, int, int], pa.Table]
"""Stored rows of a place whose time is in the closed range, and perhaps others."""


class Reader(NamedTuple):
    """A consumer: its bit, its bound before and after the batch, and its route with the bound that ends each wait."""

    bit: int
    old: int
    new: int
    route: tuple[tuple[str, int], ...]


class Waited(NamedTuple):
    """Rows in order for each consumer, rows to store by place, how many came too late, the marks, and how many stored rows were
    passed on from place to place.
    """

    ordered: dict[str, pa.Table]
    keep: dict[str, pa.Table]
    late: int
    marks: dict[str, dict[str, int]]
    moved: int


def step(new: pa.Table, read: Read, readers: Mapping[str, Reader], marks: Marks) -> Waited:
    """All new rows first, then the bounds from old to new, then rows to where they should wait."""
    late, ordered = 0, {}
    times, wanted = columns(new)
    fresh: dict[str, Mask] = {}
    for name, r in readers.items():
        mine = (wanted & r.bit) != 0
        too_late = is_late(times, r.old)
        late += int(np.count_nonzero(mine & too_late))
        fresh[name] = mine & (times >= max(r.old, r.new))
        parts = []
        for place, known in marks.items():
            low = owed_from(known, name, r.old)
            if low < r.new:
                parts.append(_owed(read(place, low, r.new - 1), r.bit, low, r.new))
        parts.append(new.filter(pa.array(mine & ~too_late & (times < r.new))))
        ready = pa.concat_tables(parts)
        ordered[name] = ready.take(pa.array(np.argsort(columns(ready)[0], kind="stable")))
    after = {place: _passed(place, known, readers) for place, known in marks.items()}
    piles, moved = _Piles(new.schema, readers, after), 0
    for place, known in marks.items():
        moved += _move(place, known, after[place], read, piles)
    piles.add(new, times, fresh)
    return Waited(ordered, piles.tables(), late, piles.marks, moved)


def owed_from(known: Mapping[str, int], name: str, bound: int) -> int:
    """The least time of a row that may be owed to a consumer with that ``bound``, by the marks of a place."""
    return max(bound, known[name]) if name in known else END


def owed(rows: pa.Table, limits: Mapping[int, int]) -> Mask:
    """Which rows are owed to someone; ``limits`` are by bit the least times that are."""
    times, wanted = columns(rows)
    mask = np.zeros(len(times), bool)
    for bit, low in limits.items():
        mask |= ((wanted & bit) != 0) & (times >= low)
    return mask


def counts(new: pa.Table, stages: Mapping[str, int]) -> dict[str, int]:
    """How many of the rows are wanted by some consumer of each set of bits."""
    wanted = columns(new)[1]
    return {name: int(np.count_nonzero(wanted & bits)) for name, bits in stages.items()}


def columns(table: pa.Table) -> tuple[Ints, Ints]:
    """Times and bits of a table's rows."""
    times, wanted = (flat(table[c]).to_numpy(zero_copy_only=False) for c in (TIME, FOR))
    return times, wanted


def _owed(stored: pa.Table, bit: int, low: int, high: int) -> pa.Table:
    times, wanted = columns(stored)
    return stored.filter(pa.array(((wanted & bit) != 0) & (times >= low) & (times < high)))


def _passed(place: str, known: Mapping[str, int], readers: Mapping[str, Reader]) -> dict[str, int]:
    """The marks of a place after the batch: up to where its rows will have been passed on.

    In a place that is not on its route any more, or is its own, a consumer's rows stay until they are handed over. A
    consumer that is gone has no mark, and its bit is not used again.
    """
    after = {}
    for name, mark in known.items():
        if name in readers:
            route = readers[name].route[:-1] if place == name else readers[name].route
            after[name] = max(mark, *(end for p, end in route if p == place), START)
    return after


def _move(
    place: str, known: Mapping[str, int], after: Mapping[str, int], read: Read, piles: _Piles
) -> int:
    """Pass on what is owed from a place and may no longer wait there; how many rows that is."""
    spans = {}
    for name, mark in after.items():
        low = owed_from(known, name, piles.readers[name].new)
        if low < mark:
            spans[name] = low, mark
    if not spans:
        return 0
    rows = read(place, min(s[0] for s in spans.values()), max(s[1] for s in spans.values()) - 1)
    times, wanted = columns(rows)
    chosen = {
        n: ((wanted & piles.readers[n].bit) != 0) & (times >= low) & (times < high)
        for n, (low, high) in spans.items()
    }
    piles.add(rows, times, chosen, place)
    return int(np.count_nonzero(np.logical_or.reduce(list(chosen.values()))))


class _Piles:
    """Rows on their way to places, each once for all consumers that it waits for there."""

    def __init__(
        self,
        schema: pa.Schema,
        readers: Mapping[str, Reader],
        marks: dict[str, dict[str, int]],
    ):
        self.readers = readers
        self.marks = marks
        self.at = schema.get_field_index(FOR)
        self.piles: dict[str, list[pa.Table]] = {}

    def add(
        self, rows: pa.Table, times: Ints, chosen: Mapping[str, Mask], left: str | None = None
    ) -> None:
        """Put ``chosen`` rows, by consumer, where they wait next; those that have ``left`` a place go behind filters."""
        bits: dict[str, Ints] = {}
        for name, mask in chosen.items():
            r = self.readers[name]
            # A consumer's own buffer takes what may wait nowhere else.
            for place, end in (*r.route, (name, START)):
                if left is not None and place in (left, ROOT):
                    continue
                mark = self.marks.get(place, {}).get(name, START)
                here = mask & (times >= max(end, mark))
                if here.any():
                    before = bits.get(place, np.zeros(len(times), np.int64))
                    bits[place] = before | np.where(here, r.bit, 0)
                    self.marks.setdefault(place, {})[name] = mark
                    mask = mask & ~here
        for place, of in bits.items():
            kept = rows.set_column(self.at, FOR, pa.array(of)).filter(pa.array(of != 0))
            self.piles.setdefault(place, []).append(kept)

    def tables(self) -> dict[str, pa.Table]:
        """What there is for each place."""
        return {place: pa.concat_tables(pile) for place, pile in self.piles.items()}
