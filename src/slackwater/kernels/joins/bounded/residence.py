"""Which blocks of a join are in memory: loading, writing, and giving up places."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from slackwater.kernels.joins.bounded.blocks import BlockStore
from slackwater.kernels.joins.bounded.ledger import Ledger, place_of
from slackwater.kernels.joins.bounded.probe import Loaded, narrowed_rows
from slackwater.semantics.join_memory import (
    Block,
    JoinPolicy,
    areas,
    displaced,
    giver,
    resides,
)


class Residence:
    """The blocks of both sides.

    That a block resides is a fact of the ledger and outlives the batch. ``memory`` has its rows within the batch; the store is told to
    keep them for the next. New blocks are here alone until they are written.
    """

    def __init__(
        self, ledger: Ledger, store: BlockStore, schemas: Sequence[pa.Schema], policy: JoinPolicy
    ) -> None:
        self.ledger, self.store, self.schemas, self.policy = ledger, store, schemas, policy
        self.areas = areas(policy.memory)
        self.memory: list[dict[int, Loaded]] = [{}, {}]
        # Of whole batches: within one, the side that happens to come first would look fast.
        self.rates = tuple(ledger.frequency)
        self.promoted = 0
        self.evicted = 0

    def add(self, side: int, block: Block, table: pa.Table) -> None:
        """Take in a new block."""
        self.ledger.blocks[side].append(block)
        self.memory[side][block.number] = Loaded(table)

    def load(self, side: int, block: Block, *, keep: bool = True) -> Loaded:
        """The rows of a block, from memory or from disk. Those of a resident block stay if ``keep``."""
        loaded = self.memory[side].get(block.number)
        if loaded is None:
            table = self.store.read(place_of(block), self.schemas[side], keep=resides(block))
            loaded = narrowed_rows(table, block.buckets)
            if keep and resides(block):
                self.memory[side][block.number] = loaded
        return loaded

    def write(self, side: int, block: Block) -> None:
        """Store a block, unless it is stored."""
        if not block.run:
            table = self.memory[side][block.number].table
            at = self.store.append(f"side{side}", table, keep=resides(block))
            block.run, block.offset, block.length, block.crc = at

    def clear_out(self, side: int, blocks: Sequence[Block]) -> Iterator[Loaded]:
        """The rows of these blocks, one by one, and nothing else in memory: residents are read again when asked for."""
        for s in (0, 1):
            for block in self.ledger.blocks[s]:
                self.write(s, block)
        held, self.memory = self.memory[side], [{}, {}]
        own = {b.number: held[b.number] for b in blocks if b.number in held}
        del held
        for block in blocks:
            resident = own.pop(block.number) if block.number in own else None
            yield resident or self.load(side, block, keep=False)

    def drop(self, side: int, block: Block) -> None:
        """Forget the rows of a block."""
        self.memory[side].pop(block.number, None)
        if block.run and not block.is_piece:
            self.store.release(place_of(block))

    def make_room(self, side: int) -> None:
        """Let the oldest recent blocks go until what is resident fits; ``side`` is the one that grew."""
        recent = [[b for b in self.ledger.blocks[s] if b.place == "recent"] for s in (0, 1)]
        sizes = [sum(b.bytes for b in bs) for bs in recent]
        least = int(self.policy.least_share * self.areas.recent)
        rates = self.rates if any(self.rates) else self.ledger.frequency
        while sum(sizes) > self.areas.recent:
            s = giver(side, rates, sizes, least, self.policy.margin)
            block = recent[s].pop(0)
            sizes[s] -= block.bytes
            self.evicted += 1
            block.place = "disk"
            self.offer(s, block, self.productive(s))
            self.write(s, block)
            if not resides(block):
                self.drop(s, block)
        for s in (0, 1):
            self._shrink_productive(s)

    def productive(self, side: int) -> list[Block]:
        """The productive blocks of a side."""
        return [b for b in self.ledger.blocks[side] if b.place == "productive"]

    def offer(self, side: int, block: Block, productive: list[Block]) -> None:
        """Let a block that has lost its place, or never had one, stay as a productive one, if it is.

        ``productive`` are those that are, and is changed.
        """
        margins = (self.policy.margin, self.policy.margin_rows)
        going = displaced(block, productive, self.areas.productive // 2, *margins)
        if going is None:
            return
        for old in going:
            self._demote(side, old)
            productive.remove(old)
        productive.append(block)
        block.place = "productive"
        self.promoted += 1

    def _shrink_productive(self, side: int) -> None:
        """After the budget has become smaller."""
        productive = self.productive(side)
        productive.sort(key=lambda b: b.worth / max(1, b.bytes), reverse=True)
        while sum(b.bytes for b in productive) > self.areas.productive // 2:
            self._demote(side, productive.pop())

    def _demote(self, side: int, block: Block) -> None:
        block.place = "disk"
        self.drop(side, block)
