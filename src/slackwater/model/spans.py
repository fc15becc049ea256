"""Spans of time and origins of windows: as they are stored, and in words where people read them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from slackwater.model.time import SECOND, TimeColumn, written

if TYPE_CHECKING:
    from slackwater.model.node import Node

_UNITS = (
    ("day", 86_400 * SECOND), ("hour", 3_600 * SECOND), ("minute", 60 * SECOND), ("second", SECOND),
)  # fmt: skip


def in_words(micros: int) -> str:
    """A span as one writes it; `parse_duration` reads it back.

    >>> [in_words(n) for n in (90_000_000, 86_400_000_000, 250_000, 1_500_000, 7, 0, -10_000_000)]
    ['1 minute 30 seconds', '1 day', '250 milliseconds', '1.5 seconds', '7 microseconds', '0 seconds', '-10 seconds']
    """
    if micros < 0:
        return f"-{in_words(-micros)}"
    if 0 < micros < SECOND:
        whole, part = divmod(micros, 1_000)
        return (
            _counted(_decimal(whole, f"{part:03d}"), "millisecond")
            if whole
            else _counted(str(micros), "microsecond")
        )
    words, rest = [], micros
    for unit, size in _UNITS[:-1]:
        whole, rest = divmod(rest, size)
        if whole:
            words.append(_counted(str(whole), unit))
    if rest or not words:
        seconds, part = divmod(rest, SECOND)
        words.append(_counted(_decimal(seconds, f"{part:06d}"), "second"))
    return " ".join(words)


def _decimal(whole: int, digits: str) -> str:
    return f"{whole}.{digits}".rstrip("0").rstrip(".")


def _counted(number: str, unit: str) -> str:
    return f"{number} {unit}" if number == "1" else f"{number} {unit}s"


class Shown(Protocol):
    """How numbers of a time column are shown: ``on`` is the column's name."""

    def span(self, ticks: int, on: str) -> str:
        """A span."""

    def origin(self, ticks: int, on: str) -> str:
        """Where windows are counted from, as the end of a text."""


class Stored:
    """Plain numbers. Ids of operators are made of such texts, and checkpoints hold them."""

    def span(self, ticks: int, on: str) -> str:
        return str(ticks)

    def origin(self, ticks: int, on: str) -> str:
        return f" origin {ticks}"


class Words:
    """Words for people; numbers where times are integers, as users write them there."""

    def __init__(self, times: Iterable[TimeColumn]):
        self._times = {t.name: t for t in times}

    def span(self, ticks: int, on: str) -> str:
        time = self._time(on)
        return str(ticks) if time is None or time.is_integer else in_words(ticks)

    def origin(self, ticks: int, on: str) -> str:
        time = self._time(on)
        if ticks == 0:
            return ""  # the epoch, as everybody expects
        text = ticks if time is None else written(time, ticks)
        return f" origin {str(text).replace('.000000', '')}"

    def _time(self, on: str) -> TimeColumn | None:
        return self._times.get(on) or next(iter(self._times.values()), None)


STORED = Stored()


def words_of(node: Node) -> Words:
    """Words for the times that an operator's inputs have."""
    return Words(t for child in node.children for t in child.times)


def setting(value: object) -> str:
    """A setting as the user gave it, a ``timedelta`` in words."""
    return repr(
        in_words(value // dt.timedelta(microseconds=1))
        if isinstance(value, dt.timedelta)
        else value
    )
