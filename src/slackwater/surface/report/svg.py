"""Small charts as SVG text. Colours are classes (``s0`` to ``s5``) that the page's style fills in."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

Values = Sequence[float | None]
Format = Callable[[float], str]

WIDTH, HEIGHT = 720, 230
NARROW = 360
"""The width of drawings for small screens: a wide one would be shrunk until nobody can read it."""
LEFT, RIGHT, TOP, BOTTOM = 64, 12, 10, 40
COLOURS = 6
STRIP = 18


@dataclass(frozen=True)
class Axis:
    """The batches along the bottom: one label for hovering each, and when each was."""

    labels: Sequence[str]
    batches: Sequence[int]
    times: Sequence[str]
    width: int = WIDTH

    @property
    def count(self) -> int:
        """How many points."""
        return len(self.labels)


@dataclass(frozen=True)
class Scale:
    """Maps ``low`` to ``high`` onto pixels, ``low`` at the bottom."""

    low: float
    high: float
    ticks: tuple[float, ...]
    height: int = HEIGHT

    def y(self, value: float) -> float:
        """The pixel row of a value."""
        inside = self.height - TOP - BOTTOM
        return TOP + inside * (1 - (value - self.low) / (self.high - self.low))


def nice_step(span: float, count: int, steps: Sequence[float] = (1, 2, 2.5, 5, 10)) -> float:
    """The least round number that cuts ``span`` into at most ``count`` pieces.

    >>> nice_step(100, 4), nice_step(7, 4)
    (25.0, 2.0)
    """
    raw = span / count
    power = 10.0 ** math.floor(math.log10(raw))
    return next(s * power for s in steps if s * power >= raw * 0.999)


def linear(values: Values, *, from_zero: bool = True, whole: bool = False) -> Scale:
    """A scale with round ticks that holds all values."""
    known = [v for v in values if v is not None]
    low, high = (min(known), max(known)) if known else (0.0, 1.0)
    if from_zero:
        low, high = min(low, 0.0), max(high, 0.0)
    least = max(-low, high, 1e-280) * 1e-12
    if high - low <= least:  # between neighbouring floats steps would be lost in rounding
        high = low + max(1.0, least)
    step = nice_step(high - low, 4)
    if whole:
        step = max(1.0, math.ceil(step))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return Scale(first * step, last * step, tuple(i * step for i in range(first, last + 1)))


_CLOCK_STEPS = (
    0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800,
    3600, 7200, 10800, 21600, 43200, 86400,
)  # fmt: skip


def clock(values: Values) -> Scale:
    """A scale over seconds since the epoch, with ticks at round times of day."""
    known = [v for v in values if v is not None]
    if not known:
        return linear(values)
    low, high = min(known), max(known)
    if high <= low:
        high = low + 1.0
    raw = (high - low) / 4
    step = next((s for s in _CLOCK_STEPS if s >= raw), math.ceil(raw / 86400) * 86400)
    first, last = math.floor(low / step), math.ceil(high / step)
    return Scale(first * step, last * step, tuple(i * step for i in range(first, last + 1)))


def short(value: float) -> str:
    """A number for an axis.

    >>> [short(v) for v in (0, 0.25, 1500, 20000, 3e6, 2.5e9)]
    ['0', '0.25', '1,500', '20k', '3M', '2.5G']
    """
    size = abs(value)
    for limit, unit in ((1e9, "G"), (1e6, "M")):
        if size >= limit:
            return f"{value / limit:g}{unit}"
    if size >= 1e4:
        return f"{value / 1e3:g}k"
    return f"{value:,.0f}" if size >= 100 or value == int(value) else f"{value:g}"


def seconds(value: float) -> str:
    """A span for an axis."""
    return f"{short(value)} s"


def time_of_day(value: float) -> str:
    """Seconds since the epoch as a time of day in UTC.

    >>> time_of_day(3661)
    '01:01:01'
    """
    return dt.datetime.fromtimestamp(value, dt.timezone.utc).strftime("%H:%M:%S")


def bars(axis: Axis, series: dict[str, Values], *, show: Format = short, unit: str = "") -> str:
    """Bars, stacked where there are several series."""
    stacked: list[float] = [0.0] * axis.count
    for values in series.values():
        stacked = [a + (v or 0.0) for a, v in zip(stacked, values, strict=True)]
    scale = linear(stacked, whole=True)
    parts = [_frame(axis, scale, show)]
    base = [0.0] * axis.count
    step = _step(axis)
    wide = max(1.0, step * 0.82)
    for index, values in enumerate(series.values()):
        drawn = []
        for i, value in enumerate(values):
            if not value:
                continue
            top, bottom = scale.y(base[i] + value), scale.y(base[i])
            x = _x(axis, i) - wide / 2
            drawn.append(f"M{x:.1f} {bottom:.1f}V{top:.1f}h{wide:.1f}V{bottom:.1f}z")
            base[i] += value
        parts.append(f'<path class="fill s{index % COLOURS}" d="{"".join(drawn)}"/>')
    parts.append(_hovers(axis, series, show, unit))
    return _svg(axis, "".join(parts))


def lines(
    axis: Axis,
    series: dict[str, Values],
    *,
    show: Format = short,
    scale: Scale | None = None,
    between: bool = False,
) -> str:
    """Lines; ``between`` fills the space from the first down to the second."""
    scale = scale or linear([v for values in series.values() for v in values])
    parts = [_frame(axis, scale, show)]
    if between and len(series) == 2:
        parts.append(_area(axis, scale, *series.values()))
    for index, values in enumerate(series.values()):
        parts.append(f'<path class="line s{index % COLOURS}" d="{_steps(axis, scale, values)}"/>')
        if sum(v is not None for v in values) == 1:
            i, v = next((i, v) for i, v in enumerate(values) if v is not None)
            parts.append(
                f'<circle class="fill s{index % COLOURS}" cx="{_x(axis, i):.1f}" cy="{scale.y(v):.1f}" r="3"/>'
            )
    parts.append(_hovers(axis, series, show, ""))
    return _svg(axis, "".join(parts))


def strips(axis: Axis, rows: Mapping[str, Sequence[str]], colours: dict[str, int | None]) -> str:
    """Names over time, one strip per row; a name whose colour is None is drawn grey, "" not at all."""
    height = TOP + len(rows) * (STRIP + 8) + BOTTOM - 8
    parts = []
    step = _step(axis)
    for number, (title, names) in enumerate(rows.items()):
        y = TOP + number * (STRIP + 8)
        parts.append(
            f'<text class="axis" x="{LEFT - 8}" y="{y + 13}" text-anchor="end">{escape(title)}</text>'
        )
        parts.append(
            f'<rect class="empty" x="{LEFT}" y="{y}" width="{axis.width - LEFT - RIGHT}" height="{STRIP}"/>'
        )
        for first, last, name in _segments(names):
            if not name:
                continue
            x, wide = LEFT + first * step, (last - first + 1) * step
            colour = colours.get(name)
            kind = "unknown" if colour is None else f"s{colour % COLOURS}"
            hover = f"{title} {name}: {axis.labels[first]}"
            if last > first:
                hover += f" to {axis.labels[last]}"
            parts.append(
                f'<rect class="fill {kind}" x="{x:.1f}" y="{y}" width="{max(wide - 0.5, 0.5):.1f}" '
                f'height="{STRIP}"><title>{escape(hover)}</title></rect>'
            )
            if wide > 7 * len(name) + 8:
                parts.append(
                    f'<text class="on" x="{x + 6:.1f}" y="{y + 13}" pointer-events="none">{escape(name)}</text>'
                )
    parts.append(_bottom(axis, height))
    return _svg(axis, "".join(parts), height)


# ---- pieces ----
def _svg(axis: Axis, body: str, height: int = HEIGHT) -> str:
    kind = "broad" if axis.width > WIDTH else "narrow" if axis.width < WIDTH else "usual"
    return f'<svg class="{kind}" viewBox="0 0 {axis.width} {height}" role="img">{body}</svg>'


def _step(axis: Axis) -> float:
    return (axis.width - LEFT - RIGHT) / max(1, axis.count)


def _x(axis: Axis, index: int) -> float:
    """The middle of a point's column."""
    return LEFT + (index + 0.5) * _step(axis)


