"""A full disk, as an error with a way out: which directory, and how large the write was."""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from slackwater.errors import ExecutionError

_FULL = (errno.ENOSPC, errno.EDQUOT)
# What the column engine says when it cannot spill; by default it leaves a tenth of the disk free.
_SPILL = re.compile(r"No space left on device|Disk quota exceeded|max_temp_directory_size")
_SPILL_SIZE = re.compile(r"block of size (?P<amount>[\d.]+ \w+)|wanted=(?P<bytes>\d+)")


@contextmanager
def room_for(what: str, folder: str | os.PathLike[str], size: int) -> Iterator[None]:
    """Name the directory and the size of the write if the disk is full in here."""
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL:
            raise
        raise disk_full(what, folder, f"{size} bytes", error.errno) from error


def disk_full(
    what: str, folder: str | os.PathLike[str], size: str, number: int = errno.ENOSPC
) -> ExecutionError:
    """The error of a write of ``size`` to a directory whose disk is full."""
    quota = number == errno.EDQUOT
    return ExecutionError(
        "DISK_FULL",
        f"there is no room for {what} ({size}) in '{os.fspath(folder)}': "
        + ("the user's quota is used up" if quota else f"{_free(folder)} bytes are free there"),
        hint="make room there and start the query again on its checkpoint: it goes on with this batch, nothing is "
        "lost and nothing comes twice",
        directory=os.fspath(folder),
        size=size,
    )


def spill_error(text: str, folder: str) -> ExecutionError | None:
    """What the column engine said when it found no room to spill; None if it said something else."""
    if not _SPILL.search(text):
        return None
    size = _SPILL_SIZE.search(text)
    amount = "an amount that it does not tell"
    if size is not None:
        amount = size["amount"] or f"{size['bytes']} bytes"
    return disk_full("what a task holds beyond its memory", folder, amount)


def _free(folder: str | os.PathLike[str]) -> int | str:
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return "an unknown number of"
