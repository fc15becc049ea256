"""What a file of a checkpoint holds, sealed with a checksum, and the errors of one that is damaged or gone."""

from __future__ import annotations

import json
import zlib
from contextlib import closing
from pathlib import PurePath
from typing import Any

from slackwater.engine.store.storage import Storage
from slackwater.errors import CheckpointError

_PIECE = 1 << 20


def checksum(data: Any) -> int:
    """CRC-32 of a bytes-like object."""
    return zlib.crc32(data) & 0xFFFFFFFF


def file_checksum(storage: Storage, path: PurePath) -> tuple[int, int]:
    """Length and CRC-32 of a file, read piece by piece."""
    size = crc = 0
    with closing(storage.reader(path)) as file:
        while piece := file.read(size, _PIECE):
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


def unseal(storage: Storage, path: PurePath, *, what: str, kind: str = "") -> dict[str, Any]:
    """The document of a sealed file; a `CheckpointError` if it is damaged, or of another kind.

    Files of older versions do not say their kind.
    """
    return unsealed(storage.read(path), path, what=what, kind=kind)


def unsealed(data: bytes, path: PurePath, *, what: str, kind: str = "") -> dict[str, Any]:
    """The document in ``data``, which is what the sealed file at ``path`` holds."""
    body, _, tail = data.partition(b"\n")
    if tail != f"crc32 {checksum(body):08x}\n".encode():
        raise damaged(path, what, f"its checksum does not match ({len(data)} bytes)")
    document: dict[str, Any] = json.loads(body)
    written = document.pop("kind", kind)
    if kind and written != kind:
        raise damaged(path, what, f"it holds what belongs into another file (kind: {written})")
    return document


RESTORE = "restore the checkpoint from a backup, or start with a new checkpointLocation"


def damaged(path: PurePath, what: str, reason: str) -> CheckpointError:
    """The error of a file whose content is not what was written there."""
    return CheckpointError(
        "DAMAGED_FILE",
        f"{what} '{shown(path)}' is damaged: {reason}",
        hint=RESTORE,
        path=path,
    )


def lost_file(path: PurePath, what: str, evidence: str) -> CheckpointError:
    """The error of a file that is gone; ``evidence`` says why it must have been there."""
    return CheckpointError(
        "LOST_FILE",
        f"{what} '{shown(path)}' is gone: {evidence}",
        hint=RESTORE,
        path=path,
    )


def shown(path: PurePath) -> str:
    """The end of a path that says which file it is; the path of the checkpoint does not."""
    parts = path.parts
    return "/".join(parts[-3:] if parts[-3:-2] == ("sources",) else parts[-2:])
