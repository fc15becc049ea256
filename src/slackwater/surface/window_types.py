"""From a window as users write it to the window of a stream."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from slackwater.errors import AnalysisError
from slackwater.kernels.by_value import ByValue
from slackwater.model.arrival import at_source, no_order, with_order
from slackwater.model.node import Node, Source
from slackwater.model.time import TimeColumn, parse_instant, parse_span
from slackwater.model.window import (
    ByTuple,
    CustomWindow,
    Landmark,
    RowWindow,
    SessionWindow,
    TimeWindow,
    Window,
    all_time,
)
from slackwater.semantics.window_types.custom import check_duality
from slackwater.surface.functions import _digest, _pickled
from slackwater.surface.windows import (
    AllTimeSpec,
    ByTupleSpec,
    CustomSpec,
    LandmarkSpec,
    RowsSpec,
    SessionSpec,
    Windowing,
    WindowSpec,
)

if TYPE_CHECKING:
    from slackwater.surface.stream import Stream

_LIMIT = 200


class Resolved(NamedTuple):
    """The stream with what the window needs of it, the window, and columns that must reach it."""

    stream: Stream
    window: Window
    carried: tuple[str, ...] = ()


def resolve(spec: Windowing, stream: Stream, time: TimeColumn) -> Resolved:
    """The window on a stream; durations and origins in ticks of the time column."""
    zone = stream._analyser.zone
    if isinstance(spec, AllTimeSpec):
        return Resolved(stream, all_time(time.name))
    if isinstance(spec, RowsSpec):
        return _rows(spec, stream, time)
    if isinstance(spec, ByTupleSpec):
        return _by_tuple(spec, stream, time)
    if isinstance(spec, LandmarkSpec):
        slide = parse_span(spec.slide, time, what="window slide")
        origin = parse_instant(spec.origin, time, zone, what="window origin")
        return Resolved(stream, Landmark(slide, origin, time.name))
    if isinstance(spec, SessionSpec):
        gap = parse_span(spec.gap, time, what="session gap")
        return Resolved(stream, SessionWindow(gap, time.name, spec.closed))
    if isinstance(spec, CustomSpec):
        return Resolved(stream, _custom(spec, time))
    assert isinstance(spec, WindowSpec)
    span = parse_span(spec.range, time, what="window range")
    slide = span if spec.slide is None else parse_span(spec.slide, time, what="window slide")
    start = 0
    if spec.origin is not None:
        start = parse_instant(spec.origin, time, zone, what="window origin")
    return Resolved(stream, TimeWindow(span, slide, start, time.name))


def _rows(spec: RowsSpec, stream: Stream, time: TimeColumn) -> Resolved:
    size = _count(spec.range, "window range")
    slide = size if spec.slide is None else _count(spec.slide, "window slide")
    if spec.at not in ("source", "operator"):
        raise _bad("at", spec.at, 'use "source" or "operator"')
    per = [spec.per] if isinstance(spec.per, str) else list(spec.per or ())
    for name in per:
        if not isinstance(name, str):
            raise _bad("per", name, "give names of columns; make a column of an expression first")
        stream._column(name)
    ordered = at_source(stream._node) if spec.at == "source" else with_order(stream._node)
    window = RowWindow(
        size,
        slide,
        time.name,
        tuple(stream._column(p) for p in per),
        ordered.order,
        ordered.passing,
    )
    carried = ordered.order if ordered.passing is None else (*ordered.order, ordered.passing)
    return Resolved(stream._with(ordered.node), window, carried)


def _by_tuple(spec: ByTupleSpec, stream: Stream, time: TimeColumn) -> Resolved:
    size = parse_span(spec.range, time, what="window range")
    every = _count(spec.every, "every")
    if spec.over == "rank":
        return Resolved(stream, ByTuple(size, every, "rank", time.name))
    if spec.over != "arrival":
        raise _bad("over", spec.over, 'use "arrival" or "rank"')
    ordered = with_order(stream._node)
    if not ordered.order:
        way = 'or count by rank of time: sw.byTuple(..., over="rank")'
        raise no_order(_stream_name(stream._node), 'sw.byTuple(over="arrival")', way)
    window = ByTuple(size, every, "arrival", time.name, ordered.order)
    return Resolved(stream._with(ordered.node), window, ordered.order)


def _custom(spec: CustomSpec, time: TimeColumn) -> CustomWindow:
    if not isinstance(spec.type, str) or not spec.type:
        raise _bad("name", spec.type, "give a text that tells this type of window from others")
    functions: tuple[Callable[..., Any], ...] = (spec.windows, spec.extent, spec.wids)
    for what, f in zip(("windows", "extent", "wids"), functions, strict=True):
        if not callable(f):
            raise _bad(what, f, "give a function; see sw.customWindow")
    code = _pickled(functions)
    made = [ByValue(code, i) for i in range(3)]
    version = _digest(functions) if spec.version is None else spec.version
    window = CustomWindow(spec.type, time.name, made[0], made[1], made[2], version=version)
    _try_out(window, time)
    return window


def _try_out(w: CustomWindow, time: TimeColumn) -> None:
    """Check the functions against each other, on samples ever wider, while they hold few windows."""
    for around in (0,) if time.is_integer else (0, 1_700_000_000_000_000):
        unit = 1
        while unit <= 86_400_000_000:
            times = around + np.arange(-40, 41, dtype=np.int64) * unit
            try:
                check_duality(w, times)
                ids = len(w.windows(int(times[0]), int(times[-1]) + 1))
            except AnalysisError:
                raise
            except Exception as error:
                raise AnalysisError(
                    "BAD_WINDOW",
                    f"window '{w.name}': its functions failed on a sample: "
                    f"{type(error).__name__}: {error}",
                    hint="they get and give NumPy arrays of int64; see sw.customWindow",
                    name=w.name,
                ) from error
            if ids > _LIMIT:
                break
            unit *= 60


def _stream_name(node: Node) -> str:
    while node.children:
        node = node.children[0]
    return node.name if isinstance(node, Source) else ""


def _count(value: Any, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
        raise AnalysisError(
            "BAD_OPTION",
            f"{what} {value!r} is not a number of rows",
            hint="give an int above zero",
            value=value,
        )
    return value


def _bad(what: str, value: Any, way: str) -> AnalysisError:
    return AnalysisError("BAD_OPTION", f"{what}={value!r} is not known", hint=way, value=value)


def group_keys(window: Window, names: Sequence[str]) -> list[str]:
    """Columns by which a window splits the stream that are not group columns yet."""
    if not isinstance(window, RowWindow):
        return []
    return [p for p in window.per if p not in names]
