"""Whether Spark's own logs of a query are those that its manifests were written with.

Spark reads the newest two files of ``offsets``, the newest of ``commits`` and all of ``sources``, and believes them. A lost
one makes it take input twice or not at all, so they are compared, before it starts, with what the newest manifest and
the intents know. All input that was taken is in a manifest: between the newest manifest and the next batch only the heartbeat's offset moves.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from slackwater.engine.store import log_digest
from slackwater.engine.store import manifest as manifests
from slackwater.engine.store.checkpoint import Checkpoint
from slackwater.engine.store.files import checksum, damaged, lost_file
from slackwater.engine.store.hadoop_checksum import check_sum
from slackwater.engine.store.manifest import Intent, Manifest, fingerprint
from slackwater.engine.store.spark_log import (
    COMPACT,
    items,
    log_lines,
    log_offset,
    lost_entry,
    numbers,
    offsets,
)
from slackwater.errors import CheckpointError


def digest_of(values: list[Any] | None) -> str:
    """Of the offsets of a batch."""
    return fingerprint(json.dumps(values, sort_keys=True))


def inputs_of(values: list[Any] | None) -> str:
    """Of the offsets of a batch without the heartbeat's; empty if there are none."""
    return digest_of(values[:-1]) if values else ""


def offsets_sum(location: Path, batch: int) -> int | None:
    """The checksum of the file with a batch's offsets, which also holds settings of Spark's; None if there is none."""
    path = _offsets_file(location, batch)
    return checksum(path.read_bytes()) if path.exists() else None


def check_logs(checkpoint: Checkpoint, last: Manifest | None) -> None:
    """Refuse logs of Spark that are not those of the newest manifest; the error names the file."""
    location = checkpoint.location
    written, committed = _numbers(location / "offsets"), _numbers(location / "commits")
    _check_newest_offsets(checkpoint, last, written, committed)
    if committed:
        _check_commit(location / "commits" / str(committed[-1]))
    if not written:
        return
    newest = written[-1]
    for batch in range(max(0, newest - 1), newest + 1):
        path = _offsets_file(location, batch)
        if batch not in written:
            raise lost_file(path, "Spark's offsets,", "Spark needs the newest two")
        check_sum(path, "Spark's offsets,")
    _check_order(location, newest)
    pending = newest not in committed
    if last is not None:
        _check_place(location, last, newest, newest - 1 if pending else newest)
    earlier = manifests.read_intent(checkpoint, newest) if pending else None
    values = offsets(location, newest)
    if earlier is not None:
        known = (earlier.offsets, earlier.offsets_file)
        if not _same_offsets(location, newest, values, known):
            raise _other_offsets(location, newest, "it was tried before")
    _check_sources(location, values, last, earlier)


def check_base(location: Path, batch: int, before: list[Any] | None, base: Manifest | None) -> None:
    """Refuse a batch that does not begin where the manifest it builds on ended."""
    if base is None or not base.inputs or before is None:
        return
    if inputs_of(before) != base.inputs:
        raise _other_offsets(location, batch - 1, f"batch {base.batch} ended")


def check_repeated(location: Path, done: Manifest, values: list[Any] | None) -> None:
    """Refuse to take a batch that is committed for done when Spark gives it other input."""
    known = (done.offsets, done.offsets_file)
    if done.offsets and not _same_offsets(location, done.batch, values, known):
        raise _other_offsets(location, done.batch, f"batch {done.batch} ended")


def _same_offsets(
    location: Path, batch: int, values: list[Any] | None, known: tuple[str, int | None]
) -> bool:
    digest, file = known
    return digest_of(values) == digest and file in (None, offsets_sum(location, batch))


def _numbers(folder: Path) -> list[int]:
    if not folder.is_dir():
        return []
    return sorted(int(p.name) for p in folder.iterdir() if p.name.isdigit())


def _offsets_file(location: Path, batch: int) -> Path:
    return location / "offsets" / str(batch)


def _other_offsets(location: Path, batch: int, where: str) -> CheckpointError:
    reason = f"the input it speaks of is not that with which {where}"
    return damaged(_offsets_file(location, batch), "Spark's offsets,", reason)


def _check_newest_offsets(
    checkpoint: Checkpoint, last: Manifest | None, written: list[int], committed: list[int]
) -> None:
    """A batch has offsets before it has anything else."""
    seen = [(committed[-1], f"'commits/{committed[-1]}' is there")] if committed else []
    seen += [(b, f"'intents/{b:012d}.json' is there") for b in manifests.intended(checkpoint)]
    if last is not None:
        seen.append((last.batch, f"'manifests/{last.batch:012d}.json' is there"))
    batch, evidence = max(seen, default=(-1, ""))
    if batch > (written[-1] if written else -1):
        path = _offsets_file(checkpoint.location, batch)
        raise lost_file(path, "Spark's offsets,", evidence)


def _check_commit(path: Path) -> None:
    what = "Spark's commit,"
    check_sum(path, what)
    try:
        for line in log_lines(path, what)[1:]:
            json.loads(line)
    except ValueError as error:
        raise damaged(path, what, f"it is no commit ({error})") from error


def _check_order(location: Path, newest: int) -> None:
    """Entries of a file source's log, and the heartbeat's numbers, never fall."""
    now, before = offsets(location, newest), offsets(location, newest - 1)
    if now is None or before is None:
        return
    ranks = [[_rank(value) for value in values] for values in (before, now)]
    if len(now) != len(before) or any(a > b for a, b in zip(*ranks, strict=True)):
        reason = f"it lies before 'offsets/{newest - 1}'"
        raise damaged(_offsets_file(location, newest), "Spark's offsets,", reason)


def _rank(value: Any) -> int:
    """A number that rises from batch to batch; 0 where the source does not say."""
    numbers = [value.get(n) for n in ("logOffset", "offset")] if isinstance(value, dict) else []
    return next((n + 1 for n in numbers if isinstance(n, int)), 0)


def _check_place(location: Path, last: Manifest, newest: int, ended: int) -> None:
    """``ended`` is the batch after which the next one begins."""
    if last.batch in (newest, newest - 1):
        check_repeated(location, last, offsets(location, last.batch))
    if last.inputs and ended >= max(last.batch, 0):
        values = offsets(location, ended)
        if values is not None and inputs_of(values) != last.inputs:
            raise _other_offsets(location, ended, f"batch {last.batch} ended")


def _check_sources(
    location: Path, newest: list[Any] | None, last: Manifest | None, earlier: Intent | None
) -> None:
    """``earlier``: the intent of the batch that Spark will repeat, if it came as far."""
    for index, value in enumerate(newest or []):
        _check_files(location / "sources" / str(index), log_offset(value))
    for known in (last, earlier):
        for source, log in log_digest.from_json(known.logs if known is not None else {}).items():
            log_digest.check_log(location / "sources" / source, log)


def _check_files(folder: Path, end: int | None) -> None:
    """Checksums and form of all files; that those a file source has used, and those between, are there."""
    paths = sorted(folder.rglob("*")) if folder.is_dir() else []
    for path in paths:
        if path.is_file() and not path.name.startswith("."):
            check_sum(path, f"log of source {folder.name},")
            if end is not None:
                items(path)
    if end is not None:
        present = numbers(folder)
        compact = max((int(p.stem) for p in paths if p.name.endswith(COMPACT)), default=-1)
        newest = max([end, *present])
        gap = next((n for n in range(compact + 1, newest + 1) if n not in present), None)
        if gap is not None:
            raise lost_entry(folder, gap, end)
