"""Columns that are a progressing column moved by a constant: their bounds move with it."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from slackwater.kernels.translate.generator import interval_parts, type_of
from slackwater.kernels.translate.literals import interval_micros
from slackwater.kernels.translate.parse import parse, strip
from slackwater.kernels.translate.times import DAY
from slackwater.kernels.translate.types import NotTranslatable
from slackwater.model.time import TimeColumn
from slackwater.model.zone import fixed_offset


def shift_of(
    sql: str,
    columns: Mapping[str, str],
    times: Mapping[str, TimeColumn],
    range: int | None,
    *,
    ansi: bool,
    zone: str,
) -> tuple[str, int] | None:
    """(progressing column, shift in ticks) of an expression, or None.

    ``times`` are the progressing columns by name; the time of one of kind ``window`` is its end − 1 tick, so
    its end is moved by 1 and its start by 1 − ``range``.
    """
    try:
        return _shift(parse(sql), columns, times, range, ansi, zone)
    except NotTranslatable:
        return None


def _shift(
    node: exp.Expression,
    columns: Mapping[str, str],
    times: Mapping[str, TimeColumn],
    range: int | None,
    ansi: bool,
    zone: str,
) -> tuple[str, int] | None:
    node = strip(node)
    if isinstance(node, exp.Column):
        return _column([p.name for p in node.parts], times, range)
    if isinstance(node, exp.Cast):
        inner = _shift(node.this, columns, times, range, ansi, zone)
        return inner if inner is not None and _same(node, columns, times[inner[0]]) else None
    if not isinstance(node, (exp.Add, exp.Sub)):
        return None
    inner = _shift(node.this, columns, times, range, ansi, zone)
    if inner is None:
        return None
    sign = 1 if isinstance(node, exp.Add) else -1
    other = strip(node.expression)
    if isinstance(other, exp.Interval):
        ticks = interval_micros(*interval_parts(other))
        local = times[inner[0]].is_local or fixed_offset(zone) is not None
        # whole days are local days, which a change of clocks makes longer or shorter
        return (inner[0], inner[1] + sign * ticks) if local or abs(ticks) < DAY else None
    # an integer column wraps around outside ANSI mode
    value = _whole(other) if ansi and times[inner[0]].kind == "long" else None
    return None if value is None else (inner[0], inner[1] + sign * value)


def _column(
    parts: list[str], times: Mapping[str, TimeColumn], range: int | None
) -> tuple[str, int] | None:
    name = next((n for n in times if n.lower() == parts[0].lower()), None)
    if name is None:
        return None
    if len(parts) == 1:
        return name, 0
    if times[name].kind != "window" or len(parts) != 2:
        return None
    if parts[1].lower() == "end":
        return name, 1
    if parts[1].lower() == "start" and range is not None:
        return name, 1 - range
    return None


def _same(node: exp.Cast, columns: Mapping[str, str], time: TimeColumn) -> bool:
    """Whether a cast changes nothing."""
    return type_of(node.to) == (time.type if time.kind == "window" else columns.get(time.name))


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
