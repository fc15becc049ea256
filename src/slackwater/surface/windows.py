"""Windows as users write them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

from slackwater.engine.plan.reserved import check_names
from slackwater.errors import AnalysisError
from slackwater.model.names import ours
from slackwater.semantics.linear_windows import Linear

Spec = TypeVar("Spec", bound="Windowing")


class Windowing:
    """Any kind of window, not yet bound to a stream; goes into ``groupBy``."""

    on: str | None
    name: str
    emit_empty: bool = False

    def alias(self: Spec, name: str) -> Spec:
        """Give the window's column another name than ``window``."""
        check_names([name], way="give the window another alias")
        return replace(self, name=name)  # type: ignore[type-var]


@dataclass(frozen=True)
class WindowSpec(Windowing):
    """A time window; made by `window`."""

    range: Any
    slide: Any = None
    origin: Any = None
    on: str | None = None
    emit_empty: bool = False
    name: str = "window"


@dataclass(frozen=True)
class AllTimeSpec(Windowing):
    """No window: groups last until punctuation says that they are complete."""

    on: str | None = None
    name: str = ours("__window")


@dataclass(frozen=True)
class RowsSpec(Windowing):
    """A window over rows; made by `rows`."""

    range: int
    slide: int | None = None
    per: str | Sequence[str] | None = None
    at: Literal["source", "operator"] = "source"
    on: str | None = None
    name: str = "window"


@dataclass(frozen=True)
class LandmarkSpec(Windowing):
    """A landmark window; made by `landmark`."""

    slide: Any
    origin: Any
    on: str | None = None
    name: str = "window"


@dataclass(frozen=True)
class ByTupleSpec(Windowing):
    """A window per n-th row; made by `byTuple`."""

    range: Any
    every: int = 1
    over: Literal["arrival", "rank"] = "arrival"
    on: str | None = None
    name: str = "window"


@dataclass(frozen=True)
class SessionSpec(Windowing):
    """Sessions; made by `sessionWindow`."""

    gap: Any
    on: str | None = None
    name: str = "window"
    closed: bool = False


@dataclass(frozen=True)
class CustomSpec(Windowing):
    """A type of window with functions of its own; made by `customWindow`."""

    windows: Callable[[int, int], Any]
    extent: Callable[[Any], tuple[Any, Any]]
    wids: Callable[[Any], tuple[Any, Any]]
    type: str
    on: str | None = None
    name: str = "window"
    version: str | None = None


def window(
    range: Any,
    slide: Any = None,
    *,
    origin: Any = None,
    on: str | None = None,
    emitEmpty: bool = False,
) -> WindowSpec:
    """Time windows of length ``range`` that end every ``slide`` (tumbling without ``slide``).

    Window w is half-open and ends at ``origin + (w + 1) * slide``; any slide works, also one that does not
    divide the range or exceeds it. Durations are texts such as ``"60 seconds"`` (ints for integer times).

    Parameters
    ----------
    range, slide
        Length of a window and distance between the ends of two.
    origin
        A datetime or timestamp text (naive: in the session's time zone), an int for integer times; the
        epoch by default, for a ``timestamp_ntz`` that of local time.
    on
        The progressing column; the stream's first by default.
    emitEmpty
        For windows without group columns: also report windows that hold no row.

    Examples
    --------
    >>> window("60 seconds", "5 seconds")
    WindowSpec(range='60 seconds', slide='5 seconds', origin=None, on=None, emit_empty=False, name='window')
    """
    return WindowSpec(range, slide, origin, on, emitEmpty)


def rows(
    range: int,
    slide: int | None = None,
    per: str | Sequence[str] | None = None,
    at: Literal["source", "operator"] = "source",
    *,
    on: str | None = None,
) -> RowsSpec:
    """Windows of ``range`` rows that end every ``slide`` rows (tumbling without ``slide``).

    Rows are counted from 0 in their order of arrival, which the stream's ``order`` columns give. Window w is
    rows ``[(w + 1) * slide - range, (w + 1) * slide)`` and comes out as soon as its last row has come. When
    the stream ends, windows that are not full come out too.

    Parameters
    ----------
    range, slide
        Numbers of rows.
    per
        Column(s) that split the stream first: each combination of values counts its rows and closes its
        windows on its own. They come out as group columns.
    at
        ``"source"`` counts all rows of the stream, before filters; ``"operator"`` the rows that get here.
    on
        The progressing column by which late rows are judged; the stream's first by default.

    Examples
    --------
    >>> rows(1000, 10, per="srcIP").per
    'srcIP'
    """
    return RowsSpec(range, slide, per, at, on)


