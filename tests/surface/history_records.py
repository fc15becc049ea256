"""Progress records as the engine writes them, made up."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from slackwater.engine.store.files import seal
from slackwater.model.time import SECOND, iso

NOON = 1_767_268_800 * SECOND  # 2026-01-01 12:00:00 UTC


def record(batch: int, **changes: Any) -> dict[str, Any]:
    """The record of a batch: one row per second, the bound ten seconds behind, two partitions."""
    newest, bound = NOON + batch * SECOND, NOON + (batch - 10) * SECOND
    made = {
        "batchId": batch,
        "ordinal": batch,
        "timestamp": iso(newest),
        "clock": iso(newest),
        "numInputRows": 100 + batch,
        "partitionGroups": 2,
        "final": False,
        "durationMs": {
            "plan": 5,
            "job": 200 + batch,
            "commit": 10,
            "publish": 5,
            "total": 220 + batch,
        },
        "streams": {
            "packets": {
                "numInputRows": 100 + batch,
                "totalRows": 1_000 + batch,
                "late": {"ts": 2},
                "totalLate": {"ts": 2 * batch},
                "nullTime": {"ts": 0},
                "future": {"ts": batch // 5},
                "orderViolations": 0,
                "bounds": {
                    "ts": {
                        "bound": iso(bound),
                        "ticks": bound,
                        "newest": iso(newest),
                        "behind": newest - bound,
                        "holder": "main2" if batch % 7 < 5 else "main1",
                        "partitions": 2,
                        "idle": [] if batch % 7 < 5 else ["main2"],
                        "excluded": [],
                        "maxDelay": {"ticks": 0, "time": None, "partition": None},
                        "silent": None,
                    }
                },
            }
        },
        "operators": {
            "aggregate-abc": {
                "kind": "Aggregate",
                "plan": "panes",
                "rowsIn": 100,
                "rowsOut": 7,
                "late": 0,
                "compacted": 0,
                "state": {"rows": 50 + batch, "bytes": 4_000 + batch, "runs": 3},
                "bounds": {"window": iso(bound)},
            }
        },
        "outputs": {"talkers": {"rows": 7, "files": 2, "bytes": 900}},
        "stateOperators": [],
        "sink": {},
        "sinks": [],
    }
    return {**made, **changes}


def checkpoint(folder: Path, records: list[dict[str, Any]], *, outputs: Any = None) -> Path:
    """A checkpoint directory with that history, and nothing else a query needs."""
    root = folder / "slackwater"
    root.mkdir(parents=True)
    trees = outputs or {"talkers": ["aggregate by [srcIP]", "  stream packets(ts timestamp)"]}
    (root / "query.json").write_bytes(seal({"format": 1, "id": "q-1", "outputs": trees}))
    lines = "".join(json.dumps(r) + "\n" for r in records)
    (root / "progress.jsonl").write_text(lines, encoding="utf-8")
    return folder
