"""What experiments share: how a finding is written down, clocks, reductions."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Literal

import pyarrow as pa

from slackwater.kernels.column_engine import Connection, connect, sql_to_arrow
from slackwater.kernels.windows import partials_step as aggregate
from slackwater.kernels.windows.partials_step import AggregateSpec

Verdict = Literal["yes", "in part", "no"]


@dataclass(frozen=True)
class Finding:
    """One table. ``made``: how. ``theirs``: the source's figure; ``ours``: the same figure here, and whether the two agree.

    ``differs``: where we differ and why, empty if we do not. ``plot`` is the name of a picture beside the page.
    """

    id: str
    title: str
    made: str
    head: Sequence[str]
    rows: list[list[Any]]
    theirs: str
    ours: str
    agrees: bool | Verdict
    differs: str = ""
    plot: str = ""
    points: list[dict[str, Any]] = field(default_factory=list)

    @property
    def verdict(self) -> Verdict:
        """Whether the figures agree, in a word."""
        return yes(self.agrees) if isinstance(self.agrees, bool) else self.agrees


def yes(right: bool) -> Verdict:
    """``"yes"`` or ``"no"``."""
    return "yes" if right else "no"


def seconds(run: Callable[[], Any], times: int = 3) -> float:
    """Seconds of the processor, the median of some runs after one to warm up: what else runs here does not count."""
    run()
    taken = []
    for _ in range(times):
        begin = time.process_time()
        run()
        taken.append(time.process_time() - begin)
    return median(taken)


def reduced(
    table: pa.Table, spec: AggregateSpec, keys: Sequence[str] = (), con: Connection | None = None
) -> pa.Table:
    """Partials of the rows of a table with a column ``__sw_time``."""
    sql = aggregate.partial_select(spec, keys, '"__sw_time"', "input")
    return aggregate.partials(sql_to_arrow(con or connect(), sql, {"input": table}), spec)


def mb(bytes: float) -> str:
    """Megabytes with two digits after the point."""
    return f"{bytes / 1e6:.2f}"
