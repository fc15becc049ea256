"""Source directories that moved: what a checkpoint has read is known by the path below the directory.

Spark's logs and our intents hold absolute paths, so all of them are rewritten. That is done as one step: the new texts
are staged in ``slackwater/moving``, a folder that appears by one rename; from then on every start first puts them in
place. Before the rename nothing has happened, after it the directory has moved.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import PurePath
from typing import Any

from slackwater.engine.store import failpoints
from slackwater.engine.store import manifest as manifests
from slackwater.engine.store.checkpoint import Checkpoint
from slackwater.engine.store.files import checksum, lost_file, seal, unseal
from slackwater.engine.store.log_paths import log_files, moved_log, readable, strays
from slackwater.engine.store.spark_log import identity
from slackwater.engine.store.storage import renaming
from slackwater.errors import CheckpointError

FORMAT = 1
_DESCRIPTION = "move.json"


@dataclass(frozen=True)
class Move:
    """A source directory that moved: Spark's number of the source, and the inputs that read it."""

    number: int
    inputs: tuple[int, ...]
    old: str
    new: str


@dataclass(frozen=True)
class _Staged:
    """A file that is to be replaced, by its path below the checkpoint, and the checksum of the new one."""

    path: str
    crc: int


def take(checkpoint: Checkpoint, moves: Sequence[Move]) -> None:
    """Make the checkpoint speak of the new directories."""
    for move in moves:
        _check_pending(checkpoint, move)
    storage, folder = checkpoint.storage, checkpoint.root / "moving.tmp"
    storage.delete_folder(folder)
    storage.make_folder(folder)
    staged = []
    for number, (path, data) in enumerate(_rewritten(checkpoint, moves)):
        storage.write(folder / str(number), data)
        shutil.copymode(path, folder / str(number))  # of a log, which Spark must be able to read
        staged.append(_Staged(str(path.relative_to(checkpoint.location)), checksum(data)))
    document = {
        "format": FORMAT, "moves": [asdict(m) for m in moves], "files": [asdict(s) for s in staged],
    }  # fmt: skip
    storage.write(folder / _DESCRIPTION, seal(document, kind="move"))
    failpoints.hit("move.staged")
    renaming(storage).rename(folder, checkpoint.root / "moving")
    storage.sync(checkpoint.root)
    failpoints.hit("move.begun")
    resume(checkpoint)


def resume(checkpoint: Checkpoint) -> None:
    """Finish a move that an earlier start began; nothing if there is none."""
    storage, folder = checkpoint.storage, checkpoint.root / "moving"
    storage.delete_folder(checkpoint.root / "moving.tmp")
    description = folder / _DESCRIPTION
    if storage.exists(description):
        document = unseal(storage, description, what="move of a source directory", kind="move")
        for number, item in enumerate(document["files"]):
            _put(checkpoint, folder / str(number), _Staged(**item))
        for parent in {PurePath(item["path"]).parent for item in document["files"]}:
            storage.sync(checkpoint.location / parent)
        failpoints.hit("move.after")
        moves = [Move(**{**m, "inputs": tuple(m["inputs"])}) for m in document["moves"]]
        _describe(checkpoint, moves)
        storage.delete(description)
    elif any(storage.list(folder)):
        # The last step removes it when all other files have gone to their places.
        evidence = "files of a source directory that is being moved wait for it"
        raise lost_file(description, "move of a source directory,", evidence)
    storage.delete_folder(folder)


def _describe(checkpoint: Checkpoint, moves: Sequence[Move]) -> None:
    stored = checkpoint.open_query({})
    directories = {**stored.get("directories", {}), **{str(m.number): m.new for m in moves}}
    earlier = {k: list(v) for k, v in stored.get("moved", {}).items()}
    for move in moves:
        known = earlier.setdefault(str(move.number), [])
        if move.old not in known:
            known.append(move.old)
    checkpoint.update_query({**stored, "directories": directories, "moved": earlier})


