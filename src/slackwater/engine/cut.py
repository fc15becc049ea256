"""Aggregate columns, cut into calls of aggregate functions and what is computed from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from slackwater.engine.expression_text import Printer, Replace, quoted
from slackwater.engine.schema import type_of
from slackwater.errors import AnalysisError
from slackwater.model.aggregate import PRIMITIVES
from slackwater.model.schema import Field

_FUNCTIONS = {
    "Count": "count", "Sum": "sum", "Min": "min", "Max": "max", "Average": "avg",
    "VariancePop": "var_pop", "VarianceSamp": "var_samp",
    "StddevPop": "stddev_pop", "StddevSamp": "stddev_samp",
    "BoolAnd": "bool_and", "BoolOr": "bool_or", "MaxBy": "max_by", "MinBy": "min_by",
    "CountIf": "count",
}  # fmt: skip
# aggregates for which a repeated value makes no difference
_IDEMPOTENT = ("min", "max", "bool_and", "bool_or")


@dataclass(frozen=True)
class Text:
    """SQL and type of an expression; ``node`` is the one it was printed from, if unchanged."""

    sql: str
    type: str
    node: Any = field(default=None, compare=False)


def text_of(
    printer: Printer, scope: tuple[Field, ...], node: Any, replace: Replace | None = None
) -> Text:
    """The text of a node; ``replace`` as in ``Printer.text``."""
    printed = printer.text(node, replace or nothing, scope)
    return Text(printed, type_of(node), node if replace is None else None)


def nothing(node: Any) -> str | None:
    """Replaces no node."""
    return None


def items(sequence: Any) -> list[Any]:
    """A Scala sequence as a list."""
    return [sequence.apply(i) for i in range(sequence.size())]


@dataclass(frozen=True)
class Call:
    """An aggregate call."""

    name: str
    function: str
    args: tuple[Text, ...]
    type: str


class Cutter:
    """Cuts aggregate expressions into calls."""

    def __init__(
        self,
        printer: Printer,
        scope: tuple[Field, ...],
        grouping: Sequence[Any],
        names: Sequence[str],
    ):
        self._printer = printer
        self._scope = scope
        self._grouping = list(zip(grouping, names, strict=True))
        self.calls: list[Call] = []

    def output(self, item: Any) -> Text:
        """An aggregate column over the calls' and keys' names."""
        node = item.child() if "Alias" in self._printer.kinds(item) else item
        return text_of(self._printer, self._scope, node, self._replace)

    def _plain(self, node: Any) -> Text:
        return text_of(self._printer, self._scope, node)

    def _replace(self, node: Any) -> str | None:
        if "AggregateExpression" in self._printer.kinds(node):
            return quoted(self._call(node))
        if "Literal" in self._printer.kinds(node):
            return None
        for expression, name in self._grouping:
            if node.semanticEquals(expression):
                return quoted(name)
        return None

    def _call(self, node: Any) -> str:
        function = node.aggregateFunction()
        kinds = self._printer.kinds(function)
        name = next((_FUNCTIONS[k] for k in kinds if k in _FUNCTIONS), None)
        pretty = str(function.prettyName())
        if name is None or pretty.startswith("try_"):
            raise _unsupported(pretty)
        if node.isDistinct() and name not in _IDEMPOTENT:
            raise _unsupported(f"{pretty}(DISTINCT ...)")
        nodes = items(function.children())
        if kinds & {"BoolAnd", "BoolOr", "CountIf"}:
            nodes = [function.child()]
        args = [self._plain(child) for child in nodes]
        if "CountIf" in kinds:
            args = [Text(f"CASE WHEN {args[0].sql} THEN 1 END", "int")]
        elif name == "count":
            args = [a for a, n in zip(args, nodes, strict=True) if not self._is_constant(n)]
        elif name in ("max_by", "min_by") and len(args) != 2:
            raise _unsupported(f"{pretty} with {len(args)} arguments")
        if node.filter().isDefined():
            args = _filtered(name, args, self._plain(node.filter().get()).sql)
        return self._known(name, tuple(args), type_of(node))

    def _is_constant(self, node: Any) -> bool:
        """Whether ``count(node)`` counts all rows."""
        return "Literal" in self._printer.kinds(node) and not node.nullable()

    def _known(self, function: str, args: tuple[Text, ...], type: str) -> str:
        for call in self.calls:
            if (call.function, call.args) == (function, args):
                return call.name
        name = f"_a{len(self.calls)}"
        self.calls.append(Call(name, function, args, type))
        return name


def _filtered(function: str, args: Sequence[Text], only: str) -> list[Text]:
    """Arguments that are null where the FILTER clause does not hold: every primitive skips nulls.

    ``max_by`` and ``min_by`` skip a null of their second argument.
    """
    if not args:
        return [Text(f"CASE WHEN {only} THEN 1 END", "int")]
    at = 1 if function in ("max_by", "min_by") else 0
    return [
        Text(f"CASE WHEN {only} THEN {a.sql} END", a.type) if i == at else a
        for i, a in enumerate(args)
    ]


def _unsupported(name: str) -> AnalysisError:
    return AnalysisError(
        "UNSUPPORTED_AGGREGATE",
        f"the aggregate function {name} is not supported",
        hint=f"use one of: {', '.join(PRIMITIVES)}, count_if",
        function=name,
        supported=", ".join(PRIMITIVES),
    )
