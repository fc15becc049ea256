"""What a batch will do (intent) and what it did (manifest).

A manifest is the whole truth about a query after a batch: bounds and policy state of its sources, live
runs of its operators, output files of the batch. It appears by one atomic link; what is not in a
manifest did not happen. Guarantee: for each batch id at most one manifest ever exists. Not guaranteed:
that every Spark batch has one (a batch in which nothing could change leaves none).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any, Literal, TypeVar

from slackwater.engine.store import failpoints
from slackwater.engine.store.checkpoint import Checkpoint
from slackwater.engine.store.files import damaged, seal, unsealed
from slackwater.engine.store.statistics import Statistics
from slackwater.errors import CheckpointError
from slackwater.model.codec import LEAN, from_json, to_json
from slackwater.semantics.progress import SourceState

FORMAT = 1

PLAIN_NAMES, PREFIXED_NAMES = 1, 2
"""Kinds of runs. In those of the first kind, columns of ours beside users' columns have no prefix (`model.names`)."""

T = TypeVar("T")


@dataclass(frozen=True)
class Run:
    """An immutable file of state rows, sorted by bucket.

    ``low``/``high``: the closed range of panes (aggregate) or times (others) of its rows; ``buckets``: the
    half-open range of buckets it may hold. A group reads only its own buckets of it. ``part`` says which part
    of the operator's state it belongs to, ``meta`` what the operator wants to know of it later. ``kind`` says how
    columns of ours are called in it: runs of both kinds may stand in one manifest.
    """

    name: str
    rows: int
    bytes: int
    crc: int
    low: int
    high: int
    buckets: tuple[int, int]
    part: str = ""
    meta: dict[str, Any] = field(default_factory=dict, hash=False)
    kind: int = PREFIXED_NAMES

    @classmethod
    def from_json(cls, json: dict[str, Any]) -> Run:
        """From what a task or a manifest says of it; a run that says no kind is of the first."""
        kind = json.get("kind", PLAIN_NAMES)
        return cls(**{**json, "buckets": tuple(json["buckets"]), "kind": kind})


@dataclass(frozen=True)
class OutputFile:
    """One file a task wrote for an output, under its staging name.

    ``crc``: the checksum of its bytes; None if an older version wrote it.
    """

    name: str
    rows: int
    bytes: int
    partition: str = ""
    crc: int | None = None


@dataclass(frozen=True)
class Taken:
    """The version of a relation that a batch takes: since when it is in force, and when the relation was last looked at.

    Both are times of the batch's clock, None without one. ``asked`` is the newest request for a look that was met. ``problem``
    says why what was seen then is not used. ``changed`` counts the files that the version before had not. ``replaced``: the
    first try of the batch had taken another version, which is gone. ``form`` is how its rows are had: ``whole``, in memory, or
    in ``segments``; it is left out where it is whole. ``waiting`` counts the rows that wait for segments after the batch, by the version
    that they join; it is left out where there are none.
    """

    version: str
    since: int | None = None
    looked: int | None = None
    asked: int = 0
    problem: str | None = None
    changed: int = 0
    replaced: bool = False
    form: Literal["whole", "segments"] = field(default="whole", metadata=LEAN)
    waiting: Mapping[str, int] = field(default_factory=dict, metadata=LEAN)


@dataclass
class Manifest:
    """State of the query after ``batch``; see the module's text.

    What it relies on besides its runs: ``query`` and ``description`` say which query it is of (its id; version and
    checksum of ``query.json``). ``offsets``, ``inputs``, ``offsets_file`` and ``logs`` say how far Spark's logs had come
    (digests of the offsets of the batch and of those without the heartbeat's, checksum of their file, digests of the log of
    each source). Manifests of older versions lack some of them. ``feedback`` is a `feedback_log.FeedbackState`; it is left out
    where there never was any. ``marks`` are those of operators that keep a pace, by name.
    """

    batch: int
    epoch: int
    ordinal: int
    groups: int
    sources: Mapping[str, SourceState]
    bounds: Mapping[str, Mapping[str, int]]
    runs: dict[str, list[list[Run]]]
    outputs: dict[str, list[OutputFile]]
    final: bool = False
    flushes: int = 0
    progress: dict[str, Any] = field(default_factory=dict)
    offsets: str = ""
    statistics: Statistics = field(default_factory=dict)
    ledgers: dict[str, list[Any]] = field(default_factory=dict)
    holds: dict[str, list[int]] = field(default_factory=dict)
    tables: dict[str, list[Run]] = field(default_factory=dict)
    query: str = ""
    description: list[int] = field(default_factory=list)
    inputs: str = ""
    offsets_file: int | None = None
    logs: dict[str, Any] = field(default_factory=dict)
    feedback: dict[str, Any] = field(default_factory=dict, metadata=LEAN)
    relations: dict[str, Taken] = field(default_factory=dict, metadata=LEAN)
    marks: dict[str, int] = field(default_factory=dict, metadata=LEAN)


@dataclass(frozen=True)
class Intent:
    """What a batch depends on: a retry repeats it. ``base`` is the batch whose manifest it starts from.

    ``inputs``, ``offsets_file`` and ``logs`` are those of `Manifest`. ``feedback`` is a `feedback_log.FeedbackIntent`.
    """

    batch: int
    epoch: int
    base: int
    ordinal: int
    now: int | None
    groups: int
    final: bool
    flushes: int
    ended: tuple[str, ...]
    offsets: str
    files: dict[str, list[Any]]
    backlog: tuple[str, ...] = ()
    inputs: str = ""
    offsets_file: int | None = None
    logs: dict[str, Any] = field(default_factory=dict)
    feedback: dict[str, Any] = field(default_factory=dict, metadata=LEAN)
    relations: dict[str, Taken] = field(default_factory=dict, metadata=LEAN)

    def decisions(self) -> dict[str, Any]:
        """The part that must be the same when the batch is tried again."""
        document: dict[str, Any] = to_json(self)
        for name in ("epoch", "groups"):
            document.pop(name)
        return document


