"""Which patterns a consumer can use: those on columns that it tells groups by, and on its time."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd

from slackwater.model.schema import Expr
from slackwater.semantics.limits import aligned
from slackwater.semantics.patterns import Patterns, Test, merged

# A word that is no literal: a number begins with a digit.
_PLAIN = re.compile(r"`((?:[^`]|``)+)`|((?!(?:true|false|null)$)[^\W\d]\w*)", re.IGNORECASE)


def plain_column(expr: Expr) -> str | None:
    """The column that an expression just is, or None.

    >>> [plain_column(Expr(sql, "int")) for sql in ("`a b`", "nulls", "a + 1", "1", "NULL", "`null`")]
    ['a b', 'nulls', None, None, None, 'null']
    """
    m = _PLAIN.fullmatch(expr.sql.strip())
    if m is None:
        return None
    return m[1].replace("``", "`") if m[1] is not None else m[2]


def plain_field(expr: Expr) -> str | None:
    """The field of a column that an expression just is, with a dot between the names, or None.

    >>> [plain_field(Expr(sql, "int")) for sql in ("`w`.`end`", "w.start", "a", "f(a).b", "a.b.c")]
    ['w.end', 'w.start', None, None, None]
    """
    parts = re.split(r"(?<=[`\w])\.(?=[`\w])", expr.sql.strip())
    names = [plain_column(Expr(p, "")) for p in parts]
    return None if len(names) != 2 or None in names else f"{names[0]}.{names[1]}"


@dataclass(frozen=True)
class Want:
    """A consumer that can use patterns on these columns; its windows end at ``origin + k*slide`` of ``time``."""

    columns: frozenset[str]
    time: str = ""
    slide: int = 1
    origin: int = 0


def described(patterns: Patterns, wanted: Sequence[Want]) -> Patterns:
    """Only what some consumer can use, "before v" rounded down to where its windows end.

    Fewer patterns say the same to these consumers; a pattern that would say nothing is left out.
    """
    useful = []
    for p in patterns:
        able = [w for w in wanted if set(p.columns) <= w.columns]
        if not able:
            continue
        times = {w.time for w in able}
        if len(times) == 1 and (time := times.pop()):
            test = p.test(time)
            limit = None if test is None else test.limit
            if isinstance(limit, int):
                first = able[0]
                grain = gcd(*(w.slide for w in able), *(w.origin - first.origin for w in able))
                p = p.replaced(time, Test.below(aligned(limit, grain, first.origin)))
        useful.append(p)
    return merged(useful)
