"""The progress log of a checkpoint: one line per batch, for people and reports.

Manifests hold the state and only the newest few are kept; this log is the long memory. Nothing
depends on it: a line that cannot be written is lost, and a torn or damaged line is passed over.
"""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path, PurePath
from typing import Any

from slackwater.engine.store import manifest as manifests
from slackwater.engine.store.checkpoint import Checkpoint
from slackwater.engine.store.storage import Renames, Storage
from slackwater.errors import CheckpointError

NAME, OLDER = "progress.jsonl", "progress.old.jsonl"
MAX_BYTES = 32 * 1024 * 1024
"""About 20,000 batches. A full log becomes the older one, so at most twice this is on disk."""


def append(checkpoint: Checkpoint, record: dict[str, Any], *, max_bytes: int = MAX_BYTES) -> bool:
    """Add a batch's record to the log; False if that failed. Never raises.

    Not synced to disk: losing the last lines in a crash is cheaper than a sync in every batch.
    """
    storage, path = checkpoint.storage, checkpoint.root / NAME
    try:
        line = json.dumps(record, separators=(",", ":")).encode() + b"\n"
        known = storage.status(path)
        size = 0 if known is None else known.size
        if size and _last_byte(storage, path, size) != b"\n":
            line = b"\n" + line  # the line before was torn
        storage.append(path, line)
        if size + len(line) > max_bytes and isinstance(storage, Renames):
            storage.rename(path, checkpoint.root / OLDER)
        return True
    except (OSError, TypeError, ValueError):
        return False


def read(location: str | Path) -> list[dict[str, Any]]:
    """The records of a checkpoint, by rising batch id; what the log misses comes from manifests."""
    checkpoint = Checkpoint(str(location))
    storage, log = checkpoint.storage, checkpoint.root / NAME
    if not storage.exists(checkpoint.description_file) and not storage.exists(log):
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
        for record in _lines(storage, checkpoint.root / name):
            records[record["batchId"]] = record
    return [records[batch] for batch in sorted(records)]


def _lines(storage: Storage, path: PurePath) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = []
    try:
        data = storage.read(path)
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


def _last_byte(storage: Storage, path: PurePath, size: int) -> bytes:
    with closing(storage.reader(path)) as file:
        return file.read(size - 1, 1)
