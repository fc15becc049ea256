"""Row expressions for the oracle: a small part of SQL, evaluated row by row with SQL's nulls.

The texts are valid Spark SQL: names (backquoted or not, ``window.end`` for a field of a struct),
numbers, strings in single quotes, ``+ - * / %``, comparisons, ``AND OR NOT``, ``IS [NOT] NULL``, and
the functions in `FUNCTIONS`. Anything else is an error.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from slackwater.errors import AnalysisError

Row = Mapping[str, Any]
Evaluate = Callable[[Row], Any]

_TOKEN = re.compile(
    r"""\s*(?:
    (?P<string>'(?:[^']|'')*') |
    (?P<quoted>`(?:[^`]|``)*`) |
    (?P<number>\d+(?:\.\d+)?) |
    (?P<word>[A-Za-z_][A-Za-z0-9_]*) |
    (?P<symbol><=|>=|<>|!=|==|=|<|>|[-+*/%(),.])
    )""",
    re.VERBOSE,
)
_SYMBOLS = {"=": "==", "<>": "!="}
_WORDS = {"and": "and", "or": "or", "not": "not", "null": "None", "true": "True", "false": "False"}


def _ansi_divide(a: Any, b: Any) -> Any:
    if b == 0:
        raise ZeroDivisionError("division by zero, an error in Spark's ANSI mode")
    return a / b


def _remainder(a: Any, b: Any) -> Any:
    # The sign of the dividend, as in Spark; Python's % has the divisor's.
    if isinstance(a, float) or isinstance(b, float):
        return math.fmod(a, b)
    rest = abs(a) % abs(b)
    return -rest if a < 0 else rest


_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: _ansi_divide,
    ast.Mod: _remainder,
}
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": lambda x: None if x is None else abs(x),
    "coalesce": lambda *xs: next((x for x in xs if x is not None), None),
    "greatest": lambda *xs: max((x for x in xs if x is not None), default=None),
    "least": lambda *xs: min((x for x in xs if x is not None), default=None),
    "if": lambda c, a, b: a if c is True else b,
}


@lru_cache(maxsize=4096)
def compile_expression(sql: str) -> Evaluate:
    """The function from a row to the expression's value.

    >>> f = compile_expression("v > 10 AND `g` = 'a'")
    >>> f({"v": 11, "g": "a"}), f({"v": None, "g": "a"}), f({"v": None, "g": "b"})
    (True, None, False)
    """
    names: list[str] = []
    try:
        tree = ast.parse(_to_python(sql, names), mode="eval")
    except SyntaxError:
        raise _unknown(sql, "it cannot be parsed") from None
    return _build(tree.body, names, sql)


def _to_python(sql: str, names: list[str]) -> str:
    """The same expression in Python's grammar; column names become ``_0``, ``_1``..."""
    out: list[str] = []
    at = 0
    text = sql.strip()
    while at < len(text):
        m = _TOKEN.match(text, at)
        if m is None:
            raise _unknown(sql, f"{text[at:]!r} is not understood")
        at = m.end()
        if (s := m["string"]) is not None:
            out.append(repr(s[1:-1].replace("''", "'")))
        elif (s := m["quoted"]) is not None:
            out.append(_name(s[1:-1].replace("``", "`"), names))
        elif (s := m["number"]) is not None:
            out.append(s)
        elif (s := m["word"]) is not None:
            word = s.lower()
            if word == "is":
                null = re.compile(r"\s+(not\s+)?null\b", re.IGNORECASE).match(text, at)
                if null is None:
                    raise _unknown(sql, "IS must be followed by NULL or NOT NULL")
                at = null.end()
                # Python's `is` binds as a comparison does, like SQL's.
                out.append(" is not None" if null[1] else " is None")
            elif word in _WORDS:
                out.append(f" {_WORDS[word]} ")
            elif text[at:].lstrip().startswith("("):
                out.append(_name("(" + word, names))
            else:
                out.append(_name(s, names))
        else:
            out.append(_SYMBOLS.get(m["symbol"], m["symbol"]))
    return "".join(out).strip()


