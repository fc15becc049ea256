"""The windows of a transcript's query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from slackwater.errors import AnalysisError
from slackwater.model.arrival import at_source, with_order
from slackwater.model.node import Node, Source
from slackwater.model.time import TimeColumn, parse_instant, parse_span
from slackwater.model.window import (
    ByTuple,
    JointWindow,
    Landmark,
    RowWindow,
    SessionWindow,
    TimeWindow,
    Window,
)
from slackwater.testing.custom_windows import CUSTOM


def build_window(node: Node, spec: Mapping[str, Any]) -> tuple[Node, Window, TimeColumn]:
    """The input (with what the window needs of it), the window, and the time of its results."""
    time = time_column(node, spec.get("time"))
    if "rows" in spec:
        size = spec["rows"]
        arrival = with_order(node) if spec.get("at") == "operator" else at_source(node)
        window = RowWindow(
            size,
            spec.get("slide", size),
            time.name,
            tuple(listed(spec.get("per", []))),
            arrival.order,
            arrival.passing,
        )
        return arrival.node, window, TimeColumn("", "long", None)
    if "landmark" in spec:
        slide = parse_span(spec["landmark"], time, what="slide")
        origin = parse_instant(spec["origin"], time, zone_of(node), what="origin")
        return node, Landmark(slide, origin, time.name), time
    if "by_tuple" in spec:
        size = parse_span(spec["by_tuple"], time, what="range")
        every, over = spec.get("every", 1), spec.get("over", "arrival")
        order: tuple[str, ...] = ()
        if over == "arrival":
            node, order, _ = with_order(node)
        return node, ByTuple(size, every, over, time.name, order), time
    if "session" in spec:
        return node, SessionWindow(parse_span(spec["session"], time, what="gap"), time.name), time
    if "custom" in spec:
        return node, CUSTOM[spec["custom"]](time.name), time
    size = parse_span(spec["range"], time, what="range")
    slide = parse_span(spec.get("slide", spec["range"]), time, what="slide")
    start = spec.get("origin")
    first = 0 if start is None else parse_instant(start, time, zone_of(node), what="origin")
    return node, TimeWindow(size, slide, first, time.name), time


def build_windows(node: Node, specs: Sequence[Mapping[str, Any]]) -> tuple[JointWindow, TimeColumn]:
    """The windows of several times, and the time of the first."""
    found, times = [], []
    for spec in specs:
        _, window, time = build_window(node, spec)
        assert isinstance(window, TimeWindow)
        found.append(window)
        times.append(time)
    return JointWindow(tuple(found)), times[0]


def zone_of(node: Node) -> str:
    """The session's zone, which the sources know."""
    while node.children:
        node = node.children[0]
    assert isinstance(node, Source)
    return node.zone


def time_column(node: Node, name: str | None) -> TimeColumn:
    """A progressing column by name; the first by default. After a join also ``max`` and ``min``."""
    kind = {"max": "greatest", "min": "least"}.get(name or "")
    for t in node.times:
        if name is None or t.name == name or (t.parts and t.kind == kind):
            return t
    raise bad(
        f"no progressing column {name!r}", f"there is: {', '.join(t.name for t in node.times)}"
    )


def listed(value: Any) -> list[Any]:
    """A list as it is, anything else as a list of one."""
    return value if isinstance(value, list) else [value]


def bad(message: str, hint: str) -> AnalysisError:
    """What is wrong with a transcript."""
    return AnalysisError("BAD_TRANSCRIPT", message, hint=hint)
