"""Removing what no manifest needs: old manifests with their state runs, and leavings of tasks and drivers.

Guarantees: a file that one of the manifests which stay names is never removed; what a running query leaves behind is
bounded. Named files go with the last manifest that names them. Files that no manifest ever named (a run that was merged in the
batch that wrote it, what a late attempt of a lost task writes) go by a *sweep*, every few batches: all files whose name has a batch
below the newest manifest's and which no kept manifest names. What a batch costs does not depend on how many there were.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePath

from slackwater.engine.clock import wall_micros
from slackwater.engine.store import failpoints
from slackwater.engine.store import manifest as manifests
from slackwater.engine.store.checkpoint import Checkpoint
from slackwater.engine.store.control import remove_done
from slackwater.engine.store.evidence import begun_mark, published_mark
from slackwater.engine.store.feedback_log import remove_taken
from slackwater.engine.store.manifest import Intent, Manifest
from slackwater.engine.store.storage import Folder
from slackwater.engine.store.versions import document
from slackwater.sinks.base import Sink

KEEP_MANIFESTS = 5
SWEEP_EVERY = 8
"""Batches from one sweep to the next: a sweep lists folders."""

YOUNG_MICROS = 600_000_000
"""A file of a driver that died is spared for so long if its batch is not over: a task of it may still run."""

_TASK_FILE = re.compile(r".*-b(\d{8,})-e(\d+)-")
_BATCH_FILE = re.compile(r"(\d+)(\.|$)")


@dataclass(frozen=True)
class _Named:
    """The files that a manifest names: state of groups and tables that all groups share, and outputs by sink."""

    runs: frozenset[str]
    outputs: Mapping[str, frozenset[str]]
    versions: frozenset[str]

    @classmethod
    def by(cls, manifest: Manifest) -> _Named:
        groups = [g for op in manifest.runs.values() for g in op]
        runs = (r.name for part in (*groups, *manifest.tables.values()) for r in part)
        outputs = {n: frozenset(f.name for f in files) for n, files in manifest.outputs.items()}
        return cls(frozenset(runs), outputs, versions_of(manifest))


def versions_of(one: Manifest | Intent) -> frozenset[str]:
    """The lists of relations' versions that a manifest or an intent names, also of those that rows wait for."""
    return frozenset(
        document(name, version)
        for name, taken in one.relations.items()
        for version in (taken.version, *taken.waiting)
    )


class Cleaner:
    """Cleans up after each batch of one loop.

    It remembers what the kept manifests name: they never change, so none is read twice.
    """

    def __init__(self, checkpoint: Checkpoint, sinks: Mapping[str, Sink]):
        self._checkpoint = checkpoint
        self._sinks = sinks
        self._kept: dict[int, _Named] = {}
        self._batches = 0
        for batch in manifests.committed(checkpoint):
            done = manifests.read(checkpoint, batch)
            if done is not None:
                self._kept[batch] = _Named.by(done)

    def started(self) -> None:
        """Remove what earlier drivers left."""
        self._sweep()
        self.sweep_versions()
        now = wall_micros()
        for folder, live in self._folders():
            unnamed = [name for name in folder.files() if name not in live]
            _remove(folder, (n for n in unnamed if self._is_left(folder, n, now)))
        for folder in map(self._folder, self._checkpoint.folders):
            temporary = [n for n in folder.files() if n.startswith(".") and n.endswith(".tmp")]
            _remove(folder, (n for n in temporary if _is_old(folder, n, now)))

    def committed(self, done: Manifest) -> None:
        """Clean up after a batch, of which ``done`` is the manifest."""
        self._kept[done.batch] = _Named.by(done)
        remove_done(self._checkpoint, done)
        remove_taken(self._checkpoint, done)
        old = sorted(self._kept)[:-KEEP_MANIFESTS]
        gone = [self._kept.pop(batch) for batch in old]
        live = [named.runs for named in self._kept.values()]
        for batch, named in zip(old, gone, strict=True):
            self._forget(batch)
            _remove(self._folder(self._checkpoint.runs), named.runs.difference(*live))
        self._batches += 1
        if self._batches % SWEEP_EVERY == 0:
            self._sweep()
        failpoints.hit("gc.after")

    def _forget(self, batch: int) -> None:
        """Manifest first: without its other files it would look like a batch that can be gone back to."""
        c, document = self._checkpoint, f"{batch:012d}.json"
        marks = published_mark(c, batch), begun_mark(c, batch)
        for path in (c.manifests / document, c.intents / document, *marks):
            c.storage.delete(path)

    def _sweep(self) -> None:
        """Remove what belongs to batches that are over and is named by no kept manifest."""
        if not self._kept:
            return
        newest, oldest = max(self._kept), min(self._kept)
        for folder, live in self._folders():
            over = (n for n in folder.files() if n not in live and _task_batch(n) < newest)
            _remove(folder, over)
        for folder in map(self._folder, (self._checkpoint.intents, self._checkpoint.published)):
            # Of manifests that are gone, and of batches that never had one.
            _remove(folder, (name for name in folder.files() if _batch(name) < oldest))
        for sink in self._sinks.values():
            sink.forget(oldest)
        if any(named.versions for named in self._kept.values()):
            self.sweep_versions()

    def sweep_versions(self) -> None:
        """Remove the lists of versions that no kept manifest names, nor the intent of a batch that is yet to be committed."""
        folder = self._folder(self._checkpoint.relations)
        unnamed = set(folder.files()).difference(*(named.versions for named in self._kept.values()))
        intent = manifests.newest_intent(self._checkpoint) if unnamed else None
        _remove(folder, unnamed - (versions_of(intent) if intent is not None else set()))

    def _folder(self, path: PurePath) -> Folder:
        return Folder(self._checkpoint.storage, path)

    def _folders(self) -> Iterator[tuple[Folder, set[str]]]:
        """The folders into which tasks write, and what of them the kept manifests name."""
        kept, outputs = self._kept.values(), self._checkpoint.outputs
        yield self._folder(self._checkpoint.runs), {n for named in kept for n in named.runs}
        staged = {name: Folder(sink.storage, sink.staged) for name, sink in self._sinks.items()}
        for name in self._checkpoint.storage.list(outputs).folders:
            # Also of outputs that the query no longer has.
            staged.setdefault(name, self._folder(outputs / name / "staged"))
        for name, folder in staged.items():
            yield folder, {f for named in kept for f in named.outputs.get(name, ())}

    def _is_left(self, folder: Folder, name: str, now: int) -> bool:
        """Whether a file is of a driver that is gone, and so old that no task of it can still run."""
        written = _TASK_FILE.match(name)
        mine = written is not None and int(written[2]) == self._checkpoint.epoch
        return not mine and _is_old(folder, name, now)


def _task_batch(name: str) -> float:
    """The batch in the name of a file that a task wrote; above all others if it has none."""
    written = _TASK_FILE.match(name)
    return int(written[1]) if written else float("inf")


def _batch(name: str) -> float:
    """The batch that an intent or a mark is of; above all others if it is something else."""
    written = _BATCH_FILE.match(name)
    return int(written[1]) if written else float("inf")


def _is_old(folder: Folder, name: str, now: int) -> bool:
    known = folder.storage.status(folder.path / name)
    return known is not None and now - known.changed >= YOUNG_MICROS


def _remove(folder: Folder, names: Iterable[str]) -> None:
    for name in list(names):
        failpoints.hit("gc.before")
        folder.storage.delete(folder.path / name)
