"""Names and texts as DuckDB, the column engine, reads them."""

from __future__ import annotations


def quote(name: str) -> str:
    """An identifier."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A string literal."""
    return "'" + text.replace("'", "''") + "'"
