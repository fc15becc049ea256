"""Quality targets in the report: what was promised, what was kept, and what other ways would have waited."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from slackwater.surface.report import svg
from slackwater.surface.report.series import Bin, Record
from slackwater.surface.report.svg import Values

_QUANTILES = {"half": "p50", "99 %": "p99", "99.9 %": "p999"}


@dataclass(frozen=True)
class Promise:
    """A stream's target over all batches; slacks and delays in seconds, or the column's own unit.

    ``kept`` of ``measured`` windows had at least the coverage they needed. ``fixed`` is the least delay that, chosen
    once for the whole run, is never below the slack that the target needed; ``greatest`` is what a policy that
    waits for the largest delay seen so far would have waited on average.
    """

    name: str
    target: str
    method: str
    kept: int
    measured: int
    now: float | None
    mean: float | None
    fixed: float | None
    greatest: float | None
    is_clock: bool

    @property
    def share(self) -> str:
        """The share of windows that kept the promise."""
        return f"{100 * self.kept / self.measured:.1f} %" if self.measured else "not measured yet"

    def shown(self, value: float | None) -> str:
        """A span for people."""
        if value is None:
            return ""
        return f"{value:,.3g} s" if self.is_clock else f"{value:,.6g}"

    def times(self, other: float | None) -> str:
        """How much longer another way would have waited."""
        if other is None or self.mean is None:
            return ""
        if self.mean <= 0:
            return "no wait here" if other > 0 else "the same"
        return f"{other / self.mean:,.1f} times as long"


def columns(last: Record) -> list[tuple[str, str]]:
    """Streams and time columns that have a target."""
    return [(s, c) for s, shown in last["streams"].items() for c in shown.get("quality", {})]


def promise(records: Sequence[Record], stream: str, column: str) -> Promise:
    """What became of a target."""
    last = records[-1]["streams"][stream]
    is_clock = not isinstance(last["bounds"][column]["newest"], int)
    unit = 1e6 if is_clock else 1.0
    asked = last["quality"][column]
    figures = [r["streams"].get(stream, {}).get("quality", {}).get(column) for r in records]
    warm = [q for q in figures if q is not None and q["warm"] and q["slack"] is not None]
    slacks = [q["slack"] / unit for q in warm]
    windows: dict[tuple[str, int], bool] = {}
    for q in (q for q in figures if q is not None):
        for operator, seen in q["consumers"].items():
            if seen["measured"] is not None and seen["window"] is not None:
                enough = seen["needed"] is None or seen["measured"] >= seen["needed"]
                windows[operator, seen["window"]] = enough
    return Promise(
        f"{stream}.{column}",
        ", ".join(f"{k} {v:g}" for k, v in asked["target"].items()),
        asked["method"] + (", row by row" if asked["strict"] else ""),
        sum(windows.values()),
        len(windows),
        None if asked["slack"] is None else asked["slack"] / unit,
        statistics.fmean(slacks) if slacks else None,
        max(slacks, default=None),
        statistics.fmean(q["delays"]["largest"] / unit for q in warm) if warm else None,
        is_clock,
    )


def slack_and_delays(
    points: Sequence[Bin], stream: str, column: str, unit: float
) -> dict[str, Values]:
    """The slack and quantiles of the delay, over the bins."""
    figures = [p.last["streams"].get(stream, {}).get("quality", {}).get(column) for p in points]
    drawn: dict[str, Values] = {
        "slack": [
            None if q is None or q["slack"] is None else q["slack"] / unit for q in figures
        ]
    }  # fmt: skip
    for name, key in _QUANTILES.items():
        drawn[name] = [None if q is None else q["delays"][key] / unit for q in figures]
    return drawn


def coverage(points: Sequence[Bin], stream: str, column: str) -> dict[str, Values]:
    """Needed, estimated and measured coverage in percent; of several consumers the one that has least to spare."""
    drawn: dict[str, list[float | None]] = {"needed": [], "estimated": [], "measured": []}
    for p in points:
        q = p.last["streams"].get(stream, {}).get("quality", {}).get(column)
        seen = list(q["consumers"].values()) if q is not None else []
        worst: dict[str, float | None] = min(seen, key=_to_spare, default={})
        for name, values in drawn.items():
            share = worst.get(name)
            values.append(None if share is None else 100 * share)
    return dict(drawn)


def _to_spare(seen: dict[str, float | None]) -> float:
    needed, measured = seen["needed"], seen["measured"]
    return 1.0 if needed is None or measured is None else measured - needed


def percent(value: float) -> str:
    """A share for an axis.

    >>> percent(99.5)
    '99.5 %'
    """
    return f"{value:.4g} %"


def coverage_scale(values: dict[str, Values]) -> svg.Scale:
    """From a little below the least share to 100 %: what matters lies close to the top."""
    known = [v for series in values.values() for v in series if v is not None]
    return svg.linear([*known, 100.0], from_zero=False)
