"""Blocks of texts with the Python calls that they stand for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from slackwater.surface.sql.text import SqlText
from slackwater.surface.sql.tokens import tokens_of

FILE = Path(__file__).with_name("same_trees.sql")
MARK = "-- python: "


@dataclass(frozen=True)
class Block:
    python: str
    texts: tuple[str, ...]


def blocks(file: Path = FILE) -> list[Block]:
    """The blocks of a file."""
    made = []
    for part in file.read_text(encoding="utf-8").split(MARK)[1:]:
        python, _, rest = part.partition("\n")
        made.append(Block(python.strip(), tuple(statements(rest))))
    return made


def statements(text: str) -> list[str]:
    """A text cut at its semicolons."""
    pieces, at = [], 0
    for token in tokens_of(SqlText(text)):
        if token.is_sign(";"):
            pieces.append(text[at : token.start].strip())
            at = token.end
    return pieces


@cache
def texts() -> list[str]:
    """All texts."""
    return [t for b in blocks() for t in b.texts]
