"""What a bounded join knows of its blocks from one batch to the next: a small JSON document.

The rows are in block files; here is which blocks live, where, who resides in memory, and who has yet to meet whom.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from slackwater.errors import CheckpointError
from slackwater.kernels.buckets import BUCKETS
from slackwater.kernels.kept import Located
from slackwater.semantics.join_memory import Block, Debt, Marked, owes, resides

VERSION = 3
READABLE = (2, 3)
"""Version 2 has one place of marks per block, or null, and does not know the buckets of a block's rows."""


@dataclass
class Ledger:
    """The state of one partition-group, apart from the rows. Lists have one entry per side.

    ``blocks`` are in order of their numbers, ``debts`` in order of arrival. ``numbers`` are the next ones to be given.
    """

    blocks: list[list[Block]] = field(default_factory=lambda: [[], []])
    debts: list[list[Debt]] = field(default_factory=lambda: [[], []])
    numbers: list[int] = field(default_factory=lambda: [0, 0])
    frequency: list[float] = field(default_factory=lambda: [0.0, 0.0])
    paid: list[int] = field(default_factory=lambda: [0, 0])
    last_pass: int = 0

    def runs(self) -> set[str]:
        """The names of all files that are still needed."""
        return {b.run for bs in self.blocks for b in bs if b.run} | {
            m.run for bs in self.blocks for b in bs for m in b.marks
        }

    def owing(self, side: int, number: int) -> bool:
        """Whether a block is in debt."""
        return owes(self.debts[side], number)

    def extremes(self, run: str) -> tuple[int, int]:
        """Oldest and newest time of the live blocks in a file (or of those whose marks it holds)."""
        mine = [
            b
            for bs in self.blocks
            for b in bs
            if b.run == run or any(m.run == run for m in b.marks)
        ]
        return min(b.low for b in mine), max(b.high for b in mine)

    def to_json(self) -> dict[str, Any]:
        """A document of plain values."""
        document = {f.name: getattr(self, f.name) for f in fields(self)}
        document["blocks"] = [[_packed(b) for b in bs] for bs in self.blocks]
        document["debts"] = [[asdict(d) for d in ds] for ds in self.debts]
        return {"version": VERSION, **document}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Ledger:
        """The ledger of a document that `to_json` made."""
        if document.get("version") not in READABLE:
            raise CheckpointError(
                "JOIN_STATE_VERSION",
                f"the join's state has version {document.get('version')!r}, expected {VERSION}",
                hint="start with a new checkpointLocation, or use the version that wrote it",
            )
        rest = {k: v for k, v in document.items() if k != "version"}
        rest["blocks"] = [[_unpacked(b) for b in bs] for bs in rest["blocks"]]
        rest["debts"] = [[Debt(**d) for d in ds] for ds in rest["debts"]]
        return cls(**rest)


_FIELDS = tuple(f.name for f in fields(Block))


def _packed(block: Block) -> list[Any]:
    """A block as a list: there may be thousands, and names would be most of the text."""
    return [getattr(block, name) for name in _FIELDS]


def _unpacked(values: Sequence[Any]) -> Block:
    named = dict(zip(_FIELDS, values))
    buckets = named["buckets"]
    named["buckets"] = None if buckets is None else tuple(buckets)
    marks = named["marks"] or []
    if marks and isinstance(marks[0], str):  # version 2
        marks = [[*marks, *(named["buckets"] or (0, BUCKETS))]]
    named["marks"] = tuple(Marked(*m) for m in marks)
    return Block(**named)


def resident_places(document: dict[str, Any]) -> Iterator[tuple[str, int]]:
    """Run and offset of the resident blocks of a document, and of their marks."""
    for packed in (b for side in document["blocks"] for b in side):
        block = _unpacked(packed)
        if resides(block):
            yield block.run, block.offset
            yield from ((m.run, m.offset) for m in block.marks)


def place_of(block: Block) -> Located:
    """Where a block is stored."""
    return Located(block.run, block.offset, block.length, block.crc)
