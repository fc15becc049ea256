"""Windows as a query states them.

Every type has ``on``, the progressing column by which rows enter it. Durations are ticks of that column.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from slackwater.model.names import alone
from slackwater.model.registry import Registry
from slackwater.model.spans import STORED, Shown

Over = Literal["arrival", "rank"]


@dataclass(frozen=True)
class TimeWindow:
    """Time windows: window w ends at ``origin + (w+1)*slide`` and spans ``range`` ticks, half-open.

    ``on`` names the progressing column.
    """

    range: int
    slide: int
    origin: int
    on: str

    @property
    def is_tumbling(self) -> bool:
        """Whether each time belongs to exactly one window."""
        return self.range == self.slide


@dataclass(frozen=True)
class RowWindow:
    """Windows over rows counted from 0: window w is rows ``[(w+1)*slide - range, (w+1)*slide)``.

    ``per`` names the keys that split the stream first: each combination counts on its own. ``order`` are the
    columns of the input that give the order of arrival. ``passing`` is a boolean column of the input: rows
    where it is false count and do nothing else (so rows are counted at the source, before filters).
    """

    range: int
    slide: int
    on: str
    per: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    passing: str | None = None


@dataclass(frozen=True)
class Landmark:
    """Window w is ``[origin, origin + (w+1)*slide)``: everything since the origin, every slide."""

    slide: int
    origin: int
    on: str


@dataclass(frozen=True)
class ByTuple:
    """A window ``(t - range, t]`` for the time t of every ``every``-th row of a group; its id is t.

    Rows are counted from 1, in order of arrival (by the input's columns ``order``) or by rank of time. Rows of
    equal time give one window.
    """

    range: int
    every: int
    over: Over
    on: str
    order: tuple[str, ...] = ()


@dataclass(frozen=True)
class SessionWindow:
    """Rows of a group that follow each other by less than ``gap``: ``[first, last + gap)``.

    ``closed``: also by the gap exactly. The end stays the same; a row at it still belongs to the session.
    """

    gap: int
    on: str
    closed: bool = False

    @property
    def reach(self) -> int:
        """How far behind a session's last row its next one is too far away; a bound that far closes it."""
        return self.gap + int(self.closed)


@dataclass(frozen=True)
class CustomWindow:
    """A type of window given by its three functions, over NumPy arrays of int64; see `sw.customWindow`.

    ``windows(low, high)`` gives the ids of the windows that hold a time in [low, high). ``extent(ids)`` gives
    starts (inclusive) and ends (exclusive), one per id or, as arrays of two dimensions, several: the pieces
    of a window. ``wids(times)`` gives pairs as two arrays: places in ``times``, and ids.

    Name and ``version`` tell two types apart; functions do not take part in comparisons. ``shift`` is added to
    times before they reach the functions, and taken from what they answer.
    """

    name: str
    on: str
    windows: Callable[[int, int], Any] = field(compare=False, repr=False)
    extent: Callable[[Any], tuple[Any, Any]] = field(compare=False, repr=False)
    wids: Callable[[Any], tuple[Any, Any]] = field(compare=False, repr=False)
    shift: int = 0
    version: str = ""


@dataclass(frozen=True)
class JointWindow:
    """Windows of several times of a row, which is in each combination of one window of each time.

    Made for the results of joins, whose times progress together.
    """

    windows: tuple[TimeWindow, ...]

    @property
    def on(self) -> str:
        """The progressing column of the first window."""
        return self.windows[0].on


Window: TypeAlias = (
    TimeWindow | RowWindow | Landmark | ByTuple | SessionWindow | CustomWindow | JointWindow
)


def all_time(on: str) -> TimeWindow:
    """The one window (of id 0) that holds every time; only the end of the stream, or punctuation, closes it."""
    return TimeWindow(1 << 62, 1 << 62, -(1 << 61), on)


def is_all_time(w: Window) -> bool:
    """Whether a window holds every time."""
    return isinstance(w, TimeWindow) and w.range == 1 << 62


def describe_window(w: Window, shown: Shown = STORED) -> str:
    """The window as a text; as it is stored, the same for two windows of the same meaning."""
    return DESCRIPTIONS[type(w)](w, shown)


def _time(w: TimeWindow, shown: Shown) -> str:
    if is_all_time(w):
        return f"all time on {w.on}"
    spans = f"range {shown.span(w.range, w.on)} slide {shown.span(w.slide, w.on)}"
    return f"{spans}{shown.origin(w.origin, w.on)} on {w.on}"


def _rows(w: RowWindow, shown: Shown) -> str:
    per = f" per {', '.join(w.per)}" if w.per else ""
    at = "source" if w.passing else "operator"
    return f"rows {w.range} slide {w.slide}{per}{_order(w.order)} at {at} on {w.on}"


def _landmark(w: Landmark, shown: Shown) -> str:
    slide = shown.span(w.slide, w.on)
    return f"landmark slide {slide}{shown.origin(w.origin, w.on)} on {w.on}"


def _by_tuple(w: ByTuple, shown: Shown) -> str:
    span = shown.span(w.range, w.on)
    return f"range {span} by every {w.every} rows over {w.over}{_order(w.order)} on {w.on}"


def _session(w: SessionWindow, shown: Shown) -> str:
    closed = " closed" if w.closed else ""
    return f"session gap {shown.span(w.gap, w.on)}{closed} on {w.on}"


def _custom(w: CustomWindow, shown: Shown) -> str:
    version = f"@{w.version}" if w.version else ""
    return f"custom {w.name}{version} shift {shown.span(w.shift, w.on)} on {w.on}"


def _joint(w: JointWindow, shown: Shown) -> str:
    return " and ".join(describe_window(one, shown) for one in w.windows)


def _order(columns: tuple[str, ...]) -> str:
    return f" order {', '.join(map(alone, columns))}" if columns else ""


DESCRIPTIONS: Registry[Callable[[Any, Shown], str]] = Registry(
    __name__,
    {
        TimeWindow: _time,
        RowWindow: _rows,
        Landmark: _landmark,
        ByTuple: _by_tuple,
        SessionWindow: _session,
        CustomWindow: _custom,
        JointWindow: _joint,
    },
)
"""The text of each type of window; ids of operators are digests of these texts."""