def _put(checkpoint: Checkpoint, source: PurePath, item: _Staged) -> None:
    """Put a rewritten file in its place, unless an earlier start did."""
    storage, target = checkpoint.storage, checkpoint.location / item.path
    path = source if storage.exists(source) else target
    if not storage.exists(path) or checksum(storage.read(path)) != item.crc:
        raise CheckpointError(
            "DAMAGED_FILE",
            f"file '{path}' of a source directory that was moved is damaged or missing",
            hint="restore the checkpoint from a backup, or start with a new checkpointLocation",
            path=path,
        )
    if path is target:
        return
    failpoints.hit("move.file")
    # Hadoop keeps a checksum beside a file, of the old text; without one it checks nothing.
    storage.delete(target.parent / f".{target.name}.crc")
    renaming(storage).rename(source, target)


def _rewritten(checkpoint: Checkpoint, moves: Sequence[Move]) -> Iterator[tuple[PurePath, bytes]]:
    """Files of the checkpoint that speak of the old directories, with their new content."""
    for move in moves:
        for path in log_files(checkpoint.location / "sources" / str(move.number)):
            fresh = moved_log(path, move.old, move.new)
            if fresh is not None:
                yield path, fresh.encode()
    for name in sorted(checkpoint.numbered(checkpoint.intents, ".json")):
        intent = checkpoint.intents / name
        document = unseal(checkpoint.storage, intent, what="intent", kind="intent")
        files = {k: list(v) for k, v in document["files"].items()}
        for move in moves:
            for index in (str(i) for i in move.inputs if str(i) in files):
                files[index] = [_moved_identity(f, move) for f in files[index]]
        if files != document["files"]:
            yield intent, seal({**document, "files": files}, kind="intent")


def _moved_identity(file: list[Any], move: Move) -> list[Any]:
    """A file of an intent in its new place: of the same length, maybe of another time."""
    path = _moved_path(file[0], move)
    if path == file[0]:
        return file
    try:
        return [path, file[1], identity(path)[2], *file[3:]]
    except FileNotFoundError:  # its batch is done, and nobody needs it any more
        return [path, *file[1:]]


def _moved_path(path: str, move: Move) -> str:
    root = move.old.rstrip("/") + "/"
    return os.path.join(move.new, path[len(root) :]) if path.startswith(root) else path


def _check_pending(checkpoint: Checkpoint, move: Move) -> None:
    """The files of a batch that will be repeated must be in the new directory, whole."""
    done = max(manifests.committed(checkpoint), default=-1)
    pending = [b for b in manifests.intended(checkpoint) if b > done]
    for batch in pending:
        intent = manifests.read_intent(checkpoint, batch)
        for index in move.inputs:
            for before in intent.files.get(str(index), []) if intent is not None else ():
                path = _moved_path(before[0], move)
                size = identity(path)[1] if os.path.exists(path) else None
                if size != before[1]:
                    state = "is not there" if size is None else f"has {size} bytes"
                    raise CheckpointError(
                        "INPUT_CHANGED",
                        f"batch {batch} is to be repeated with '{before[0]}' of {before[1]} bytes, moved to "
                        f"'{move.new}': '{path}' {state}",
                        hint="move all files of the directory, unchanged, and start again",
                        path=path,
                    )


# ---- what a start says of its directories ----
@dataclass(frozen=True)
class OpenedSource:
    """What a start says of one file source: where it reads, and where its directory was before."""

    number: int
    inputs: tuple[int, ...]
    streams: str
    directory: str
    moved_from: str | None = None
    pattern: bool = False


