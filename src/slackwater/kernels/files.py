"""What a kernel is handed of a storage: a folder whose files are read by ranges and written piece by piece.

The kernels open no file themselves. Which storage it is, and with what rights files are made, is the engine's matter
(`engine/store/storage.py`).
"""

from __future__ import annotations

from pathlib import PurePath
from typing import Any, Protocol


class Reader(Protocol):
    """An open file. Nothing but what is asked for is read."""

    def read(self, start: int = 0, length: int | None = None) -> bytes:
        """The bytes from ``start`` on, up to the end by default; fewer than ``length`` if the file ends there."""
        ...

    def close(self) -> None:
        """Let go of the file."""
        ...


class Writer(Protocol):
    """A file that is being written. Arrow takes it for a file object. ``size`` and ``crc`` (CRC-32) are of what is written so far."""

    size: int
    crc: int

    def write(self, data: Any) -> int:
        """Add bytes; how many."""
        ...

    def flush(self) -> None:
        """Let readers of the file see what is written so far."""
        ...

    def close(self) -> None:
        """End the file, and wait until it is durable."""
        ...

    def abandon(self) -> None:
        """Remove the file, which is worth nothing; no error if that fails."""
        ...


class Files(Protocol):
    """A folder of files; its ``path`` is for errors."""

    @property
    def path(self) -> PurePath:
        """Where the files are."""
        ...

    def reader(self, name: str) -> Reader:
        """Open a file, or raise FileNotFoundError."""
        ...

    def writer(self, name: str) -> Writer:
        """Begin a file, or raise FileExistsError."""
        ...
