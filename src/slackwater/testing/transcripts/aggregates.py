"""Aggregate columns of a transcript, cut into primitives without Spark."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from slackwater.model.aggregate import TRAITS, Primitive
from slackwater.model.schema import Expr
from slackwater.model.time import TimeColumn

_CALLED = sorted([*TRAITS, "median", "first", "last"], key=len, reverse=True)
_CALL = re.compile(rf"\b({'|'.join(_CALLED)})\s*\(", re.IGNORECASE)
_OF_ARGUMENT = (
    "sum", "min", "max", "max_by", "min_by", "sum_distinct", "mode", "percentile_approx",
)  # fmt: skip


def cut_calls(
    text: str, read: Callable[[str], Expr], primitives: list[Primitive], time: TimeColumn
) -> str:
    """The text with every aggregate call replaced by the name of its primitive, which is added.

    ``read`` gives an expression of the rows; ``time`` orders first, last and collect_list.
    """
    out, at = "", 0
    while m := _CALL.search(text, at):
        depth, end = 1, m.end()
        while depth:
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            end += 1
        function, words, params = _call(m[1].lower(), text[m.end() : end - 1], time)
        args = tuple(read(a) for a in words)
        out += text[at : m.start()] + _primitive(function, args, params, primitives)
        at = end
    return out + text[at:]


def _call(function: str, inside: str, time: TimeColumn) -> tuple[str, list[str], tuple[Any, ...]]:
    """(primitive, arguments, constants) of a call such as ``percentile(v, 0.5)``."""
    if inside.strip() in ("*", "1"):
        return function, [], ()
    distinct = re.match(r"\s*DISTINCT\b", inside, re.IGNORECASE)
    words = re.split(r",(?![^(]*\))", inside[distinct.end() if distinct else 0 :])
    at = f"{time.name}.end" if time.kind == "window" else time.name
    if distinct:
        return f"{function}_distinct", words, ()
    if function == "median":
        return "percentile", words, ((0.5,), False, False)
    if function in ("first", "last"):
        return "min_by" if function == "first" else "max_by", [words[0], at], ()
    if function == "collect_list":
        return function, [words[0], at], ()
    if function == "percentile":
        return function, words[:1], ((float(words[1]),), False, False)
    if function == "percentile_approx":
        accuracy = int(words[2]) if len(words) > 2 else 10_000
        return function, words[:1], ((float(words[1]),), False, accuracy)
    return (function, words[:1], ()) if function == "mode" else (function, words, ())


def _primitive(
    function: str, args: tuple[Expr, ...], params: tuple[Any, ...], primitives: list[Primitive]
) -> str:
    for p in primitives:
        if (p.function, p.args, p.params) == (function, args, params):
            return p.column
    if function in ("count", "count_distinct"):
        type = "bigint"
    elif function in _OF_ARGUMENT:
        type = args[0].type
    elif function.startswith("collect"):
        type = f"array<{args[0].type}>"
    else:
        type = "boolean" if function.startswith("bool") else "double"
    primitives.append(Primitive(f"_a{len(primitives)}", function, args, type, params))
    return primitives[-1].column
