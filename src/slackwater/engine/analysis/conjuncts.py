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

_INTEGERS = ("byte", "short", "integer", "long")


@dataclass(frozen=True)
class Side:
    """One side of an equality: its text under other names, its type, and the columns that it is made of."""

    sql: str
    type: str
    columns: frozenset[str]


@dataclass(frozen=True)
class Conjunct:
    """A part of a condition; ``sides`` if it is an equality. Casts that Spark put in are in the texts.

    In ``folded``, if asked for, each constant integer and each constant span of time is one literal, whatever it was computed from.
    """

    sql: str
    sides: tuple[Side, Side] | None = None
    folded: str = ""


def conjuncts(
    printer: Printer, node: Any, fields: Sequence[Field], names: Mapping[str, str], fold: bool
) -> Iterator[Conjunct]:
    """The parts of an analysed condition; ``names`` are those of the columns inside the sides."""
    kinds = printer.kinds(node)
    if "And" in kinds:
        yield from conjuncts(printer, node.left(), fields, names, fold)
        yield from conjuncts(printer, node.right(), fields, names, fold)
        return
    whole = printer.text(node, nothing, tuple(fields))
    folded = printer.text(node, _constant, tuple(fields)) if fold else ""
    if "EqualTo" in kinds:
        sides = (
            _side(printer, node.left(), fields, names),
            _side(printer, node.right(), fields, names),
        )
        yield Conjunct(whole, sides, folded)
    else:
        yield Conjunct(whole, None, folded)


def _constant(node: Any) -> str | None:
    """The literal of a constant integer or span of time."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    if not node.foldable():
        return None
    kind = str(node.dataType().typeName())
    span = kind.startswith("interval ") and not kind.endswith(("year", "month"))
    if not span and kind not in _INTEGERS:
        return None
    try:
        value = node.eval(None)
    except (PySparkException, Py4JJavaError):
        return None  # it fails for every row, which is for Spark to say
    if value is None:
        return None
    return day_time_literal(int(value)) if span else str(int(value))


def day_time_literal(micros: int) -> str:
    """Spark's literal of a span of time.

    >>> day_time_literal(90_000_001), day_time_literal(-86_400_000_000)
    ("INTERVAL '0 00:01:30.000001' DAY TO SECOND", "INTERVAL '-1 00:00:00.000000' DAY TO SECOND")
    """
    seconds, rest = divmod(abs(micros), 1_000_000)
    minutes, second = divmod(seconds, 60)
    hours, minute = divmod(minutes, 60)
    day, hour = divmod(hours, 24)
    sign = "-" if micros < 0 else ""
    text = f"{sign}{day} {hour:02}:{minute:02}:{second:02}.{rest:06}"
    return f"INTERVAL '{text}' DAY TO SECOND"


def _side(printer: Printer, node: Any, fields: Sequence[Field], names: Mapping[str, str]) -> Side:
    used: set[str] = set()

    def renamed(child: Any) -> str | None:
        if "AttributeReference" not in printer.kinds(child):
            return None
        name = printer.column(child)
        used.add(name)
        return quoted(names[name])

    return Side(printer.text(node, renamed, tuple(fields)), type_of(node), frozenset(used))
