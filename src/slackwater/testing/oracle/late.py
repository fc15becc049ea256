"""Late rows, by definition: what the oracle says of rows that break a bound or a pattern."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from slackwater.errors import LateRowError
from slackwater.model.node import Aggregate, Join, Node, Source
from slackwater.testing.oracle.local import shown_at
from slackwater.testing.oracle.operators.common import Followed
from slackwater.testing.oracle.operators.registry import OPERATORS
from slackwater.testing.oracle.patterns import input_row, limits
from slackwater.testing.oracle.progress import History
from slackwater.testing.oracle.run import Reasons, Run
from slackwater.testing.oracle.window_types.registry import WINDOWS


def check_raise(run: Run, rows: Mapping[str, Sequence[Mapping[str, Any]]], now: int | None) -> None:
    for name, history in run.histories.items():
        if history.source.late != "raise":
            continue
        for row in rows.get(name, ()):
            if history.is_punctuation(row):
                continue
            for column, (why, *_) in _reasons(run, history, row, now).items():
                if why == "late":
                    raise LateRowError(
                        "LATE_ROW",
                        f"stream '{name}': late on '{column}': {dict(row)}",
                        row=dict(row),
                    )


def _source_bound(run: Run, source: Source, column: str) -> int:
    node = next(n for n in run.nodes if isinstance(n, Source) and n.name == source.name)
    return run.before(node, column)


def judge(run: Run, name: str, history: History) -> None:
    """Tell the rows of this step that are late, future or without a time, column by column."""
    source = history.source
    counts = {t.name: 0 for t in source.times}
    run.late_rows[name], run.judged[name] = [], []
    for a in history.arrivals:
        if a.step != run.steps or a.punctuation:
            continue
        reasons = _reasons(run, history, a.row, history.clock[run.steps])
        run.judged[name].append((a, reasons))
        for column, (why, *_) in reasons.items():
            counts[column] += why == "late"
        if reasons:
            column, (why, by, end) = next(iter(reasons.items()))
            time = next(t for t in source.times if t.name == column)
            if end is not None and time.is_local:
                end = shown_at(end, source.zone)
            run.late_rows[name].append(
                {
                    **a.row,
                    "_late_reason": why,
                    "_late_by": by,
                    "_late_bound": end,
                    "_late_windows": _missed(run, source, column, a.row),
                }
            )
    run.late[name] = counts


def _reasons(run: Run, history: History, row: Mapping[str, Any], now: int | None) -> Reasons:
    """Why a row of this step is a late row, by how much, and the bound that says so; by column, in their order."""
    reasons: dict[str, tuple[str, int | None, int | None]] = {}
    for time, policy in zip(history.source.times, history.source.policies, strict=True):
        value = row.get(time.name)
        limit = history.limit_at(time, policy, now)
        b = _source_bound(run, history.source, time.name)
        if value is None:
            reasons[time.name] = ("null_time", None, None)
        elif policy.future == "side" and limit is not None and value > limit:
            reasons[time.name] = ("future", value - limit, limit)
        else:
            ends = [b] if value < b else []
            broken = run.exclusions.broken(history.source, row, run.steps)
            if broken:
                ends += limits(history, row, time.name, run.steps)
            if ends:
                reasons[time.name] = ("late", max(ends) - value, max(ends))
            elif broken:
                reasons[time.name] = ("late", None, None)
    return reasons


def _missed(run: Run, source: Source, column: str, row: Mapping[str, Any]) -> int:
    """How many windows of the aggregates that read the column directly were closed to the row; and in how many joins
    a partner of it may have gone.

    A window is closed by the bound of the aggregate's input, which behind a union is the least of
    several.
    """
    value = row.get(column)
    if value is None:
        return 0
    met = sum(
        run.joins[id(node)].unsure(i, value + moved, input_row(child, source, row))
        for node in run.nodes
        if isinstance(node, Join)
        for i, (child, on) in enumerate(zip(node.inputs, node.on, strict=True))
        for moved in set(_shifts(child, on, source.name, column))
    )
    return met + sum(
        WINDOWS[type(node.window)].missed(
            node, value + moved, partial(input_row, node.child, source, row), run
        )
        for node in run.nodes
        if isinstance(node, Aggregate)
        for moved in set(_shifts(node.child, node.window.on, source.name, column))
    )


def _shifts(node: Node, name: str, source: str, column: str) -> list[int]:
    """By how much column ``name`` of ``node`` is moved against the source's, along each path."""

    def below(node: Node, name: str) -> list[int]:
        return OPERATORS[type(node)].shifts(node, name, followed)

    followed = Followed(source, column, below)
    return below(node, name)
