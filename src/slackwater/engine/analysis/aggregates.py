"""Aggregate columns, cut into calls of aggregate functions and what is computed from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from slackwater.engine.analysis.calls import shape_of, unsupported
from slackwater.engine.analysis.schema import type_of
from slackwater.engine.analysis.text import Printer, Replace
from slackwater.model.names import ours
from slackwater.model.schema import Field
from slackwater.model.spark_sql import quoted


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
    params: tuple[Any, ...] = ()


class Cutter:
    """Cuts aggregate expressions into calls."""

    def __init__(
        self,
        printer: Printer,
        scope: tuple[Field, ...],
        grouping: Sequence[Any],
        names: Sequence[str],
        time: Text | None = None,
    ):
        """``time`` is the rows' time, by which first, last and collect_list are ordered."""
        self._printer = printer
        self._scope = scope
        self._time = time
        self._grouping = list(zip(grouping, names, strict=True))
        self.calls: list[Call] = []

    def output(self, item: Any) -> Text:
        """An aggregate column over the calls' and keys' names; those of calls are `ours` beside the keys."""
        node = item.child() if "Alias" in self._printer.kinds(item) else item
        return text_of(self._printer, self._scope, node, self._replace)

    def _plain(self, node: Any) -> Text:
        return text_of(self._printer, self._scope, node)

    def _replace(self, node: Any) -> str | None:
        if "AggregateExpression" in self._printer.kinds(node):
            return quoted(ours(self._call(node)))
        if "Literal" in self._printer.kinds(node):
            return None
        for expression, name in self._grouping:
            if node.semanticEquals(expression):
                return quoted(name)
        return None

    def _call(self, node: Any) -> str:
        shape = shape_of(node, self._printer.kinds)
        name, params = shape.function, shape.params
        args = [self._plain(child) for child in shape.nodes]
        if "CountIf" in self._printer.kinds(node.aggregateFunction()):
            args = [Text(f"CASE WHEN {args[0].sql} THEN 1 END", "int")]
        elif name == "count":
            nodes = zip(args, shape.nodes, strict=True)
            args = [a for a, n in nodes if not self._is_constant(n)]
        elif name in ("first", "last"):
            time = self._ordering(name)
            if shape.ignore_nulls:
                time = Text(f"CASE WHEN ({args[0].sql} IS NOT NULL) THEN {time.sql} END", time.type)
            args, name = [args[0], time], "min_by" if name == "first" else "max_by"
        elif name == "collect_list":
            args = [args[0], self._ordering(name)]
        if node.filter().isDefined():
            only = self._plain(node.filter().get()).sql
            if name == "udaf":
                args, params = (
                    [*args, Text(f"CASE WHEN {only} THEN TRUE END", "boolean")],
                    (params[0], True),
                )
            else:
                args = _filtered(name, args, only)
        return self._known(name, tuple(args), type_of(node), params)

    def _ordering(self, function: str) -> Text:
        if self._time is None:
            raise unsupported(f"{function} over rows without a time")
        return self._time

    def _is_constant(self, node: Any) -> bool:
        """Whether ``count(node)`` counts all rows."""
        return "Literal" in self._printer.kinds(node) and not node.nullable()

    def _known(
        self, function: str, args: tuple[Text, ...], type: str, params: tuple[Any, ...]
    ) -> str:
        for call in self.calls:
            if (call.function, call.args, call.params) == (function, args, params):
                return call.name
        name = f"_a{len(self.calls)}"
        self.calls.append(Call(name, function, args, type, params))
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
