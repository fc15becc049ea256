"""Result files that stay in the checkpoint, and the list of them.

The files of a memory sink are its results for ever, longer than any manifest that named them. So a sealed list names
each with its checksum. A file that is gone, changed, or not on the list is refused when the sink is opened; only the batch that is being
published may have files in either place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from slackwater.engine.store.files import damaged, file_checksum, lost_file, seal, unseal
from slackwater.engine.store.manifest import Manifest, OutputFile
from slackwater.engine.store.storage import Folder

WHAT = "result file"
Sums = Mapping[str, tuple[int, int]]
"""Length and checksum by name."""


class KeptFiles:
    """The files in a folder, with ``files.json`` beside it."""

    def __init__(self, folder: Folder):
        self.storage = folder.storage
        self.folder = folder.path
        self.list = folder.path.parent / "files.json"

    def check(self, manifests: Sequence[Manifest], publishing: Iterable[str]) -> None:
        """Compare the folder with the list; ``publishing`` are names that may be in either place.

        ``manifests`` tell whether a list must be there: older versions wrote none, and left no query's id in them.
        """
        names = self.storage.list(self.folder).files
        present = {n: self.folder / n for n in names if n.endswith(".parquet")}
        if not self.storage.exists(self.list):
            if present and any(m.query for m in manifests):
                raise lost_file(self.list, "list of results,", f"it names {len(present)} files")
            self._write({n: file_checksum(self.storage, path) for n, path in present.items()})
            return
        listed = self._read()
        pending = set(publishing)
        for name in sorted({*listed, *present} - pending):
            path = self.folder / name
            if name not in present:
                raise lost_file(path, f"{WHAT},", f"'{self.list.name}' names it")
            if name not in listed:
                raise damaged(self.list, "list of results", f"it does not name '{name}'")
            if file_checksum(self.storage, path) != tuple(listed[name]):
                raise damaged(path, WHAT, f"it is not what '{self.list.name}' says of it")

    def add(self, files: Sequence[OutputFile]) -> None:
        """Put files that are in the folder now onto the list."""
        sums = {f.name: (f.bytes, f.crc) for f in files if f.crc is not None}
        old = [f.name for f in files if f.crc is None]
        summed = {n: file_checksum(self.storage, self.folder / n) for n in old}
        self._write({**self._read(), **sums, **summed})

    def _read(self) -> Sums:
        if not self.storage.exists(self.list):
            return {}
        document = unseal(self.storage, self.list, what="list of results", kind="files")
        return {name: (size, crc) for name, (size, crc) in document["files"].items()}

    def _write(self, sums: Sums) -> None:
        data = seal({"files": {n: list(s) for n, s in sums.items()}}, kind="files")
        self.storage.write(self.list, data)
