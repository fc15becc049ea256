"""A condition taken apart at its ANDs: equalities with both their sides, as Spark compares them, and the rest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slackwater.engine.analysis.aggregates import nothing
from slackwater.engine.analysis.schema import type_of
from slackwater.engine.analysis.text import Printer
from slackwater.model.schema import Field
from slackwater.model.spark_sql import quoted


@dataclass(frozen=True)
class Side:
    """One side of an equality: its text under other names, its type, and the columns that it is made of."""

    sql: str
    type: str
    columns: frozenset[str]


@dataclass(frozen=True)
class Conjunct:
    """A part of a condition; ``sides`` if it is an equality. Casts that Spark put in are in the texts."""

    sql: str
    sides: tuple[Side, Side] | None = None


def conjuncts(
    printer: Printer, node: Any, fields: Sequence[Field], names: Mapping[str, str]
) -> Iterator[Conjunct]:
    """The parts of an analysed condition; ``names`` are those of the columns inside the sides."""
    kinds = printer.kinds(node)
    if "And" in kinds:
        yield from conjuncts(printer, node.left(), fields, names)
        yield from conjuncts(printer, node.right(), fields, names)
        return
    whole = printer.text(node, nothing, tuple(fields))
    if "EqualTo" in kinds:
        yield Conjunct(
            whole,
            (
                _side(printer, node.left(), fields, names),
                _side(printer, node.right(), fields, names),
            ),
        )
    else:
        yield Conjunct(whole)


def _side(printer: Printer, node: Any, fields: Sequence[Field], names: Mapping[str, str]) -> Side:
    used: set[str] = set()

    def renamed(child: Any) -> str | None:
        if "AttributeReference" not in printer.kinds(child):
            return None
        name = printer.column(child)
        used.add(name)
        return quoted(names[name])

    return Side(printer.text(node, renamed, tuple(fields)), type_of(node), frozenset(used))
