"""Result files that stay in the checkpoint, and the list of them.

The files of a memory sink are its results for ever, longer than any manifest that named them. So a sealed list names
each with its checksum. A file that is gone, changed, or not on the list is refused when the sink is opened; only the batch that is being
published may have files in either place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from slackwater.engine.store.files import (
    Rights,
    damaged,
    file_checksum,
    lost_file,
    seal,
    unseal,
    write_replace,
)
from slackwater.engine.store.manifest import Manifest, OutputFile

WHAT = "result file"
Sums = Mapping[str, tuple[int, int]]
"""Length and checksum by name."""


class KeptFiles:
    """The files in a folder, with ``files.json`` beside it."""

    def __init__(self, folder: Path, rights: Rights):
        self.folder = folder
        self.rights = rights
        self.list = folder.parent / "files.json"

    def check(self, manifests: Sequence[Manifest], publishing: Iterable[str]) -> None:
        """Compare the folder with the list; ``publishing`` are names that may be in either place.

        ``manifests`` tell whether a list must be there: older versions wrote none, and left no query's id in them.
        """
        present = {p.name: p for p in self.folder.glob("*.parquet")}
        if not self.list.exists():
            if present and any(m.query for m in manifests):
                raise lost_file(self.list, "list of results,", f"it names {len(present)} files")
            self._write({name: file_checksum(path) for name, path in present.items()})
            return
        listed = self._read()
        pending = set(publishing)
        for name in sorted({*listed, *present} - pending):
            path = self.folder / name
            if name not in present:
                raise lost_file(path, f"{WHAT},", f"'{self.list.name}' names it")
            if name not in listed:
                raise damaged(self.list, "list of results", f"it does not name '{name}'")
            if file_checksum(path) != tuple(listed[name]):
                raise damaged(path, WHAT, f"it is not what '{self.list.name}' says of it")

    def add(self, files: Sequence[OutputFile]) -> None:
        """Put files that are in the folder now onto the list."""
        sums = {f.name: (f.bytes, f.crc) for f in files if f.crc is not None}
        old = {f.name: file_checksum(self.folder / f.name) for f in files if f.crc is None}
        self._write({**self._read(), **sums, **old})

    def _read(self) -> Sums:
        if not self.list.exists():
            return {}
        found = unseal(self.list, what="list of results", kind="files")
        return {name: (size, crc) for name, (size, crc) in found["files"].items()}

    def _write(self, sums: Sums) -> None:
        data = seal({"files": {n: list(s) for n, s in sums.items()}}, kind="files")
        write_replace(self.list, data, self.rights)
