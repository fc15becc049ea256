"""From Spark's analysed SQL to DuckDB's: an allow-list over the tree, with Spark's types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from slackwater.kernels.translate import arithmetic, conditions, literals, strings, times
from slackwater.kernels.translate.casts import cast
from slackwater.kernels.translate.parse import parse, strip
from slackwater.kernels.translate.typed import Context, Handler, Typed, call, text_literal
from slackwater.kernels.translate.types import (
    FRACTIONS,
    INTEGERS,
    NotTranslatable,
    decimal_of,
    fields_of_struct,
)
from slackwater.model.depth import nesting
from slackwater.model.duck_sql import quote
from slackwater.model.zone import fixed_offset

_Operators = dict[type[exp.Expression], str]
_ARITHMETIC: _Operators = {
    exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%", exp.IntDiv: "div",
}  # fmt: skip
_BITWISE: _Operators = {exp.BitwiseAnd: "&", exp.BitwiseOr: "|", exp.BitwiseXor: "^"}
_COMPARE: _Operators = {
    exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=",
    exp.NullSafeEQ: "IS NOT DISTINCT FROM",
}  # fmt: skip
_TYPES = {
    "TINYINT": "tinyint", "SMALLINT": "smallint", "INT": "int", "BIGINT": "bigint",
    "FLOAT": "float", "DOUBLE": "double", "TEXT": "string", "BOOLEAN": "boolean",
    "DATE": "date", "TIMESTAMPTZ": "timestamp", "TIMESTAMPNTZ": "timestamp_ntz",
}  # fmt: skip
_FUNCTIONS: dict[str, Handler] = {
    "abs": arithmetic.absolute, "ceil": arithmetic.ceiling, "ceiling": arithmetic.ceiling,
    "floor": arithmetic.floor, "round": arithmetic.round_, "sqrt": arithmetic.square_root,
    "exp": arithmetic.exponential, "ln": arithmetic.ln, "log": arithmetic.logarithm,
    "log10": arithmetic.log10, "power": arithmetic.power, "pow": arithmetic.power,
    "sign": arithmetic.sign, "signum": arithmetic.sign, "mod": arithmetic.remainder,
    "pmod": arithmetic.positive_modulus, "e": arithmetic.euler,
    **conditions.FUNCTIONS, **strings.FUNCTIONS, **times.FUNCTIONS,
}  # fmt: skip


DEEPEST = 400
"""Most levels of a text for DuckDB, which takes a thousand of its own; what a statement puts around the text counts as well."""
_TOO_DEEP = f"it is nested more than {DEEPEST} levels deep"


@dataclass(frozen=True)
class Translated:
    """DuckDB's text of an expression, and Spark's type of its result."""

    duck: str
    type: str


def translate(sql: str, columns: Mapping[str, str], *, ansi: bool, zone: str) -> Translated:
    """DuckDB SQL with the meaning of Spark's analysed ``sql``, or ``NotTranslatable``.

    Parameters
    ----------
    sql
        Spark's SQL of the analysed expression: casts explicit, names in backquotes.
    columns
        Name and Spark type of each column. DuckDB holds a ``timestamp`` as TIMESTAMPTZ, a
        ``timestamp_ntz`` as TIMESTAMP, and its session is in UTC.
    ansi
        Whether Spark's ANSI mode is on.
    zone
        Spark's session time zone.

    Examples
    --------
    >>> translate("(`a` + 1)", {"a": "int"}, ansi=True, zone="UTC")
    Translated(duck='add("a", CAST(1 AS INTEGER))', type='int')
    """
    names = {name.lower(): (name, type) for name, type in columns.items()}
    if len(names) != len(columns):
        raise NotTranslatable("columns whose names differ only in case")
    ctx = Context(ansi, zone, names, fixed_offset(zone))
    try:
        done = _Generator(ctx).visit(parse(sql))
    except RecursionError:
        raise NotTranslatable(_TOO_DEEP) from None
    if done.type == "void":
        raise NotTranslatable("NULL of no type")
    if nesting(done.sql) > DEEPEST:
        raise NotTranslatable(_TOO_DEEP)
    return Translated(done.sql, done.type)


def typed(node: exp.Expression, ctx: Context) -> Typed:
    """The translation of a part of a tree."""
    return _Generator(ctx).visit(node)


def type_of(node: exp.DataType) -> str:
    """Spark's name of a type in the tree."""
    kind = node.this
    name = getattr(kind, "name", str(kind))
    if name == "DECIMAL":
        sizes = [int(p.this.this) for p in node.expressions]
        if len(sizes) != 2:
            raise NotTranslatable("decimal without precision and scale")
        return f"decimal({sizes[0]},{sizes[1]})"
    if name not in _TYPES or node.expressions:
        raise NotTranslatable(f"type {node.sql()}")
    return _TYPES[name]


