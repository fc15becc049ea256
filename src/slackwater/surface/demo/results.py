"""What the demonstration's query wrote, read back from its files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from slackwater.kernels.column_engine import connect, sql_to_arrow
from slackwater.surface.demo.query import SLIDE_SECONDS, WINDOW_SECONDS


class Latest:
    """Follows a directory of results and remembers the newest complete window."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.rows = 0
        self._seen: set[str] = set()
        self._newest: pa.Table | None = None

    def look(self) -> None:
        """Read the files that came since the last look."""
        for path in sorted(self.folder.glob("part-*.parquet")):
            if path.name in self._seen:
                continue
            self._seen.add(path.name)
            table = pq.read_table(path)
            self.rows += table.num_rows
            if not table.num_rows:
                continue
            if self._newest is not None:
                table = pa.concat_tables([self._newest, table.cast(self._newest.schema)])
            newest = pc.max(table["wid"])
            self._newest = table.filter(pc.equal(table["wid"], newest))

    def top(self, count: int) -> tuple[dict[str, Any], list[dict[str, Any]]] | None:
        """The newest window and its ``count`` largest senders; None before the first result."""
        if self._newest is None:
            return None
        chosen = self._newest.take(
            pc.select_k_unstable(self._newest, count, [("bytes", "descending")])
        ).to_pylist()
        return chosen[0]["window"], chosen


@dataclass(frozen=True)
class Account:
    """Where every packet went. A packet belongs to ``per_packet`` windows.

    ``counted`` is the sum of all windows' packet counts; it must equal what ``expected`` says.
    """

    packets: int
    late: int
    future: int
    missed: int
    counted: int
    per_packet: int = WINDOW_SECONDS // SLIDE_SECONDS

    @property
    def expected(self) -> int:
        """What the windows must add up to, if no packet was lost or counted twice."""
        return (self.packets - self.future) * self.per_packet - self.missed


def account(folder: Path, packets: int) -> Account:
    """Add up the results and the late rows in ``folder``."""
    ((counted,),) = _rows("SELECT coalesce(sum(packets), 0) FROM results", folder / "talkers")
    ((late, future, missed),) = _rows(
        "SELECT count(*) FILTER (_late_reason = 'late'), count(*) FILTER (_late_reason = 'future'),"
        " coalesce(sum(_late_windows) FILTER (_late_reason = 'late'), 0) FROM results",
        folder / "late",
    )
    return Account(packets, int(late), int(future), int(missed), int(counted))


def busiest(folder: Path, count: int) -> list[tuple[Any, ...]]:
    """(sender, window's end, packets, bytes) of the senders with the greatest single window."""
    return _rows(
        'SELECT srcIP, max_by("window"."end", bytes)::TIMESTAMP, max_by(packets, bytes), max(bytes)'
        f" FROM results GROUP BY srcIP ORDER BY max(bytes) DESC LIMIT {count}",
        folder / "talkers",
    )


def late_rows(folder: Path) -> list[tuple[Any, ...]]:
    """(reason, router, rows, median and largest seconds of lateness, windows missed)."""
    return _rows(
        "SELECT _late_reason, router, count(*), median(_late_by) / 1e6, max(_late_by) / 1e6,"
        " sum(_late_windows)::BIGINT FROM results GROUP BY ALL ORDER BY ALL",
        folder / "late",
    )


def _rows(query: str, folder: Path) -> list[tuple[Any, ...]]:
    """A query over the ``results`` in a directory. Arrow opens them: it takes no name for a pattern."""
    tables = [pq.read_table(p) for p in sorted(folder.glob("part-*.parquet"))]
    results = pa.concat_tables([t.cast(tables[0].schema) for t in tables])
    rows = sql_to_arrow(connect(), query, {"results": results})
    return [tuple(row.values()) for row in rows.to_pylist()]
