"""What ``make faults`` found, as a page of the documentation.

A run replaces the lines of the cases it ran and keeps the others, so that the page can be filled in parts. Each
line names its commit and says when it was run; the page says which cases have no line.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from slackwater.engine.store.failpoints import FEEDBACK_POINTS, POINTS
from tests.faults.commits import fresh, here
from tests.faults.scenarios import scenarios

PAGE = Path(__file__).parents[2] / "docs" / "faults.md"
RANDOM = "random moments"
LOST_COMMIT = "Spark's last commit deleted"

HEAD = """# Faults

`make faults` writes this page. Each line is a query that was killed with SIGKILL (driver and JVM at once) at a
named step or at random moments, started again on the same checkpoint with another number of partition groups, and
run to its end. *Lost* and *twice* count result rows, over all outputs, against a brute-force computation over
the same input; a verdict is `ok` only if the kill happened and both are 0. A kill at a random moment may come while Spark
notes a batch; then the next start takes two files in one batch, and the computation has the batches of Spark's logs. The steps are described in
`src/slackwater/engine/store/failpoints.py`, the scenarios in `tests/faults/scenarios.py`. *Worker only*: one Python
worker was killed and Spark tried its task again. *Two machines*: on a standalone master with two workers of one core, a worker of
Spark was killed with its executor in a task (*executor only*: its executor alone), while the table of a relation was replaced again and again. *Relation and rows held*, *rows that wait for segments*, *relation that is copied*: a process without Spark was killed, and the table was another
one when it started again. `make test` kills the first scenario and a join with a table that is held whole at every step, too, and
`make faults-night` kills at random: [A night of faults](faults-night.md).

Each line names the commit it was run at (none: it is older than this rule). A commit that git does not know did not land under its name: [where it is](commits.md). `make faults` runs those cases again that have no
line, a failed one, one with fewer kills than the case asks for now, or one whose commit has another `engine` or other `sinks`; `make faults FAULTS="-k tumbling"` runs what it
names, whatever their lines say, and with `STALE=1` only those of them that `make faults` would run.
"""
COLUMNS = "| scenario | point | kills | lost | twice | verdict | run on | commit |"


@dataclass(frozen=True)
class Line:
    """One fault and what came of it."""

    scenario: str
    point: str
    kills: int
    lost: int
    twice: int
    when: str
    commit: str

    @property
    def verdict(self) -> str:
        return "ok" if self.kills and not self.lost and not self.twice else "FAILED"

    def __str__(self) -> str:
        cells = (self.scenario, self.point, self.kills, self.lost, self.twice, self.verdict)
        return f"| {' | '.join(str(c) for c in cells)} | {self.when} | {self.commit} |"


@dataclass
class Table:
    """Collects lines by scenario and point."""

    lines: dict[tuple[str, str], Line] = field(default_factory=dict)

    def add(self, scenario: str, point: str, kills: int, lost: int, twice: int) -> Line:
        when = dt.datetime.now(dt.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
        line = Line(scenario, point, kills, lost, twice, when, here())
        self.lines[scenario, point] = line
        return line

    def due(
        self, scenario: str, point: str, fresh: Callable[[str], bool] = fresh, *, kills: int = 1
    ) -> bool:
        """Whether a case is to be run: it has no line that still holds, or one of fewer ``kills`` than it asks for."""
        line = self.lines.get((scenario, point))
        if line is None or line.verdict != "ok" or line.kills < kills:
            return True
        return not fresh(line.commit)

    def text(self) -> str:
        lines = sorted(self.lines.values(), key=lambda x: (x.scenario, x.point))
        bad = sum(x.verdict != "ok" for x in lines)
        out = [HEAD, f"{len(lines)} cases, {sum(x.kills for x in lines)} kills, {bad} failed.", ""]
        missing = self._missing()
        if missing:
            out += ["Not run yet:", "", *(f"- {m}" for m in missing), ""]
        return "\n".join([*out, COLUMNS, "| --- " * 8 + "|", *(str(x) for x in lines)]) + "\n"

    def _missing(self) -> list[str]:
        found = []
        for name, scenario in scenarios().items():
            wanted = [*POINTS, *(FEEDBACK_POINTS if scenario.views else ()), RANDOM, LOST_COMMIT]
            left = [p for p in wanted if (name, p) not in self.lines]
            if left:
                text = "all" if len(left) == len(wanted) else ", ".join(left)
                found.append(f"{name}: {text}")
        return found

    def write(self, page: Path = PAGE) -> None:
        if self.lines:
            merged = Table({**read(page), **self.lines})
            page.write_text(merged.text(), encoding="utf-8")


def read(page: Path) -> dict[tuple[str, str], Line]:
    """The lines that a page has."""
    if not page.exists():
        return {}
    found = {}
    for text in page.read_text(encoding="utf-8").splitlines():
        cells = [c.strip() for c in text.strip("|").split("|")]
        # A line from before lines named their commit lacks the last cell.
        if text.startswith("|") and len(cells) in (7, 8) and cells[2].isdigit():
            when, commit = cells[6], "".join(cells[7:])
            kills, lost, twice = map(int, cells[2:5])
            line = Line(cells[0], cells[1], kills, lost, twice, when, commit)
            found[line.scenario, line.point] = line
    return found
