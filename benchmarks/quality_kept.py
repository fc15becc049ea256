"""Results of long runs, kept case by case in a file: a stop loses nothing, and the next start goes on.

A line is a case with its result, the commit that was measured and the day. Lines of other commits are left alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from benchmarks.record import commit


@dataclass
class Kept:
    """A file of results; without one nothing is kept. With ``finished`` nothing is measured: cases that are not there are left out."""

    path: Path | None = None
    finished: bool = False
    own: str = field(default_factory=commit)

    def lines(self) -> list[dict[str, Any]]:
        """All results of this commit; of the latest one in the file if nothing is measured."""
        if self.path is None or not self.path.exists():
            return []
        known = [dict(json.loads(line)) for line in self.path.read_text().splitlines()]
        own = known[-1]["commit"] if self.finished and known else self.own
        return [line for line in known if line["commit"] == own]

    def run(
        self, case: dict[str, Any], measure: Callable[[], dict[str, Any]]
    ) -> dict[str, Any] | None:
        """The result of a case, from the file or measured now."""
        for line in self.lines():
            if line["case"] == case:
                return dict(line["result"])
        if self.finished:
            return None
        result = measure()
        if self.path is not None:
            day = datetime.now(timezone.utc).date().isoformat()
            line = {"case": case, "commit": self.own, "date": day, "result": result}
            with self.path.open("a") as file:
                file.write(json.dumps(line, default=float) + "\n")
        return result
