"""Tables for people: columns that stand below each other, the same on a terminal and in a pipe."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Numbers to the right, all else to the left.

    >>> print(table(["reason", "rows"], [["late", 12], ["future", 3]]))
    reason  rows
    late      12
    future     3
    """
    texts = [[_text(cell) for cell in row] for row in rows]
    widths = [max(len(cell) for cell in column) for column in zip(head, *texts, strict=True)]
    right = [all(isinstance(r[i], int | None) for r in rows) and any(r[i] is not None for r in rows)
             for i in range(len(head))]  # fmt: skip
    lines = [
        "  ".join(
            c.rjust(w) if r else c.ljust(w) for c, w, r in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in [list(head), *texts]
    ]
    return "\n".join(lines)


def _text(cell: Any) -> str:
    if cell is None:
        return "-"
    return f"{cell:,}" if isinstance(cell, int) else str(cell)
