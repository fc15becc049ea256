"""The local file system as a `Storage`: the only module of the engine and the sinks that touches a file of theirs."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import zlib
from dataclasses import dataclass
from pathlib import Path, PurePath
from types import TracebackType
from typing import Any

from slackwater.engine.store import failpoints
from slackwater.engine.store.storage import Listing, Locks, LockTaken, Renames, Status, Storage
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

_NOTHING = (FileNotFoundError, NotADirectoryError)


@dataclass(frozen=True)
class LocalStorage(Storage, Renames, Locks):
    """Files of this machine. ``rights`` are those of files and folders that are made."""

    rights: Rights = OWNER

    def reader(self, path: PurePath) -> LocalReader:
        return LocalReader(path)

    def status(self, path: PurePath) -> Status | None:
        try:
            status = os.stat(path)
        except _NOTHING:
            return None
        return Status(status.st_size, status.st_mtime_ns // 1_000)

    def list(self, folder: PurePath) -> Listing:
        names = Listing([], [])
        with contextlib.suppress(*_NOTHING), os.scandir(folder) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):  # a link that leads to itself is neither
                    if entry.is_file():
                        names.files.append(entry.name)
                    elif entry.is_dir():
                        names.folders.append(entry.name)
        return names

    def write(self, path: PurePath, data: bytes) -> None:
        temp = self._temporary(path, data)
        os.replace(temp, path)
        self.sync(path.parent)

    def write_new(self, path: PurePath, data: bytes) -> None:
        # The commit is a hard link, which fails when the name is taken: two writers cannot both win.
        temp = self._temporary(path, data)
        try:
            os.link(temp, path)
        finally:
            self.delete(temp)
        self.sync(path.parent)

    def _temporary(self, path: PurePath, data: bytes) -> PurePath:
        """The data, durable, under a name that no other process can have."""
        temp = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}.tmp")
        with room_for(f"file '{temp.name}'", path.parent, len(data)), self.writer(temp) as out:
            failpoints.hit("disk.checkpoint")
            out.write(data)
        return temp

    def writer(self, path: PurePath) -> LocalWriter:
        return LocalWriter(path, self.rights)

    def append(self, path: PurePath, data: bytes) -> None:
        with open(path, "ab", opener=self._opened) as out:
            out.write(data)

    def _opened(self, path: str, flags: int) -> int:
        return os.open(path, flags, self.rights.file)

    def make_folder(self, folder: PurePath, *, outside: bool = False) -> None:
        if os.path.isdir(folder):
            return
        self.make_folder(folder.parent, outside=outside)
        with room_for(f"folder '{folder.name}'", folder.parent, 0):
            Path(folder).mkdir((UMASK if outside else self.rights).folder, exist_ok=True)

    def sync(self, folder: PurePath) -> None:
        fd = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def delete(self, path: PurePath) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)

    def delete_folder(self, folder: PurePath) -> None:
        shutil.rmtree(folder, ignore_errors=True)

    def rename(self, source: PurePath, target: PurePath) -> None:
        os.replace(source, target)

    def lock(self, path: PurePath, holder: str) -> LocalLock:
        fd = self._opened(str(path), os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            other = os.pread(fd, 200, 0).decode(errors="replace").strip()
            os.close(fd)
            raise LockTaken(other or "another process") from None
        os.ftruncate(fd, 0)
        os.pwrite(fd, holder.encode(), 0)
        return LocalLock(fd)

    def holder(self, path: PurePath) -> tuple[bool | None, str]:
        """Whether a process holds the lock of a file, and the holder's name in it; None if that cannot be seen.

        The lock is not touched: whoever tries it for a moment could keep a query from its start.
        """
        try:
            with open(path, "rb") as file:
                name = file.read(200).decode(errors="replace").strip()
                inode = os.fstat(file.fileno()).st_ino
        except _NOTHING:
            return False, ""
        try:
            with open("/proc/locks", encoding="ascii") as locks:
                held = [line.split() for line in locks]
        except OSError:
            return None, name
        return any(x[1] == "FLOCK" and x[5].rpartition(":")[2] == str(inode) for x in held), name


PRIVATE = LocalStorage(OWNER)
"""For checkpoints, unless the user says otherwise."""

OUTPUT = LocalStorage(UMASK)
"""For the directories of sinks."""


class LocalReader:
    """An open file."""

    def __init__(self, path: PurePath):
        # Without a buffer, which would read ahead, and fetch more than is asked for.
        self._file = open(path, "rb", buffering=0)  # noqa: SIM115

    def read(self, start: int = 0, length: int | None = None) -> bytes:
        fd = self._file.fileno()
        end = os.fstat(fd).st_size if length is None else start + length
        data = b""
        # The system gives up to 2 GiB at a time.
        while start + len(data) < end and (
            more := os.pread(fd, end - start - len(data), start + len(data))
        ):
            data = data + more if data else more
        return data

    def close(self) -> None:
        self._file.close()


class LocalWriter:
    """A file that is being written; see `Writer`."""

    closed = False

    def __init__(self, path: PurePath, rights: Rights):
        self._path = path
        self._file = open(  # noqa: SIM115 (closed by `close` or `abandon`)
            path, "xb", opener=lambda name, flags: os.open(name, flags, rights.file)
        )
        self.size = 0
        self.crc = 0

    def write(self, data: Any) -> int:
        self.size += len(data)
        self.crc = zlib.crc32(data, self.crc)
        return self._file.write(data)

    def flush(self) -> None:
        self._file.flush()

    def tell(self) -> int:
        """Where the next byte goes: Arrow asks."""
        return self.size

    def close(self) -> None:
        if not self.closed:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            self.closed = True

    def abandon(self) -> None:
        self.closed = True
        # A full disk fails again here, and must not hide the error that came first.
        with contextlib.suppress(OSError):
            self._file.close()
        with contextlib.suppress(OSError):
            os.unlink(self._path)

    def __enter__(self) -> LocalWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            self.abandon()
            return
        try:
            self.close()
        except BaseException:
            self.abandon()
            raise


class LocalLock:
    """A lock that the system takes back when the process ends."""

    def __init__(self, fd: int):
        self._fd = fd

    def release(self) -> None:
        with contextlib.suppress(OSError):
            os.close(self._fd)
