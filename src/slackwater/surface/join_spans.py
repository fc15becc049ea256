"""How near partners must be: the times of a join, and the spans that ``within=`` gives for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from slackwater.errors import AnalysisError
from slackwater.model.join import Anytime, Band, Reach, Tumbling, Within
from slackwater.model.time import TimeColumn, parse_duration, parse_instant, parse_span
from slackwater.model.window import TimeWindow
from slackwater.surface.bands import BandSpec
from slackwater.surface.operands import bad_join
from slackwater.surface.timeless import stands_still
from slackwater.surface.windows import WindowSpec

if TYPE_CHECKING:
    from slackwater.surface.stream import Stream


def times_of(
    streams: Sequence[Stream], times: Sequence[str] | None, anytime: bool = False
) -> list[TimeColumn]:
    """The time of each stream that a join goes by: the given ones, or the first."""
    if times is not None and len(times) != len(streams):
        raise bad_join("times", times, f"give one time column per stream, {len(streams)} in all")
    # Results at any distance have a time, too, of which nothing is known before the end.
    still = [anytime and times is None and stands_still(s._node) for s in streams]
    columns = [
        s._node.times[0] if waits else s._time(times[i] if times else None, "a join")
        for i, (s, waits) in enumerate(zip(streams, still, strict=True))
    ]
    if len({t.type for t in columns}) > 1:
        shown = ", ".join(f"{t.name} ({_clock(t)})" for t in columns)
        raise AnalysisError(
            "TIME_MISMATCH",
            f"the streams measure time differently: {shown}",
            hint="cast the time columns to one type before sw.stream(...)",
        )
    return columns


def _clock(time: TimeColumn) -> str:
    return "integer" if time.is_integer else time.type


def span_of(within: Any, times: Sequence[TimeColumn], zone: str) -> Within:
    """How near in time partners are, in ticks of the streams' times."""
    time = times[0]
    if isinstance(within, (Band, Anytime)):
        return within
    if isinstance(within, BandSpec):
        if len(times) != 2:
            raise bad_join("within", within, "joinAll needs one duration per stream")
        if within.closed not in ("both", "left", "neither"):
            raise bad_join("closed", within.closed, 'use "both", "left" or "neither"')
        return Band(_signed(within.before, time, "before"), _signed(within.after, time, "after"),
                    within.closed)  # fmt: skip
    if isinstance(within, WindowSpec):
        span = parse_span(within.range, time, what="window range")
        if within.slide is not None and parse_span(within.slide, time, what="slide") != span:
            raise bad_join(
                "within", within, "a join takes a tumbling window: leave slide out, or use sw.band"
            )
        origin = 0
        if within.origin is not None:
            origin = parse_instant(within.origin, time, zone, what="window origin")
        return Tumbling(TimeWindow(span, span, origin, time.name))
    if isinstance(within, (list, tuple)):
        if len(within) != len(times):
            raise bad_join("within", within, f"give one duration per stream, {len(times)} in all")
        return Reach(tuple(parse_span(w, time, what="within", positive=False) for w in within))
    length = "10" if time.is_integer else '"1 minute"'
    raise bad_join(
        "within",
        within,
        f"give sw.band(before={length}, after={length}) or sw.window({length})",
    )


def _signed(value: Any, time: TimeColumn, what: str) -> int:
    if value is None:
        return 0
    if time.is_integer and isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().startswith("-"):
        return -parse_duration(value.strip()[1:], what=what, positive=False)
    return parse_span(value, time, what=what, positive=False)
