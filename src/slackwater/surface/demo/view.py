"""The live view: a table that redraws itself in a terminal, plain lines elsewhere."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from slackwater.engine.clock import monotonic
from slackwater.surface.demo.results import Latest
from slackwater.surface.held import held_by

SHOWN = 5


def human(number: float) -> str:
    """A count or size for people: 1,234 or 12.3k or 4.5M.

    >>> human(987), human(12_345), human(4_500_000)
    ('987', '12.3k', '4.5M')
    """
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if number >= limit:
            return f"{number / (1e3 if unit == 'k' else limit):.1f}{unit}"
    return f"{number:,.0f}"


@dataclass(frozen=True)
class Snapshot:
    """What the view shows of a progress record."""

    batch: int
    rows: int
    newest: str
    bound: str
    behind: float | None
    holder: str | None
    idle: tuple[str, ...]
    late: int
    late_now: int
    future: int
    state_rows: int
    state_bytes: int
    took: int
    results: int

    @classmethod
    def of(cls, record: dict[str, Any]) -> Snapshot:
        """From the record of a batch of the demonstration's query."""
        stream = record["streams"]["packets"]
        bound = stream["bounds"]["ts"]
        states = [op["state"] for op in record["operators"].values()]
        return cls(
            batch=record["batchId"],
            rows=stream["totalRows"],
            newest=clock(bound["newest"]),
            bound=clock(bound["bound"]),
            behind=None if bound["behind"] is None else bound["behind"] / 1e6,
            holder=held_by(bound),
            idle=tuple(bound["idle"]),
            late=stream["totalLate"]["ts"],
            late_now=stream["late"]["ts"],
            future=stream["future"]["ts"],
            state_rows=sum(s["rows"] for s in states),
            state_bytes=sum(s["bytes"] for s in states),
            took=record["durationMs"].get("total", 0),
            results=record["outputs"]["talkers"]["rows"],
        )

    @property
    def who(self) -> str:
        """Who holds the bound back, in words."""
        text = "nobody holds it" if self.holder is None else f"held by {self.holder}"
        return f"{text}, {', '.join(self.idle)} idle" if self.idle else text


def clock(time: str | None) -> str:
    """The time of day of an ISO text, to a tenth of a second.

    >>> clock("2026-01-31T12:34:56.789000Z"), clock(None)
    ('12:34:56.7', 'none yet')
    """
    if time is None:
        return "none yet"
    return time[11:21] if "T" in time else time


class Rate:
    """Rows per second over the last few seconds."""

    def __init__(self, seconds: float = 3.0):
        self._span = seconds
        self._seen: deque[tuple[float, int]] = deque()

    def add(self, rows: int, at: float) -> None:
        """Take note of the total at a moment."""
        self._seen.append((at, rows))
        while len(self._seen) > 2 and at - self._seen[1][0] >= self._span:
            self._seen.popleft()

    @property
    def value(self) -> float:
        """The rate now."""
        if len(self._seen) < 2:
            return 0.0
        (t0, r0), (t1, r1) = self._seen[0], self._seen[-1]
        return (r1 - r0) / (t1 - t0) if t1 > t0 else 0.0


class View:
    """Draws snapshots until it is closed; used as a context manager."""

    def __init__(self, console: Console, latest: Latest, seconds: float):
        self._console = console
        self._latest = latest
        self._seconds = seconds
        self._rate = Rate()
        self._batch = -1
        self._last_line = 0.0
        self._live: Live | None = None
        if console.is_terminal and not console.is_dumb_terminal:
            self._live = Live(console=console, auto_refresh=False, transient=True)

    def __enter__(self) -> View:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, record: dict[str, Any] | None, elapsed: float) -> None:
        """Draw the newest record; plain output gives a line every two seconds at most."""
        if record is None:
            return
        now = monotonic()
        snapshot = Snapshot.of(record)
        fresh = snapshot.batch != self._batch
        self._batch = snapshot.batch
        if fresh:
            self._rate.add(snapshot.rows, now)
            self._latest.look()
        if self._live is not None:
            self._live.update(self._drawn(snapshot, elapsed), refresh=True)
        elif fresh and now - self._last_line >= 2:
            self._last_line = now
            self._console.print(self._line(snapshot, elapsed), soft_wrap=True, highlight=False)

    # ---- plain ----
    def _line(self, s: Snapshot, elapsed: float) -> str:
        behind = "no bound yet" if s.behind is None else f"bound {s.behind:4.1f} s behind newest"
        top = self._latest.top(1)
        best = "" if top is None else f" | top {top[1][0]['srcIP']} {human(top[1][0]['bytes'])}B"
        return (
            f"{elapsed:5.1f} s | {human(self._rate.value):>6} rows/s | {behind}, {s.who} | "
            f"late {s.late:,} + {s.future} future | state {human(s.state_rows)} rows | "
            f"results {self._latest.rows:,}{best}"
        )

    # ---- terminal ----
    def _drawn(self, s: Snapshot, elapsed: float) -> RenderableType:
        head = Table.grid(expand=True, padding=(0, 1))
        head.add_column(ratio=1)
        head.add_column(justify="right")
        head.add_row(
            ProgressBar(total=self._seconds, completed=elapsed),
            Text(f"{elapsed:.0f} of {self._seconds:.0f} s"),
        )
        facts = Table.grid(padding=(0, 2))
        facts.add_column(style="dim", no_wrap=True)
        facts.add_column()
        behind = "" if s.behind is None else f"  {s.behind:.1f} s behind, "
        facts.add_row("packets", f"{s.rows:,}  at {human(self._rate.value)} rows/s")
        facts.add_row("newest event", s.newest)
        facts.add_row("bound", Text.assemble(s.bound, behind, (s.who, "bold yellow")))
        facts.add_row(
            "late",
            Text(f"{s.late:,}  (+{s.late_now:,} in this batch)", "red" if s.late_now else ""),
        )
        facts.add_row("from the future", f"{s.future:,}  (they advance nothing)")
        facts.add_row("state", f"{s.state_rows:,} rows, {human(s.state_bytes)}B")
        facts.add_row("batch", f"{s.batch}, {s.took} ms")
        facts.add_row("results", f"{self._latest.rows:,} rows")
        return Panel(
            Group(head, Text(""), facts, Text(""), self._talkers()),
            title="slackwater demo",
            subtitle="packets of two routers, out of order",
            width=min(self._console.width, 78),
        )

    def _talkers(self) -> RenderableType:
        top = self._latest.top(SHOWN)
        if top is None:
            return Text("no window is complete yet", style="dim")
        window, rows = top
        title = f"top senders, window {window['start']:%H:%M:%S} to {window['end']:%H:%M:%S}"
        table = Table(
            title=title, title_justify="left", title_style="bold", box=None, pad_edge=False
        )
        table.add_column("srcIP", min_width=12)
        table.add_column("packets", justify="right")
        table.add_column("bytes", justify="right")
        table.add_column("", width=24)
        most = max(row["bytes"] for row in rows)
        for row in rows:
            table.add_row(
                row["srcIP"],
                f"{row['packets']:,}",
                f"{row['bytes']:,}",
                ProgressBar(total=most, completed=row["bytes"], width=24, complete_style="cyan"),
            )
        return table
