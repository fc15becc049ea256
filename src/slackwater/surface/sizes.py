"""Sizes of memory as users write them."""

from __future__ import annotations

import re

from slackwater.errors import AnalysisError

_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)i?b?\s*", re.IGNORECASE)


def bytes_of(memory: str | int, what: str) -> int:
    """A number of bytes, or a text such as ``"256m"``; ``what`` takes so much.

    >>> bytes_of("1.5k", "join")
    1536
    """
    if isinstance(memory, int) and not isinstance(memory, bool) and memory > 0:
        return memory
    match = _SIZE.fullmatch(memory) if isinstance(memory, str) else None
    size = 0
    if match is not None:
        size = int(float(match[1]) * 1024 ** " kmgt".index(match[2].lower() or " "))
    if size <= 0:
        raise AnalysisError(
            f"BAD_{what.upper()}",
            f"memory: {memory!r} is not possible here",
            hint='give a size such as "256m"',
        )
    return size
