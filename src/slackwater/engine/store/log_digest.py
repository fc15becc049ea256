"""What a source's own log in the checkpoint said, in few bytes: so that a later start can tell whether it still does.

Spark's file source forgets which files it has read if its log is damaged, and then reads them again or never. So each
manifest keeps a digest of the log, entry by entry: over the path of each file, relative to the folder of the file before it, and its
time. Such paths stay the same when the whole directory of the source moves. Of other sources, which write
once what they started from, it keeps the checksum of each numbered file.
"""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from slackwater.engine.store.files import checksum, damaged, lost_file, shown
from slackwater.engine.store.spark_log import (
    COMPACT,
    entries,
    entry_file,
    items,
    last_item,
    log_offset,
    lost_entry,
)
from slackwater.errors import CheckpointError
from slackwater.model.plain import plain

RECENT = 32
OTHERS = 64


@dataclass(frozen=True)
class FileLog:
    """A file source's log up to entry ``offset``: how many files it has, and the digest after each of the last entries."""

    offset: int = -1
    files: int = 0
    recent: Mapping[str, str] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """Over all entries so far."""
        return self.recent.get(str(self.offset), "")

    def plus(self, number: int, before: str, entry: Sequence[Mapping[str, Any]]) -> FileLog:
        """With one more entry; ``before`` is the folder of the last file of the entry before it."""
        parts = [self.digest, str(number)]
        for item in entry:
            path = item["path"]
            folder = posixpath.dirname(path)
            # Spark writes file:/ or file:///, and both mean the same.
            moved = "." if folder == before or not before else posixpath.relpath(folder, before)
            parts += [moved, posixpath.basename(path), str(item.get("timestamp"))]
            before = folder
        digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
        recent = {**self.recent, str(number): digest}
        kept = {k: recent[k] for k in sorted(recent, key=int)[-RECENT:]}
        return FileLog(number, self.files + len(entry), kept)


@dataclass(frozen=True)
class OtherLog:
    """The newest numbered files of any other source, with their checksums."""

    numbered: Mapping[str, int] = field(default_factory=dict)


Log = FileLog | OtherLog


def to_json(logs: Mapping[str, Log]) -> dict[str, Any]:
    """As a part of a JSON document."""
    return {source: plain(log) for source, log in logs.items()}


def from_json(document: Mapping[str, Any]) -> dict[str, Log]:
    """From a part of a JSON document."""
    return {
        source: FileLog(**log) if "offset" in log else OtherLog(**log)
        for source, log in document.items()
    }


def logs_at(location: Path, offsets: Sequence[Any], known: Mapping[str, Log]) -> dict[str, Log]:
    """The logs of all sources at these offsets; ``known`` is what an earlier batch knew of them."""
    logs: dict[str, Log] = {}
    for index, value in enumerate(offsets):
        source, folder = str(index), location / "sources" / str(index)
        if not folder.is_dir():
            continue
        end = log_offset(value)
        before = known.get(source)
        if end is None:
            logs[source] = _others(folder)
        elif isinstance(before, FileLog) and 0 <= before.offset <= end:
            logs[source] = _continued(folder, before, end)
        else:
            logs[source] = read_log(folder, end)
    return logs


def read_log(folder: Path, end: int) -> FileLog:
    """A file source's log from its beginning up to an entry, read as Spark reads it."""
    log, last = FileLog(), ""
    for number, entry in _whole(folder, end):
        log, last = log.plus(number, last, entry), _folder(entry, last)
    return log


def check_log(folder: Path, log: Log) -> None:
    """Refuse a log that no longer says what ``log`` knows of it; the error names the file."""
    if isinstance(log, OtherLog):
        _check_others(folder, log)
        return
    now, last = FileLog(), ""
    for number, entry in _whole(folder, log.offset):
        now, before, last = now.plus(number, last, entry), last, _folder(entry, last)
        wanted = log.recent.get(str(number), now.digest)
        if wanted != now.digest:
            moved = bool(before) and posixpath.dirname(entry[0]["path"]) != before
            raise _changed(folder, number, moved)


def _changed(folder: Path, number: int, moved: bool) -> CheckpointError:
    """The error of an entry that is another one; ``moved``: its first file lies elsewhere than the last before it.

    A path is compared with the one before it, since a whole log may have moved. So either may be the wrong one.
    """
    path, reason = _source_of(folder, number), "the files it names are not those that were read"
    earlier = _source_of(folder, number - 1) if moved else path
    if earlier != path:
        reason += f", or it is as it was, and '{shown(earlier)}' names others"
    return damaged(path, _what(folder), reason)


def _continued(folder: Path, before: FileLog, end: int) -> FileLog:
    log = before
    last = _folder([last_item(folder, before.offset)], "") if end > before.offset else ""
    for number in range(before.offset + 1, end + 1):
        entry = entries(folder, number)
        log, last = log.plus(number, last, entry), _folder(entry, last)
    return log


def _whole(folder: Path, end: int) -> list[tuple[int, list[dict[str, Any]]]]:
    """All entries up to one, from the newest compact file on."""
    compact = [int(p.stem) for p in folder.glob(f"[0-9]*{COMPACT}")]
    first = max(compact, default=-1)
    by_number: dict[int, list[dict[str, Any]]] = {}
    if compact:
        for item in items(folder / f"{first}{COMPACT}"):
            by_number.setdefault(int(item.get("batchId", first)), []).append(item)
    for number in range(first + 1, end + 1):
        if entry_file(folder, number) is not None:
            by_number[number] = entries(folder, number)
    missing = next((n for n in range(end + 1) if not by_number.get(n)), None)
    if missing is not None:
        path = _source_of(folder, missing)
        if not path.exists():
            raise lost_entry(folder, missing, end)
        raise damaged(path, _what(folder), f"it has no files of entry {missing}")
    return [(n, by_number[n]) for n in range(end + 1)]


def _source_of(folder: Path, number: int) -> Path:
    """The file from which Spark takes an entry."""
    compact = max((int(p.stem) for p in folder.glob(f"[0-9]*{COMPACT}")), default=-1)
    if number <= compact:
        return folder / f"{compact}{COMPACT}"
    return entry_file(folder, number) or folder / str(number)


def _folder(entry: Sequence[Mapping[str, Any]], before: str) -> str:
    return posixpath.dirname(entry[-1]["path"]) if entry else before


def _what(folder: Path) -> str:
    return f"log of source {folder.name},"


def _others(folder: Path) -> OtherLog:
    names = sorted((p.name for p in folder.iterdir() if p.name.isdigit()), key=int)[-OTHERS:]
    return OtherLog({n: checksum((folder / n).read_bytes()) for n in names})


def _check_others(folder: Path, log: OtherLog) -> None:
    """A source may delete what it no longer needs, oldest first, and never changes a file."""
    kept = False
    for name in sorted(log.numbered, key=int):
        path = folder / name
        if path.exists():
            kept = True
            if checksum(path.read_bytes()) != log.numbered[name]:
                raise damaged(path, _what(folder), "it was changed since the source wrote it")
        elif kept or name == max(log.numbered, key=int):
            raise lost_file(
                path, _what(folder), "the source wrote it, and deletes older ones first"
            )