def write_intent(checkpoint: Checkpoint, intent: Intent) -> None:
    """Make the intent durable, replacing one of an earlier epoch for the same batch."""
    checkpoint.check_epoch()
    path = checkpoint.intents / f"{intent.batch:012d}.json"
    data = seal({"format": FORMAT, **to_json(intent)}, kind="intent")
    checkpoint.storage.write(path, data)


def read_intent(checkpoint: Checkpoint, batch: int) -> Intent | None:
    """The intent an earlier try of this batch left, or None."""
    return _of_batch(checkpoint, checkpoint.intents, "intent", batch, _intent)


def document_of(manifest: Manifest) -> dict[str, Any]:
    """A manifest as a JSON document."""
    return {"format": FORMAT, **to_json(manifest)}


def manifest_of(document: Mapping[str, Any]) -> Manifest:
    """The inverse of `document_of`."""
    if document.get("format") != FORMAT:
        raise CheckpointError(
            "UNKNOWN_FORMAT",
            "a manifest has a format that this version does not know",
            hint="use the version of slackwater that wrote it",
        )
    return from_json(Manifest, _without_format(document))


def _intent(document: Mapping[str, Any]) -> Intent:
    return from_json(Intent, _without_format(document))


def _without_format(document: Mapping[str, Any]) -> dict[str, Any]:
    return {name: part for name, part in document.items() if name != "format"}


def _of_batch(
    checkpoint: Checkpoint,
    folder: PurePath,
    kind: str,
    batch: int,
    made: Callable[[dict[str, Any]], T],
) -> T | None:
    """What a sealed file says of its batch; None if there is none. One that was written for another batch, or as another
    kind, is refused.
    """
    path = folder / f"{batch:012d}.json"
    if not checkpoint.storage.exists(path):
        return None
    return _stated(checkpoint.storage.read(path), path, kind, batch, made)


def _stated(
    data: bytes, path: PurePath, kind: str, batch: int, made: Callable[[dict[str, Any]], T]
) -> T:
    """What the content of a sealed file says of its batch."""
    document = unsealed(data, path, what=kind, kind=kind)
    if document.get("batch") != batch:
        raise damaged(path, kind, f"it was written for batch {document.get('batch')}")
    try:
        return made(document)
    except (KeyError, TypeError) as error:
        raise damaged(path, kind, f"it is no {kind} ({error})") from error


def intended(checkpoint: Checkpoint) -> list[int]:
    """Ids of all batches with an intent, rising."""
    return _batches(checkpoint, checkpoint.intents)


def newest_intent(checkpoint: Checkpoint) -> Intent | None:
    """The intent of the newest batch that has one, or None."""
    batches = intended(checkpoint)
    return read_intent(checkpoint, batches[-1]) if batches else None


def commit(checkpoint: Checkpoint, manifest: Manifest) -> None:
    """Commit a batch: after this call it has happened, before it had not."""
    checkpoint.check_epoch()
    data = seal(document_of(manifest), kind="manifest")
    failpoints.hit("manifest.before")
    try:
        path = checkpoint.manifests / f"{manifest.batch:012d}.json"
        checkpoint.storage.write_new(path, data)
    except FileExistsError:
        raise CheckpointError(
            "BATCH_ALREADY_COMMITTED",
            f"batch {manifest.batch} was committed by another driver",
            hint="let the other driver run; this one must stop",
            location=checkpoint.location,
        ) from None
    failpoints.hit("manifest.after")


def read(checkpoint: Checkpoint, batch: int) -> Manifest | None:
    """The manifest of a batch, or None."""
    return _of_batch(checkpoint, checkpoint.manifests, "manifest", batch, manifest_of)


def committed(checkpoint: Checkpoint) -> list[int]:
    """Ids of all batches with a manifest, rising."""
    return _batches(checkpoint, checkpoint.manifests)


def _batches(checkpoint: Checkpoint, folder: PurePath) -> list[int]:
    return sorted(int(n.removesuffix(".json")) for n in checkpoint.numbered(folder, ".json"))


def last(checkpoint: Checkpoint, before: int | None = None) -> Manifest | None:
    """The newest manifest (of a batch below ``before``), or None for a new query."""
    ids = [b for b in committed(checkpoint) if before is None or b < before]
    return read(checkpoint, ids[-1]) if ids else None


class Newest:
    """The newest manifest, as `last` gives it, for one who asks again and again: it is parsed when its file is another one.

    The file is read each time, so that one that was damaged meanwhile is noticed.
    """

    def __init__(self, checkpoint: Checkpoint):
        self._checkpoint = checkpoint
        self._data = b""
        self._made: Manifest | None = None

    def before(self, batch: int) -> Manifest | None:
        """The newest manifest of a batch below ``batch``, or None."""
        ids = [b for b in committed(self._checkpoint) if b < batch]
        if not ids:
            return None
        path = self._checkpoint.manifests / f"{ids[-1]:012d}.json"
        data = self._checkpoint.storage.read(path)
        if self._made is None or data != self._data:
            self._made = _stated(data, path, "manifest", ids[-1], manifest_of)
            self._data = data
        return self._made


def fingerprint(text: str) -> str:
    """A short digest of any text."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]
