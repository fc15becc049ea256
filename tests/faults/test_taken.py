"""What Spark's logs say about its batches, without Spark."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.faults.scenarios import scenarios
from tests.faults.taken import batches, taken

SILENT = scenarios()["a silent source"]


def noted(state: Path, *ends: tuple[int, int]) -> Path:
    """Logs of a query that had read its two sources up to these entries at the end of each batch."""
    logs = state / "checkpoint"
    (logs / "offsets").mkdir(parents=True)
    for batch, offsets in enumerate(ends):
        lines = [json.dumps({"logOffset": n}) for n in offsets]
        text = "\n".join(["v1", "{}", *lines, json.dumps({"offset": batch, "timestamp": 0})])
        (logs / "offsets" / str(batch)).write_text(text)
    for source, (name, count) in enumerate({"s": 8, "t": 3}.items()):
        folder = logs / "sources" / str(source)
        folder.mkdir(parents=True)
        for n in range(count):
            path = f"file:///in/{name}/slackwater-replay-batches/batch-{n:08d}.parquet"
            (folder / str(n)).write_text("v1\n" + json.dumps({"path": path, "batchId": n}))
    return logs


def test_a_batch_of_each_file(tmp_path: Path) -> None:
    noted(tmp_path, *((n, min(n, 2)) for n in range(8)), (7, 2))
    assert taken(SILENT, tmp_path).steps == SILENT.transcript.steps


def test_two_files_in_one_batch(tmp_path: Path) -> None:
    """As after a kill that left the first source's file of the second batch noted, and the batch not."""
    logs = noted(tmp_path, (0, 0), (2, 1), *((n, 2) for n in range(3, 8)))
    assert list(batches(logs))[:3] == [{"s": [0], "t": [0]}, {"s": [1, 2], "t": [1]}, {"s": [3], "t": [2]}]  # fmt: skip
    steps = SILENT.transcript.batches
    merged = taken(SILENT, tmp_path).batches
    assert [len(m.rows.get("s", ())) for m in merged[:2]] == [
        len(steps[0].rows["s"]),
        len(steps[1].rows["s"]) + len(steps[2].rows["s"]),
    ]
    assert [m.now for m in merged] == [s.now for s in steps[:8]], "the clock goes by the batch"
    assert merged[-1].end == {"s", "t"}


def test_a_file_in_no_batch(tmp_path: Path) -> None:
    noted(tmp_path, *((n, min(n, 2)) for n in range(7)))
    with pytest.raises(AssertionError, match="every file is in one batch"):
        taken(SILENT, tmp_path)
