"""What Slackwater does to the files of a checkpoint or of a file sink: the one interface to whatever holds them.

`LocalStorage` is a file system. The operations are those that an object store has as well: objects are put whole, the
put of a name that is taken can be refused, a listing goes by prefix, and folders cost nothing. Two things only a file system has, so
they stand apart and are asked for: `Renames` and `Locks`.

Not its matter: input files, and what Spark reads and writes itself (its logs in the checkpoint, its writers).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from pathlib import PurePath
from typing import NamedTuple, Protocol

from slackwater.errors import SetupError
from slackwater.kernels.files import Reader, Writer


class Status(NamedTuple):
    """What is known of a file unread: its length, and when it was changed last, in microseconds since the epoch."""

    size: int
    changed: int


class Listing(NamedTuple):
    """Names of what lies directly in a folder, in no order."""

    files: list[str]
    folders: list[str]


class NewFile(Writer, AbstractContextManager["NewFile"], Protocol):
    """A `Writer` that closes the file at the end of its context, and abandons it upon an error."""


class Storage(ABC):
    """Files under absolute paths. It holds no open file, and goes to tasks by pickle.

    Each operation is told by what survives a crash. *Durable*: from its return on.
    """

    # ---- reading ----
    @abstractmethod
    def reader(self, path: PurePath) -> Reader:
        """A file to be read by ranges; FileNotFoundError if there is none."""

    @abstractmethod
    def status(self, path: PurePath) -> Status | None:
        """Length and time of a file (or a folder); None if there is none."""

    @abstractmethod
    def list(self, folder: PurePath) -> Listing:
        """What lies in a folder; nothing if there is no such folder."""

    def read(self, path: PurePath) -> bytes:
        """A whole file; FileNotFoundError if there is none."""
        with closing(self.reader(path)) as file:
            return file.read()

    def exists(self, path: PurePath) -> bool:
        """Whether there is a file (or a folder) of this name."""
        return self.status(path) is not None

    # ---- writing ----
    @abstractmethod
    def write(self, path: PurePath, data: bytes) -> None:
        """Put a whole file, durable. It replaces an older one at once: nobody ever sees a part of it."""

    @abstractmethod
    def write_new(self, path: PurePath, data: bytes) -> None:
        """Put a whole file, durable, or raise FileExistsError if the name is taken: of two writers one wins."""

    @abstractmethod
    def writer(self, path: PurePath) -> NewFile:
        """A file that is written piece by piece, under a name that nobody else uses. Its bytes are durable once it is closed,
        its name after `sync`; until then a part of it may be seen. FileExistsError if the name is taken.
        """

    @abstractmethod
    def append(self, path: PurePath, data: bytes) -> None:
        """Add bytes to a file, which is made if there is none. Not durable, but for the name after `sync`."""

    # ---- folders and names ----
    @abstractmethod
    def make_folder(self, folder: PurePath, *, outside: bool = False) -> None:
        """Make a folder and those above it, where they are missing; nothing in a store without folders.

        ``outside``: it is none of ours, but has one of ours in it.
        """

    @abstractmethod
    def sync(self, folder: PurePath) -> None:
        """Make the names in a folder durable; nothing in a store where a put is durable with its name."""

    @abstractmethod
    def delete(self, path: PurePath) -> None:
        """Remove a file, if there is one."""

    @abstractmethod
    def delete_folder(self, folder: PurePath) -> None:
        """Remove a folder with all that is in it, as far as that is possible."""


class Renames(ABC):
    """A storage in which a file or a folder gets another name in one step."""

    @abstractmethod
    def rename(self, source: PurePath, target: PurePath) -> None:
        """Give a file or folder another name, replacing a file that has it; FileNotFoundError if there is no source."""


class Lock(Protocol):
    """Held by one process until it is released, or the process ends."""

    def release(self) -> None:
        """Give it back."""
        ...


class LockTaken(Exception):
    """Another holds the lock; the text says who."""


class Locks(ABC):
    """A storage that can tell whether the holder of a lock still lives."""

    @abstractmethod
    def lock(self, path: PurePath, holder: str) -> Lock:
        """Take the lock that a file stands for and write the holder's name into it, or raise `LockTaken`."""


def renaming(storage: Storage) -> Renames:
    """A storage that can rename, or an error."""
    if isinstance(storage, Renames):
        return storage
    raise SetupError(
        "NO_RENAME",
        f"{type(storage).__name__} cannot rename files, and this needs it",
        hint="use a directory on a file system",
    )


@dataclass(frozen=True)
class Folder:
    """A folder of a storage: what is handed to whoever needs no other, as `kernels.files.Files` to a kernel."""

    storage: Storage
    path: PurePath

    def files(self) -> list[str]:
        """Names of the files in it."""
        return self.storage.list(self.path).files

    def read(self, name: str) -> bytes:
        """A whole file."""
        return self.storage.read(self.path / name)

    def reader(self, name: str) -> Reader:
        """A file to be read by ranges."""
        return self.storage.reader(self.path / name)

    def writer(self, name: str) -> NewFile:
        """A new file, written piece by piece."""
        return self.storage.writer(self.path / name)


def below(storage: Storage, folder: PurePath) -> list[PurePath]:
    """All files in a folder and the folders in it."""
    names = storage.list(folder)
    deeper = [p for name in names.folders for p in below(storage, folder / name)]
    return [*(folder / name for name in names.files), *deeper]
