"""A quality target in numbers: what each consumer of a stream needs of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from slackwater.model.window import TimeWindow
from slackwater.semantics.quality.threshold import Asked

RETROSPECT = 0.99
"""Share of late rows that must have come before a closed window is measured."""
SETTLED = 0.999
"""The same for the needs of windows: what comes later is taken for never to come."""
WARM_ROWS = 500
"""Least number of rows before slack follows the model."""


@dataclass(frozen=True)
class Target:
    """What a user asks of aggregates, and how slack is found.

    Either ``error`` with ``confidence`` (the probability that the relative error is at most ``error``), or
    ``coverage``, the share of each window's rows. ``warmup`` is the stretch of stream time before slack follows the
    model, None for one window, ``warm_rows`` the rows that must have come by then. ``calibrate`` says how past windows correct the model: by what
    they needed, by the error of their estimates, or not at all. ``limit`` caps the slack. ``recall`` ``over`` a stretch of time is what joins have
    instead.
    """

    error: float | None = None
    confidence: float = 0.95
    coverage: float | None = None
    method: Literal["model", "pd"] = "model"
    per: Literal["total", "group"] = "total"
    granularity: int = 10_000
    warmup: int | None = None
    warm_rows: int = WARM_ROWS
    limit: int | None = None
    calibrate: Literal["needs", "bias", "off"] = "needs"
    recall: float | None = None
    over: int | None = None


@dataclass(frozen=True)
class Consumer:
    """An aggregate that reads the stream: its window, and what its error depends on.

    ``window`` is None for one that has no time window: then each row counts by itself, and only rows in order at the
    end of the slack are covered. ``columns`` is the number of value columns whose moments are gathered. By its
    ``name`` it is found again when other consumers come or go.
    """

    window: TimeWindow | None
    asked: tuple[Asked, ...] = ()
    columns: int = 0
    name: str = ""

    @property
    def width(self) -> int:
        """The length of its windows in ticks."""
        return 1 if self.window is None else self.window.range
