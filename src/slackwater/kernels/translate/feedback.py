"""Feedback's condition from Spark's analysed SQL: AND, OR and NOT of tests on single columns, and what is refused.

Constants may be any expression of constants that the translation knows; the column engine computes them once.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any, NamedTuple, NoReturn

from sqlglot import exp

from slackwater.errors import AnalysisError
from slackwater.kernels.column_engine import connect, is_engine_error, single_value
from slackwater.kernels.translate.generator import type_of, typed
from slackwater.kernels.translate.parse import NotRead, parse, strip
from slackwater.kernels.translate.typed import Context
from slackwater.kernels.translate.types import INTEGER_DIGITS, INTEGERS, NotTranslatable, decimal_of
from slackwater.model.zone import fixed_offset
from slackwater.semantics.feedback import order
from slackwater.semantics.feedback.columns import Column, Columns, moved
from slackwater.semantics.feedback.condition import (
    And,
    Comparison,
    Condition,
    Constant,
    Not,
    Or,
    Unknown,
)
from slackwater.semantics.feedback.value import ANY
from slackwater.semantics.patterns import Test

_FLIPPED: dict[type[exp.Expression], type[exp.Expression]] = {
    exp.LT: exp.GT, exp.LTE: exp.GTE, exp.GT: exp.LT, exp.GTE: exp.LTE, exp.EQ: exp.EQ, exp.NEQ: exp.NEQ,
    exp.NullSafeEQ: exp.NullSafeEQ,
}  # fmt: skip
_NO_NULL = Test(ANY.spans)
_BIGINT_DIGITS = 18
"""As many digits surely are a bigint."""


def condition_of(
    sql: str, columns: Columns, *, ansi: bool = True, analysed: bool = True
) -> Condition:
    """The condition that an analysed expression is, over an output's columns.

    A text that was not ``analysed`` is one that a user wrote where there is no Spark: its constants have no casts yet, and
    take the type of the column that they are compared with.

    >>> from slackwater.model.schema import Field
    >>> from slackwater.semantics.feedback.condition import ignore, only
    >>> two = Columns((Field("a", "int"), Field("b", "int")))
    >>> print(ignore(condition_of("((`a` < 3) OR (`b` IS NULL))", two)), only(condition_of("(`a` = 1)", two)))
    ~{a < 3} ~{b IS NULL} ~{a < 1 OR >= 2 OR IS NULL}
    >>> condition_of("(`a` < `b`)", two)
    Traceback (most recent call last):
    slackwater.errors.AnalysisError: [BAD_FEEDBACK] `a` < `b` is no test of a single column
      to fix: compute it as a column of the output, and test that column
    """
    try:
        sql.encode()  # half a character is an error here, not in the engine
        tree = parse(sql)
    except (NotRead, UnicodeEncodeError) as e:
        raise _unread(sql, e) from None
    return _Reader(columns, ansi, analysed).condition(tree)


def known_parts(sql: str, columns: Columns, *, ansi: bool = True) -> Condition:
    """The condition that an analysed expression is; a part that is no test of a single column is unknown.

    >>> from slackwater.model.schema import Field
    >>> from slackwater.semantics.feedback.condition import dropped
    >>> two = Columns((Field("a", "int"), Field("b", "int")))
    >>> dropped(known_parts("((`a` < `b`) AND (`b` IS NOT NULL))", two))
    (Pattern(tests=(('b', Test(spans=(), null=True)),)),)
    """
    try:
        tree = parse(sql)
    except NotTranslatable:
        return Unknown()
    return _PartlyReader(columns, ansi, True).condition(tree)


class _Known(NamedTuple):
    """A constant, as tests take it; None is null."""

    value: Any


class _Reader:
    def __init__(self, columns: Columns, ansi: bool, analysed: bool):
        self.columns = columns
        self.analysed = analysed
        names = {f.name.lower(): (f.name, f.type) for f in columns.fields}
        self.context = Context(ansi, columns.zone, names, fixed_offset(columns.zone))

    def condition(self, node: exp.Expression) -> Condition:
        node = strip(node)
        if isinstance(node, exp.And):
            return And(tuple(self.condition(part) for part in _chain(node, exp.And)))
        if isinstance(node, exp.Or):
            return Or(tuple(self.condition(part) for part in _chain(node, exp.Or)))
        if isinstance(node, exp.Not):
            return Not(self.condition(node.this))
        if not any(node.find_all(exp.Column)):
            return Constant(self.constant(node, node).value)
        if type(node) in _FLIPPED:
            return self.comparison(node)
        if isinstance(node, exp.Between):
            low = exp.GTE(this=node.this, expression=node.args["low"])
            high = exp.LTE(this=node.this, expression=node.args["high"])
            return And((self.comparison(low, node), self.comparison(high, node)))
        if isinstance(node, exp.In):
            return self.among(node)
        if isinstance(node, exp.Is):
            what = strip(node.expression)
            negated = isinstance(what, exp.Not)
            if isinstance(strip(what.this) if negated else what, exp.Null):
                return self.null(node.this, node, negated)
        if isinstance(node, exp.Anonymous) and len(node.expressions) == 1:
            name = str(node.this).lower()
            if name in ("isnull", "isnotnull"):
                return self.null(node.expressions[0], node, name == "isnotnull")
            if name == "isnan":
                column, _ = self.column(node.expressions[0], node)
                if column.type in order.FLOATS:
                    return Comparison.certain(column, order.equal(float("nan"), column.type))
        if isinstance(node, (exp.Column, exp.Dot)):
            column, _ = self.column(node, node)
            if column.type == "boolean":
                return Comparison.comparing(column, order.equal(True, "boolean"))
        return self.refuse(node)

    def comparison(self, node: exp.Expression, whole: exp.Expression | None = None) -> Condition:
        whole = whole or node
        left, right, kind = strip(node.this), strip(node.expression), type(node)
        if not any(left.find_all(exp.Column)):
            left, right, kind = right, left, _FLIPPED[kind]
        if any(right.find_all(exp.Column)):
            self.refuse(whole)
        column, cast = self.column(left, whole)
        value = self.constant(right, whole, column).value
        if kind is exp.NullSafeEQ:
            test = (
                Test((), True) if value is None else self.test(exp.EQ, column, cast, value, whole)
            )
            return Comparison.certain(column, test)
        if value is None:
            return Constant(None)
        return Comparison.comparing(column, self.test(kind, column, cast, value, whole))

    def among(self, node: exp.In) -> Condition:
        if node.args.get("query") or node.args.get("unnest") or not node.expressions:
            self.refuse(node)
        column, cast = self.column(node.this, node)
        if any(any(i.find_all(exp.Column)) for i in node.expressions):
            self.refuse(node)
        values = [self.constant(i, node, column).value for i in node.expressions]
        listed = Test()
        for v in values:
            if v is not None:
                listed |= self.test(exp.EQ, column, cast, v, node)
        if None in values:
            # What is not listed may be equal to the null.
            return Comparison(column, listed, Test())
        return Comparison.comparing(column, listed)

    def null(self, what: exp.Expression, whole: exp.Expression, negated: bool) -> Condition:
        column, _ = self.column(what, whole)
        return Comparison.certain(column, _NO_NULL if negated else Test((), True))

    def test(
        self,
        kind: type[exp.Expression],
        column: Column,
        cast: str,
        value: Any,
        whole: exp.Expression,
    ) -> Test:
        """The values that pass a comparison with a constant that is not null."""
        try:
            test = _made(kind, self.ends(column, cast, value), column.type)
        except (TypeError, ValueError):
            self.refuse_value(column, whole)
        return moved(test, -1) if column.ends else test

    def ends(self, column: Column, cast: str, value: Any) -> tuple[Any, Any]:
        """The first codes of the column that are not below, and that are above, a constant."""
        written = not self.analysed and isinstance(value, float) and _is_number(column.type)
        # Spark casts to double where one side is a float: a text that was not analysed has no such cast yet.
        if (cast == "double" or written) and column.type not in order.FLOATS:
            return (
                order.first_as_double(value, column.type, above=False),
                order.first_as_double(value, column.type, above=True),
            )
        zone = self.columns.zone
        if not self.analysed and column.type in order.FLOATS and isinstance(value, Decimal | int):
            value = float(value)  # as Spark reads a number that it compares with a float
        return order.first_from(value, column.type, zone), order.first_above(
            value, column.type, zone
        )

    def column(self, node: exp.Expression, whole: exp.Expression) -> tuple[Column, str]:
        """The column that one side is, and the type in which it is compared."""
        node = strip(node)
        casts: list[str] = []
        while isinstance(node, exp.Cast) and not isinstance(node, exp.TryCast):
            try:
                casts.insert(0, type_of(node.to))
            except NotTranslatable:
                self.refuse(whole)
            node = strip(node.this)
        parts = _parts(node)
        if parts is None:
            self.refuse(whole)
        column = self.columns.column(parts)
        compared = column.type
        for cast in casts:
            if cast != compared and not _keeps_order(compared, cast):
                self.refuse(whole)
            compared = cast
        return column, compared

    def constant(
        self, node: exp.Expression, whole: exp.Expression, column: Column | None = None
    ) -> _Known:
        if not self.analysed and column is not None:
            written = _as_written(strip(node), column)
            if written is not None:
                return _Known(written)
        try:
            made = typed(node, self.context)
        except (NotTranslatable, ValueError):
            self.refuse(whole)
        if not self.analysed and column is not None and not _comparable(made.type, column.type):
            self.refuse_value(column, whole)
        sql = made.sql
        if made.type in order.TIMES:
            sql = f"epoch_us({sql})"
        elif made.type == "date":
            sql = f"({sql} - DATE '1970-01-01')"
        try:
            value = single_value(connect(), f"SELECT {sql}")
        except Exception as error:
            if not is_engine_error(error):
                raise
            if column is not None:
                self.refuse_value(column, whole)  # a cast that fails
            self.refuse(whole)
        return _Known(value)

    def refuse_value(self, column: Column, node: exp.Expression) -> NoReturn:
        part = node.sql(dialect="spark")
        raise AnalysisError(
            "BAD_FEEDBACK",
            f"{part} compares '{column.written}', which is {column.type}, with a value of another type",
            hint=f"give a value of type {column.type}",
            part=part,
            name=column.written,
        )

    def refuse(self, node: exp.Expression) -> NoReturn:
        raise AnalysisError(
            "BAD_FEEDBACK",
            f"{node.sql(dialect='spark')} is no test of a single column",
            hint="compute it as a column of the output, and test that column",
            part=node.sql(dialect="spark"),
        )


def _unread(sql: str, error: NotRead | UnicodeEncodeError) -> AnalysisError:
    """The error of a text that is no condition, with a caret at the fault."""
    fault, at = (error.fault, error.at) if isinstance(error, NotRead) else ("it is no text", error.start)  # fmt: skip
    shown = sql.encode(errors="replace").decode().replace("\n", " ").replace("\t", " ")
    caret = "" if at is None else f"\n  {' ' * at}^"
    return AnalysisError(
        "BAD_FEEDBACK",
        f"the condition is not understood: {fault}\n  {shown}{caret}",
        hint="write tests of single columns with AND, OR and NOT: speed >= 50 AND wid < 9",
        text=sql,
        position=at,
    )


class _PartlyReader(_Reader):
    """Passes over what it cannot read."""

    def condition(self, node: exp.Expression) -> Condition:
        try:
            return super().condition(node)
        except AnalysisError:
            return Unknown()


def _chain(node: exp.Expression, kind: type[exp.Expression]) -> list[exp.Expression]:
    """The parts of a chain of ANDs, or of ORs, in order. A chain of a thousand is a tree a thousand deep, so it is not descended."""
    parts, rest = [], [node]
    while rest:
        one = strip(rest.pop())
        if isinstance(one, kind):
            rest += [one.expression, one.this]
        else:
            parts.append(one)
    return parts


def _as_written(node: exp.Expression, column: Column) -> Any:
    """A constant whose type nobody but Spark's analyser would say: a number with a point, a time in the session's zone."""
    negative = isinstance(node, exp.Neg)
    inner = strip(node.this) if negative else node
    if isinstance(inner, exp.Literal) and not inner.is_string:
        text = f"-{inner.this}" if negative else str(inner.this)
        if "e" in text.lower():
            return float(text)
        # A whole number that is no bigint is a decimal, to Spark.
        return Decimal(text) if "." in text or len(text) > _BIGINT_DIGITS else None
    if isinstance(inner, exp.Cast) and column.type in order.TIMES:
        what = strip(inner.this)
        plain = isinstance(what, exp.Literal) and what.is_string
        return what.this if plain and _type(inner) == column.type else None
    return None


def _comparable(constant: str, column: str) -> bool:
    """Whether values of the two types have one order without a cast, or the constant is a text or null."""
    if constant in ("string", "void", column):
        return True
    return _is_number(constant) and _is_number(column)


def _is_number(type: str) -> bool:
    return type in INTEGERS or type in order.FLOATS or decimal_of(type) is not None


def _type(cast: exp.Cast) -> str | None:
    try:
        return type_of(cast.to)
    except NotTranslatable:
        return None


def _made(kind: type[exp.Expression], ends: tuple[Any, Any], type: str) -> Test:
    first, beyond = ends
    spans: dict[Callable[..., Any], list[tuple[Any, Any]]] = {
        exp.LT: [(None, first)],
        exp.LTE: [(None, beyond)],
        exp.GT: [(beyond, None)],
        exp.GTE: [(first, None)],
        exp.EQ: [(first, beyond)],
        exp.NEQ: [(None, first), (beyond, None)],
    }
    return order.within(spans[kind], type)


def _parts(node: exp.Expression) -> list[str] | None:
    names: list[str] = []
    while isinstance(node, exp.Dot):
        if not isinstance(node.expression, exp.Identifier):
            return None
        names.insert(0, node.expression.name)
        node = node.this
    return [*(p.name for p in node.parts), *names] if isinstance(node, exp.Column) else None


def _keeps_order(type: str, cast: str) -> bool:
    """Whether Spark compares a column just as its own values are, in the type that it casts it to."""
    small, wide = decimal_of(type), decimal_of(cast)
    if type in INTEGERS:
        if wide is not None:
            return wide.precision - wide.scale >= INTEGER_DIGITS[type]
        return cast == "double" or INTEGERS.get(cast, 0) >= INTEGERS[type]
    if type == "float":
        return cast == "double"
    if small is not None:
        return cast == "double" or (
            wide is not None
            and wide.scale >= small.scale
            and wide.precision - wide.scale >= small.precision - small.scale
        )
    return False