def to_duck(sql: str) -> str:
    """The same text for the column engine: every name in double quotes."""
    out: list[str] = []
    at = 0
    text = sql.strip()
    while at < len(text):
        m = _TOKEN.match(text, at)
        if m is None:
            raise _unknown(sql, f"{text[at:]!r} is not understood")
        at = m.end()
        word = m["word"]
        if m["quoted"] is not None:
            out.append(_double_quoted(m["quoted"][1:-1].replace("``", "`")))
        elif word is None or word.lower() in (*_WORDS, "is") or text[at:].lstrip()[:1] == "(":
            out.append(m[0].strip())
        else:
            out.append(_double_quoted(word))
    return re.sub(r" \. ", ".", " ".join(out))


def _double_quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _name(name: str, names: list[str]) -> str:
    if name not in names:
        names.append(name)
    return f"_{names.index(name)}"


def _build(node: ast.expr, names: list[str], sql: str) -> Evaluate:
    if isinstance(node, ast.Constant):
        value = node.value
        return lambda row: value
    if isinstance(node, ast.Name):
        name = names[int(node.id[1:])]
        return lambda row: row[name]
    if isinstance(node, ast.Attribute):
        whole = _build(node.value, names, sql)
        part = names[int(node.attr[1:])]
        return lambda row: _field(whole(row), part)
    if isinstance(node, ast.UnaryOp):
        x = _build(node.operand, names, sql)
        if isinstance(node.op, ast.Not):
            return lambda row: None if (v := x(row)) is None else not v
        if isinstance(node.op, ast.USub):
            return lambda row: None if (v := x(row)) is None else -v
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        return _strict(_BINARY[type(node.op)], node.left, node.right, names, sql)
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        op = node.ops[0]
        if isinstance(op, ast.Is | ast.IsNot):
            x, wanted = _build(node.left, names, sql), isinstance(op, ast.Is)
            return lambda row: (x(row) is None) == wanted
        return _strict(_COMPARE[type(op)], node.left, node.comparators[0], names, sql)
    if isinstance(node, ast.BoolOp):
        parts = [_build(v, names, sql) for v in node.values]
        # The value that decides alone: False in AND, True in OR.
        decides = isinstance(node.op, ast.Or)
        return lambda row: _three_valued([p(row) for p in parts], decides)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        function = names[int(node.func.id[1:])].removeprefix("(")
        if function in FUNCTIONS:
            f, args = FUNCTIONS[function], [_build(a, names, sql) for a in node.args]
            return lambda row: f(*(a(row) for a in args))
        raise _unknown(sql, f"function {function!r} is not known here")
    raise _unknown(sql, f"{type(node).__name__} is not known here")


def _strict(
    f: Callable[[Any, Any], Any], left: ast.expr, right: ast.expr, names: list[str], sql: str
) -> Evaluate:
    """A function that is null where an argument is."""
    a, b = _build(left, names, sql), _build(right, names, sql)

    def evaluate(row: Row) -> Any:
        x, y = a(row), b(row)
        return None if x is None or y is None else f(x, y)

    return evaluate


def _three_valued(values: list[Any], decides: bool) -> bool | None:
    if any(v is decides for v in values):
        return decides
    return None if any(v is None for v in values) else not decides


def _field(value: Any, name: str) -> Any:
    if value is None:
        return None
    return value[name] if isinstance(value, Mapping) else getattr(value, name)


def _unknown(sql: str, why: str) -> AnalysisError:
    return AnalysisError(
        "UNKNOWN_EXPRESSION",
        f"expression {sql!r}: {why}",
        hint="the oracle knows plain arithmetic, comparisons, AND/OR/NOT, IS NULL and a few functions",
        sql=sql,
    )
