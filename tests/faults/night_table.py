"""What ``make faults-night`` found, as a page of the documentation.

A run replaces the lines of the seeds it ran and keeps the others, so that the page can be filled in parts. Each line
names its commit; one that is older than the last change of the engine or the sinks is run again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults.commits import fresh

PAGE = Path(__file__).parents[2] / "docs" / "faults-night.md"
PROCESS, DRIVER, MACHINE, WORKER = "process", "driver", "machine", "worker"

HEAD = """# A night of faults

`make faults-night N=1000` writes this page. Each line is a query that was killed with SIGKILL at a random moment,
started again on the same checkpoint, mostly with another number of partition groups, and run to its end. *Lost* and
*twice* count result rows, over all outputs, against a brute-force computation over the same input; a verdict is `ok`
only if a kill happened and both are 0. `make faults` kills at every named step instead: [Faults](faults.md).

Who is killed:

- *process*: a process that runs the engine on the played host, without Spark. It dies at a step, which is a file opened for
  writing, a write (half of it is done), a rename, a link, a removal, a new folder, or a failpoint. Its successor may be
  killed, too: *step 12 of 310, then write manifests 2 of 9* died at its 12th step, the next at the second write of a manifest.
  Half of the kills are at any step, half at a kind of step that is drawn first, since most steps are writes of state.
- *driver*: Spark's driver with its JVM, at a step of the driver.
- *machine*: Spark's driver, JVM and workers, at a failpoint inside a task.
- *worker*: one Python worker, at a failpoint inside a task, which Spark tries again.

`make faults-night SEED=17 N=1` repeats the case of a seed. `make faults-night N=1000` runs those seeds that have no line, a
failed one, or one whose commit has another `engine` or other `sinks`; with `MINUTES=8` it begins nothing after eight
minutes, and the next call goes on. A commit that git does not know did not land under its name: [where it is](commits.md).
"""
COLUMNS = "| seed | scenario | killed | at | kills | lost | twice | verdict | commit |"
NUMBERS = "| --: | --- | --- | --- | --: | --: | --: | --- | --- |"


@dataclass(frozen=True)
class Case:
    """What a seed says. ``shares`` are those of a whole run at which each kill comes, ``groups`` those of each start.

    ``point`` says which of the failpoints inside tasks, ``kinds`` which kind of step, for each kill; none: any step.
    """

    seed: int
    scenario: str
    victim: str
    shares: tuple[float, ...]
    groups: tuple[int, ...]
    point: float = 0.0
    kinds: tuple[float | None, ...] = (None, None, None)


@dataclass(frozen=True)
class Line:
    """One case and what came of it."""

    seed: int
    scenario: str
    victim: str
    moment: str
    kills: int
    lost: int
    twice: int
    trouble: str
    commit: str

    @property
    def verdict(self) -> str:
        if self.trouble:
            return f"FAILED: {self.trouble}"
        return "ok" if self.kills and not self.lost and not self.twice else "FAILED"

    def __str__(self) -> str:
        cells = (self.seed, self.scenario, self.victim, self.moment, self.kills, self.lost,
                 self.twice, self.verdict, self.commit)  # fmt: skip
        return f"| {' | '.join(str(c) for c in cells)} |"


@dataclass
class Table:
    """Lines by seed."""

    lines: dict[int, Line] = field(default_factory=dict)

    def add(self, line: Line) -> Line:
        self.lines[line.seed] = line
        return line

    def due(self, case: Case, fresh: Callable[[str], bool] = fresh) -> bool:
        """Whether a case is to be run: it has no line that still holds."""
        line = self.lines.get(case.seed)
        if line is None or line.verdict != "ok" or not fresh(line.commit):
            return True
        return (line.scenario, line.victim) != (case.scenario, case.victim)

    def text(self) -> str:
        lines = [self.lines[seed] for seed in sorted(self.lines)]
        bad = [x for x in lines if x.verdict != "ok"]
        kills = sum(x.kills for x in lines)
        out = [HEAD, f"{len(lines)} cases, {kills} kills, {len(bad)} failed.", ""]
        out += [*_totals(lines), ""]
        if bad:
            out += ["## Failed", "", COLUMNS, NUMBERS, *map(str, bad), ""]
        return "\n".join([*out, "## Cases", "", COLUMNS, NUMBERS, *map(str, lines)]) + "\n"

    def write(self, page: Path = PAGE) -> None:
        if self.lines:
            merged = Table({**Table.read(page).lines, **self.lines})
            page.write_text(merged.text(), encoding="utf-8")

    @staticmethod
    def read(page: Path = PAGE) -> Table:
        """The lines that a page has."""
        table = Table()
        if page.exists():
            for text in page.read_text(encoding="utf-8").splitlines():
                cells = [c.strip() for c in text.strip("|").split("|")]
                if text.startswith("|") and len(cells) == 9 and cells[0].isdigit():
                    trouble = cells[7].partition(": ")[2]
                    table.add(
                        Line(int(cells[0]), *cells[1:4], *map(int, cells[4:7]), trouble, cells[8])  # type: ignore[arg-type]
                    )
        return table


def _totals(lines: list[Line]) -> list[str]:
    """Cases by scenario and by who was killed."""
    victims = (PROCESS, DRIVER, MACHINE, WORKER)
    count = Counter((x.scenario, x.victim) for x in lines)
    bad = Counter(x.scenario for x in lines if x.verdict != "ok")
    out = [f"| scenario | {' | '.join(victims)} | failed |", "| --- " + "| --: " * 5 + "|"]
    for name in sorted({x.scenario for x in lines}):
        cells = [str(count[name, v]) for v in victims]
        out.append(f"| {name} | {' | '.join(cells)} | {bad[name]} |")
    cells = [str(sum(1 for x in lines if x.victim == v)) for v in victims]
    out.append(f"| all | {' | '.join(cells)} | {sum(bad.values())} |")
    return out
