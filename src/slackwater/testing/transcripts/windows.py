"""The windows of a transcript's query."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from slackwater.errors import AnalysisError
from slackwater.model.arrival import at_source, with_order
from slackwater.model.node import Node, Source
from slackwater.model.registry import Registry
from slackwater.model.time import TimeColumn, parse_instant, parse_span
from slackwater.model.window import (
    ByTuple,
    CustomWindow,
    JointWindow,
    Landmark,
    RowWindow,
    SessionWindow,
    TimeWindow,
    Window,
)
from slackwater.testing.custom_windows import CUSTOM


@dataclass(frozen=True)
class Built:
    """A window with its input (and what the window needs of that), and the time of its results.

    ``columns`` are those of the results that show windows; ``keys`` are columns by which results must be grouped.
    """

    node: Node
    window: Window
    time: TimeColumn
    columns: tuple[str, ...] = ("window",)
    keys: tuple[str, ...] = ()


class Form(NamedTuple):
    """How a transcript writes a type of window: the ``key`` that tells it, and what it is built by from the whole.

    ``wid`` is whether results have the window's id.
    """

    key: str
    build: Callable[[Node, Mapping[str, Any]], Built]
    wid: bool = True


def build_window(node: Node, spec: Mapping[str, Any]) -> Built:
    """The window of a ``window`` step, or of one with ``windows`` on several times."""
    for form in FORMS.values():
        if form.key in spec:
            return form.build(node, spec)
    known = ", ".join(f.key for f in FORMS.values())
    raise bad(f"window {dict(spec)!r} is not known", f"give one of: {known}")


def has_wid(window: Window) -> bool:
    """Whether results of the window have its id."""
    return FORMS[type(window)].wid


def _rows(node: Node, spec: Mapping[str, Any]) -> Built:
    time, size = time_column(node, spec.get("time")), spec["rows"]
    arrival = with_order(node) if spec.get("at") == "operator" else at_source(node)
    per = tuple(listed(spec.get("per", [])))
    window = RowWindow(
        size, spec.get("slide", size), time.name, per, arrival.order, arrival.passing
    )
    return Built(arrival.node, window, TimeColumn("", "long", None), keys=per)


def _landmark(node: Node, spec: Mapping[str, Any]) -> Built:
    time = time_column(node, spec.get("time"))
    slide = parse_span(spec["landmark"], time, what="slide")
    origin = parse_instant(spec["origin"], time, zone_of(node), what="origin")
    return Built(node, Landmark(slide, origin, time.name), time)


def _by_tuple(node: Node, spec: Mapping[str, Any]) -> Built:
    time = time_column(node, spec.get("time"))
    size = parse_span(spec["by_tuple"], time, what="range")
    every, over = spec.get("every", 1), spec.get("over", "arrival")
    order: tuple[str, ...] = ()
    if over == "arrival":
        node, order, _ = with_order(node)
    return Built(node, ByTuple(size, every, over, time.name, order), time)


def _session(node: Node, spec: Mapping[str, Any]) -> Built:
    time = time_column(node, spec.get("time"))
    gap = parse_span(spec["session"], time, what="gap")
    return Built(node, SessionWindow(gap, time.name, bool(spec.get("closed", False))), time)


def _custom(node: Node, spec: Mapping[str, Any]) -> Built:
    time = time_column(node, spec.get("time"))
    return Built(node, CUSTOM[spec["custom"]](time.name), time)


def _joint(node: Node, spec: Mapping[str, Any]) -> Built:
    parts = [_time(node, one) for one in spec["windows"]]
    windows = tuple(p.window for p in parts if isinstance(p.window, TimeWindow))
    names = tuple(f"{one['time']}_window" for one in spec["windows"])
    return Built(node, JointWindow(windows), parts[0].time, names)


def _time(node: Node, spec: Mapping[str, Any]) -> Built:
    time = time_column(node, spec.get("time"))
    size = parse_span(spec["range"], time, what="range")
    slide = parse_span(spec.get("slide", spec["range"]), time, what="slide")
    start = spec.get("origin")
    first = 0 if start is None else parse_instant(start, time, zone_of(node), what="origin")
    return Built(node, TimeWindow(size, slide, first, time.name), time)


FORMS: Registry[Form] = Registry(
    __name__,
    {
        RowWindow: Form("rows", _rows),
        Landmark: Form("landmark", _landmark),
        ByTuple: Form("by_tuple", _by_tuple),
        SessionWindow: Form("session", _session, wid=False),
        CustomWindow: Form("custom", _custom),
        JointWindow: Form("windows", _joint, wid=False),
        TimeWindow: Form("range", _time),
    },
)
"""How each type of window is written; the first whose key is there."""


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
