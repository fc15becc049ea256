"""A query's checkpoint directory: who may write it, and where each thing lies.

Invariant: at most one driver holds the lock, and each start writes a higher *epoch* than all before. A
commit checks that its epoch is still the highest, so a driver that lost the lock without noticing
(a stopped machine, a stolen file system) cannot commit over its successor. An epoch's file holds a word that only
its driver knows: if the newest file is deleted and its number given once more, the two drivers still differ.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

from slackwater.engine.store import failpoints
from slackwater.engine.store.files import checksum, damaged, lost_file, seal, unseal
from slackwater.engine.store.local import PRIVATE
from slackwater.engine.store.spark_log import has_offsets
from slackwater.engine.store.storage import Lock, Locks, LockTaken, Storage
from slackwater.engine.store.versions import FOLDER
from slackwater.errors import CheckpointError

FORMAT = 1
KEEP_EPOCHS = 5


class Checkpoint:
    """Paths below ``<checkpointLocation>/slackwater`` and the lock on them.

    Spark keeps its own ``offsets``, ``commits`` and ``sources`` beside it. ``storage`` holds all others.
    """

    def __init__(self, location: str, storage: Storage = PRIVATE):
        # The JVM has a working directory of its own: a relative path would mean two places.
        self.location = Path(location).absolute()
        # Paths of ours are no more than names: what is done to files is done by the storage.
        self.root: PurePath = self.location / "slackwater"
        self.storage = storage
        self.epoch = -1
        self.verified = False
        """Whether this process has read all state that it starts from."""
        self.description: tuple[int, int] | None = None
        """Version and checksum of the query's description, once that is open."""
        self._lock: Lock | None = None
        self._word = os.urandom(8).hex()

    # ---- where things are ----
    @property
    def intents(self) -> PurePath:
        """What each batch depends on, written before its job."""
        return self.root / "intents"

    @property
    def manifests(self) -> PurePath:
        """One file per committed batch."""
        return self.root / "manifests"

    @property
    def runs(self) -> PurePath:
        """State files."""
        return self.root / "runs"

    @property
    def outputs(self) -> PurePath:
        """Output files of sinks that have no directory of their own."""
        return self.root / "outputs"

    @property
    def published(self) -> PurePath:
        """Marks of batches whose outputs are in place."""
        return self.root / "published"

    @property
    def control(self) -> PurePath:
        """Requests to a running query, such as flush."""
        return self.root / "control"

    @property
    def relations(self) -> PurePath:
        """The files of each version of a relation; there only if the query has one."""
        return self.root / FOLDER

    @property
    def epochs(self) -> PurePath:
        """One file per start."""
        return self.root / "epochs"

    @property
    def description_file(self) -> PurePath:
        """What was asked."""
        return self.root / "query.json"

    @property
    def folders(self) -> tuple[PurePath, ...]:
        """All of them, the one that holds the others first."""
        return (
            self.root, self.intents, self.manifests, self.runs, self.outputs,
            self.published, self.control, self.epochs,
        )  # fmt: skip

    # ---- lock and epoch ----
    def acquire(self) -> None:
        """Take the lock and a new epoch, or say who seems to hold it."""
        self.storage.make_folder(self.location.parent, outside=True)
        for folder in self.folders:
            self.storage.make_folder(folder)
        # Without a lock the epoch alone keeps drivers apart: the older one notices when it commits.
        if isinstance(self.storage, Locks):
            try:
                self._lock = self.storage.lock(self.root / "lock", f"process {os.getpid()}")
            except LockTaken as holder:
                raise CheckpointError(
                    "CHECKPOINT_IN_USE",
                    f"checkpoint '{self.location}' is in use by {holder}",
                    hint="stop the other query, or give this one a checkpointLocation of its own",
                    location=self.location,
                ) from None
        failpoints.hit("lock.taken")
        try:
            self._take_epoch()
        except BaseException:
            self.release()
            raise

    def _take_epoch(self) -> None:
        epoch = max(self._highest_epoch(), self._known_epoch()) + 1
        data = f"{os.getpid()} {self._word}".encode()
        self.storage.write_new(self._epoch_file(epoch), data)
        self.epoch = epoch
        failpoints.hit("epoch.written")
        for name in self.storage.list(self.epochs).files:
            # The highest counts; a few more are kept for whoever wants to see how often a query was started.
            if name.isdigit() and int(name) <= epoch - KEEP_EPOCHS:
                self.storage.delete(self.epochs / name)

    def _epoch_file(self, epoch: int) -> PurePath:
        return self.epochs / f"{epoch:08d}"

    def _known_epoch(self) -> int:
        """The highest epoch that batches know: the file of the newest may be gone."""
        known = [0]
        for folder, kind in ((self.manifests, "manifest"), (self.intents, "intent")):
            newest = max(self.numbered(folder, ".json"), default=None)
            # A damaged file is named by whoever needs what it holds.
            with contextlib.suppress(CheckpointError, TypeError, ValueError):
                if newest is not None:
                    document = unseal(self.storage, folder / newest, what=kind, kind=kind)
                    known.append(int(document.get("epoch", 0)))
        return max(known)

    def numbered(self, folder: PurePath, suffix: str = "") -> list[str]:
        """Names of the files in one of the folders that begin with the number of a batch."""
        names = self.storage.list(folder).files
        return [n for n in names if n[0].isdigit() and n.endswith(suffix)]

    def handed_over(self) -> Checkpoint:
        """The same checkpoint for another start in this process: with the lock, and a new epoch.

        Whoever still commits through this object is refused.
        """
        taken = Checkpoint(str(self.location), self.storage)
        taken.verified = self.verified
        taken._lock, self._lock = self._lock, None
        taken._take_epoch()
        return taken

    def release(self) -> None:
        """Give the lock back."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def _highest_epoch(self) -> int:
        names = self.storage.list(self.epochs).files
        return max((int(n) for n in names if n.isdigit()), default=0)

    def check_epoch(self) -> None:
        """Refuse to go on when a later start has taken this checkpoint over."""
        newest = self._highest_epoch()
        path = self._epoch_file(self.epoch)
        if newest < self.epoch:
            raise lost_file(path, "epoch", "this driver wrote it when it started")
        if newest != self.epoch or not self._is_mine(path):
            raise CheckpointError(
                "STALE_EPOCH",
                f"this driver started as number {self.epoch} on the checkpoint, "
                f"but number {newest} has started since (epochs/{newest:08d})",
                hint="let the newer driver run; this one must stop",
                location=self.location,
            )

    def _is_mine(self, path: PurePath) -> bool:
        return self.storage.read(path).decode().partition(" ")[2] == self._word

    # ---- the query it belongs to ----
    def open_query(self, description: dict[str, Any]) -> dict[str, Any]:
        """The stored description of the query; a new checkpoint stores the given one."""
        path = self.description_file
        if self.storage.exists(path):
            stored = unseal(self.storage, path, what="query description", kind="query")
            if "id" not in stored:
                raise damaged(path, "query description", "it describes no query")
            self.description = self._version(path, stored)
            if stored.get("format") != FORMAT:
                raise CheckpointError(
                    "UNKNOWN_FORMAT",
                    f"checkpoint format {stored.get('format')} is not known (this version: {FORMAT})",
                    hint="use the version of slackwater that wrote it, or a new checkpointLocation",
                    location=self.location,
                )
            return stored
        if any(map(self.numbered, (self.manifests, self.intents, self.published))):
            raise lost_file(path, "query description", "the checkpoint has batches of a query")
        if has_offsets(self.location):
            raise CheckpointError(
                "FOREIGN_CHECKPOINT",
                f"'{self.location}' is a checkpoint of Spark, not of Slackwater: "
                "it has no 'slackwater/query.json'",
                hint="give this query a checkpointLocation of its own",
                location=self.location,
            )
        stored = {"format": FORMAT, "id": str(uuid.uuid4()), "version": 1, **description}
        self._write_description(stored)
        failpoints.hit("query.written")
        return stored

    def update_query(self, stored: dict[str, Any]) -> None:
        """Replace the stored description (what may change on a restart changed); its version rises."""
        self._write_description({**stored, "version": stored.get("version", 0) + 1})

    def _write_description(self, stored: dict[str, Any]) -> None:
        path = self.description_file
        self.storage.write(path, seal(stored, kind="query"))
        self.description = self._version(path, stored)

    def _version(self, path: PurePath, stored: Mapping[str, Any]) -> tuple[int, int]:
        """Version (0: none was counted yet) and checksum of a description that is on disk."""
        return int(stored.get("version", 0)), checksum(self.storage.read(path))

    def check_description(self, query: str, known: Sequence[int]) -> None:
        """Refuse a description that is older than the one the newest manifest was written under, or another's.

        ``query`` and ``known`` are what the manifest says of it: the query's id, and version with checksum. Both are
        empty in manifests of older versions.
        """
        path = self.description_file
        stored = self.open_query({})
        if query and query != stored["id"]:
            raise damaged(path, "query description", f"it is that of another query than {query}")
        if not known or self.description is None:
            return
        version, written = self.description[0], known[0]
        if version < written:
            reason = f"it is version {version}, and batches have run under version {written}"
            raise damaged(path, "query description", reason)
        if version == written and list(self.description) != list(known):
            raise damaged(path, "query description", f"version {version} had another content")
