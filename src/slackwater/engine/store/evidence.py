"""What says that a batch happened, when its manifest is not there.

A manifest is the only truth about a batch, so a manifest that is gone would let the query go on from an older state
without a word. Three things prove that a batch went further than its manifest: the mark that it was published, the
mark that publishing began, and Spark's commit of a batch that has an intent. Spark's commit without an intent is a batch in which nothing
could change; an intent without a commit is a batch to be repeated. Only batches above the newest manifest are asked:
below it clean-up removes manifest, intent and marks one by one.
"""

from __future__ import annotations

from pathlib import PurePath

from slackwater.engine.store import manifest as manifests
from slackwater.engine.store.checkpoint import Checkpoint
from slackwater.engine.store.files import lost_file
from slackwater.engine.store.manifest import Manifest
from slackwater.engine.store.spark_log import is_committed
from slackwater.errors import CheckpointError
from slackwater.kernels.room import room_for

BEGUN = ".begun"


def published_mark(checkpoint: Checkpoint, batch: int) -> PurePath:
    """There when all outputs of a batch are in place."""
    return checkpoint.published / f"{batch:012d}"


def begun_mark(checkpoint: Checkpoint, batch: int) -> PurePath:
    """There before the first output of a batch is."""
    return checkpoint.published / f"{batch:012d}{BEGUN}"


def is_published(checkpoint: Checkpoint, batch: int) -> bool:
    """Whether all outputs of a batch are in place."""
    return checkpoint.storage.exists(published_mark(checkpoint, batch))


def set_mark(checkpoint: Checkpoint, mark: PurePath) -> None:
    """Make a mark: that it is there is all that it says."""
    with room_for(f"file '{mark.name}'", mark.parent, 0):
        checkpoint.storage.append(mark, b"")


def check_newest(checkpoint: Checkpoint, last: Manifest | None) -> None:
    """Refuse to go on from ``last`` when a later batch has happened."""
    newest = -1 if last is None else last.batch
    for batch, evidence in _happened(checkpoint):
        if batch > newest:
            raise lost_manifest(checkpoint, batch, evidence)
    for batch in manifests.intended(checkpoint):
        intent = manifests.read_intent(checkpoint, batch) if batch > newest else None
        if intent is not None and intent.base > newest:
            evidence = f"'intents/{batch:012d}.json' says that its batch began from it"
            raise lost_manifest(checkpoint, intent.base, evidence)


def lost_manifest(checkpoint: Checkpoint, batch: int, evidence: str) -> CheckpointError:
    """The error of a batch that happened and has no manifest."""
    path = checkpoint.manifests / f"{batch:012d}.json"
    return lost_file(path, f"the manifest of batch {batch},", evidence)


def _happened(checkpoint: Checkpoint) -> list[tuple[int, str]]:
    """Batches that something proves, newest first, each with what does."""
    proofs: list[tuple[int, str]] = []
    for mark in checkpoint.storage.list(checkpoint.published).files:
        name = mark.removesuffix(BEGUN)
        if name.isdigit():
            text = "published it" if mark == name else "began to publish it"
            proofs.append((int(name), f"'published/{mark}' says that a driver {text}"))
    for batch in manifests.intended(checkpoint):
        if is_committed(checkpoint.location, batch):
            text = f"'intents/{batch:012d}.json' and Spark's 'commits/{batch}' say that it was done"
            proofs.append((batch, text))
    return sorted(proofs, reverse=True)
