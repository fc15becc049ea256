"""Numbers made readable: medians, ratios with their spread, verdicts, tables as text and as Markdown."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import chain
from statistics import median
from typing import Any

OPEN, CLOSE = "<!-- bench-windows table -->", "<!-- /bench-windows table -->"


def ratio(native: Sequence[Sequence[float]], ours: Sequence[Sequence[float]]) -> dict[str, float]:
    """How many times faster ours is: ratio of medians over all batches, and the extremes over rounds.

    Each argument has one list of batch seconds per round; round i of both ran in turns.
    """
    rounds = [median(n) / median(o) for n, o in zip(native, ours, strict=True)]
    return {
        "ratio": median(chain(*native)) / median(chain(*ours)),
        "least": min(rounds),
        "most": max(rounds),
    }


def verdict(measured: float, target: float, *, least: bool = True) -> str:
    """``met``, or by how much it was missed; ``least``: the target is a lower end."""
    if (measured >= target) if least else (measured <= target):
        return "met"
    short = (1 - measured / target) if least else (measured / target - 1)
    return f"missed by {short:.0%}" if short >= 0.01 else f"missed by {short:.1%}"


def rate(rows: int, seconds: float) -> str:
    """Rows per second, e.g. ``2.1 M``."""
    value = rows / seconds
    if value >= 1e6:
        return f"{value / 1e6:.1f} M" if value < 1e8 else f"{value / 1e6:.0f} M"
    return f"{value / 1e3:.0f} k" if value >= 1e4 else f"{value / 1e3:.1f} k"


def size(bytes: float) -> str:
    """Bytes as MB."""
    return f"{bytes / 1e6:,.0f} MB"


def times(value: float) -> str:
    """A factor, e.g. ``2.5x``."""
    return f"{value:.1f}x" if value < 9.95 else f"{value:.0f}x"


def plain(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A table for a terminal: the first column to the left, the others to the right."""
    cells = [[str(c) for c in row] for row in (head, *rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    lines = [
        "  ".join(c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths)))
        for row in cells
    ]
    return "\n".join([lines[0], "  ".join("-" * w for w in widths), *lines[1:]])


def markdown(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """The same as Markdown."""
    align = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join("| " + " | ".join(str(c) for c in row) + " |" for row in (head, align, *rows))


Table = tuple[Sequence[str], list[list[Any]]]
Shape = Callable[[Sequence[str], Sequence[Sequence[Any]]], str]
Section = tuple[str, str, Table]
"""Title, explanation, table."""


def whole(sections: Sequence[Section], shape: Shape, level: int = 2) -> str:
    """All sections that have lines, with tables shaped by `plain` or `markdown`; ``level`` is that of titles."""
    title = f"{'#' * level} {{}}\n\n{{}}\n\n{{}}" if shape is markdown else "{}\n{}\n\n{}\n"
    return "\n\n".join(
        title.format(name, explanation, shape(*table))
        for name, explanation, table in sections
        if table[1]
    )


def between_markers(text: str, content: str) -> str:
    """The text with what stands between the benchmark's markers replaced."""
    pattern = re.compile(re.escape(OPEN) + r".*?" + re.escape(CLOSE), re.DOTALL)
    if len(pattern.findall(text)) != 1:
        raise ValueError(f"expected exactly one {OPEN} ... {CLOSE}")
    return pattern.sub(lambda _: f"{OPEN}\n\n{content}\n\n{CLOSE}", text)
