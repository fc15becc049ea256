"""What a kernel is handed of the blocks that an executor keeps: bytes of state files that need not be read again.

State files are written once and never changed, so a place in a file names its content for ever. Nothing depends on what is
kept: whoever asks for a block that is not there reads it from its file. The engine keeps them (`engine/store/kept.py`).
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import pyarrow as pa


class Located(NamedTuple):
    """Where bytes of a state file are, and their checksum (CRC-32)."""

    run: str
    offset: int
    length: int
    crc: int


class Kept(Protocol):
    """Blocks that workers of this executor keep for one owner."""

    def get(self, at: Located) -> pa.Buffer | None:
        """The bytes of a block, mapped and not copied; None if they are not kept."""
        ...

    def put(self, at: Located, data: pa.Buffer) -> None:
        """Keep a block whose bytes were read or written just now. One that does not have its checksum is not kept."""
        ...

    def drop(self, at: Located) -> None:
        """Keep a block no longer, if it was kept."""
        ...
