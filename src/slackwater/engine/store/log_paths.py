"""Paths in the logs of Spark's file source: written as Java writes URIs, and moved from one directory to another.

Spark compares the texts, so a path that moves must be written letter by letter as Spark would list it.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from slackwater.errors import CheckpointError

# What Java leaves as it is in the path of a URI; letters beyond ASCII stay, too, unless they are spaces.
_PLAIN = "/-_.!~*'();:@&=+$,"
_FOREIGN = re.compile(r"^(?P<root>[a-zA-Z][a-zA-Z0-9+.-]*://[^/]*)(?P<path>/.*)?$", re.DOTALL)
_LOG = re.compile(r"\d+(\.compact)?")


def uri(directory: str) -> str:
    """A directory as the log writes it, without a slash at its end."""
    foreign = _FOREIGN.match(directory)
    root, path = (foreign["root"], foreign["path"] or "") if foreign else ("file://", directory)
    return root + "".join(map(_written, path)).rstrip("/")


def _written(letter: str) -> str:
    plain = ord(letter) >= 0xA0 and unicodedata.category(letter)[0] != "Z"
    return letter if plain else quote(letter, safe=_PLAIN)


def log_files(folder: Path) -> list[Path]:
    """The files of a source's log; Spark's checksums and temporary files are not among them."""
    if not folder.is_dir():
        return []
    return sorted(p for p in folder.iterdir() if _LOG.fullmatch(p.name))


def strays(folder: Path, directory: str) -> Iterator[str]:
    """Paths in a source's log that do not lie below a directory, as the log writes them."""
    root = uri(directory) + "/"
    for path in log_files(folder):
        for line in path.read_text(encoding="utf-8").split("\n")[1:]:
            if line and not (name := _full(_entry(path, line)["path"])).startswith(root):
                yield name


def moved_log(path: Path, old: str, new: str) -> str | None:
    """The text of a log file with the paths below ``old`` as they are below ``new``; None if it has none."""
    before, after = uri(old) + "/", uri(new) + "/"
    lines = path.read_text(encoding="utf-8").split("\n")
    changed = False
    for number, line in enumerate(lines):
        if number == 0 or not line:
            continue  # the version, or the end of the file
        entry = _entry(path, line)
        name = _full(entry["path"])
        if name.startswith(before):
            entry["path"] = after + name[len(before) :]
            lines[number] = json.dumps(entry, separators=(",", ":"), ensure_ascii=False)
            changed = True
    return "\n".join(lines) if changed else None


def readable(name: str) -> str:
    """A path of the log as people write it."""
    return unquote(name.removeprefix("file://"))


def _entry(path: Path, line: str) -> dict[str, Any]:
    try:
        entry = json.loads(line)
        if isinstance(entry["path"], str):
            return dict(entry)
    except (ValueError, TypeError, KeyError):
        pass
    raise CheckpointError(
        "DAMAGED_FILE",
        f"'{path}', a log of Spark's file source, is damaged: {line[:100]!r} is no entry",
        hint="restore the checkpoint from a backup, or start with a new checkpointLocation",
        path=path,
    )


def _full(name: str) -> str:
    """``file:/a`` and ``file:///a`` are the same."""
    return re.sub(r"^file:/(?!/)", "file:///", name)
