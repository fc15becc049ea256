"""Versions of relations: immutable lists of files, one document each below ``relations/``.

An intent names the version that its batch takes, so a batch that is repeated reads the same files; the list is on disk
before the intent is. It stays for as long as an intent or a manifest names it.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from slackwater.engine.store.files import damaged, seal, unseal
from slackwater.engine.store.storage import Storage
from slackwater.model.plain import plain

FORMAT = 1
FOLDER = "relations"
KIND = "relation"

Seen = tuple[str, int, int]
"""A file that was seen: path, length, time of its last change in nanoseconds."""


@dataclass(frozen=True)
class TableFile:
    """A file of a relation: where it lies, its length, and when it was changed last, in nanoseconds.

    ``folders`` are the columns that the names of its folders give. ``decoded`` is how many bytes each column that is read takes in memory.
    ``index`` is the file beside it that says which keys its segments have, if it is of a copy of ours.
    """

    path: str
    size: int
    changed: int
    folders: tuple[tuple[str, str], ...] = ()
    decoded: Mapping[str, int] = field(default_factory=dict, hash=False)
    index: Seen | None = None

    @property
    def identity(self) -> Seen:
        """What tells it from other files, and from itself at another time."""
        return self.path, self.size, self.changed

    @property
    def trouble(self) -> str | None:
        """What has become of it; None if it is as it was."""
        own = _trouble(self.identity)
        if own is not None or self.index is None:
            return own
        beside = _trouble(self.index)
        return None if beside is None else f"cannot be used, since its index {beside}"


def seen_file(path: PurePath) -> Seen:
    """A file as it is now."""
    now = os.stat(path)
    return str(path), now.st_size, now.st_mtime_ns


def _trouble(seen: Seen) -> str | None:
    try:
        now = os.stat(seen[0])
    except OSError:
        return "is gone"
    return None if (now.st_size, now.st_mtime_ns) == seen[1:] else "has changed"


@dataclass(frozen=True)
class Version:
    """The files of a relation at one moment."""

    relation: str
    files: tuple[TableFile, ...]

    @property
    def id(self) -> str:
        """A name that depends on the files alone: the same files are the same version."""
        return version_id([f.identity for f in self.files])

    @property
    def name(self) -> str:
        """The name of its document."""
        return document(self.relation, self.id)


def version_id(files: Sequence[Seen]) -> str:
    """The name of a version, from what tells its files from others."""
    return hashlib.sha256(repr(sorted(files)).encode()).hexdigest()[:12]


def document(relation: str, version: str) -> str:
    """The name of the document of a version."""
    return f"{relation}@{version}.json"


def write_version(storage: Storage, root: PurePath, version: Version) -> None:
    """Put a list on disk, unless it is there."""
    folder = root / FOLDER
    path = folder / version.name
    if storage.exists(path):
        return
    storage.make_folder(folder)
    files = [_of_file(f) for f in version.files]
    whole: dict[str, Any] = {"format": FORMAT, "relation": version.relation, "files": files}
    storage.write(path, seal(whole, kind=KIND))
    storage.sync(folder)


def listed(storage: Storage, root: PurePath, relation: str) -> list[str]:
    """The versions of a relation whose lists are on disk."""
    names = storage.list(root / FOLDER).files
    start = f"{relation}@"
    return [n[len(start) : -5] for n in names if n.startswith(start) and n.endswith(".json")]


def read_version(storage: Storage, root: PurePath, relation: str, version: str) -> Version:
    """The list of a version that an intent or a manifest names."""
    path = root / FOLDER / document(relation, version)
    try:
        whole = unseal(storage, path, what="list of a relation's files", kind=KIND)
    except FileNotFoundError:
        raise damaged(path, "list of a relation's files", "it is gone") from None
    return Version(relation, tuple(_file(f) for f in whole["files"]))


def _of_file(file: TableFile) -> dict[str, Any]:
    document: dict[str, Any] = plain(file)
    if file.index is None:
        document.pop("index")  # files of tables have none
    return document


def _file(document: dict[str, Any]) -> TableFile:
    folders = tuple((name, sql) for name, sql in document["folders"])
    index = document.get("index")
    return TableFile(
        document["path"], document["size"], document["changed"], folders, dict(document["decoded"]),
        None if index is None else (index[0], index[1], index[2]),
    )  # fmt: skip
