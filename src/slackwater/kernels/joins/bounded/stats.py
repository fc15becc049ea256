"""What a batch of a bounded join did, and what it leaves."""

from __future__ import annotations

from dataclasses import dataclass, field

from slackwater.kernels.joins.bounded.blocks import Counts
from slackwater.kernels.joins.bounded.ledger import Ledger
from slackwater.semantics.join_memory import resides


@dataclass
class Stats:
    """Figures of one batch; pairs of numbers are (left, right), sizes are bytes, ages microseconds.

    ``owed`` is the backlog: rows that have yet to meet a part of the other side. ``overdue`` rows paid their debt
    only when they would have been gone otherwise. ``delayed`` results came from passes. ``delays`` are pairs
    of a delay in microseconds and how many results had it (`semantics.join_delay`). What steers the division of
    memory: ``frequency`` is the bytes that arrive per batch, ``worth`` the results that blocks have given, both faded.
    ``read`` is what was read from state files, ``pass_read`` the part that passes read; ``kept`` is what the executor had kept.
    """

    arrived_rows: list[int] = field(default_factory=lambda: [0, 0])
    results: int = 0
    delayed_results: int = 0
    delays: list[list[int]] = field(default_factory=list)
    passes: dict[str, int] = field(default_factory=dict)
    paid_rows: int = 0
    overdue_rows: int = 0
    owed_rows: list[int] = field(default_factory=lambda: [0, 0])
    owed_bytes: list[int] = field(default_factory=lambda: [0, 0])
    owed_age: int = 0
    resident_bytes: list[int] = field(default_factory=lambda: [0, 0])
    frequency: list[int] = field(default_factory=lambda: [0, 0])
    worth: list[int] = field(default_factory=lambda: [0, 0])
    productive_blocks: int = 0
    blocks: list[int] = field(default_factory=lambda: [0, 0])
    state_bytes: int = 0
    promoted: int = 0
    evicted: int = 0
    expired_blocks: int = 0
    merged_blocks: int = 0
    read_bytes: int = 0
    pass_read_bytes: int = 0
    kept_bytes: int = 0
    reads: int = 0
    seeks: int = 0
    written_bytes: int = 0


def sum_up(stats: Stats, ledger: Ledger, counts: Counts, before: Counts, now: int) -> None:
    """Add what is known at the end of a batch."""
    for side in (0, 1):
        stats.owed_rows[side] = sum(d.rows for d in ledger.debts[side])
        stats.owed_bytes[side] = sum(d.bytes for d in ledger.debts[side])
        stats.blocks[side] = len(ledger.blocks[side])
        stats.frequency[side] = round(ledger.frequency[side])
        stats.worth[side] = round(sum(b.worth for b in ledger.blocks[side]))
        stats.resident_bytes[side] = sum(b.bytes for b in ledger.blocks[side] if resides(b))
    since = [d.since for ds in ledger.debts for d in ds]
    stats.owed_age = now - min(since) if since else 0
    every = [b for bs in ledger.blocks for b in bs]
    stats.productive_blocks = sum(b.place == "productive" for b in every)
    stats.state_bytes = sum(b.length for b in every)
    stats.reads = counts.reads - before.reads
    stats.read_bytes = counts.read_bytes - before.read_bytes
    stats.kept_bytes = counts.kept_bytes - before.kept_bytes
    stats.seeks = counts.seeks - before.seeks
    stats.written_bytes = counts.written_bytes - before.written_bytes
