"""How deep a query may be: calls that stand in each other while a tree is walked.

Expressions and chains of operators are trees, and who walks a tree calls itself once per level, through a few functions.
Spark takes over a thousand levels, which is more than Python lets calls nest by default. sqlglot and pickle recurse too, so that
walks of ours without recursion would not be enough.
"""

from __future__ import annotations

import re
import sys

CALLS = 10_000
"""Calls that may stand in each other. Python 3.10 needs about half a kilobyte of a thread's stack for each, of the usual 8 MB."""


_QUOTED = re.compile(r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"]|\"\")*\"|`(?:[^`]|``)*`", re.DOTALL)
_LEVELS = re.compile(r"\(|\)|\bCASE\b|\bEND\b")


def make_room() -> None:
    """Let calls nest so deep, in this whole process. A greater limit of the user's stays."""
    if sys.getrecursionlimit() < CALLS:
        sys.setrecursionlimit(CALLS)


def nesting(sql: str) -> int:
    """How many brackets and CASEs of a text stand in each other at the most.

    >>> nesting("f((`a(` + '((') + 1)"), nesting("CASE WHEN a THEN CASE WHEN b THEN (1) END END"), nesting("a")
    (2, 3, 0)
    """
    depth = deepest = 0
    for found in _LEVELS.finditer(_QUOTED.sub("", sql)):
        depth += 1 if found[0] in ("(", "CASE") else -1
        deepest = max(deepest, depth)
    return deepest
