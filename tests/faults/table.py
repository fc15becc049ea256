"""What ``make faults`` found, as a page of the documentation."""

from __future__ import annotations

import datetime as dt
import os
import platform
from dataclasses import dataclass, field
from pathlib import Path

from slackwater.engine.failpoints import POINTS
from tests.faults.scenarios import scenarios

PAGE = Path(__file__).parents[2] / "docs" / "faults.md"

HEAD = """# Faults

`make faults` writes this page. Each line: a query is killed with SIGKILL (driver and JVM at once) at a
named step or at random moments, started again on the same checkpoint with another number of partition
groups, and run to its end. *Lost* and *twice* count result rows, over all outputs, against a brute-force
computation over the same input; a verdict is `ok` only if the kill happened and both are 0. The steps are
described in `src/slackwater/engine/failpoints.py`, the scenarios in `tests/faults/scenarios.py`.
"""


@dataclass(frozen=True)
class Line:
    """One fault and what came of it."""

    scenario: str
    point: str
    kills: int
    lost: int
    twice: int

    @property
    def verdict(self) -> str:
        return "ok" if self.kills and not self.lost and not self.twice else "FAILED"


@dataclass
class Table:
    """Collects lines, and tells which of a whole run's are missing."""

    lines: list[Line] = field(default_factory=list)

    def add(self, scenario: str, point: str, kills: int, lost: int, twice: int) -> Line:
        line = Line(scenario, point, kills, lost, twice)
        self.lines.append(line)
        return line

    def text(self) -> str:
        when = dt.datetime.now(dt.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
        kills = sum(x.kills for x in self.lines)
        bad = [x for x in self.lines if x.verdict != "ok"]
        out = [HEAD, f"Run on {when}, Python {platform.python_version()}, {os.cpu_count()} cores: "
               f"{len(self.lines)} cases, {kills} kills, {len(bad)} failed.", ""]  # fmt: skip
        missing = self._missing()
        if missing:
            out += ["Not run this time:", "", *(f"- {m}" for m in missing), ""]
        out += [
            "| scenario | point | kills | lost | twice | verdict |",
            "| --- | --- | --- | --- | --- | --- |",
        ]
        out += [
            f"| {x.scenario} | {x.point} | {x.kills} | {x.lost} | {x.twice} | {x.verdict} |"
            for x in sorted(self.lines, key=lambda x: (x.scenario, x.point))
        ]
        return "\n".join(out) + "\n"

    def _missing(self) -> list[str]:
        ran = {(x.scenario, x.point) for x in self.lines}
        found = []
        for name in scenarios():
            wanted = [*POINTS, "random moments", "Spark's last commit deleted"]
            left = [p for p in wanted if (name, p) not in ran]
            if len(left) == len(wanted):
                found.append(f"{name}: all")
            elif left:
                found.append(f"{name}: {', '.join(left)}")
        return found

    def write(self) -> None:
        if self.lines:
            PAGE.write_text(self.text(), encoding="utf-8")
