"""Following queries that run: a live table on a terminal, else a line every two seconds."""

from __future__ import annotations

import contextlib
import sys
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table

from slackwater.engine.clock import monotonic
from slackwater.surface.cli.signals import Asked
from slackwater.surface.cli.terminal import complain, say

LINE_EVERY = 2.0


def watch(started: list[Any], timeout: float | None, asked: Asked) -> bool:
    """Until all have ended, someone asks, or time is up; False if one failed. Then each ends after the batch at hand."""
    until = None if timeout is None else monotonic() + timeout
    for q in started:
        outputs = ", ".join(s.describe()["name"] for s in q._loop.query.sinks.values())
        say(f"running {q.name or q.id} (outputs: {outputs}); stop it with Ctrl-C")
    asked.running = True
    console = Console(stderr=True)
    live = (
        Live(console=console, auto_refresh=False, transient=True) if console.is_terminal else None
    )
    error: BaseException | None = None
    try:
        with live or contextlib.nullcontext():
            shown = monotonic()
            while any(q.isActive for q in started) and not asked.times:
                if until is not None and monotonic() >= until:
                    break
                for q in started:
                    q.awaitTermination(0.1)
                if live is not None:
                    live.update(_table(started), refresh=True)
                elif monotonic() - shown >= LINE_EVERY:
                    shown = monotonic()
                    for q in started:
                        if q.lastProgress is not None:
                            say(summed(q.name or q.id, q.lastProgress))
            for q in started:
                if not q.isActive:
                    q.awaitTermination()
    except KeyboardInterrupt:
        asked.times = max(asked.times, 1)
    except Exception as failed:
        error = failed
    if asked.times:
        say("stopping after the batch at hand; Ctrl-C again ends at once")
    end(started)
    if error is None:
        error = next((q.exception() for q in started if q.exception() is not None), None)
    if error is not None:
        complain(error)
        return False
    return True


def end(started: list[Any]) -> None:
    """End each query after the batch at hand, and say what it did."""
    for q in started:
        if q.isActive:
            q.finish()
        record = q.lastProgress
        if record is not None and q.exception() is None:
            say(summed(q.name or q.id, record))
    sys.stdout.flush()


def summed(name: str, record: dict[str, Any]) -> str:
    """What a query did so far, in a line."""
    rows = sum(s["totalRows"] for s in record["streams"].values())
    late = sum(n for s in record["streams"].values() for n in s["totalLate"].values())
    return f"{name}: {rows:,} rows in, {late:,} late, last batch {record['batchId']}"


def _table(started: list[Any]) -> Table:
    table = Table("query", "stream", "rows", "late", "bound", "batch", box=None)
    for q in started:
        record = q.lastProgress
        for name, stream in (record["streams"] if record is not None else {}).items():
            bounds = [str(b["bound"]) for b in stream["bounds"].values() if b["bound"] is not None]
            late = sum(stream["totalLate"].values())
            table.add_row(
                str(q.name or q.id), name, f"{stream['totalRows']:,}", f"{late:,}", min(bounds, default="none yet"),
                str(record["batchId"]) if record is not None else "",
            )  # fmt: skip
    return table
