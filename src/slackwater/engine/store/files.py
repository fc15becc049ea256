"""Durable files on a local file system: write whole, then appear under their name at once."""

from __future__ import annotations

import json
import os
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slackwater.engine.store import failpoints
from slackwater.errors import CheckpointError
from slackwater.kernels.room import room_for


@dataclass(frozen=True)
class Rights:
    """Modes of files and folders that are made; the process's umask takes away from them, as always."""

    file: int
    folder: int


OWNER = Rights(0o600, 0o700)
"""For the owner alone: checkpoints and scratch."""

UMASK = Rights(0o666, 0o777)
"""As the user's umask says: output."""


def make_folders(path: Path, rights: Rights) -> None:
    """Make a folder and those above it that are missing; folders that exist keep their rights."""
    if path.is_dir():
        return
    make_folders(path.parent, rights)
    with room_for(f"folder '{path.name}'", path.parent, 0):
        path.mkdir(rights.folder, exist_ok=True)


def make_file(path: Path, rights: Rights) -> None:
    """Make an empty file, for a writer that knows no modes; one that exists is left as it is."""
    with room_for(f"file '{path.name}'", path.parent, 0):
        path.touch(rights.file)


def write_new(path: Path, data: bytes, rights: Rights = OWNER) -> None:
    """Make a file appear with all its content, or raise FileExistsError; never replaces.

    The commit is a hard link, which fails when the name is taken: two writers cannot both win.
    """
    temp = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}.tmp")
    try:
        write_synced(temp, data, rights)
        os.link(temp, path)
    finally:
        temp.unlink(missing_ok=True)
    sync_dir(path.parent)


def write_replace(path: Path, data: bytes, rights: Rights = OWNER) -> None:
    """Make a file appear with all its content, replacing an older one."""
    temp = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}.tmp")
    write_synced(temp, data, rights)
    os.replace(temp, path)
    sync_dir(path.parent)


def write_synced(
    path: Path,
    data: Any,
    rights: Rights,
    point: str = "disk.checkpoint",
    setting: str | None = None,
) -> None:
    """Write a file of bytes, and wait until they are on disk; a file that cannot be written whole is removed."""
    try:
        with (
            room_for(f"file '{path.name}'", path.parent, memoryview(data).nbytes),
            open(path, "wb", opener=lambda name, flags: os.open(name, flags, rights.file)) as out,
        ):
            failpoints.hit(point, setting)
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def sync_dir(path: Path) -> None:
    """Make the names in a directory durable."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def checksum(data: Any) -> int:
    """CRC-32 of a bytes-like object."""
    return zlib.crc32(data) & 0xFFFFFFFF


def file_checksum(path: Path) -> tuple[int, int]:
    """Length and CRC-32 of a file, read piece by piece."""
    size = crc = 0
    with open(path, "rb") as data:
        while piece := data.read(1 << 20):
            size += len(piece)
            crc = zlib.crc32(piece, crc)
    return size, crc


def seal(document: dict[str, Any], kind: str = "") -> bytes:
    """A JSON document with a checksum line, so that a torn or edited file is noticed.

    ``kind`` says what it is, so that another sealed file in its place is noticed, too.
    """
    named = {**document, "kind": kind} if kind else document
    body = json.dumps(named, separators=(",", ":"), sort_keys=True).encode()
    return body + b"\n" + f"crc32 {checksum(body):08x}\n".encode()


def unseal(path: Path, *, what: str, kind: str = "") -> dict[str, Any]:
    """The document of a sealed file; a `CheckpointError` if it is damaged, or of another kind.

    Files of older versions do not say their kind.
    """
    data = path.read_bytes()
    body, _, tail = data.partition(b"\n")
    if tail != f"crc32 {checksum(body):08x}\n".encode():
        raise damaged(path, what, f"its checksum does not match ({len(data)} bytes)")
    document: dict[str, Any] = json.loads(body)
    written = document.pop("kind", kind)
    if kind and written != kind:
        raise damaged(path, what, f"it holds what belongs into another file (kind: {written})")
    return document


RESTORE = "restore the checkpoint from a backup, or start with a new checkpointLocation"


def damaged(path: Path, what: str, reason: str) -> CheckpointError:
    """The error of a file whose content is not what was written there."""
    return CheckpointError(
        "DAMAGED_FILE",
        f"{what} '{_shown(path)}' is damaged: {reason}",
        hint=RESTORE,
        path=path,
    )


def lost_file(path: Path, what: str, evidence: str) -> CheckpointError:
    """The error of a file that is gone; ``evidence`` says why it must have been there."""
    return CheckpointError(
        "LOST_FILE",
        f"{what} '{_shown(path)}' is gone: {evidence}",
        hint=RESTORE,
        path=path,
    )


def _shown(path: Path) -> str:
    """The end of a path that says which file it is; the path of the checkpoint does not."""
    parts = path.parts
    return "/".join(parts[-3:] if parts[-3:-2] == ("sources",) else parts[-2:])
