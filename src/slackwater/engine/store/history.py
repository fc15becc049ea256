"""The progress log of a checkpoint: one line per batch, for people and reports.

Manifests hold the state and only the newest few are kept; this log is the long memory. Nothing
depends on it: a line that cannot be written is lost, and a torn or damaged line is passed over.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from slackwater.engine.store import manifest as manifests
from slackwater.engine.store.checkpoint import Checkpoint
from slackwater.engine.store.files import OWNER, Rights, make_file
from slackwater.errors import CheckpointError

NAME, OLDER = "progress.jsonl", "progress.old.jsonl"
MAX_BYTES = 32 * 1024 * 1024
"""About 20,000 batches. A full log becomes the older one, so at most twice this is on disk."""


def append(
    root: Path, record: dict[str, Any], *, max_bytes: int = MAX_BYTES, rights: Rights = OWNER
) -> bool:
    """Add a batch's record to the log below ``root``; False if that failed. Never raises.

    Not synced to disk: losing the last lines in a crash is cheaper than a sync in every batch.
    """
    path = root / NAME
    try:
        line = json.dumps(record, separators=(",", ":")).encode() + b"\n"
        make_file(path, rights)
        with open(path, "ab+") as out:
            size = out.tell()
            if size and _last_byte(out, size) != b"\n":
                line = b"\n" + line  # the line before was torn
            out.write(line)
        if size + len(line) > max_bytes:
            os.replace(path, root / OLDER)
        return True
    except (OSError, TypeError, ValueError):
        return False


def read(location: str | Path) -> list[dict[str, Any]]:
    """The records of a checkpoint, by rising batch id; what the log misses comes from manifests."""
    checkpoint = Checkpoint(str(location))
    if not (checkpoint.root / "query.json").exists() and not (checkpoint.root / NAME).exists():
        raise CheckpointError(
            "NO_CHECKPOINT",
            f"'{location}' is not the checkpoint of a Slackwater query",
            hint="give the directory that the query has as checkpointLocation",
            location=location,
        )
    records: dict[int, dict[str, Any]] = {}
    for batch in manifests.committed(checkpoint):
        try:
            done = manifests.read(checkpoint, batch)
        except FileNotFoundError:
            continue  # a running query has just removed it
        if done is not None and done.progress:
            records[batch] = done.progress
    for name in (OLDER, NAME):
        for record in _lines(checkpoint.root / name):
            records[record["batchId"]] = record
    return [records[batch] for batch in sorted(records)]


def _lines(path: Path) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = []
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return records
    for line in data.splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict) and isinstance(record.get("batchId"), int):
            records.append(record)
    return records


def _last_byte(file: Any, size: int) -> bytes:
    file.seek(size - 1)
    byte: bytes = file.read(1)
    return byte
