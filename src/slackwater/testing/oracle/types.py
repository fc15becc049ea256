"""What the oracle works with and answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

Row = dict[str, Any]


class Window(NamedTuple):
    """The ``window`` column of a result: start (inclusive) and end (exclusive)."""

    start: int
    end: int


@dataclass(frozen=True)
class Item:
    """A row that came out of an operator at a step.

    ``kept_out`` names the progressing columns on which it must not be used: it came late where late
    rows are dropped, has no time, or was sent aside as a future row.
    """

    row: Row
    step: int
    kept_out: frozenset[str] = frozenset()


@dataclass(frozen=True)
class StepResult:
    """What one step gave.

    ``outputs`` are the new rows of each output, ``bounds`` the bounds after the step by source and
    column, ``output_bounds`` those of the outputs. ``late`` counts by source and column, ``dropped``
    rows that a dedup or sort refused, by output.
    """

    outputs: dict[str, list[Row]]
    late_rows: dict[str, list[Row]]
    bounds: dict[str, dict[str, int]]
    output_bounds: dict[str, dict[str, int]]
    late: dict[str, dict[str, int]]
    dropped: int
