"""Requests to a running query, as numbered files in ``control/``.

A request has happened once an intent has taken its number: from then on the file is of no use, and a request that
no intent has taken counts as not sent. Invariant: no number is used twice, whatever became of the files.
"""

from __future__ import annotations

from slackwater.engine import manifest as manifests
from slackwater.engine.checkpoint import Checkpoint
from slackwater.engine.files import write_new
from slackwater.engine.manifest import Manifest


def newest_flush(checkpoint: Checkpoint, base: Manifest | None) -> int:
    """The highest number of a flush that was asked for, as a batch on ``base`` sees it."""
    taken = 0 if base is None else base.flushes
    return max(taken, _highest_file(checkpoint))


def send_flush(checkpoint: Checkpoint) -> int:
    """Ask for a flush; the number of the request, higher than all before it."""
    last = manifests.last(checkpoint)
    number = max(newest_flush(checkpoint, last), _highest_intent(checkpoint, last)) + 1
    while True:
        try:
            path = checkpoint.control / f"flush-{number:06d}"
            write_new(path, b"", checkpoint.rights)
            return number
        except FileExistsError:  # another thread asked at the same moment
            number += 1


def _highest_file(checkpoint: Checkpoint) -> int:
    numbers = (p.name.removeprefix("flush-") for p in checkpoint.control.glob("flush-*"))
    return max((int(n) for n in numbers if n.isdigit()), default=0)


def _highest_intent(checkpoint: Checkpoint, last: Manifest | None) -> int:
    """Of batches that have no manifest yet."""
    above = -1 if last is None else last.batch
    batches = (b for b in manifests.intended(checkpoint) if b > above)
    found = (manifests.read_intent(checkpoint, b) for b in batches)
    return max((i.flushes for i in found if i is not None), default=0)