def _frame(axis: Axis, scale: Scale, show: Format) -> str:
    parts = []
    for tick in scale.ticks:
        y = scale.y(tick)
        parts.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{axis.width - RIGHT}"/>')
        parts.append(
            f'<text class="axis" x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{escape(show(tick))}</text>'
        )
    return "".join(parts) + _bottom(axis, scale.height)


def _bottom(axis: Axis, height: int) -> str:
    """Batch numbers and, below them, the time of day: as many as fit."""
    every = max(1, math.ceil(axis.count * 80 / axis.width))
    parts = []
    for i in range(0, axis.count, every):
        x = min(
            _x(axis, i), axis.width - _half(axis.times[i]), axis.width - _half(str(axis.batches[i]))
        )
        parts.append(
            f'<text class="axis" x="{x:.1f}" y="{height - 23}" text-anchor="middle">{axis.batches[i]}</text>'
            f'<text class="axis faint" x="{x:.1f}" y="{height - 9}" text-anchor="middle">'
            f"{escape(axis.times[i])}</text>"
        )
    return "".join(parts)


def _half(text: str) -> float:
    """Half of what a label takes in width: so far from the edge its middle must stay."""
    return 3.4 * len(text) + 1


def _hovers(axis: Axis, series: dict[str, Values], show: Format, unit: str) -> str:
    """A see-through column per point that names all values when the mouse rests on it; small screens have no mouse."""
    if axis.width < WIDTH:
        return ""
    step = _step(axis)
    parts = []
    for i, label in enumerate(axis.labels):
        lines = [
            f"{name}: {'none' if values[i] is None else show(values[i] or 0.0) + unit}"
            for name, values in series.items()
        ]
        text = escape("\n".join([label, *lines]))
        parts.append(
            f'<rect class="hover" x="{LEFT + i * step:.1f}" y="{TOP}" width="{step:.1f}" '
            f'height="{HEIGHT - TOP - BOTTOM}"><title>{text}</title></rect>'
        )
    return "".join(parts)


