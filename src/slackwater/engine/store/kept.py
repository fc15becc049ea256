"""Blocks of state that an executor keeps between batches, as files that its Python workers map.

It does not matter which worker gets a task: all of them map the same files, whose pages the system shares. The files lie in a
directory of the executor, among Spark's own, for the owner alone:

    SPARK_LOCAL_DIRS/slackwater-kept/QUERY/OPERATOR/RUN@OFFSET

A block is known by its place in a state file, not by its group, so that a change of groups costs nothing. State files are never
changed, so what is kept is never out of date.

Guarantees: a block that comes out is the one that went in, or none comes out. Each owner sets a limit in bytes, beyond which the blocks
that came first go. Nothing is promised about what is there: files may vanish at any time, and a full disk keeps none.

What is removed, besides what its owner drops: in each batch the blocks that no group of the operator wants any more (those of
a task that failed, say), and files that a dead worker left half written; now and then the blocks of queries and of executors that
have long not been used. Spark removes the directory when the executor ends, and a query that ends removes its own.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import mmap
import os
import shutil
import struct
import zlib
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from slackwater.engine.clock import wall_micros
from slackwater.kernels.kept import Located

FOLDER = "slackwater-kept"
LOCAL_DIRS = "SPARK_LOCAL_DIRS"
"""Where Spark tells its workers the directories of their executor; the first that can be used is taken."""

UNUSED_SECONDS = 3600
"""Blocks of a query or an executor that nobody has used for so long are removed by others."""

HALF_WRITTEN_SECONDS = 600
"""A file with a temporary name that is older than this belongs to a worker that died."""

_LOCK = ".lock"
_TURN = ".turn"
_USED = ".used"
_NUMBER = ".number"
_NOTE_BYTES = 64
_TEMPORARY = ".new-"
_FOLDER_RIGHTS = 0o700

_held: tuple[int, str, int] | None = None
"""Process, directory and descriptor of the lock that says that the directory is in use."""


class _Seal(NamedTuple):
    """The last bytes of each file. ``total`` is a sum over the block's words: a mapped block is checked by it, which is five
    times as fast as its CRC.
    """

    magic: bytes
    crc: int
    length: int
    total: int

    @classmethod
    def of(cls, data: pa.Buffer, crc: int) -> _Seal:
        return cls(_MAGIC, crc, data.size, _total(data))


_MAGIC = b"swk1"
_SEAL = struct.Struct("<4sIQQ")


_checked: dict[str, tuple[int, int, int]] = {}
"""Files that this process has found whole, which it need not read through again as long as they are the same."""

MOST_CHECKED = 1 << 16


def _mapped(path: str) -> tuple[pa.Buffer, tuple[int, int, int]]:
    """A file, mapped, and what tells it from others of its name: both are of one descriptor, so of one file.

    A batch maps hundreds; Arrow's own way to map a file takes four times as long.
    """
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        status = os.fstat(file)
        whole = mmap.mmap(file, status.st_size, prot=mmap.PROT_READ)
    finally:
        os.close(file)
    return pa.py_buffer(whole), (status.st_ino, status.st_mtime_ns, status.st_size)


def _remember(path: str, status: tuple[int, int, int]) -> None:
    if len(_checked) >= MOST_CHECKED:
        _checked.clear()
    _checked[path] = status


def _total(data: pa.Buffer) -> int:
    words = data.size // 8 * 8
    rest = int.from_bytes(memoryview(data)[words:], "little")
    whole = int(np.frombuffer(data, dtype=np.uint64, count=words // 8).sum(dtype=np.uint64))
    return (whole + rest) % (1 << 64)


class KeptFiles:
    """The blocks of one owner in this executor; see `kernels.kept.Kept`."""

    def __init__(self, folder: Path, limit: int):
        self._folder = folder
        self._limit = limit
        self._size: int | None = None

    def get(self, at: Located) -> pa.Buffer | None:
        path = self._path(at)
        try:
            with pa.memory_map(str(path)) as file:
                whole = file.read_buffer()
        except (OSError, pa.ArrowInvalid):  # an empty file cannot be mapped
            return None
        if whole.size == at.length + _SEAL.size:
            data = whole.slice(0, at.length)
            if _Seal(*_SEAL.unpack(whole.slice(at.length))) == _Seal.of(data, at.crc):
                return data
        _remove(path)
        return None

    def put(self, at: Located, data: pa.Buffer) -> None:
        if data.size == at.length and zlib.crc32(data) == at.crc:
            self._put(at, data)

    def _put(self, at: Located, data: pa.Buffer) -> None:
        size = kept_size(at.length)
        if size > self._limit:
            return
        temporary = self._folder / f"{_TEMPORARY}{os.getpid()}-{os.urandom(4).hex()}"
        try:
            self._make_room(size)
            with open(temporary, "xb", opener=_private) as out:
                out.write(data)
                out.write(_SEAL.pack(*_Seal.of(data, at.crc)))
            os.replace(temporary, self._path(at))
        except OSError:
            # A full disk, or somebody removed the folder: then the block is read when it is needed.
            _remove(temporary)

    def find(self, name: str) -> pa.Buffer | None:
        """What `keep` put under a name; None if it is not kept. Whoever names it says by the name what it must be."""
        path = f"{self._folder}/{name}@0"
        try:
            whole, status = _mapped(path)
        except (OSError, ValueError):  # an empty file cannot be mapped
            return None
        if whole.size >= _SEAL.size:
            data = whole.slice(0, whole.size - _SEAL.size)
            if _checked.get(path) == status:
                return data
            seal = _Seal(*_SEAL.unpack(whole.slice(data.size)))
            if seal == _Seal.of(data, seal.crc):
                _remember(path, status)
                return data
        _remove(Path(path))
        return None

    def keep(self, name: str, data: pa.Buffer) -> None:
        """Keep bytes under a name that never means others."""
        self._put(Located(name, 0, data.size, zlib.crc32(data)), data)

    def keep_in_room(
        self, name: str, data: pa.Buffer, may_go: Callable[[str], bool] | None = None
    ) -> bool:
        """Keep bytes under a name, unless there is no room: then nothing goes for them but what ``may_go``. Whether they are kept.

        Workers that keep at the same time take turns, so that never more is kept than the limit. There is no room either where
        more would be kept than is left free of the disk.
        """
        place = Located(name, 0, data.size, zlib.crc32(data))
        size = kept_size(data.size)
        try:
            with self._alone():
                if self._path(place).exists():
                    return True
                used = self._used()
                most = min(self._limit, shutil.disk_usage(self._folder).free - size) - size
                if used > most and may_go is not None:
                    used -= self._let_go(used - most, may_go)
                if used > most:
                    return False
                # Said before it is written: what is half written counts.
                _say(self._folder / _USED, used + size)
                self._size = used
                self._put(place, data)
                return True
        except OSError:
            return False

    def _let_go(self, size: int, may_go: Callable[[str], bool]) -> int:
        """Remove blocks that may go, so many bytes of them if there are; how many that were."""
        gone = 0
        for entry in _entries(self._folder):
            place = _place(entry.name)
            if gone < size and place is not None and may_go(place[0]):
                with contextlib.suppress(OSError):
                    length = entry.stat().st_size
                    os.unlink(entry.path)
                    gone += length
        return gone

    def has_room(self, length: int) -> bool:
        """Whether a block of so many bytes might be kept now."""
        try:
            return self._used() + kept_size(length) <= self._limit
        except OSError:
            return False

    def number(self, turn: str) -> int:
        """How many of the batch asked for a number before; 0 if that is not known."""
        path = self._folder / _NUMBER
        try:
            with self._alone():
                known, _, text = _text(path).strip().rpartition(" ")
                number = int(text) if known == turn else 0
                _say(path, f"{turn} {number + 1}")
                return number
        except (OSError, ValueError):
            return 0

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        with open(self._folder / _LOCK, "a", opener=_private) as turn:
            fcntl.flock(turn, fcntl.LOCK_EX)
            yield

    def _used(self) -> int:
        """The bytes that are kept, or more: what vanished meanwhile is counted until the next batch."""
        text = _text(self._folder / _USED).strip()
        if text.isdigit():
            return int(text)
        used = 0
        for entry in _entries(self._folder):
            # What a dead worker left half written counts as well.
            if _place(entry.name) or entry.name.startswith(_TEMPORARY):
                with contextlib.suppress(FileNotFoundError):
                    used += entry.stat().st_size
        return used

    def drop(self, at: Located) -> None:
        _remove(self._path(at))

    def begin(self, turn: str, wanted: Callable[[], Callable[[str, int], bool]]) -> None:
        """A task of a batch begins. The first one of a ``turn`` in this executor removes what is no longer wanted.

        ``wanted()`` gives the test: whether the block of a run at an offset is still of use to any group.
        """
        with contextlib.suppress(OSError):
            for folder in (self._folder.parent, self._folder):
                folder.mkdir(_FOLDER_RIGHTS, exist_ok=True)
            mark = self._folder / _TURN
            if _text(mark) == turn:
                return
            # Two tasks may both be the first: they remove the same.
            with open(mark, "w", opener=_private) as out:
                out.write(turn)
            test = wanted()
            for entry in _entries(self._folder):
                place = _place(entry.name)
                useless = _is_left(entry) if place is None else not test(*place)
                if useless:
                    _remove(Path(entry.path))
            with self._alone():
                _remove(self._folder / _USED)
                _say(self._folder / _USED, self._used())

    def _path(self, at: Located) -> Path:
        return self._folder / f"{at.run}@{at.offset}"

    def _make_room(self, size: int) -> None:
        """Let the blocks go that came first, until one more fits. Tasks that run at the same time are seen when it gets tight."""
        if self._size is None or self._size + size > self._limit:
            blocks = []
            for entry in _entries(self._folder):
                # Another worker may drop a block meanwhile: that is no reason to keep none.
                with contextlib.suppress(FileNotFoundError):
                    if _place(entry.name):
                        blocks.append((entry.stat(), entry.path))
            blocks.sort(key=lambda b: b[0].st_mtime_ns)
            self._size = sum(status.st_size for status, _ in blocks)
            while blocks and self._size + size > self._limit:
                status, path = blocks.pop(0)
                _remove(Path(path))
                self._size -= status.st_size
        self._size += size


def kept_size(length: int) -> int:
    """What a block of ``length`` bytes takes on disk."""
    return length + _SEAL.size


def kept_files(query: str, owner: str, limit: int) -> KeptFiles | None:
    """What this executor keeps for an owner, an operator of a query say, in ``limit`` bytes; None if this process is no worker of Spark.

    ``query`` is the path of its checkpoint.
    """
    home = _home()
    return None if home is None else KeptFiles(home / _query_name(query) / owner, limit)


def forget(query: str) -> None:
    """Remove what this executor keeps for a query."""
    home = _home()
    if home is not None:
        shutil.rmtree(home / _query_name(query), ignore_errors=True)


def _query_name(path: str) -> str:
    return hashlib.sha256(path.encode()).hexdigest()[:16]


# --- the directory ---------------------------------------------------------------------------------


def _home() -> Path | None:
    """The executor's directory, locked as in use for as long as this process lives."""
    global _held
    for place in filter(None, os.environ.get(LOCAL_DIRS, "").split(",")):
        home = Path(place, FOLDER)
        if _held is not None and _held[:2] == (os.getpid(), str(home)) and os.path.isdir(home):
            return home
        try:
            os.makedirs(place, exist_ok=True)
            home.mkdir(_FOLDER_RIGHTS, exist_ok=True)
            lock = os.open(home / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            continue
        if _held is not None and _held[0] == os.getpid():
            os.close(_held[2])
        _held = (os.getpid(), str(home), lock)
        _sweep(home)
        return home
    return None


def _sweep(home: Path) -> None:
    """Remove what queries of this executor and dead executors of this machine left. Each process does it once."""
    for entry in _entries(home):
        if entry.is_dir(follow_symlinks=False) and _unused(Path(entry.path)):
            shutil.rmtree(entry.path, ignore_errors=True)
    for entry in _entries(home.parent.parent):
        other = Path(entry.path, FOLDER)
        if other == home or not entry.is_dir(follow_symlinks=False):
            continue
        with contextlib.suppress(OSError):
            if other.lstat().st_uid == os.getuid() and _is_dead(other):
                shutil.rmtree(other, ignore_errors=True)


def _is_dead(home: Path) -> bool:
    """Whether no worker uses the directory of another executor, and none did for long: idle ones are ended by Spark."""
    if not _unused(home):
        return False
    lock = os.open(home / _LOCK, os.O_RDWR)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(lock)
    return True


def _unused(folder: Path) -> bool:
    """Whether nothing was made or removed in a folder, or one in it, for long."""
    newest = max(os.stat(inner).st_mtime for inner, _, _ in os.walk(folder))
    return wall_micros() / 1e6 - newest > UNUSED_SECONDS


# --- files -----------------------------------------------------------------------------------------


def _private(name: str, flags: int) -> int:
    return os.open(name, flags, 0o600)


def _place(name: str) -> tuple[str, int] | None:
    """The run and the offset of a kept block; None for other files."""
    run, _, offset = name.rpartition("@")
    return (run, int(offset)) if run and offset.isdigit() else None


def _entries(folder: Path) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            yield from list(entries)
    except OSError:
        return


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except FileNotFoundError:
        return ""


def _say(path: Path, what: object) -> None:
    # In place: some file systems write a file that is cut and written anew to the disk at once.
    note = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        os.write(note, f"{what!s:<{_NOTE_BYTES}}".encode())
    finally:
        os.close(note)


def _is_left(entry: os.DirEntry[str]) -> bool:
    """Whether a dead worker left a file half written."""
    if not entry.name.startswith(_TEMPORARY):
        return False
    try:
        return wall_micros() / 1e6 - entry.stat().st_mtime > HALF_WRITTEN_SECONDS
    except FileNotFoundError:
        return False


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)


def wanted_places(places: Collection[tuple[str, int]], prefix: str) -> Callable[[str, int], bool]:
    """The usual test for `KeptFiles.begin`: blocks at these places, and those of runs that this batch writes."""
    return lambda run, offset: (run, offset) in places or run.startswith(prefix)
