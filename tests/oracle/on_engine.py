"""Compare the engine without Spark with the oracle, batch by batch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from slackwater.testing.executors.local import local_executor
from slackwater.testing.transcripts.script import Observed, Transcript, oracle
from tests.oracle.test_kernels_against_oracle import canonical


def shortened(text: dict[str, Any], most: int = 2) -> dict[str, Any]:
    """The script with the rows of all but the first batches in one: a batch on the engine costs milliseconds."""
    *steps, end = text["script"]
    first, rest = steps[: most - 1], steps[most - 1 :]
    rows: dict[str, list[Any]] = {}
    for step in rest:
        for name, more in step["rows"].items():
            rows.setdefault(name, []).extend(more)
    last = {**rest[-1], "rows": rows} if rest else None
    return {**text, "script": [*first, *([last] if last else []), end]}


def check_on_engine(transcript: Transcript, groups: int) -> None:
    """Fail unless each batch has the oracle's results, numbers of late rows, and bounds of streams."""
    wanted = list(oracle(transcript))
    seen = local_executor(groups=(groups,))(transcript)
    assert len(seen) == len(wanted)
    # The engine tells the bounds of operators, too, and of late rows that no output shows how many there are.
    found = [
        replace(_counted(o), bounds={name: o.bounds[name] for name in w.bounds})
        for o, w in zip(seen, wanted, strict=True)
    ]
    assert canonical(found) == canonical([_counted(w) for w in wanted])


def _counted(seen: Observed) -> Observed:
    return replace(seen, late={name: [{}] * len(rows) for name, rows in seen.late.items()})
