"""Windows by definition, for the oracle: a window is found by trying, not by arithmetic."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from slackwater.model.window import TimeWindow
from slackwater.testing.oracle.types import Window

_COMBINED = re.compile(r"(greatest|least)\((.*)\)")


def time_of(row: Mapping[str, Any], column: str) -> int:
    """The time of a row; that of a window's result is the last tick of its window, that of a join's has no column.

    >>> time_of({"a": 3, "b": 5, "c": None}, "least(greatest(a, b), c)")
    5
    """
    if column not in row and (m := _COMBINED.fullmatch(column)):
        times = [time_of(row, part) for part in _parts(m[2]) if _known(row, part)]
        return max(times) if m[1] == "greatest" else min(times)
    value = row[column]
    time: int = value.end - 1 if isinstance(value, Window) else value
    return time


def _parts(text: str) -> list[str]:
    """Names between commas that are not inside brackets."""
    parts, depth = [""], 0
    for c in text:
        depth += (c == "(") - (c == ")")
        if c == "," and not depth:
            parts.append("")
        else:
            parts[-1] += c
    return [p.strip() for p in parts]


def _known(row: Mapping[str, Any], column: str) -> bool:
    if column not in row and (m := _COMBINED.fullmatch(column)):
        return any(_known(row, part) for part in _parts(m[2]))
    return row[column] is not None


def end_of(wid: int, w: TimeWindow) -> int:
    """End (exclusive) of a window."""
    return w.origin + (wid + 1) * w.slide


def windows_holding(time: int, w: TimeWindow) -> list[int]:
    """All windows w with start <= time < end, found by trying."""
    wid = (time - w.origin) // w.slide
    while end_of(wid - 1, w) > time:
        wid -= 1
    while end_of(wid, w) <= time:
        wid += 1
    found = []
    while end_of(wid, w) - w.range <= time:
        found.append(wid)
        wid += 1
    return found


def first_not_reached(v: int, w: TimeWindow) -> int:
    """The least window whose end the bound has not reached, found by trying."""
    wid = (v - w.origin) // w.slide
    while end_of(wid - 1, w) > v:
        wid -= 1
    while end_of(wid, w) <= v:
        wid += 1
    return wid
