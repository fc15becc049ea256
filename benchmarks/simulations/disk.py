"""What a scan of stored blocks costs, by a model of a disk."""

from __future__ import annotations

from collections.abc import Sequence

from slackwater.semantics.join_memory import Block


def scan_cost(blocks: Sequence[Block]) -> tuple[int, int]:
    """Seeks and bytes of reading blocks in their order: one seek per file, and one per gap.

    >>> scan_cost([Block(0, 0, 0, 1, 1, run="a", length=8), Block(1, 0, 0, 1, 1, run="a", offset=8, length=8)])
    (1, 16)
    """
    seeks, at = 0, ("", -1)
    for b in blocks:
        seeks += at != (b.run, b.offset)
        at = (b.run, b.offset + b.length)
    return seeks, sum(b.length for b in blocks)


def disk_time(seeks: int, size: int, *, seek: float, bandwidth: float) -> float:
    """Seconds that a disk takes: a seek costs ``seek`` seconds, and a second moves ``bandwidth`` bytes.

    >>> disk_time(3, 2_000_000, seek=0.01, bandwidth=1e6)
    2.03
    """
    return seeks * seek + size / bandwidth
