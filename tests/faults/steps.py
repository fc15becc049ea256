"""Counts what a process does to the files below a folder, so that a test can stop it between any two such steps.

A step is a file opened for writing, a write into it, a rename, a link, a removal, a new folder, or a failpoint. What
the process reads and computes lies between two steps, and nothing of it outlives a kill.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from slackwater.engine.store import failpoints
from slackwater.engine.store.local import LocalWriter

CHANGES = {"os.rename", "os.link", "os.remove", "os.mkdir", "os.rmdir", "shutil.rmtree"}
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT


class Steps:
    """Counts from its making on, until another one is made. ``strike`` is called at step ``moment``, if it comes.

    With a ``kind`` the steps of this kind are counted: what is done, and in which part of checkpoint or sinks.
    """

    def __init__(
        self,
        folder: Path,
        moment: int = 0,
        strike: Callable[[], None] = lambda: None,
        kind: str = "",
    ):
        self.folder = str(folder)
        self.moment = moment
        self.strike = strike
        self.kind = kind
        self.kinds: Counter[str] = Counter()
        _watch()
        global _current
        _current = self

    @property
    def count(self) -> int:
        return self.kinds.total()

    def step(self, what: str, path: str = "", half: Callable[[], None] = lambda: None) -> None:
        """One more step; ``half`` does half of it, where it can be halved, before the strike."""
        kind = f"{what} {self._part(path)}" if path else what
        self.kinds[kind] += 1
        number = self.kinds[kind] if self.kind else self.count
        if number == self.moment and self.kind in ("", kind):
            half()
            self.strike()

    def _part(self, path: str) -> str:
        parts = os.path.relpath(path, self.folder).split(os.sep)
        return parts[2] if parts[0] == "checkpoint" and len(parts) > 3 else parts[0]


_current: Steps | None = None
_watched = False


def _watch() -> None:
    """Once in a process: no hook of this kind can be taken back."""
    global _watched
    if _watched:
        return
    _watched = True
    sys.addaudithook(_happened)
    hit, write = failpoints.hit, LocalWriter.write

    def counted_hit(point: str, setting: str | None = None) -> None:
        if _current is not None:
            _current.step(point)
        hit(point, setting)

    def counted_write(self: LocalWriter, data: Any) -> int:
        def half() -> None:
            self._file.write(memoryview(data).cast("B")[: len(data) // 2])
            self._file.flush()

        if _current is not None and str(self._path).startswith(_current.folder):
            _current.step("write", str(self._path), half)
        return write(self, data)

    failpoints.hit = counted_hit
    LocalWriter.write = counted_write  # type: ignore[method-assign]


def _happened(event: str, arguments: tuple[Any, ...]) -> None:
    if _current is None:
        return
    if event == "open":
        path, mode, flags = arguments
        # A file that Python opens through our own function is told twice; the call with a mode is the outer one.
        if mode is not None or not flags & WRITES:
            return
    elif event in CHANGES:
        path = arguments[0]
    else:
        return
    if isinstance(path, (str, os.PathLike)) and os.fspath(path).startswith(_current.folder):
        _current.step(event, os.fspath(path))
