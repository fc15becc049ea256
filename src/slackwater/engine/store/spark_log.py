"""Which files a batch consists of, read from the logs that Spark's file source keeps in the checkpoint.

Spark tracks the files (a stream of names, contents unread) and decides which belong to a batch; the names
are then on disk, so the driver needs no job to learn them. Formats: ``offsets/N`` (version line, metadata
line, one JSON offset per source), ``sources/I/K`` and ``K.compact`` (version line, one JSON entry per file).
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from slackwater.engine.store.files import damaged, lost_file
from slackwater.errors import CheckpointError

COMPACT = ".compact"

_HALF_WRITTEN = re.compile(r"\.{1,2}\d+\.[0-9a-f-]{36}\.tmp(\.crc)?")
"""The names of files that Spark writes before it gives them their own, and of their checksums."""


def offsets(location: Path, batch: int) -> list[Any] | None:
    """Spark's offset of each source at the end of a batch, or None if they cannot be read."""
    path = location / "offsets" / str(batch)
    try:
        lines = log_lines(path, "Spark's offsets,")
    except FileNotFoundError:
        return None
    if lines[0] != "v1":
        return None
    try:
        return [None if line == "-" else json.loads(line) for line in lines[1:]][1:]
    except ValueError as error:
        raise damaged(path, "Spark's offsets,", f"a line is no offset ({error})") from error


def has_offsets(location: Path) -> bool:
    """Whether a query of Spark's has run on a checkpoint."""
    return any(location.glob("offsets/[0-9]*"))


def forget_half_written(location: Path) -> None:
    """Remove what is left of the first offsets if Spark was killed while it wrote them.

    To Spark a query without offsets is new, and it starts none where their folder has a file.
    """
    folder = location / "offsets"
    if folder.is_dir() and not has_offsets(location):
        for path in folder.iterdir():
            if _HALF_WRITTEN.fullmatch(path.name):
                path.unlink(missing_ok=True)


def is_committed(location: Path, batch: int) -> bool:
    """Whether Spark has seen a batch end."""
    return (location / "commits" / str(batch)).exists()


def new_files(location: Path, source: int, batch: int) -> list[str]:
    """Paths of the files that source number ``source`` has in a batch, each once."""
    end = _log_offset(offsets(location, batch), source)
    start = _log_offset(offsets(location, batch - 1), source) if batch else -1
    folder = location / "sources" / str(source)
    paths: dict[str, None] = {}
    for entry in range(start + 1, end + 1):
        for item in entries(folder, entry):
            paths[local_file(item["path"])] = None
    return list(paths)


def row_files(location: Path, source: int, batch: int) -> list[str]:
    """Paths of the files that Spark reads as rows of a batch; none if the source is not one of files."""
    ends = [offsets(location, b) for b in (batch - 1, batch)]
    values = [e[source] if e is not None and source < len(e) else None for e in ends]
    start, end = (log_offset(value) for value in values)
    folder = location / "sources" / str(source)
    if end is None or not folder.is_dir():
        return []
    first = 0 if start is None else start + 1
    return [local_file(i["path"]) for n in range(first, end + 1) for i in entries(folder, n)]


def log_lines(path: Path, what: str) -> list[str]:
    """The lines of a file of one of Spark's logs; the first is the version of its format."""
    try:
        # Not splitlines: a name may have a letter that Unicode takes for the end of a line.
        lines = path.read_bytes().decode().removesuffix("\n").split("\n")
    except UnicodeDecodeError as error:
        raise damaged(path, what, f"it is no text ({error})") from error
    if not re.fullmatch(r"v[0-9]+", lines[0]):
        raise damaged(path, what, "its first line is no version")
    return lines


def identity(path: str) -> list[Any]:
    """What must not change while a batch may be tried again: path, length, time of change in ns."""
    status = os.stat(path)
    return [path, status.st_size, status.st_mtime_ns]


def present(path: str) -> list[Any]:
    """The identity of a file of the batch; an error that names it if it is gone."""
    try:
        return identity(path)
    except FileNotFoundError:
        raise CheckpointError(
            "INPUT_CHANGED",
            f"file '{path}' is gone, but its batch was not yet committed",
            hint="files of a source must stay until they have been read; put it back",
            path=path,
        ) from None


def _log_offset(values: list[Any] | None, source: int) -> int:
    if values is None:
        raise CheckpointError(
            "UNKNOWN_OFFSET_LOG",
            "Spark's offset log cannot be read: its format is not the one this version knows",
            hint="report this with the Spark version; the row reader works meanwhile: "
            "sw.stream(spark.readStream.schema(...).parquet(dir), ...)",
        )
    value = values[source]
    return -1 if value is None else int(value["logOffset"])


def log_offset(value: Any) -> int | None:
    """How many entries of its log a file source had used; None if the offset is that of another source."""
    number = value.get("logOffset") if isinstance(value, dict) else None
    return number if isinstance(number, int) else None


def entries(folder: Path, number: int) -> list[dict[str, Any]]:
    """The files of one entry of a file source's log. Each entry has some, so one that is nowhere is lost."""
    path = entry_file(folder, number)
    if path is None:
        raise lost_entry(folder, number, number)
    return [i for i in items(path) if i.get("batchId", number) == number]


def entry_file(folder: Path, number: int) -> Path | None:
    """The file that holds an entry."""
    for path in (folder / str(number), folder / f"{number}{COMPACT}"):
        if path.exists():
            return path
    # Old entries are deleted once a later compact file holds them.
    later = sorted(
        (p for p in folder.glob(f"[0-9]*{COMPACT}") if int(p.stem) >= number),
        key=lambda p: int(p.stem),
    )
    return later[0] if later else None


def numbers(folder: Path) -> list[int]:
    """Of the entries that have a file, compact or not, rising."""
    files = folder.iterdir() if folder.is_dir() else iter(())
    names = {p.name.removesuffix(COMPACT) for p in files}
    return sorted(int(n) for n in names if n.isdigit())


def lost_entry(folder: Path, number: int, end: int) -> CheckpointError:
    """The error of an entry that nobody finds, of a log that Spark has used up to entry ``end``.

    It is the first one that is missing: if it was in a compact file, that was the one before the next that is there.
    """
    above = [n for n in numbers(folder) if n > number]
    lost = min(above) - 1 if above else max(number, end)
    other = f"'{folder.parent.name}/{folder.name}/{lost}{COMPACT}'"
    evidence = f"Spark has used it (it was this file or {other})"
    return lost_file(folder / str(lost), f"log of source {folder.name},", evidence)


def last_item(folder: Path, number: int) -> dict[str, Any]:
    """The last file of an entry."""
    path = entry_file(folder, number)
    if path is not None and path.name.removesuffix(COMPACT) == str(number):
        return items(path, last=True)[-1]  # a compact file ends with its own entry
    return entries(folder, number)[-1]


def items(path: Path, *, last: bool = False) -> list[dict[str, Any]]:
    """All lines of a file of a file source's log, or the last one."""
    what = f"log of source {path.parent.name},"
    lines = log_lines(path, what)
    try:
        wanted = lines[1:][-1:] if last else lines[1:]
        return [{"path": i["path"], **i} for i in map(json.loads, wanted)]
    except (ValueError, TypeError, KeyError) as error:
        raise damaged(path, what, f"a line names no file ({error})") from error


def local_file(uri: str) -> str:
    """The path of a file that Spark names by a URI."""
    parsed = urlsplit(uri)  # unlike urlparse, it leaves a semicolon where it is
    return unquote(parsed.path) if parsed.scheme in ("file", "") else uri
