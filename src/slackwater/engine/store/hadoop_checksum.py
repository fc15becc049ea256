"""The checksum files that Hadoop's local file system keeps beside what Spark writes.

``.NAME.crc`` holds the word ``crc`` with a zero byte, the length of a piece as four bytes, and a CRC-32 of each piece.
Other file systems have none; then nothing is checked here.
"""

from __future__ import annotations

import zlib
from pathlib import Path

from slackwater.engine.store.files import damaged

_HEAD = b"crc\0"


def check_sum(path: Path, what: str) -> None:
    """Refuse a file that does not agree with its checksum file, if it has one."""
    sums = path.with_name(f".{path.name}.crc")
    try:
        written = sums.read_bytes()
    except FileNotFoundError:
        return
    data = path.read_bytes()
    size = int.from_bytes(written[4:8], "big")
    if written[:4] == _HEAD and size > 0:
        pieces = (data[i : i + size] for i in range(0, len(data), size))
        if written[8:] == b"".join(zlib.crc32(p).to_bytes(4, "big") for p in pieces):
            return
    raise damaged(path, what, f"it does not agree with its checksum file '{sums.name}'")
