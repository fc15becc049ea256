"""Blocks of one side that meet blocks of the other together: on arrival, or in a pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slackwater.kernels.joins.band_join import Ints
from slackwater.kernels.joins.bounded.marks import Marks
from slackwater.kernels.joins.bounded.probe import Flags, Joiner, Loaded, Probe
from slackwater.semantics.join_memory import Block, Debt
from slackwater.semantics.limits import START

_NEVER = np.iinfo(np.int64).max
"""Later than any row."""


class _Met(NamedTuple):
    """A block of the other side: how many of its rows may have partners, and if marks are kept, which (`Marks`).

    ``needed[i]`` says whether own block i takes part; None: all do.
    """

    block: Block
    hits: int
    places: Ints | None
    needed: Sequence[bool] | None


class DebtGroup:
    """Rows of some blocks of ``side``, indexed as one; ``debts[i]`` is the debt of block i.

    Blocks of the other side are looked up first, some at a time; pairs are made of what that finds when there is enough of it.
    Results count as the worth of both blocks, and mark the rows of outer inputs (``marks`` has None for the others).
    """

    def __init__(
        self,
        joiner: Joiner,
        side: int,
        blocks: Sequence[Block],
        loaded: Iterable[Loaded],
        debts: Sequence[Debt],
        marks: Sequence[Marks | None],
    ) -> None:
        self._side, self._marks = side, marks
        self._blocks, self._debts = blocks, debts
        self._places: list[Ints | None] = []
        sizes: list[int] = []

        def tables() -> Iterator[pa.Table]:
            for part in loaded:
                self._places.append(part.places)
                sizes.append(part.table.num_rows)
                yield part.table

        self._probe = Probe(joiner, side, tables())
        self._starts = np.cumsum([0, *sizes])
        numbers = np.arange(len(blocks), dtype=np.min_scalar_type(len(blocks)))
        self._owner = np.repeat(numbers, sizes)
        self._matched = np.zeros(len(self._probe), dtype=np.bool_)
        self.made = np.zeros(len(blocks), dtype=np.int64)
        """Results so far, by block."""
        self._late = any(d.floor > START for d in debts)
        self._hits = self._probe.no_hits()
        self._met: list[_Met] = []

    @property
    def waiting(self) -> int:
        """Bytes of what was looked up and is not paired yet."""
        places = sum(m.places.nbytes for m in self._met if m.places is not None)
        return self._hits.size + places + 8 * len(self._blocks) * len(self._met)

    def look_up(
        self,
        others: Sequence[Block],
        loaded: Sequence[Loaded],
        needed: Sequence[Sequence[bool] | None],
    ) -> None:
        """Gather those rows of the other side's blocks that may have partners; `pair` makes the pairs.

        ``needed[j][i]`` says whether own block i takes part in meeting block j; None: all do.
        """
        if not loaded or not len(self._probe):
            return
        rows = self._probe.look_up([part.table for part in loaded], self._hits)
        if not len(rows):
            return
        ends = np.cumsum([part.table.num_rows for part in loaded])
        marked = self._marks[1 - self._side] is not None
        start, at = 0, 0
        cuts = np.searchsorted(rows, ends).tolist()
        for other, part, flags, end, upto in zip(others, loaded, needed, ends.tolist(), cuts):
            if at < upto:
                places = rows[at:upto] - start if marked else None
                if places is not None and part.places is not None:
                    places = part.places[places]
                self._met.append(_Met(other, upto - at, places, flags))
            start, at = end, upto

    def pair(self, emit: Callable[[pa.Table], None]) -> None:
        """Make all pairs with what was looked up."""
        met, self._met = self._met, []
        if not met:
            return
        others = [m.block for m in met]
        owner = np.repeat(np.arange(len(met), dtype=np.int32), [m.hits for m in met])
        marks = self._marks[1 - self._side]
        partnered = np.zeros(len(owner) if marks is not None else 0, dtype=np.bool_)
        made = np.zeros(len(self._blocks), dtype=np.int64)
        worth = np.zeros(len(others), dtype=np.int64)
        width = sum(b.bytes for b in others) / max(1, sum(b.rows for b in others))
        for pairs in self._probe.pairs(self._hits, width, self._test(met, owner)):
            emit(pairs.output)
            if marks is not None:
                partnered[pairs.other] = True
            self._matched[pairs.own] = True
            made += np.bincount(self._owner[pairs.own], minlength=len(self._blocks))
            worth += np.bincount(owner[pairs.other], minlength=len(others))
        if not made.any():
            return
        self.made += made
        for block, count in (*zip(self._blocks, made.tolist()), *zip(others, worth.tolist())):
            block.worth += count
        if marks is not None:
            ends = np.cumsum([m.hits for m in met])
            for m, flags in zip(met, np.split(partnered, ends[:-1])):
                assert m.places is not None
                if flags.any():
                    marks.add(m.block, m.places[flags])

    def _test(
        self, met: Sequence[_Met], owner: npt.NDArray[np.int32]
    ) -> Callable[[Ints, Ints, Ints], Flags | None]:
        """Which candidates may pair: own rows, rows of the other side, as ``owner`` gives their blocks, and the times of these."""
        partly = any(m.needed is not None and not all(m.needed) for m in met)
        if not partly and not self._late:
            return lambda own, hits, times: None
        floors = np.full((len(met), len(self._blocks)), START)
        if self._late:
            # Which rows a late row may still meet differs from block to block.
            for i, d in enumerate(self._debts):
                floors[[m.block.number < d.floor_upto for m in met], i] = d.floor
        if partly:
            every = [True] * len(self._blocks)
            floors[~np.array([m.needed or every for m in met])] = _NEVER

        def allowed(own: Ints, hits: Ints, times: Ints) -> Flags:
            young: Flags = times >= floors[owner[hits], self._owner[own]]
            return young

        return allowed

    def finish(self) -> None:
        """Note which own rows found a partner."""
        marks = self._marks[self._side]
        if marks is None:
            return
        for i, (block, places) in enumerate(zip(self._blocks, self._places)):
            partnered = self._matched[self._starts[i] : self._starts[i + 1]]
            if partnered.any():
                marks.add(block, partnered if places is None else places[partnered])
