"""Columns that are a progressing column moved by a constant: their bounds move with it."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from slackwater.kernels.translate.generator import interval_parts, type_of, zone_offset
from slackwater.kernels.translate.literals import interval_micros
from slackwater.kernels.translate.parse import parse, strip
from slackwater.kernels.translate.times import DAY
from slackwater.kernels.translate.types import NotTranslatable


def shift_of(
    sql: str,
    columns: Mapping[str, str],
    kinds: Mapping[str, str],
    range: int | None,
    *,
    ansi: bool,
    zone: str,
) -> tuple[str, int] | None:
    """(progressing column, shift in ticks) of an expression, or None.

    ``kinds`` are the progressing columns; the time of one of kind ``window`` is its end − 1 tick, so
    its end is moved by 1 and its start by 1 − ``range``.
    """
    try:
        return _shift(parse(sql), columns, kinds, range, ansi, zone)
    except NotTranslatable:
        return None


def _shift(
    node: exp.Expression,
    columns: Mapping[str, str],
    kinds: Mapping[str, str],
    range: int | None,
    ansi: bool,
    zone: str,
) -> tuple[str, int] | None:
    node = strip(node)
    if isinstance(node, exp.Column):
        return _column([p.name for p in node.parts], kinds, range)
    if isinstance(node, exp.Cast):
        inner = _shift(node.this, columns, kinds, range, ansi, zone)
        return inner if inner is not None and _same(node, columns, kinds, inner[0]) else None
    if not isinstance(node, (exp.Add, exp.Sub)):
        return None
    inner = _shift(node.this, columns, kinds, range, ansi, zone)
    if inner is None:
        return None
    sign = 1 if isinstance(node, exp.Add) else -1
    other = strip(node.expression)
    if isinstance(other, exp.Interval):
        ticks = interval_micros(*interval_parts(other))
        local = kinds[inner[0]] == "timestamp_ntz" or zone_offset(zone) is not None
        # whole days are local days, which a change of clocks makes longer or shorter
        return (inner[0], inner[1] + sign * ticks) if local or abs(ticks) < DAY else None
    # an integer column wraps around outside ANSI mode
    value = _whole(other) if ansi and kinds[inner[0]] == "long" else None
    return None if value is None else (inner[0], inner[1] + sign * value)


def _column(
    parts: list[str], kinds: Mapping[str, str], range: int | None
) -> tuple[str, int] | None:
    name = next((n for n in kinds if n.lower() == parts[0].lower()), None)
    if name is None:
        return None
    if len(parts) == 1:
        return name, 0
    if kinds[name] != "window" or len(parts) != 2:
        return None
    if parts[1].lower() == "end":
        return name, 1
    if parts[1].lower() == "start" and range is not None:
        return name, 1 - range
    return None


def _same(node: exp.Cast, columns: Mapping[str, str], kinds: Mapping[str, str], name: str) -> bool:
    """Whether a cast changes nothing."""
    kind = kinds[name]
    return type_of(node.to) == (columns.get(name) if kind != "window" else "timestamp")


def _whole(node: exp.Expression) -> int | None:
    node = strip(node)
    if isinstance(node, exp.Neg):
        inner = _whole(node.this)
        return None if inner is None else -inner
    if isinstance(node, exp.Cast) and type_of(node.to) == "bigint":
        return _whole(node.this)
    if isinstance(node, exp.Literal) and not node.is_string and str(node.this).isdigit():
        return int(node.this)
    return None