def _terms(node: exp.Expression, kind: type[exp.Expression]) -> list[exp.Expression]:
    """The terms of a chain of ANDs or of ORs, left to right, however they stand in brackets."""
    terms, open = [], [node]
    while open:
        one = strip(open.pop())
        if isinstance(one, kind):
            open += (one.expression, one.this)
        else:
            terms.append(one)
    return terms


class _Generator:
    def __init__(self, ctx: Context):
        self.ctx = ctx

    def visit(self, node: exp.Expression) -> Typed:
        node = strip(node)
        kind = type(node)
        if kind in _ARITHMETIC:
            return self._arithmetic(node, _ARITHMETIC[kind])
        if kind in _BITWISE:
            return arithmetic.bitwise(
                _BITWISE[kind], self.visit(node.this), self.visit(node.expression)
            )
        if kind in _COMPARE:
            return conditions.compare(
                _COMPARE[kind], self.visit(node.this), self.visit(node.expression)
            )
        method = getattr(self, "_visit_" + kind.__name__.lower(), None)
        if method is None:
            raise NotTranslatable(f"{kind.__name__} in {node.sql(dialect='spark')}")
        done = method(node)
        assert isinstance(done, Typed)
        return done

    def _reading(self, node: exp.Expression) -> Context:
        """The context with the columns that a node reads."""
        names = dict.fromkeys(c.parts[0].name.lower() for c in node.find_all(exp.Column))
        return replace(self.ctx, reads=tuple(names))

    def _all(self, nodes: Sequence[exp.Expression]) -> list[Typed]:
        return [self.visit(n) for n in nodes]

    # --- leaves -----------------------------------------------------------------------------------

    def _visit_literal(self, node: exp.Literal) -> Typed:
        if node.is_string:
            return literals.text(str(node.this))
        if str(node.this).isdigit():
            return literals.integer(int(node.this), "int")
        raise NotTranslatable(f"number {node.this} of no known type")

    def _visit_boolean(self, node: exp.Boolean) -> Typed:
        return literals.boolean(bool(node.this))

    def _visit_null(self, node: exp.Null) -> Typed:
        return literals.nothing()

    def _visit_column(self, node: exp.Column) -> Typed:
        return self._path([p.name for p in node.parts])

    def _visit_dot(self, node: exp.Dot) -> Typed:
        parts: list[str] = []
        at: exp.Expression = node
        while isinstance(at, exp.Dot):
            if not isinstance(at.expression, exp.Identifier):
                raise NotTranslatable(f"{node.sql(dialect='spark')}")
            parts.insert(0, at.expression.name)
            at = at.this
        if isinstance(at, exp.Column):
            return self._path([p.name for p in at.parts] + parts)
        return self._fields(self.visit(at), parts)

    def _path(self, parts: Sequence[str]) -> Typed:
        known = self.ctx.columns.get(parts[0].lower())
        if known is None:
            raise NotTranslatable(f"unknown column {parts[0]}")
        name, type = known
        column = Typed(quote(name), type)
        return self._fields(column, parts[1:]) if len(parts) > 1 else column

    def _fields(self, a: Typed, parts: Sequence[str]) -> Typed:
        for part in parts:
            fields = fields_of_struct(a.type)
            alike = [f for f in fields if f[0].lower() == part.lower()]
            if len(alike) != 1:
                raise NotTranslatable(f"field {part} of {a.type}")
            a = call(
                (a,),
                f"struct_extract({a.sql}, {text_literal(alike[0][0])})",
                alike[0][1],
                nullable=True,
            )
        return a

    # --- operators --------------------------------------------------------------------------------

    def _arithmetic(self, node: exp.Expression, operator: str) -> Typed:
        if isinstance(node.expression, exp.Interval):
            return self._interval(node, operator)
        a, b = self.visit(node.this), self.visit(node.expression)
        return arithmetic.binary(self.ctx, operator, a, b)

    def _interval(self, node: exp.Expression, operator: str) -> Typed:
        if operator not in ("+", "-"):
            raise NotTranslatable("an interval times a number")
        a, sign = self.visit(node.this), 1 if operator == "+" else -1
        ctx = self._reading(node)
        value, first, last = interval_parts(node.expression)
        if first.upper() in ("MONTH", "YEAR") and last is None:
            if not value.lstrip("-").isdigit():
                raise NotTranslatable(f"interval '{value}'")
            months = int(value) * (12 if first.upper() == "YEAR" else 1)
            return times.shifted_months(ctx, a, sign * months)
        return times.shifted(ctx, a, sign * literals.interval_micros(value, first, last))

    def _visit_neg(self, node: exp.Neg) -> Typed:
        inner = node.this
        if isinstance(inner, exp.Literal) and not inner.is_string and str(inner.this).isdigit():
            return literals.integer(-int(inner.this), "int")
        if isinstance(inner, exp.Cast) and isinstance(inner.this, exp.Literal):
            kind = type_of(inner.to)
            if not inner.this.is_string or decimal_of(kind) is not None:
                return literals.number("-" + str(inner.this.this), kind)
        return arithmetic.negate(self.ctx, self.visit(inner))

    def _visit_bitwisenot(self, node: exp.BitwiseNot) -> Typed:
        return arithmetic.invert(self.visit(node.this))

    def _visit_and(self, node: exp.And) -> Typed:
        return conditions.every(self._all(_terms(node, exp.And)))

    def _visit_or(self, node: exp.Or) -> Typed:
        return conditions.some(self._all(_terms(node, exp.Or)))

    def _visit_not(self, node: exp.Not) -> Typed:
        inner = strip(node.this)
        return conditions.negation(self.visit(inner))

    def _visit_is(self, node: exp.Is) -> Typed:
        what = strip(node.expression)
        negated = isinstance(what, exp.Not)
        if not isinstance(strip(what.this) if negated else what, exp.Null):
            raise NotTranslatable(f"{node.sql(dialect='spark')}")
        a = self.visit(node.this)
        word = "IS NOT NULL" if negated else "IS NULL"
        return Typed(f"({a.sql} {word})", "boolean", raises=a.raises, nullable=False)

    def _visit_in(self, node: exp.In) -> Typed:
        if node.args.get("query") or node.args.get("unnest") or not node.expressions:
            raise NotTranslatable("IN other than a list")
        return conditions.among(self.visit(node.this), self._all(node.expressions))

    def _visit_like(self, node: exp.Like) -> Typed:
        return strings.like(self.visit(node.this), self.visit(node.expression))

    def _visit_escape(self, node: exp.Escape) -> Typed:
        inner, escape = strip(node.this), node.expression
        if not isinstance(inner, exp.Like) or not isinstance(escape, exp.Literal):
            raise NotTranslatable(f"{node.sql(dialect='spark')}")
        return strings.like(self.visit(inner.this), self.visit(inner.expression), str(escape.this))

    def _visit_trim(self, node: exp.Trim) -> Typed:
        parts = [node.this] + ([node.expression] if node.expression else [])
        return strings.trimmed(str(node.args.get("position") or "BOTH"), self._all(parts))

    def _visit_case(self, node: exp.Case) -> Typed:
        if node.this is not None:
            raise NotTranslatable("CASE with an operand")
        pairs = [(self.visit(i.this), self.visit(i.args["true"])) for i in node.args["ifs"]]
        default = node.args.get("default")
        return conditions.case(pairs, None if default is None else self.visit(default))

    def _visit_if(self, node: exp.If) -> Typed:
        other = node.args.get("false")
        return conditions.case(
            [(self.visit(node.this), self.visit(node.args["true"]))],
            None if other is None else self.visit(other),
        )

    def _visit_cast(self, node: exp.Cast) -> Typed:
        kind = type_of(node.to)
        inner = strip(node.this)
        if isinstance(inner, exp.Literal) and not inner.is_string:
            return (
                literals.number(str(inner.this), kind)
                if _suffixed(inner, kind)
                else cast(self.ctx, self.visit(inner), kind)
            )
        return cast(self.ctx, self.visit(inner), kind)

    def _visit_trycast(self, node: exp.TryCast) -> Typed:
        return cast(self.ctx, self.visit(node.this), type_of(node.to), attempt=True)

    def _visit_anonymous(self, node: exp.Anonymous) -> Typed:
        name = str(node.this).lower()
        if name in ("timestampadd", "timestampdiff") and len(node.expressions) == 3:
            unit, first, second = node.expressions
            work = times.timestampadd if name == "timestampadd" else times.timestampdiff
            return work(self._reading(node), unit.name, self.visit(first), self.visit(second))
        handler = _FUNCTIONS.get(name)
        if handler is None:
            raise NotTranslatable(f"function {name}")
        return handler(self._reading(node), self._all(node.expressions))


def _suffixed(literal: exp.Literal, kind: str) -> bool:
    """Whether a cast of bare digits is how the parser shows a suffix (``10L``, ``1.5D``)."""
    return not str(literal.this).isdigit() or kind in INTEGERS or kind in FRACTIONS


def interval_parts(node: exp.Interval) -> tuple[str, str, str | None]:
    """Value, first and last unit of an interval literal."""
    unit = node.args.get("unit")
    if not isinstance(node.this, exp.Literal) or unit is None:
        raise NotTranslatable("an interval that is no constant")
    if isinstance(unit, exp.IntervalSpan):
        return str(node.this.this), unit.this.name, unit.expression.name
    return str(node.this.this), unit.name, None
