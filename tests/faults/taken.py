"""Which batches Spark made of a scenario's files, when it was killed at any moment.

Spark notes the files that a source gives to a batch before it notes the batch. Killed in between, of one source or of all,
it takes the noted files and the next ones together when it starts again. Then two batches of the transcript are one, and a
row that the first would have made late is not. No row is lost by it, and the results are those of the batches that were;
so the oracle is asked about these. A step of ours is never in between: there a batch is noted, and every file has its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from slackwater.engine.store import spark_log
from slackwater.testing.transcripts.script import Transcript
from tests.faults.scenarios import Scenario

Files = dict[str, list[int]]
"""Of each stream the numbers of its files, which are those of the transcript's batches."""


def taken(scenario: Scenario, state: Path) -> Transcript:
    """The transcript with the batches of Spark's logs. The clock goes by their number, as it does in the query."""
    steps = scenario.transcript.batches
    made = list(batches(state / "checkpoint"))
    read = [n for files in made for name in files for n in files[name]]
    assert sorted(read) == sorted(
        n for n, step in enumerate(steps) for name in step.rows if name not in scenario.over
    ), "every file is in one batch"
    merged = [replace(steps[i], rows=_rows(scenario, files)) for i, files in enumerate(made)]
    end = replace(steps[-1], now=steps[len(merged)].now)
    return replace(scenario.transcript, steps=(*merged, end))


def _rows(scenario: Scenario, files: Files) -> dict[str, list[dict[str, Any]]]:
    """The rows of these files, by stream."""
    steps = scenario.transcript.batches
    read = {n: files.get(scenario.over.get(n, n), []) for n in scenario.transcript.sources}
    return {name: [r for i in of for r in steps[i].rows[name]] for name, of in read.items() if of}


def batches(location: Path) -> Iterator[Files]:
    """The new files of each batch that has some, from Spark's logs."""
    before: dict[int, int] = {}
    numbers = sorted(int(p.name) for p in (location / "offsets").iterdir() if p.name.isdigit())
    for batch in numbers:
        files: Files = {}
        ends = _ends(spark_log.offsets(location, batch) or [])
        for source, end in ends.items():
            for entry in range(before.get(source, -1) + 1, end + 1):
                for item in spark_log.entries(location / "sources" / str(source), entry):
                    path = Path(spark_log.local_file(item["path"]))
                    files.setdefault(path.parents[1].name, []).append(
                        int(path.stem.removeprefix("batch-"))
                    )
        before.update(ends)
        if files:
            yield files


def _ends(offsets: list[Any]) -> dict[int, int]:
    """Up to which entry of its log each source of files was read."""
    ends = {i: spark_log.log_offset(value) for i, value in enumerate(offsets)}
    return {i: end for i, end in ends.items() if end is not None}