def _steps(axis: Axis, scale: Scale, values: Values) -> str:
    """A line through the known points, broken where there is none."""
    path, pen = [], False
    for i, value in enumerate(values):
        if value is None:
            pen = False
            continue
        path.append(f"{'L' if pen else 'M'}{_x(axis, i):.1f} {scale.y(value):.1f}")
        pen = True
    return "".join(path)


def _area(axis: Axis, scale: Scale, upper: Values, lower: Values) -> str:
    parts = []
    both = [
        "x" if u is not None and v is not None else "" for u, v in zip(upper, lower, strict=True)
    ]
    for first, last, there in _segments(both):
        if not there:
            continue
        span = range(first, last + 1)
        over = [f"{_x(axis, i):.1f} {scale.y(upper[i] or 0.0):.1f}" for i in span]
        under = [f"{_x(axis, i):.1f} {scale.y(lower[i] or 0.0):.1f}" for i in reversed(span)]
        parts.append(f"M{'L'.join([*over, *under])}z")
    return f'<path class="area" d="{"".join(parts)}"/>'


def _segments(names: Sequence[str]) -> list[tuple[int, int, str]]:
    """(first, last, name) of each stretch of equal names, both ends included."""
    segments: list[tuple[int, int, str]] = []
    for i, name in enumerate(names):
        if segments and segments[-1][2] == name:
            segments[-1] = (segments[-1][0], i, name)
        else:
            segments.append((i, i, name))
    return segments
