"""Deep texts with fewer brackets: Spark's parser takes fewer brackets in each other than it takes terms in a row.

Spark prints each operator in brackets of its own, and reads ``((a + b) + c)`` and ``a + b + c`` as the same tree.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from slackwater.model.depth import nesting

DEEP = 320
"""Texts that are no deeper stay as they are: checkpoints know queries by their texts, and none of a deeper one was ever made."""

_TOKENS = re.compile(r"'(?:[^'\\]|\\.)*'|`(?:[^`]|``)*`|[()]|[^'`()]+", re.DOTALL)
_BINARY = re.compile(r" (\+|-|\*|AND|OR) ")
_LEVEL = {"-": "+"}
_PREFIXES = ("NOT ", "- ")
_ASSOCIATIVE = ("AND", "OR")


@dataclass
class _Group:
    """What stands in a pair of brackets, groups among it; ``called`` if it is what a function is given."""

    parts: list[str | _Group]
    called: bool = False
    operator: str | None = None
    """The one operator of which it consists; of those of a level the first."""

    def without(self, at: int) -> bool:
        """Whether the brackets of the part at that place change nothing."""
        child = self.parts[at]
        assert isinstance(child, _Group)
        if self.operator is None or child.operator != self.operator:
            return False
        if self.operator in _PREFIXES:
            return True
        # Operators of a level are read from left to right.
        return at == 0 or self.operator in _ASSOCIATIVE


def flattened(sql: str) -> str:
    """The text; if it is deep, without the brackets that change nothing.

    >>> flattened("(" * 400 + "a" + " + b)" * 400).count("("), flattened("((a + b) + c)")
    (1, '((a + b) + c)')
    """
    if nesting(sql) <= DEEP:
        return sql
    written: list[str] = []
    todo: list[str | tuple[_Group, int]] = [(_read(sql), 0)]
    while todo:
        at = todo.pop()
        if isinstance(at, str):
            written.append(at)
            continue
        group, number = at
        if number == len(group.parts):
            continue
        todo.append((group, number + 1))
        part = group.parts[number]
        if isinstance(part, str):
            written.append(part)
        elif group.without(number):
            todo.append((part, 0))
        else:
            written.append("(")
            todo += [")", (part, 0)]
    return "".join(written)


def _read(sql: str) -> _Group:
    here = root = _Group([])
    above: list[_Group] = []
    for found in _TOKENS.finditer(sql):
        token = found[0]
        if token == "(":
            before = here.parts[-1] if here.parts else ""
            inner = _Group([], isinstance(before, str) and before[-1:].isalnum())
            here.parts.append(inner)
            above.append(here)
            here = inner
        elif token == ")":
            here.operator = _operator(here)
            here = above.pop()
        else:
            here.parts.append(token)
    return root


def _operator(group: _Group) -> str | None:
    own = [part for part in group.parts if isinstance(part, str) and part[0] not in "'`"]
    found: list[str] = [operator for text in own for operator in _BINARY.findall(text)]
    if group.called or len(found) > 1:
        return None
    if found:
        return _LEVEL.get(found[0], found[0])
    return next((p for p in _PREFIXES if group.parts and group.parts[0] == p), None)
