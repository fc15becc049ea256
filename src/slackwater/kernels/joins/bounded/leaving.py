"""What leaves a bounded join when its bounds move: unmatched rows as results, dead blocks for good."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from slackwater.kernels.joins.bounded.marks import Marks
from slackwater.kernels.joins.bounded.probe import Joiner, Loaded, ints, present_in
from slackwater.kernels.joins.bounded.residence import Residence
from slackwater.kernels.joins.bounded.results import Results
from slackwater.model.names import TIME
from slackwater.semantics.join_memory import Block


class Leaving:
    """Blocks of one batch, side by side; ``marks`` are those of sides whose unmatched rows are results."""

    def __init__(
        self, house: Residence, joiner: Joiner, marks: Sequence[Marks | None], results: Results
    ) -> None:
        self._house = house
        self._joiner = joiner
        self._marks = marks
        self._results = results
        self.expired = 0
        """Blocks that were dropped."""

    def leave(self, side: int, dead: int) -> None:
        """Rows older than ``dead`` leave, where no debt needs them; what stays is on disk afterwards."""
        ledger = self._house.ledger
        kept = []
        for block in ledger.blocks[side]:
            if block.low < dead and not ledger.owing(side, block.number):
                self._release(side, block, dead)
                if block.high < dead:
                    self._expire(side, block)
                    continue
                if not block.run:
                    self._shrink(side, block, dead)
            self._house.write(side, block)
            kept.append(block)
        ledger.blocks[side] = kept

    def _release(self, side: int, block: Block, dead: int) -> None:
        """Unmatched rows for which no partner can come leave."""
        marks = self._marks[side]
        if marks is None or dead <= block.closed or block.high < block.closed:
            return
        loaded = self._house.load(side, block)
        times = ints(loaded.table, TIME)
        matched = marks.of(block)
        if loaded.places is not None:
            matched = matched[loaded.places]
        alone = (times >= block.closed) & (times < dead) & ~matched
        if alone.any():
            self._results.add_alone(self._joiner.padded(side, loaded.table.filter(pa.array(alone))))
        block.closed = dead

    def _expire(self, side: int, block: Block) -> None:
        self.expired += 1
        self._house.drop(side, block)
        marks = self._marks[side]
        if marks is not None:
            marks.forget(block)

    def _shrink(self, side: int, block: Block, dead: int) -> None:
        """Leave out of a block in memory what is dead already: such rows are never stored."""
        table = self._house.load(side, block).table
        times = ints(table, TIME)
        alive = times >= dead
        marks = self._marks[side]
        if marks is not None:
            marks.keep(block, alive)
        table = table.filter(pa.array(alive))
        self._house.memory[side][block.number] = Loaded(table)
        block.rows, block.bytes, block.low = table.num_rows, table.nbytes, int(times[alive].min())
        block.present = present_in(table)