def landmark(slide: Any, origin: Any, *, on: str | None = None) -> LandmarkSpec:
    """Everything since ``origin``, reported every ``slide``.

    Window w is ``[origin, origin + (w + 1) * slide)``. A group is reported from its first row on, also for
    slides without new rows, and when the stream ends up to its last row. Rows before the origin are left
    out. Each group is remembered for ever.

    Examples
    --------
    >>> landmark("1 minute", "2026-01-01 00:00:00").slide
    '1 minute'
    """
    return LandmarkSpec(slide, origin, on)


def byTuple(
    range: Any,
    every: int = 1,
    over: Literal["arrival", "rank"] = "arrival",
    *,
    on: str | None = None,
) -> ByTupleSpec:
    """A window of length ``range`` for every n-th row, ending at that row: ``(time - range, time]``.

    Each group counts its own rows and reports its own windows; rows of equal time give one. ``wid`` is the
    row's time.

    Parameters
    ----------
    range
        Length of a window.
    every
        Every how many rows a window ends, counted from 1.
    over
        Count rows in order of ``"arrival"`` (needs the stream's ``order``) or by ``"rank"`` of time.
    on
        The progressing column; the stream's first by default.

    Examples
    --------
    >>> byTuple("5 minutes", 5, over="rank").every
    5
    """
    return ByTupleSpec(range, every, over, on)


def sessionWindow(gap: Any, *, on: str | None = None, closed: bool = False) -> SessionSpec:
    """Sessions: rows of a group that follow each other by less than ``gap``.

    A session is ``[first, last + gap)`` and comes out when the bound has reached its end. There is no
    ``wid``. A late row joins a session that is still open.

    With ``closed`` rows exactly a gap apart are in one session too, as in Spark and Flink. The session shows the same end,
    and comes out when the bound is above it.

    Examples
    --------
    >>> sessionWindow("30 minutes").gap
    '30 minutes'
    """
    return SessionSpec(gap, on, closed=closed)


def customWindow(
    windows: Callable[[int, int], Any],
    extent: Callable[[Any], tuple[Any, Any]],
    wids: Callable[[Any], tuple[Any, Any]],
    *,
    name: str,
    on: str | None = None,
    version: str | None = None,
) -> CustomSpec:
    """A type of window of your own, as three functions over NumPy arrays of int64.

    Times are microseconds since the epoch, or the numbers of an integer column. A time must be in
    ``extent(w)`` exactly if ``w`` is in ``wids(time)``; this is tried out on a sample. Ids may be any
    integers. A window comes out when the bound has reached its end.

    Parameters
    ----------
    windows
        ``windows(low, high)``: ids of the windows that hold a time in [low, high).
    extent
        ``extent(ids)``: starts (inclusive) and ends (exclusive), one per id; or two arrays of two
        dimensions, for windows in several pieces (a piece whose start is not below its end is none).
    wids
        ``wids(times)``: the pairs of a time and a window that holds it, as two arrays: places in
        ``times``, ids.
    name
        Tells this type from others: on a restart the query must use the same name.
    on
        The progressing column; the stream's first by default.
    version
        A query is restarted only with the functions that it had: they are told apart by what they do. Give
        a version to say so yourself; then only name and version count.

    Examples
    --------
    >>> import numpy as np
    >>> days = customWindow(
    ...     lambda low, high: np.arange(low // 10, (high - 1) // 10 + 1),
    ...     lambda ids: (ids * 10, ids * 10 + 10),
    ...     lambda times: (np.arange(len(times)), times // 10),
    ...     name="days of ten",
    ... )
    >>> days.type
    'days of ten'
    """
    return CustomSpec(windows, extent, wids, name, on, version=version)


def linearWindow(
    start: tuple[int, int], end: tuple[int, int], *, on: str | None = None
) -> CustomSpec:
    """Windows whose start and end are linear in the id: window w is ``[a*w + b, c*w + d)``.

    Parameters
    ----------
    start, end
        ``(a, b)`` and ``(c, d)``, in microseconds or numbers of an integer column; a and c above zero. With
        equal slopes these are sliding windows, numbered by their starts; with others they grow or shrink.
    on
        The progressing column; the stream's first by default.

    Examples
    --------
    >>> linearWindow((10, 0), (10, 25)).type
    'linear [10*w + 0, 10*w + 25)'
    """
    for what, line in (("start", start), ("end", end)):
        whole = isinstance(line, tuple) and len(line) == 2 and all(type(x) is int for x in line)
        if not whole or line[0] <= 0:
            raise AnalysisError(
                "BAD_OPTION",
                f"{what}={line!r} is not a rising line",
                hint="give (slope, offset), two ints, the slope above zero",
                value=line,
            )
    lines = Linear(start, end)
    name = f"linear [{start[0]}*w + {start[1]}, {end[0]}*w + {end[1]})"
    return CustomSpec(lines.windows, lines.extent, lines.wids, name, on, version="")
