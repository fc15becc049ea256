"""The progress record's schema says what it should, and its document speaks of every field."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.progress_schema import check_progress, validator

DOCS = Path(__file__).resolve().parents[2] / "docs"

GOOD: dict[str, Any] = {
    "id": "q", "runId": "r", "name": None, "batchId": 3, "ordinal": 2,
    "timestamp": "2026-01-01T00:00:00.000000Z", "clock": None, "numInputRows": 5, "inputRowsPerSecond": 1.5,
    "processedRowsPerSecond": 0.0, "partitionGroups": 2, "final": False,
    "durationMs": {"plan": 1, "job": 200}, "sources": [],
    "streams": {
        "s": {
            "numInputRows": 5, "totalRows": 9, "late": {"ts": 0}, "totalLate": {"ts": 1}, "nullTime": {"ts": 0},
            "future": {"ts": 0}, "orderViolations": 0,
            "bounds": {
                "ts": {
                    "bound": "2026-01-01T00:00:00.000000Z", "ticks": 1, "newest": None, "behind": None,
                    "holder": None, "partitions": 1, "idle": [], "excluded": [],
                    "maxDelay": {"ticks": 0, "time": None, "partition": None},
                    "silent": None,
                }
            },
        }
    },
    "operators": {
        "aggregate-1": {
            "kind": "Aggregate", "plan": "panes", "rowsIn": 1, "rowsOut": 0, "late": 0, "compacted": 0,
            "state": {"rows": 1, "bytes": 10, "runs": 1}, "bounds": {"window": "end"},
        }
    },
    "outputs": {"output": {"rows": 0, "files": 0, "bytes": 0}},
    "stateOperators": [],
    "sink": {"name": "output", "description": "noop", "exactlyOnce": False},
    "sinks": [{"name": "output", "description": "noop", "exactlyOnce": False}],
}  # fmt: skip


def test_a_good_record_passes():
    check_progress(GOOD)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("batchId",), -1),
        (("batchId",), "3"),
        (("timestamp",), "2026-01-01"),
        (("surprise",), 1),
        (("streams",), {}),
        (("streams", "s", "late"), 0),
        (("streams", "s", "late", "ts"), -1),
        (("streams", "s", "bounds", "ts", "bound"), "yesterday"),
        (("streams", "s", "bounds", "ts", "holder"), 3),
        (("operators", "aggregate-1", "kind"), "Nobody"),
        (("operators", "aggregate-1", "state", "rows"), None),
        (("outputs", "output", "rows"), 1.5),
        (("durationMs", "job"), None),
        (("sink",), {}),
    ],
    ids=lambda p: ".".join(p) if isinstance(p, tuple) else "",
)
def test_a_bad_record_fails(path: tuple[str, ...], value: Any):
    record = copy.deepcopy(GOOD)
    at: Any = record
    for p in path[:-1]:
        at = at[p]
    at[path[-1]] = value
    check_progress(GOOD)  # a record of another shape, which is not taken for this one
    with pytest.raises(AssertionError):
        check_progress(record)


@pytest.mark.parametrize("name", sorted(GOOD))
def test_every_field_is_required(name: str):
    with pytest.raises(AssertionError, match=name):
        check_progress({k: v for k, v in GOOD.items() if k != name})


def test_the_document_speaks_of_every_field():
    schema = json.loads((DOCS / "progress.schema.json").read_text(encoding="utf-8"))
    text = (DOCS / "progress.md").read_text(encoding="utf-8")
    fields = set(schema["properties"])
    for name in ("stream", "bound", "operator", "sink"):
        fields |= set(schema["$defs"][name]["properties"])
    missing = [f for f in sorted(fields) if f"`{f}`" not in text and f"`.{f}`" not in text]
    assert not missing


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    keys = (
        value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    )
    for key in keys:
        yield from _places(value[key], (*path, key))


def test_what_is_remembered_of_good_records_excuses_no_bad_one():
    """Every field in turn left out, renamed and given odd values: the answer is that of the schema, asked each time."""
    check_progress(GOOD)
    good = 0
    for path in _places(GOOD):
        for odd in (None, True, -1, 1.5, 300, "", "x", [], {}, {"x": 1}, "without", "renamed"):
            record = copy.deepcopy(GOOD)
            at: Any = record
            for p in path[:-1]:
                at = at[p]
            if odd in ("without", "renamed"):
                value = at.pop(path[-1])
                if odd == "renamed" and isinstance(at, dict):
                    at["other"] = value
            else:
                at[path[-1]] = odd
            if validator().is_valid(record):
                check_progress(record)
                good += 1
            else:
                with pytest.raises(AssertionError):
                    check_progress(record)
    assert good > 50
