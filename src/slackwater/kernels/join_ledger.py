"""What a join in little memory knows of its blocks from one batch to the next: a small JSON document.

The rows are in block files; here is which blocks live, where, who resides in memory, and who has yet to meet whom.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from slackwater.errors import CheckpointError
from slackwater.kernels.join_blocks import Located
from slackwater.semantics.join_memory import Block, Debt, owes

VERSION = 2


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
            b.marks[0] for bs in self.blocks for b in bs if b.marks
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
            if b.run == run or (b.marks is not None and b.marks[0] == run)
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
        if document.get("version") != VERSION:
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
    block: Any = Block
    made: Block = block(*(tuple(v) if isinstance(v, list) else v for v in values))
    return made


def place_of(block: Block) -> Located:
    """Where a block is stored."""
    return Located(block.run, block.offset, block.length, block.crc)


def narrowed(ledger: Ledger, buckets: tuple[int, int]) -> Ledger:
    """The part of a group's state that lies in the buckets [first, end), without touching a file."""
    copy = Ledger.from_json(ledger.to_json())
    first, end = buckets
    for block in (b for bs in copy.blocks for b in bs):
        a, b = block.buckets or buckets
        block.buckets = (max(a, first), max(a, first, min(b, end)))
    return copy


def united(a: Ledger, b: Ledger) -> Ledger:
    """The state of two groups as that of one.

    Keys of one never occur in the other, so the blocks of one need not meet those of the other. The numbers of
    ``b`` are moved behind those of ``a``, and its debts with them: no debt of either comes to need a block of the other.
    """
    a, b = Ledger.from_json(a.to_json()), Ledger.from_json(b.to_json())
    for side in (0, 1):
        own, other = a.numbers[side], a.numbers[1 - side]
        a.blocks[side] += [replace(x, number=x.number + own) for x in b.blocks[side]]
        a.debts[side] += [
            replace(
                d,
                first=d.first + own,
                end=d.end + own,
                upto=d.upto + other,
                skip=[n + other for n in d.skip],
                done=d.done + other,
                floor_upto=d.floor_upto + other,
            )
            for d in b.debts[side]
        ]
    a.numbers = [x + y for x, y in zip(a.numbers, b.numbers)]
    a.frequency = [x + y for x, y in zip(a.frequency, b.frequency)]
    a.paid = [x + y for x, y in zip(a.paid, b.paid)]
    a.last_pass = min(a.last_pass, b.last_pass)
    return a
