"""In which pieces passes read blocks, and how much they may read in a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from slackwater.kernels.joins.bounded.probe import Loaded
from slackwater.kernels.joins.bounded.residence import Residence
from slackwater.semantics.join_memory import Block


def clusters(blocks: Sequence[Block], room: int) -> Iterator[list[Block]]:
    """Blocks in their order, as many at a time as there is room for."""
    cluster: list[Block] = []
    for block in blocks:
        if cluster and sum(b.bytes for b in cluster) + block.bytes > room:
            yield cluster
            cluster = []
        cluster.append(block)
    if cluster:
        yield cluster


class Reading:
    """Reads blocks for the passes of one batch, up to a limit of bytes; None: as many as there are."""

    def __init__(self, house: Residence, limit: int | None) -> None:
        self._house = house
        self._limit = limit
        self._bytes = 0
        self.limited = False
        """Whether a block was not read because of the limit."""

    def blocks_of(self, side: int) -> Callable[[Sequence[Block]], list[Loaded]]:
        """Gives the rows of the first of some blocks that the limit allows."""
        counts = self._house.store.counts

        def read(blocks: Sequence[Block]) -> list[Loaded]:
            loaded = []
            for block in blocks:
                if not self._may_read(side, block):
                    self.limited = True
                    break
                before = counts.read_bytes
                loaded.append(self._house.load(side, block, keep=False))
                self._bytes += counts.read_bytes - before
            return loaded

        return read

    def _may_read(self, side: int, block: Block) -> bool:
        if self._limit is None or block.number in self._house.memory[side]:
            return True
        # One block a batch is always allowed: a backlog must shrink when nothing arrives.
        return self._bytes == 0 or self._bytes + block.length <= self._limit
