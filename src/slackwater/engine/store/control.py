"""Requests to a running query: numbered files in ``control/``.

A request is taken when an intent names its number or a higher one (``Intent.flushes``; for a look at a relation ``Taken.asked``
of that relation), and done when a manifest does. Invariants: a number is never given twice, also after its file is gone; an intent names a number at least as high as
that of the manifest it starts from. A request whose file is lost before an intent takes it counts as not sent.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from slackwater.engine.store import manifest as manifests
from slackwater.engine.store.checkpoint import Checkpoint
from slackwater.engine.store.manifest import Manifest

_FLUSH = "flush-"
_REFRESH = "refresh-"


@dataclass(frozen=True)
class FlushRequest:
    """That every window which holds a row be closed; by the number that the name of its file has."""

    number: int

    @property
    def name(self) -> str:
        """The name of its file."""
        return f"{_FLUSH}{self.number:06d}"

    @classmethod
    def of(cls, name: str) -> FlushRequest | None:
        """What a file of this name asks; None of a file that is no such request."""
        number = name.removeprefix(_FLUSH)
        is_one = name.startswith(_FLUSH) and number.isdecimal()
        return cls(int(number)) if is_one else None


def request_flush(checkpoint: Checkpoint, above: int = 0) -> int:
    """Ask for a flush; the number of the request, which is above ``above`` and all that were given before."""
    number = max(above, _newest_request(checkpoint), _newest_taken(checkpoint)) + 1
    while True:
        try:
            # Never replaces: whoever else asks at this moment gets a number of their own.
            checkpoint.storage.write_new(checkpoint.control / FlushRequest(number).name, b"")
            return number
        except FileExistsError:
            number += 1


def requested_flushes(checkpoint: Checkpoint, base: Manifest | None) -> int:
    """The number of the newest request for a flush, for the intent of a batch that starts from ``base``."""
    return max(_newest_request(checkpoint), 0 if base is None else base.flushes)


def remove_done(checkpoint: Checkpoint, done: Manifest) -> None:
    """Remove the requests that the newest manifest has done."""
    for name, request in _requests(checkpoint):
        if request.number <= done.flushes:
            checkpoint.storage.delete(checkpoint.control / name)
    if done.relations:
        for name, number, relation in _refreshes(checkpoint):
            known = done.relations.get(relation)
            if known is None or number <= known.asked:
                checkpoint.storage.delete(checkpoint.control / name)


def request_refresh(checkpoint: Checkpoint, relation: str) -> int:
    """Ask for a look at a relation; the number of the request, which is above all that were given before."""
    taken = [manifests.last(checkpoint), manifests.newest_intent(checkpoint)]
    numbers = [t.asked for one in taken if one is not None for t in one.relations.values()]
    number = max([0, *numbers, *(n for _, n, _ in _refreshes(checkpoint))]) + 1
    while True:
        try:
            path = checkpoint.control / f"{_REFRESH}{number:06d}"
            checkpoint.storage.write_new(path, json.dumps(relation).encode())
            return number
        except FileExistsError:
            number += 1


def requested_refreshes(checkpoint: Checkpoint, base: Manifest | None) -> dict[str, int]:
    """The number of the newest request for a look at each relation, for the intent of a batch that starts from ``base``."""
    newest = {} if base is None else {name: one.asked for name, one in base.relations.items()}
    for _, number, relation in _refreshes(checkpoint):
        newest[relation] = max(newest.get(relation, 0), number)
    return newest


def _refreshes(checkpoint: Checkpoint) -> list[tuple[str, int, str]]:
    """The requests for a look: file, number and relation of each."""
    asked = []
    for name in checkpoint.storage.list(checkpoint.control).files:
        number = name.removeprefix(_REFRESH)
        if name.startswith(_REFRESH) and number.isdecimal():
            relation = json.loads(checkpoint.storage.read(checkpoint.control / name))
            asked.append((name, int(number), str(relation)))
    return asked


def _requests(checkpoint: Checkpoint) -> list[tuple[str, FlushRequest]]:
    """What each file asks, by its name."""
    asked = [(n, FlushRequest.of(n)) for n in checkpoint.storage.list(checkpoint.control).files]
    return [(name, request) for name, request in asked if request is not None]


def _newest_request(checkpoint: Checkpoint) -> int:
    return max((request.number for _, request in _requests(checkpoint)), default=0)


def _newest_taken(checkpoint: Checkpoint) -> int:
    """The highest number that the newest manifest or the newest intent names: their files may be gone."""
    done = manifests.last(checkpoint)
    intent = manifests.newest_intent(checkpoint)
    return max(0 if done is None else done.flushes, 0 if intent is None else intent.flushes)
