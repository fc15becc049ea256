"""Merging small files of blocks: batches are small, and each leaves a file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.kernels.joins.bounded.chunks import split
from slackwater.kernels.joins.bounded.marks import Marks
from slackwater.kernels.joins.bounded.probe import present_in
from slackwater.kernels.joins.bounded.residence import Residence
from slackwater.kernels.joins.step import TIME
from slackwater.model.names import ours
from slackwater.semantics.join_memory import Block, BlockRules, resides

_MARK = ours("_found")


def merge_runs(
    house: Residence, side: int, rules: BlockRules, dead: int, marks: Marks | None
) -> int:
    """Merge neighbouring small files of a side if there are many; returns how many blocks went.

    Blocks that all debts treat alike may share the number of one of them. Blocks in debt stay as they are. Rows older
    than ``dead`` are left out. At most a chunk's worth of rows is held.
    """
    runs = {b.run for b in house.ledger.blocks[side]}
    if len(runs) <= house.policy.merge_runs:
        return 0
    groups = list(_groups(house, side, rules))
    for group in groups:
        _merge(house, side, group, dead, marks)
    return sum(len(g) for g in groups)


def _groups(house: Residence, side: int, rules: BlockRules) -> Iterator[list[Block]]:
    """Stretches of small files that lie side by side, and that fit in a chunk together."""
    debts = house.ledger.debts[1 - side]
    least = max(2, house.policy.merge_runs // 2)
    group: list[Block] = []
    for block in house.ledger.blocks[side]:
        owing = house.ledger.owing(side, block.number)
        size = sum(b.bytes for b in group) + block.bytes
        fits = size <= house.areas.chunk and rules.alike([*group[:1], block], debts)
        if group and (owing or not fits):
            if len({b.run for b in group}) >= least:
                yield group
            group = []
        if not owing:
            group.append(block)
    if len({b.run for b in group}) >= least:
        yield group


def _merge(
    house: Residence, side: int, group: Sequence[Block], dead: int, marks: Marks | None
) -> None:
    parts = []
    for block in group:
        loaded = house.load(side, block)
        table = loaded.table
        if marks is not None:
            flags = marks.of(block)
            flags = flags if loaded.places is None else flags[loaded.places]
            table = table.append_column(_MARK, pa.array(flags))
        parts.append(table.filter(pc.greater_equal(table.column(TIME), dead)))
        house.drop(side, block)
    rows = pa.concat_tables(parts).combine_chunks()
    del parts
    size = max(1, -(-rows.nbytes // house.areas.block))
    pieces = split(rows, min(size, len(group))) if rows.num_rows else []
    made = []
    worth = sum(b.worth for b in group) / max(1, len(pieces))
    for old, piece in zip(group, pieces):
        table = piece.drop_columns([_MARK]) if marks is not None else piece
        times = pc.min_max(table.column(TIME))
        low, high = times["min"].as_py(), times["max"].as_py()
        block = Block(old.number, low, high, table.num_rows, table.nbytes, old.place, worth)
        block.present = present_in(table)
        kind = f"merged{side}n{group[0].number}"
        at = house.store.append(kind, table, keep=resides(block))
        block.run, block.offset, block.length, block.crc = at
        made.append((block, piece))
    if marks is not None:
        for block in group:
            marks.forget(block)
        for block, piece in made:
            flags = piece.column(_MARK).combine_chunks().to_numpy(zero_copy_only=False)
            marks.put(block, np.array(flags, dtype=np.bool_))
    gone = {id(b) for b in group}
    kept = [b for b in house.ledger.blocks[side] if id(b) not in gone]
    house.ledger.blocks[side] = sorted([*kept, *(b for b, _ in made)], key=lambda b: b.number)
