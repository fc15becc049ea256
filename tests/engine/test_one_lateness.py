"""The low level holds no time against a bound by itself: that would be a second definition of lateness.

The names of operands are what is looked at, so a comparison under other names is not found; `test_lateness` finds it
by what it does.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import slackwater.engine

LOW_LEVEL = Path(slackwater.engine.__path__[0]) / "lowlevel"
JUDGED = re.compile(r"(^|_)(ticks?|times?|bounds?|limits?|least|greatest|EARLIEST|LATEST)$")
SQL = re.compile(r"(^|\s)[<>]=?(\s|$)|\bBETWEEN\b")
ROW_NUMBERS = {"splits.py"}
"""Which rows of a file a split has is a comparison in SQL, too, but not one of times."""


def comparisons(text: str) -> Iterator[str]:
    """Comparisons of a time or a bound with something; whether there is a bound at all may be asked."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Compare):
            continue
        ordered = any(isinstance(o, ast.Lt | ast.LtE | ast.Gt | ast.GtE) for o in node.ops)
        names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
        names |= {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)}
        if ordered and any(JUDGED.search(n) for n in names) and not names & {"START", "END"}:
            yield ast.unparse(node)


def queries(text: str) -> Iterator[str]:
    """Pieces of SQL with a comparison in them."""
    tree = ast.parse(text)
    prose = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or id(node) in prose:
            continue
        if isinstance(node.value, str) and SQL.search(node.value):
            yield node.value


@pytest.mark.parametrize("path", sorted(LOW_LEVEL.glob("*.py")), ids=lambda p: p.name)
def test_times_and_bounds_meet_in_semantics_alone(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not list(comparisons(text)), "ask slackwater.semantics.lateness"
    if path.name not in ROW_NUMBERS:
        assert not list(queries(text)), "ask slackwater.semantics.lateness for the SQL"


@pytest.mark.parametrize(
    "text",
    [
        "late = ticks < bound",
        "late = (v.ticks < bounds) & ~v.null",
        "late = t < self.batch.bound(source, column)",
        "known.greatest <= LATEST",
        'sql = f"{ticks} < {bound}"',
        'sql = f"CASE WHEN {t} BETWEEN {a} AND {b} THEN 1 END"',
    ],
)
def test_a_second_definition_is_found(text: str) -> None:
    assert [*comparisons(text), *queries(text)]
