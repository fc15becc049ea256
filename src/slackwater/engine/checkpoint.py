"""A query's checkpoint directory: who may write it, and where each thing lies.

Invariant: at most one driver holds the lock, and each start writes a higher *epoch* than all before. A
commit checks that its epoch is still the highest, so a driver that lost the lock without noticing
(a stopped machine, a stolen file system) cannot commit over its successor.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import uuid
from pathlib import Path
from typing import Any

from slackwater.engine import failpoints
from slackwater.engine.files import (
    OWNER,
    UMASK,
    Rights,
    make_folders,
    seal,
    unseal,
    write_new,
    write_replace,
)
from slackwater.errors import CheckpointError

FORMAT = 1


class Checkpoint:
    """Paths below ``<checkpointLocation>/slackwater`` and the lock on them.

    Spark keeps its own ``offsets``, ``commits`` and ``sources`` beside it. ``rights`` are those of files and
    folders that are made.
    """

    def __init__(self, location: str, rights: Rights = OWNER):
        # The JVM has a working directory of its own: a relative path would mean two places.
        self.location = Path(location).absolute()
        self.root = self.location / "slackwater"
        self.rights = rights
        self.epoch = -1
        self._lock: int | None = None

    # ---- where things are ----
    @property
    def intents(self) -> Path:
        """What each batch depends on, written before its job."""
        return self.root / "intents"

    @property
    def manifests(self) -> Path:
        """One file per committed batch."""
        return self.root / "manifests"

    @property
    def runs(self) -> Path:
        """State files."""
        return self.root / "runs"

    @property
    def outputs(self) -> Path:
        """Output files of sinks that have no directory of their own."""
        return self.root / "outputs"

    @property
    def published(self) -> Path:
        """Marks of batches whose outputs are in place."""
        return self.root / "published"

    @property
    def control(self) -> Path:
        """Requests to a running query, such as flush."""
        return self.root / "control"

    @property
    def epochs(self) -> Path:
        """One file per start."""
        return self.root / "epochs"

    # ---- lock and epoch ----
    def acquire(self) -> None:
        """Take the lock and a new epoch, or say who seems to hold it."""
        make_folders(self.location.parent, UMASK)
        for folder in (
            self.root, self.intents, self.manifests, self.runs, self.outputs,
            self.published, self.control, self.epochs,
        ):  # fmt: skip
            make_folders(folder, self.rights)
        fd = os.open(self.root / "lock", os.O_RDWR | os.O_CREAT, self.rights.file)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.pread(fd, 200, 0).decode(errors="replace").strip() or "another process"
            os.close(fd)
            raise CheckpointError(
                "CHECKPOINT_IN_USE",
                f"checkpoint '{self.location}' is in use by {holder}",
                hint="stop the other query, or give this one a checkpointLocation of its own",
                location=self.location,
            ) from None
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"process {os.getpid()}".encode(), 0)
        self._lock = fd
        failpoints.hit("lock.taken")
        self._take_epoch()

    def _take_epoch(self) -> None:
        epoch = self._highest_epoch() + 1
        write_new(self.epochs / f"{epoch:08d}", str(os.getpid()).encode(), self.rights)
        self.epoch = epoch
        failpoints.hit("epoch.written")

    def handed_over(self) -> Checkpoint:
        """The same checkpoint for another start in this process: with the lock, and a new epoch.

        Whoever still commits through this object is refused.
        """
        taken = Checkpoint(str(self.location), self.rights)
        taken._lock, self._lock = self._lock, None
        taken._take_epoch()
        return taken

    def release(self) -> None:
        """Give the lock back."""
        if self._lock is not None:
            with contextlib.suppress(OSError):
                os.close(self._lock)
            self._lock = None

    def _highest_epoch(self) -> int:
        return max((int(p.name) for p in self.epochs.iterdir() if p.name.isdigit()), default=0)

    def check_epoch(self) -> None:
        """Refuse to go on when a later start has taken this checkpoint over."""
        newest = self._highest_epoch()
        if newest != self.epoch:
            raise CheckpointError(
                "STALE_EPOCH",
                f"this driver started as number {self.epoch} on the checkpoint, "
                f"but number {newest} has started since",
                hint="let the newer driver run; this one must stop",
                location=self.location,
            )

    # ---- the query it belongs to ----
    def open_query(self, description: dict[str, Any]) -> dict[str, Any]:
        """The stored description of the query; a new checkpoint stores the given one."""
        path = self.root / "query.json"
        if path.exists():
            stored = unseal(path, what="query description")
            if stored.get("format") != FORMAT:
                raise CheckpointError(
                    "UNKNOWN_FORMAT",
                    f"checkpoint format {stored.get('format')} is not known (this version: {FORMAT})",
                    hint="use the version of slackwater that wrote it, or a new checkpointLocation",
                    location=self.location,
                )
            return stored
        if any(self.location.glob("offsets/[0-9]*")):
            raise CheckpointError(
                "FOREIGN_CHECKPOINT",
                f"'{self.location}' is a checkpoint of Spark, not of Slackwater",
                hint="give this query a checkpointLocation of its own",
                location=self.location,
            )
        stored = {"format": FORMAT, "id": str(uuid.uuid4()), **description}
        write_replace(path, seal(stored), self.rights)
        failpoints.hit("query.written")
        return stored

    def update_query(self, stored: dict[str, Any]) -> None:
        """Replace the stored description (what may change on a restart changed)."""
        write_replace(self.root / "query.json", seal(stored), self.rights)
