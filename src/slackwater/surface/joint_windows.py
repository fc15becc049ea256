"""Groups on the windows of several times, which is what the results of a join have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from slackwater.errors import AnalysisError
from slackwater.model.node import Aggregate, Join, Late, Node, Source
from slackwater.model.time import TimeColumn
from slackwater.model.window import JointWindow, TimeWindow
from slackwater.surface.window_types import resolve
from slackwater.surface.windows import Windowing, WindowSpec

if TYPE_CHECKING:
    from slackwater.surface.stream import Stream


def told_apart(specs: Sequence[Windowing], stream: Stream) -> list[Windowing]:
    """The windows of one ``groupBy``, each with a name of its own in the result.

    A window without an alias is called after its time: ``a_ts_window`` for ``on="a_ts"``.
    """
    other = next((s for s in specs if not isinstance(s, WindowSpec)), None)
    if other is not None:
        raise _several(
            f"only time windows go together in a groupBy, not {type(other).__name__}",
            "use sw.window(...) for each time, or one window per groupBy",
        )
    if _of_source(stream._node):
        raise _several(
            "groupBy has several windows, and the stream is not the result of a join",
            "use one window per groupBy; run several queries together with sw.start([...])",
        )
    named = [
        s.alias(f"{s.on}_window") if s.name == WindowSpec.name and s.on is not None else s
        for s in specs
    ]
    names = [s.name.lower() for s in named]
    twice = next((s.name for s in named if names.count(s.name.lower()) > 1), None)
    if twice is not None:
        raise _several(
            f"two windows of the groupBy would be called '{twice}'",
            'name them: sw.window(..., on="a_ts").alias("a_window")',
        )
    return named


def joint_window(
    specs: Sequence[Windowing], stream: Stream, times: Sequence[TimeColumn]
) -> JointWindow:
    """The windows of several times as one."""
    windows = []
    for spec, time in zip(specs, times, strict=True):
        window = resolve(spec, stream, time).window
        assert isinstance(window, TimeWindow)
        windows.append(window)
    return JointWindow(tuple(windows))


def _of_source(node: Node) -> bool:
    """Whether rows come straight from a source: there they were judged as late or not by one time only.

    Joins and aggregates make rows with times of their own. An operator of another type counts as letting rows of a source
    pass, so that several windows over it are refused.
    """
    if isinstance(node, Source | Late):
        return True
    return not isinstance(node, Join | Aggregate) and any(map(_of_source, node.children))


def _several(message: str, hint: str) -> AnalysisError:
    return AnalysisError("SEVERAL_WINDOWS", message, hint=hint)
