"""Names as Spark reads them."""

from __future__ import annotations


def quoted(name: str) -> str:
    """A name in backquotes."""
    return "`" + name.replace("`", "``") + "`"
