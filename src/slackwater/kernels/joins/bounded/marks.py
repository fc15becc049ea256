"""Which rows of an outer input have found a partner: one bit per row, kept beside the blocks.

Blocks are never rewritten, so their marks are blocks of their own, written anew when they have changed.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slackwater.kernels.buckets import BUCKETS
from slackwater.kernels.joins.band_join import Ints
from slackwater.kernels.joins.bounded.blocks import BlockStore
from slackwater.kernels.joins.bounded.probe import Flags
from slackwater.kernels.kept import Located
from slackwater.semantics.join_memory import Block, Marked, resides

SCHEMA = pa.schema([("bits", pa.uint8())])


class Marks:
    """The marks of one side's blocks. At most about ``room`` bytes are held; changed ones are written then."""

    def __init__(self, store: BlockStore, side: int, room: int) -> None:
        self._store = store
        self._kind = f"marks{side}"
        self._room = room
        self._held: dict[int, tuple[Block, Flags]] = {}
        self._changed: set[int] = set()
        self._size = 0

    def of(self, block: Block) -> Flags:
        """One flag per row of the block as it is stored. Do not change them."""
        if block.number not in self._held:
            if self._size + block.rows > self._room:
                self.write()
                self._held.clear()
                self._size = 0
            self._held[block.number] = (block, self._read(block))
            self._size += block.rows
        return self._held[block.number][1]

    def add(self, block: Block, places: Ints | Flags) -> None:
        """These rows have found a partner."""
        flags = self.of(block)
        if not flags[places].all() if places.dtype != np.bool_ else (places & ~flags).any():
            flags[places] = True
            self._changed.add(block.number)

    def keep(self, block: Block, rows: Flags) -> None:
        """The block in memory has lost the other rows."""
        flags = self.of(block)[rows]
        self._size -= block.rows - len(flags)
        self._held[block.number] = (block, flags)
        self._changed.add(block.number)

    def put(self, block: Block, flags: Flags) -> None:
        """All marks of a new block."""
        self._held[block.number] = (block, flags)
        self._size += len(flags)
        if flags.any():
            self._changed.add(block.number)

    def forget(self, block: Block) -> None:
        """The block is gone."""
        self._release(block)
        self._changed.discard(block.number)
        _, flags = self._held.pop(block.number, (block, np.zeros(0, dtype=np.bool_)))
        self._size -= len(flags)

    def write(self) -> None:
        """Store what has changed, and tell the blocks where."""
        for number in sorted(self._changed):
            block, flags = self._held[number]
            bits: npt.NDArray[np.uint8] = np.packbits(flags)
            self._release(block)
            table = pa.table([bits], schema=SCHEMA)
            at = self._store.append(self._kind, table, keep=resides(block))
            block.marks = (Marked(*at, *(block.buckets or (0, BUCKETS))),)
        self._changed.clear()

    def _release(self, block: Block) -> None:
        if not block.is_piece:
            for mark in block.marks:
                self._store.release(Located(*mark[:4]))

    def _read(self, block: Block) -> Flags:
        flags = np.zeros(block.rows, dtype=np.bool_)
        # Several places: pieces of the block were in several groups, and each marked rows of its own.
        for mark in block.marks:
            place = Located(*mark[:4])
            table = self._store.read(place, SCHEMA, keep=resides(block))
            bits = table.column("bits").to_numpy()
            flags |= np.unpackbits(bits, count=block.rows).astype(np.bool_)
        return flags
