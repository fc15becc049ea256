"""What is measured: windows, sizes of batches, the targets, and how often each is run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from benchmarks.datagen import Data

SECOND = 1_000_000
NATIVE, ROWS, SPLITS = "native", "rows", "splits"
OURS = (ROWS, SPLITS)
LABELS = {NATIVE: "native", ROWS: "row source", SPLITS: "split source"}
DELAY_SECONDS = 10
"""How far behind the newest time both contenders hold their bound."""


@dataclass(frozen=True)
class Window:
    """A time window; times in microseconds. The slide divides the range."""

    range: int
    slide: int

    @classmethod
    def seconds(cls, range: float, slide: float) -> Window:
        """A window given in seconds."""
        return cls(round(range * SECOND), round(slide * SECOND))

    @property
    def overlap(self) -> int:
        """Windows that one row is in."""
        return self.range // self.slide

    @property
    def name(self) -> str:
        """E.g. ``60s-5s``, for file names and ``--cases``."""
        return f"{_seconds(self.range)}s-{_seconds(self.slide)}s"

    @property
    def label(self) -> str:
        """E.g. ``60 s / 5 s``, for people."""
        if self.range == self.slide:
            return f"tumbling {_seconds(self.range)} s"
        return f"{_seconds(self.range)} s / {_seconds(self.slide)} s"

    @property
    def range_text(self) -> str:
        """The range as Spark reads it."""
        return f"{self.range} microseconds"

    @property
    def slide_text(self) -> str:
        """The slide as Spark reads it."""
        return f"{self.slide} microseconds"


def _seconds(micros: int) -> str:
    return f"{micros / SECOND:g}"


@dataclass(frozen=True)
class Case:
    """One window at one batch size: native and ours run in turns, ``rounds`` times each."""

    size: str
    window: Window
    data: Data
    contenders: tuple[str, ...]
    targets: dict[str, float]
    rounds: int

    @property
    def name(self) -> str:
        """E.g. ``2m-60s-5s``."""
        return f"{self.size}-{self.window.name}"


TUMBLING, FIVE, ONE = Window.seconds(5, 5), Window.seconds(60, 5), Window.seconds(60, 1)

# Native's 60 s / 1 s takes 20 s for 2 M rows and over a minute for 10 M: fewer batches and rounds there.
TWO_MILLION = Data(batches=5, batch_rows=2_000_000)
TEN_MILLION = Data(batches=3, batch_rows=10_000_000)
FULL = (
    Case("2m", TUMBLING, TWO_MILLION, (NATIVE, ROWS, SPLITS), {ROWS: 1.2, SPLITS: 1.5}, 4),
    Case("2m", FIVE, TWO_MILLION, (NATIVE, ROWS, SPLITS), {ROWS: 2.5, SPLITS: 2.7}, 4),
    Case("2m", ONE, TWO_MILLION, (NATIVE, ROWS, SPLITS), {ROWS: 10.0, SPLITS: 13.0}, 2),
    Case("10m", TUMBLING, TEN_MILLION, (NATIVE, SPLITS), {SPLITS: 4.0}, 3),
    Case("10m", FIVE, TEN_MILLION, (NATIVE, SPLITS), {SPLITS: 6.0}, 2),
    Case("10m", ONE, TEN_MILLION, (NATIVE, SPLITS), {SPLITS: 15.0}, 1),
)


def cases(*, quick: bool = False, only: str | None = None, rounds: int | None = None) -> list[Case]:
    """The cases to run.

    Parameters
    ----------
    quick
        Few rows, the same span of event time: shows that everything works, says nothing of speed.
    only
        Parts of names, separated by commas; a case with any of them in its name is taken.
    rounds
        In place of each case's own number.
    """
    chosen = list(FULL)
    if quick:
        chosen = [replace(c, data=_small(c.data), rounds=1) for c in chosen if c.size == "2m"]
    return selected(chosen, FULL, only, rounds)


C = TypeVar("C", bound="Named")


class Named(Protocol):
    """A case: has a name, and is run so many times."""

    @property
    def name(self) -> str:
        """What ``--cases`` finds it by."""
        ...


def selected(
    chosen: list[C], known: Sequence[Named], only: str | None, rounds: int | None
) -> list[C]:
    """Of the chosen cases those with a part of ``only`` in their names, each run ``rounds`` times if that is given."""
    if only:
        parts = [p.strip() for p in only.split(",") if p.strip()]
        chosen = [c for c in chosen if any(p in c.name for p in parts)]
        if not chosen:
            names = ", ".join(c.name for c in known)
            raise SystemExit(f"no case is called {only!r}; there are {names}")
    if rounds is not None:
        chosen = [replace(c, rounds=rounds) for c in chosen]  # type: ignore[type-var]
    return chosen


def _small(data: Data) -> Data:
    share = data.batch_rows // 20_000
    return replace(
        data, batches=3, batch_rows=20_000, rate=math.ceil(data.rate / share), keys=data.keys // 20
    )
