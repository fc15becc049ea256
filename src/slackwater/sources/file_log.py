"""Which files a batch consists of, read from the logs that Spark's file source keeps in the checkpoint.

Spark tracks the files (a stream of names, contents unread) and decides which belong to a batch; the names
are then on disk, so the driver needs no job to learn them. Formats: ``offsets/N`` (version line, metadata
line, one JSON offset per source), ``sources/I/K`` and ``K.compact`` (version line, one JSON entry per file).
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from slackwater.errors import CheckpointError


def offsets(location: Path, batch: int) -> list[Any] | None:
    """Spark's offset of each source at the end of a batch, or None if they cannot be read."""
    path = location / "offsets" / str(batch)
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return None
    if not lines or lines[0] != "v1":
        return None
    return [None if line == "-" else json.loads(line) for line in lines[2:]]


def new_files(location: Path, source: int, batch: int) -> list[str]:
    """Paths of the files that source number ``source`` has in a batch, each once."""
    end = _log_offset(offsets(location, batch), source)
    start = _log_offset(offsets(location, batch - 1), source) if batch else -1
    folder = location / "sources" / str(source)
    found: dict[str, None] = {}
    for entry in range(start + 1, end + 1):
        for item in _entries(folder, entry):
            found[local_file(item["path"])] = None
    return list(found)


def row_files(location: Path, source: int, batch: int) -> list[str]:
    """Paths of the files that Spark reads as rows of a batch; none if the source is not one of files."""
    ends = [offsets(location, b) for b in (batch - 1, batch)]
    numbers = [_file_offset(e, source) for e in ends]
    folder = location / "sources" / str(source)
    if numbers[1] is None or not folder.is_dir():
        return []
    first = -1 if numbers[0] is None else numbers[0]
    items = [i for entry in range(first + 1, numbers[1] + 1) for i in _entries(folder, entry)]
    return [local_file(i["path"]) for i in items if "path" in i]


def _file_offset(values: list[Any] | None, source: int) -> int | None:
    value = values[source] if values is not None and source < len(values) else None
    return int(value["logOffset"]) if isinstance(value, dict) and "logOffset" in value else None


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


def _entries(folder: Path, number: int) -> list[dict[str, Any]]:
    plain, compact = folder / str(number), folder / f"{number}.compact"
    path = plain if plain.exists() else compact
    if not path.exists():
        # Old entries are deleted once a later compact file holds them.
        later = sorted(
            (p for p in folder.glob("*.compact") if int(p.stem) >= number),
            key=lambda p: int(p.stem),
        )
        if not later:
            return []
        path = later[0]
    # Not splitlines: a name may have a letter that Unicode takes for the end of a line.
    lines = path.read_text(encoding="utf-8").split("\n")
    items = [json.loads(line) for line in lines[1:] if line]
    return [i for i in items if i.get("batchId", number) == number]


def local_file(uri: str) -> str:
    """The path of a file that Spark names by a URI."""
    parsed = urlsplit(uri)  # unlike urlparse, it leaves a semicolon where it is
    return unquote(parsed.path) if parsed.scheme in ("file", "") else uri
