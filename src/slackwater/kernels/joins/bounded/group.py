"""Blocks of one side that meet blocks of the other together: on arrival, or in a pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from slackwater.kernels.joins.band_join import Ints
from slackwater.kernels.joins.bounded.marks import Marks
from slackwater.kernels.joins.bounded.probe import Flags, Joiner, Loaded, Probe
from slackwater.semantics.join_memory import Block, Debt
from slackwater.semantics.limits import START


class DebtGroup:
    """Rows of some blocks of ``side``, indexed as one; ``debts[i]`` is the debt of block i.

    Each meeting counts its results as the worth of both blocks, and marks the rows of outer inputs (``marks`` has
    None for the others).
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

    def meet(
        self,
        others: Sequence[Block],
        loaded: Sequence[Loaded],
        emit: Callable[[pa.Table], None],
        needed: Sequence[bool] | None = None,
    ) -> None:
        """Make all pairs with blocks of the other side; ``needed[i]`` says whether own block i takes part."""
        allowed: Flags | None = None
        if needed is not None and not all(needed):
            allowed = np.array(needed)[self._owner]
        if self._late:
            for other, part in zip(others, loaded):
                # Which rows a late row may still meet differs from block to block.
                floors = [d.floor if other.number < d.floor_upto else START for d in self._debts]
                self._meet([other], [part], emit, allowed, np.array(floors)[self._owner])
        else:
            self._meet(others, loaded, emit, allowed, START)

    def _meet(
        self,
        others: Sequence[Block],
        loaded: Sequence[Loaded],
        emit: Callable[[pa.Table], None],
        allowed: Flags | None,
        floor: Ints | int,
    ) -> None:
        sizes = [part.table.num_rows for part in loaded]
        ends = np.cumsum(sizes)
        marks = self._marks[1 - self._side]
        partnered = np.zeros(sum(sizes) if marks is not None else 0, dtype=np.bool_)
        made = np.zeros(len(self._blocks), dtype=np.int64)
        worth = np.zeros(len(others), dtype=np.int64)
        tables = [part.table for part in loaded]
        width = sum(b.bytes for b in others) / max(1, sum(b.rows for b in others))
        for pairs in self._probe.meet(tables, width, allowed=allowed, floor=floor):
            emit(pairs.output)
            if marks is not None:
                partnered[pairs.other] = True
            self._matched[pairs.own] = True
            made += np.bincount(self._owner[pairs.own], minlength=len(self._blocks))
            owner = np.searchsorted(ends, pairs.other, side="right")
            worth += np.bincount(owner, minlength=len(others))
        if not made.any():
            return
        self.made += made
        for block, count in (*zip(self._blocks, made.tolist()), *zip(others, worth.tolist())):
            block.worth += count
        if marks is not None:
            for other, part, flags in zip(others, loaded, np.split(partnered, ends[:-1])):
                marks.add(other, flags if part.places is None else part.places[flags])

    def finish(self) -> None:
        """Note which own rows found a partner."""
        marks = self._marks[self._side]
        if marks is None:
            return
        for i, (block, places) in enumerate(zip(self._blocks, self._places)):
            partnered = self._matched[self._starts[i] : self._starts[i + 1]]
            if partnered.any():
                marks.add(block, partnered if places is None else places[partnered])
