"""Names as Spark reads them."""

from __future__ import annotations

import re

_PART = re.compile(r"`(?:[^`]|``)+`|[^`.]+")
_NAME = re.compile(rf"(?:{_PART.pattern})(?:\.(?:{_PART.pattern}))*")


def quoted(name: str) -> str:
    """A name in backquotes."""
    return "`" + name.replace("`", "``") + "`"


def name_parts(name: str) -> tuple[str, ...]:
    """The parts between the dots of a name; a text that is no such name is one part.

    >>> name_parts("s.x"), name_parts("`s.x`"), name_parts("`a``b`.`c`.d"), name_parts(".x")
    (('s', 'x'), ('s.x',), ('a`b', 'c', 'd'), ('.x',))
    """
    if _NAME.fullmatch(name) is None:
        return (name,)
    parts = _PART.findall(name)
    return tuple(p[1:-1].replace("``", "`") if p[0] == "`" else p for p in parts)
