"""Windows as users write them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class WindowSpec:
    """A time window, not yet bound to a stream; made by `window`."""

    range: Any
    slide: Any = None
    origin: Any = None
    on: str | None = None
    emit_empty: bool = False
    name: str = "window"

    def alias(self, name: str) -> WindowSpec:
        """Give the window's column another name than ``window``."""
        return replace(self, name=name)


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
        epoch by default.
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
