"""Text: functions whose null rules, positions and empty cases are made Spark's.

Letter case (``upper``, ``lower``, ``initcap``) and ``reverse`` are not here: the engines differ
outside ASCII.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from slackwater.kernels.translate.typed import Context, Handler, Typed, call, text_literal
from slackwater.kernels.translate.types import INTEGERS, NotTranslatable

# A regular expression that Java and RE2 read the same: plain characters, classes without
# negation or escapes, groups, alternation, greedy repetition, an anchor at the start.
_REGEX = re.compile(
    r"\^?(?:[A-Za-z0-9 _,:;=@#%&~<>/'\"!-]|\\[.^$|()*+?\[\]{}\\]"
    r"|\[(?:[A-Za-z0-9 _](?:-[A-Za-z0-9])?)+\]|\((?!\?)|\)|\||(?<=[\w\])])[*+?](?![*+?{]))*$"
)


def _texts(args: Sequence[Typed], name: str, count: int | None = None) -> None:
    if count is not None and len(args) != count:
        raise NotTranslatable(f"{name} with {len(args)} arguments")
    if any(a.type != "string" for a in args):
        raise NotTranslatable(f"{name} of {', '.join(a.type for a in args)}")


def _simple(name: str, count: int, template: str, type: str) -> Handler:
    def handler(ctx: Context, args: Sequence[Typed]) -> Typed:
        _texts(args, name, count)
        return call(args, template.format(*(a.sql for a in args)), type)

    return handler


def concat(ctx: Context, args: Sequence[Typed]) -> Typed:
    """``concat``: null if any is."""
    _texts(args, "concat")
    if not args:
        return Typed("''", "string", "", True, nullable=False)
    return call(args, "(" + " || ".join(a.sql for a in args) + ")", "string")


def concat_ws(ctx: Context, args: Sequence[Typed]) -> Typed:
    """``concat_ws``: skips nulls, but not of the separator."""
    _texts(args, "concat_ws")
    if len(args) < 2 or any(a.raises for a in args):
        raise NotTranslatable("concat_ws of nothing, or of what may fail")
    return Typed(
        f"concat_ws({', '.join(a.sql for a in args)})", "string", nullable=args[0].nullable
    )


def substring(ctx: Context, args: Sequence[Typed]) -> Typed:
    """``substring(s, from, length)``: a negative start counts from the end, 0 is 1."""
    if len(args) not in (2, 3) or args[0].type != "string":
        raise NotTranslatable(f"substring of {', '.join(a.type for a in args)}")
    s, start = args[0], args[1]
    length = args[2].sql if len(args) == 3 else "2147483647"
    if any(a.type != "int" for a in args[1:]):
        raise NotTranslatable("substring at positions that are no int")
    if isinstance(start.value, int) and start.value >= 0:
        begin, first = str(max(start.value - 1, 0)), str(max(start.value - 1, 0))
    else:
        begin = (
            f"(CASE WHEN {start.sql} > 0 THEN {start.sql}::BIGINT - 1 WHEN {start.sql} < 0"
            f" THEN length({s.sql}) + {start.sql}::BIGINT ELSE 0 END)"
        )
        first = f"greatest({begin}, 0)"
    end = f"({begin} + {length}::BIGINT)"
    sql = (
        f"(CASE WHEN {end} <= {first} THEN '' ELSE"
        f" substring({s.sql}, {first} + 1, {end} - {first}) END)"
    )
    nulls = " OR ".join(f"{a.sql} IS NULL" for a in args if a.nullable)
    if nulls:
        sql = f"(CASE WHEN {nulls} THEN NULL ELSE {sql} END)"
    return call(args, sql, "string")


def trimmed(where: str, args: Sequence[Typed]) -> Typed:
    """``TRIM`` of spaces only, or of given constant characters."""
    _texts(args, "trim")
    name = {"BOTH": "trim", "LEADING": "ltrim", "TRAILING": "rtrim"}.get(where.upper() or "BOTH")
    chars = "' '" if len(args) == 1 else args[1].sql
    if name is None or (len(args) > 1 and not args[1].value):
        raise NotTranslatable("trim of characters that are no constant")
    return call(args[:1], f"{name}({args[0].sql}, {chars})", "string")


def _trim(where: str) -> Handler:
    def handler(ctx: Context, args: Sequence[Typed]) -> Typed:
        if len(args) != 1:
            raise NotTranslatable("trim of given characters")
        return trimmed(where, args)

    return handler


def _pad(name: str) -> Handler:
    def handler(ctx: Context, args: Sequence[Typed]) -> Typed:
        if len(args) != 3 or [a.type for a in args] != ["string", "int", "string"]:
            raise NotTranslatable(f"{name} of {', '.join(a.type for a in args)}")
        s, width, pad = args
        if not isinstance(width.value, int) or not isinstance(pad.value, str) or not pad.value:
            raise NotTranslatable(f"{name} to a width or with a text that is no constant")
        if width.value <= 0:
            sql = f"(CASE WHEN {s.sql} IS NULL THEN NULL ELSE '' END)"
        else:
            sql = f"{name}({s.sql}, {width.value}, {pad.sql})"
        return call((s,), sql, "string")

    return handler


def repeat(ctx: Context, args: Sequence[Typed]) -> Typed:
    """``repeat(s, n)``."""
    if len(args) != 2 or args[0].type != "string" or args[1].type not in INTEGERS:
        raise NotTranslatable("repeat of other than text and integer")
    return call(args, f"repeat({args[0].sql}, CAST({args[1].sql} AS BIGINT))", "string")


def locate(ctx: Context, args: Sequence[Typed]) -> Typed:
    """``locate(part, s, 1)``, also called position."""
    if len(args) == 3 and args[2].value == 1:
        args = args[:2]
    _texts(args, "locate", 2)
    return call(args, f"CAST(instr({args[1].sql}, {args[0].sql}) AS INTEGER)", "int")


def like(a: Typed, pattern: Typed, escape: str = "\\") -> Typed:
    """``LIKE`` a constant pattern; only ``% _`` and the escape character may be escaped."""
    if a.type != "string" or not isinstance(pattern.value, str):
        raise NotTranslatable("like a pattern that is no constant")
    text, i = pattern.value, 0
    while i < len(text):
        if text[i] == escape:
            if i + 1 >= len(text) or text[i + 1] not in ("%", "_", escape):
                raise NotTranslatable(f"escape in the pattern '{text}'")
            i += 1
        i += 1
    sql = f"({a.sql} LIKE {pattern.sql}"
    if escape in text:
        sql += f" ESCAPE {text_literal(escape)}"
    return call((a,), sql + ")", "boolean")


def rlike(ctx: Context, args: Sequence[Typed]) -> Typed:
    """``rlike`` a constant that both regular expression engines read the same."""
    _texts(args, "rlike", 2)
    a, pattern = args
    if not isinstance(pattern.value, str) or not _REGEX.match(pattern.value):
        raise NotTranslatable("rlike a pattern that Java and RE2 may read differently")
    return call((a,), f"regexp_matches({a.sql}, {pattern.sql})", "boolean")


FUNCTIONS: dict[str, Handler] = {
    "concat": concat, "concat_ws": concat_ws,
    "length": _simple("length", 1, "CAST(length({0}) AS INTEGER)", "int"),
    "char_length": _simple("char_length", 1, "CAST(length({0}) AS INTEGER)", "int"),
    "character_length": _simple("character_length", 1, "CAST(length({0}) AS INTEGER)", "int"),
    "len": _simple("len", 1, "CAST(length({0}) AS INTEGER)", "int"),
    "octet_length": _simple("octet_length", 1, "CAST(strlen({0}) AS INTEGER)", "int"),
    "substring": substring, "substr": substring,
    "ltrim": _trim("LEADING"), "rtrim": _trim("TRAILING"), "btrim": _trim("BOTH"),
    "replace": _simple("replace", 3, "replace({0}, {1}, {2})", "string"),
    "startswith": _simple("startswith", 2, "starts_with({0}, {1})", "boolean"),
    "endswith": _simple("endswith", 2, "ends_with({0}, {1})", "boolean"),
    "contains": _simple("contains", 2, "contains({0}, {1})", "boolean"),
    "lpad": _pad("lpad"), "rpad": _pad("rpad"), "repeat": repeat,
    "instr": _simple("instr", 2, "CAST(instr({0}, {1}) AS INTEGER)", "int"),
    "locate": locate, "position": locate, "rlike": rlike,
}  # fmt: skip