def open_directories(checkpoint: Checkpoint, sources: Sequence[OpenedSource]) -> None:
    """Compare the directories of a start with those that the checkpoint has read, and take what moved.

    A move that an earlier start began must be finished (`resume`).
    """
    stored = checkpoint.open_query({})
    directories = dict(stored.get("directories", {}))
    earlier = {k: list(v) for k, v in stored.get("moved", {}).items()}
    moves = []
    for r in sources:
        key = str(r.number)
        known = directories.get(key)
        if known is None:
            known = directories[key] = _first_directory(checkpoint, r)
            if r.moved_from is not None and r.moved_from not in (known, r.directory):
                earlier.setdefault(key, []).append(r.moved_from)
        if known == r.directory:
            if r.moved_from not in (None, known, *earlier.get(key, [])):
                raise _not_from(checkpoint, r, known)
        elif r.moved_from is None:
            raise _elsewhere(checkpoint, r, known)
        elif r.moved_from != known:
            raise _not_from(checkpoint, r, known)
        else:
            _check_left(r)
            moves.append(Move(r.number, r.inputs, known, r.directory))
    if moves:
        take(checkpoint, moves)
        stored = checkpoint.open_query({})
        directories = {**directories, **stored["directories"]}
        earlier = {**earlier, **stored["moved"]}
    fresh = {**stored, "directories": directories, "moved": earlier}
    if fresh != {"directories": {}, "moved": {}, **stored}:
        checkpoint.update_query(fresh)


def _first_directory(checkpoint: Checkpoint, reading: OpenedSource) -> str:
    """The directory that a checkpoint has read whose description does not know it: the log tells."""
    if reading.pattern:
        return reading.directory
    folder = checkpoint.location / "sources" / str(reading.number)
    other = next(strays(folder, reading.directory), None)
    if other is None:
        return reading.directory
    if reading.moved_from is None:
        raise _elsewhere(checkpoint, reading, os.path.dirname(readable(other)))
    other = next(strays(folder, reading.moved_from), None)
    if other is not None:
        raise _not_from(checkpoint, reading, os.path.dirname(readable(other)))
    return reading.moved_from


def _elsewhere(checkpoint: Checkpoint, reading: OpenedSource, known: str) -> CheckpointError:
    way = (
        f'if the files were moved, say so: sw.stream(..., movedFrom="{known}"); '
        if not reading.pattern
        else ""
    )
    return CheckpointError(
        "SOURCE_MOVED",
        f"stream {reading.streams} reads '{reading.directory}', but the query on checkpoint "
        f"'{checkpoint.location}' has read '{known}'",
        hint=f"{way}to read another input use a new checkpointLocation",
        directory=reading.directory,
        stored=known,
    )


def _not_from(checkpoint: Checkpoint, reading: OpenedSource, known: str) -> CheckpointError:
    return CheckpointError(
        "NOT_MOVED_FROM",
        f"movedFrom='{reading.moved_from}' of stream {reading.streams}: the query on checkpoint "
        f"'{checkpoint.location}' has read '{known}' and would now read '{reading.directory}'",
        hint=f'give the directory that it has read, movedFrom="{known}", or leave movedFrom out',
        moved_from=reading.moved_from,
        stored=known,
        directory=reading.directory,
    )


def _check_left(reading: OpenedSource) -> None:
    """A file that is still in the old directory would never be read, and nobody would know."""
    old, new = str(reading.moved_from), reading.directory
    if not os.path.isdir(old) or (os.path.isdir(new) and os.path.samefile(old, new)):
        return
    for folder, names, files in os.walk(old):
        names[:] = [n for n in names if _visible(n) and os.path.join(folder, n).rstrip("/") != new]
        left = next((n for n in sorted(files) if _visible(n)), None)
        if left is not None:
            raise CheckpointError(
                "NOT_MOVED",
                f"stream {reading.streams} was moved from '{old}' to '{new}', but "
                f"'{os.path.join(folder, left)}' is still there, and would not be read",
                hint="move all files; if the new directory is a copy, remove or rename the old one; if they are "
                "two inputs, use a new checkpointLocation",
                path=os.path.join(folder, left),
            )


def _visible(name: str) -> bool:
    return not name.startswith((".", "_"))
