"""Comparisons of a left and a right time: which distances between the two they allow.

Times are 64-bit integers, and a comparison is read as one of sums of these: ``b - 5 <= a`` is ``b - a <= 5``. What Spark
would not compute as such a sum is not read: days and differences of instants go by the session's clock, which
is put forward and back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from slackwater.kernels.translate.generator import interval_parts, type_of
from slackwater.kernels.translate.literals import interval_micros
from slackwater.kernels.translate.parse import parse, strip
from slackwater.kernels.translate.times import DAY
from slackwater.kernels.translate.types import NotTranslatable
from slackwater.model.zone import fixed_offset
from slackwater.semantics.distance import Distance

FARTHEST = 1 << 61
"""Times are no further from zero, so sums with spans up to this one do not overflow."""

_OPPOSITE: dict[type[exp.Expression], type[exp.Expression]] = {
    exp.LT: exp.GTE, exp.GTE: exp.LT, exp.GT: exp.LTE, exp.LTE: exp.GT,
}  # fmt: skip
_FLIPPED: dict[type[exp.Expression], type[exp.Expression]] = {
    exp.LT: exp.GT, exp.GT: exp.LT, exp.LTE: exp.GTE, exp.GTE: exp.LTE,
}  # fmt: skip
_COMPARISONS = (*_OPPOSITE, exp.EQ, exp.NullSafeEQ)


@dataclass(frozen=True)
class TimeOf:
    """A column that is a time of one input: its ``side`` is 0 or 1, ``name`` that of the time there.

    ``kind`` is Spark's type of it; that of a window's struct is ``window``, with the length of the windows as ``range``
    if all have one, and the type of its ends as ``ends``.
    """

    side: int
    name: str
    kind: str
    range: int | None = None
    ends: str = ""


Pair = tuple[str, str]
"""The times of the left and the right input that a comparison is about."""


@dataclass(frozen=True)
class Read:
    """What a condition says of distances. ``whole`` if it says nothing else; ``why`` it was not read, by its text."""

    distances: tuple[tuple[Pair, Distance], ...] = ()
    whole: bool = False
    why: tuple[tuple[str, str], ...] = ()


class _NoDistance(Exception):
    """A part that is not a comparison of two times; the text says why if it looks like one."""


@dataclass(frozen=True)
class _Sum:
    """Times, each with the number of times it is counted, and a constant; ``kind`` is point, span or number.

    ``narrow`` if it is an integer of fewer than 64 bits.
    """

    kind: str
    times: Mapping[TimeOf, int] = field(default_factory=dict)
    constant: int = 0
    narrow: bool = False

    def plus(self, other: _Sum, sign: int, kind: str) -> _Sum:
        times = {
            t: self.times.get(t, 0) + sign * other.times.get(t, 0)
            for t in (*self.times, *other.times)
        }
        return _Sum(
            kind,
            {t: n for t, n in times.items() if n},
            self.constant + sign * other.constant,
            self.narrow or other.narrow,
        )


def distances(sql: str, times: Mapping[str, TimeOf], *, ansi: bool, zone: str) -> Read:
    """What a condition, as Spark prints it, says of the distances between the ``times``, which go by columns' names.

    >>> times = {"a": TimeOf(0, "a", "bigint"), "b": TimeOf(1, "b", "bigint")}
    >>> distances("((`b` >= (`a` - 3L)) AND (`b` < `a`))", times, ansi=True, zone="UTC").distances
    ((('a', 'b'), Distance(least=-3, most=None)), (('a', 'b'), Distance(least=None, most=-1)))
    """
    try:
        tree = parse(sql)
    except NotTranslatable as reason:
        return Read(why=((sql, str(reason)),) if _mentions_both(sql, times) else ())
    reader = _Reader({n.lower(): t for n, t in times.items()}, ansi, zone)
    every: list[tuple[Pair, Distance]] = []
    why: list[tuple[str, str]] = []
    whole = True
    for part, negated in _conjuncts(tree, False):
        try:
            every.extend(reader.comparison(part, negated))
        except (_NoDistance, NotTranslatable) as reason:
            whole = False
            shown = part.sql(dialect="spark")
            if str(reason) and _mentions_both(shown, times):
                why.append((shown, str(reason)))
    return Read(tuple(every), whole, tuple(why))


def _mentions_both(sql: str, times: Mapping[str, TimeOf]) -> bool:
    return len({t.side for n, t in times.items() if f"`{n}`" in sql}) == 2


def _conjuncts(tree: Any, negated: bool) -> Iterator[tuple[exp.Expression, bool]]:
    """The parts of which all must be true; of those that are ``negated`` none may."""
    tree = strip(tree)
    if isinstance(tree, exp.Not):
        yield from _conjuncts(tree.this, not negated)
    elif isinstance(tree, exp.Or if negated else exp.And):
        yield from _conjuncts(tree.left, negated)
        yield from _conjuncts(tree.right, negated)
    elif isinstance(tree, exp.NullSafeEQ) and not negated and _is_true(tree.expression):
        yield from _conjuncts(tree.this, negated)
    else:
        yield tree, negated


def _is_true(tree: exp.Expression) -> bool:
    return isinstance(strip(tree), exp.Boolean) and bool(strip(tree).this)


class _Reader:
    def __init__(self, times: Mapping[str, TimeOf], ansi: bool, zone: str):
        self._times = times
        self._ansi = ansi
        self._zone = zone

    def comparison(self, node: exp.Expression, negated: bool) -> list[tuple[Pair, Distance]]:
        """What a comparison allows, or its opposite."""
        kind = type(node)
        if kind not in _COMPARISONS or (negated and kind not in _OPPOSITE):
            raise _NoDistance("it is no comparison" if kind not in _COMPARISONS else "it is an inequality")  # fmt: skip
        if negated:
            kind = _OPPOSITE[kind]
        one, other = strip(node.this), strip(node.expression)
        windows = [self._window(side) for side in (one, other)]
        if kind in (exp.EQ, exp.NullSafeEQ) and None not in windows:
            return [_between(windows, Distance(0, 0))]
        if _is_abs(other):
            one, other, kind = other, one, _FLIPPED.get(kind, kind)
        if _is_abs(one):
            return self._absolute(strip(one.expressions[0]), kind, self.sum(other))
        left, right = self.sum(one), self.sum(other)
        if left.kind != right.kind:
            raise _NoDistance("")
        return [self._allowed(left.plus(right, -1, left.kind), kind)]

    def _absolute(
        self, inner: exp.Expression, kind: type[exp.Expression], limit: _Sum
    ) -> list[tuple[Pair, Distance]]:
        """``abs(x) <= limit`` is ``-limit <= x`` and ``x <= limit``."""
        if kind not in (exp.LT, exp.LTE) or limit.times:
            raise _NoDistance("of absolute values only upper limits say how near")
        x = self.sum(inner)
        below = self._allowed(x.plus(limit, -1, x.kind), kind)
        above = self._allowed(_Sum(x.kind).plus(x, -1, x.kind).plus(limit, -1, x.kind), kind)
        return [below, above]

    def _allowed(self, difference: _Sum, kind: type[exp.Expression]) -> tuple[Pair, Distance]:
        """What ``difference <= 0``, or another comparison with zero, allows."""
        counted = sorted(difference.times.items(), key=lambda item: item[0].side)
        if [(t.side, n) for t, n in counted] not in ([(0, -1), (1, 1)], [(0, 1), (1, -1)]):
            raise _NoDistance("")
        if abs(difference.constant) > FARTHEST:
            raise _NoDistance("the span is too long")
        end = -difference.constant
        ends: dict[type[exp.Expression], Distance] = {
            exp.LTE: Distance(None, end), exp.LT: Distance(None, end - 1),
            exp.GTE: Distance(end, None), exp.GT: Distance(end + 1, None),
        }  # fmt: skip
        allowed = ends.get(kind, Distance(end, end))
        newer = counted[1][1] == 1
        return _between([t for t, _ in counted], allowed if newer else allowed.reversed)

    def sum(self, node: exp.Expression) -> _Sum:
        """An expression as a sum of times and a constant."""
        node = strip(node)
        if isinstance(node, exp.Column):
            return self._column([p.name for p in node.parts])
        if isinstance(node, exp.Cast):
            return self._cast(node)
        if isinstance(node, exp.Interval):
            return _Sum("span", constant=_micros(node))
        if isinstance(node, exp.Literal) and not node.is_string:
            return _Sum("number", constant=_whole(str(node.this)))
        if isinstance(node, exp.Neg):
            inner = self.sum(node.this)
            return self._number(_Sum(inner.kind), inner, -1)
        if isinstance(node, (exp.Add, exp.Sub)):
            return self._added(node)
        if isinstance(node, exp.Anonymous) and node.name.lower() == "unix_micros":
            inner = self.sum(node.expressions[0])
            if inner.kind == "point":
                return _Sum("number", inner.times, inner.constant)
        raise _NoDistance(f"{node.sql(dialect='spark')} is no sum of times and constants")

    def _added(self, node: exp.Add | exp.Sub) -> _Sum:
        one, other = self.sum(node.this), self.sum(node.expression)
        sign = 1 if isinstance(node, exp.Add) else -1
        kinds = (one.kind, other.kind)
        if kinds == ("point", "point") and sign < 0:
            if self._by_clock(one, other):
                raise _NoDistance(
                    f"in the time zone {self._zone} Spark subtracts what clocks show, which are put forward and "
                    "back; compare the one time with the other plus or minus an interval"
                )
            return one.plus(other, sign, "span")
        if "point" in kinds and "span" in kinds:
            span = one if one.kind == "span" else other
            if self._by_clock(one, other) and (span.times or abs(span.constant) >= DAY):
                raise _NoDistance(
                    f"in the time zone {self._zone} Spark's days have 23 to 25 hours; for spans of a day and more give "
                    'within=, where a day has 24 hours: sw.band(before="1 day", after="1 day")'
                )
            return one.plus(other, sign, "point")
        if one.kind != other.kind or one.kind == "point":
            raise _NoDistance("")
        return self._number(one, other, sign)

    def _number(self, one: _Sum, other: _Sum, sign: int) -> _Sum:
        """A sum of two numbers or spans."""
        total = one.plus(other, sign, one.kind)
        if total.narrow and not self._ansi:
            raise _NoDistance("integers of fewer than 64 bits wrap around: cast them to bigint")
        return total

    def _by_clock(self, *sums: _Sum) -> bool:
        """Whether Spark computes with what the session's clock shows."""
        kinds = {t.ends or t.kind for s in sums for t in s.times}
        return "timestamp" in kinds and fixed_offset(self._zone) is None

    def _column(self, parts: Sequence[str]) -> _Sum:
        time = self._times.get(parts[0].lower())
        if time is None:
            raise _NoDistance("")
        if time.kind == "window":
            return self._end(time, [p.lower() for p in parts[1:]])
        if len(parts) > 1:
            raise _NoDistance("")
        if time.kind.startswith("timestamp"):
            return _Sum("point", {time: 1})
        return _Sum("number", {time: 1}, narrow=time.kind != "bigint")

    def _end(self, time: TimeOf, fields: list[str]) -> _Sum:
        """The end or start of a window, whose time is its end − 1 tick."""
        moved = {"end": 1, "start": None if time.range is None else 1 - time.range}
        shift = moved.get(fields[0]) if len(fields) == 1 else None
        if shift is None:
            raise _NoDistance("")
        return _Sum("number" if time.ends == "bigint" else "point", {time: 1}, shift)

    def _cast(self, node: exp.Cast) -> _Sum:
        if isinstance(node, exp.TryCast):
            raise _NoDistance("")
        inner = self.sum(node.this)
        if isinstance(node.to.this, exp.Interval):
            if inner.kind == "span" and _is_day_to_second(node.to.this):
                return inner
            raise _NoDistance("")
        kind = type_of(node.to)
        kinds = {t.ends or t.kind for t in inner.times}
        if inner.kind == "number" and kind == "bigint":
            return _Sum("number", inner.times, inner.constant)
        if inner.kind == "point" and kinds == {kind}:
            return inner
        raise _NoDistance(f"it casts to {kind}")

    def _window(self, node: exp.Expression) -> TimeOf | None:
        """The time that a column is, if it is the struct of a window."""
        if not isinstance(node, exp.Column) or len(node.parts) != 1:
            return None
        time = self._times.get(node.name.lower())
        return time if time is not None and time.kind == "window" else None


def _between(times: Sequence[Any], distance: Distance) -> tuple[Pair, Distance]:
    """The distance with its pair; ``times`` are the left one and the right one, in any order for an equality."""
    left, right = sorted(times, key=lambda t: t.side)
    if (left.side, right.side) != (0, 1):
        raise _NoDistance("")
    return (left.name, right.name), distance


def _is_abs(node: exp.Expression) -> bool:
    return (
        isinstance(node, exp.Anonymous)
        and node.name.lower() == "abs"
        and len(node.expressions) == 1
    )


def _is_day_to_second(kind: exp.Interval) -> bool:
    unit = kind.args.get("unit")
    return (
        isinstance(unit, exp.IntervalSpan)
        and (unit.this.name.upper(), unit.expression.name.upper()) == ("DAY", "SECOND")
    )  # fmt: skip


def _micros(node: exp.Interval) -> int:
    value, first, last = interval_parts(node)
    if first.upper() in ("YEAR", "MONTH"):
        raise _NoDistance("months and years have no fixed length")
    return interval_micros(value, first, last)


def _whole(text: str) -> int:
    digits = text[:-1] if text[-1:].upper() in "LSY" else text
    if not digits.isdigit():
        raise _NoDistance(f"{text} is no whole number")
    return int(digits)
