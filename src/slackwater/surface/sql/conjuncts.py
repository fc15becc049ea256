"""Conditions taken apart at their ANDs, on tokens: which parts go into a join."""

from __future__ import annotations

from collections.abc import Sequence

from slackwater.surface.sql.cursor import Cursor
from slackwater.surface.sql.tokens import Token
from slackwater.surface.sql.tree import Cut


def conjuncts(cursor: Cursor, cut: Cut) -> list[Cut]:
    """The parts between ANDs that stand in no bracket, no BETWEEN and no CASE; all of it if there is an OR beside them."""
    tokens = cursor.tokens
    cuts: list[int] = []
    depth = between = cases = 0
    for i in range(cut.first, cut.last):
        token = tokens[i]
        if token.is_sign("(", "[", "{"):
            depth += 1
        elif token.is_sign(")", "]", "}"):
            depth -= 1
        elif depth or token.kind != "word":
            continue
        elif token.is_word("CASE"):
            cases += 1
        elif token.is_word("END"):
            cases = max(0, cases - 1)
        elif cases:
            continue
        elif token.is_word("BETWEEN"):
            between += 1
        elif token.is_word("OR"):
            return [cut]
        elif token.is_word("AND"):
            if between:
                between -= 1
            else:
                cuts.append(i)
    ends = [*cuts, cut.last]
    starts = [cut.first, *(i + 1 for i in cuts)]
    parts = [cursor.cut(a, b) for a, b in zip(starts, ends, strict=True) if a < b]
    return [inner for part in parts for inner in _bare(cursor, part)]


def _bare(cursor: Cursor, cut: Cut) -> list[Cut]:
    """What stands in brackets that go around all of a part is taken apart too."""
    tokens = cursor.tokens
    if not (tokens[cut.first].is_sign("(") and tokens[cut.last - 1].is_sign(")")):
        return [cut]
    depth = 0
    for i in range(cut.first, cut.last):
        depth += tokens[i].is_sign("(", "[", "{") - tokens[i].is_sign(")", "]", "}")
        if depth == 0 and i < cut.last - 1:
            return [cut]
    if cut.last - cut.first < 3:
        return [cut]
    inner = conjuncts(cursor, cursor.cut(cut.first + 1, cut.last - 1))
    return inner if len(inner) > 1 else [cut]


def equality(tokens: Sequence[Token]) -> tuple[int, int] | None:
    """Of ``a.x = b.y`` the number of the sign among the tokens, and how many there are."""
    signs = [i for i, t in enumerate(tokens) if t.is_sign("=", "==")]
    if len(signs) != 1:
        return None
    plain = all(t.is_name or t.is_sign(".", "=", "==") for t in tokens)
    return (signs[0], len(tokens)) if plain else None
