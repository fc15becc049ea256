"""Feedback on disk: sealed requests in ``control/``, and what intents and manifests keep of it.

A request is a file whose name has its number. It is on disk when the call that sends it returns. It is taken when an intent
names its number or a higher one, and its file goes some time after a manifest does. Invariants: a number is never given twice,
also after its file is gone; a damaged file, or one of somebody else, is passed over and reported, and the query goes on.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any, Generic, TypeVar

from slackwater.engine.store import failpoints
from slackwater.engine.store import manifest as manifests
from slackwater.engine.store.checkpoint import Checkpoint
from slackwater.engine.store.files import seal, unseal
from slackwater.engine.store.manifest import Intent, Manifest
from slackwater.errors import SlackwaterError
from slackwater.model.same import Same
from slackwater.semantics.feedback.standing import Request, Standing
from slackwater.semantics.feedback.value import Feedback
from slackwater.semantics.feedback_rules import Shade
from slackwater.semantics.patterns import Pattern, Patterns
from slackwater.semantics.sealing import Seal, Seals

T = TypeVar("T")

FORMAT = 1
KIND = "feedback"
KEPT = 64
"""Files of the newest requests stay after they were taken: whoever looked for a free number before finds it given away."""

_NAME = re.compile(r"feedback-(\d{6,})\.json")


@dataclass(frozen=True)
class FeedbackState:
    """What a manifest keeps of feedback.

    ``read`` is how far ``control/`` was read. By operator: ``asserted`` is what its readers ignored in the batch, ``dark`` what it
    kept back, and ``shades`` what it still keeps back after records that ended. ``dropped`` counts rows by place, since the query began.
    ``sealed`` is what was proven of panes; it acts in the next batch.
    """

    read: int = 0
    standing: tuple[Standing, ...] = ()
    asserted: Mapping[str, Patterns] = field(default_factory=dict)
    dark: Mapping[str, tuple[Shade, ...]] = field(default_factory=dict)
    shades: Mapping[str, tuple[Shade, ...]] = field(default_factory=dict)
    dropped: Mapping[str, int] = field(default_factory=dict)
    sealed: Mapping[str, Seals] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Plain lists and dicts; nothing, if there never was feedback."""
        if self == FeedbackState():
            return {}
        document = {
            "read": self.read,
            "standing": [_standing_document(s) for s in self.standing],
            "asserted": _shared(self.asserted),
            "dark": {n: _shades.document(shades) for n, shades in self.dark.items()},
            "shades": {n: _shades.document(shades) for n, shades in self.shades.items()},
            "dropped": dict(self.dropped),
        }
        if self.sealed:
            document["sealed"] = {n: _seals.document(seals) for n, seals in self.sealed.items()}
        return document

    @classmethod
    def from_json(cls, json: Mapping[str, Any]) -> FeedbackState:
        """The inverse of `to_json`."""
        if not json:
            return cls()
        return cls(
            json["read"],
            tuple(_standing(s) for s in json["standing"]),
            _by_operator(json["asserted"]),
            {n: _shades.value(shades) for n, shades in json["dark"].items()},
            {n: _shades.value(shades) for n, shades in json["shades"].items()},
            dict(json["dropped"]),
            {n: _seals.value(seals) for n, seals in json.get("sealed", {}).items()},
        )


@dataclass(frozen=True)
class FeedbackIntent:
    """What an intent takes in: what stands in its batch, how far ``control/`` was read, which files were passed over and why.

    ``guards`` are digests of the plan and of the guards that follow, and ``reach`` is how far down these act, so that a
    repeated batch drops the same rows, whatever a start between the two says.
    """

    read: int = 0
    standing: tuple[Standing, ...] = ()
    refused: tuple[tuple[str, str], ...] = ()
    guards: tuple[str, str] = ("", "")
    reach: str = ""

    def to_json(self) -> dict[str, Any]:
        """Plain lists and dicts; nothing, if there never was feedback."""
        if self == FeedbackIntent():
            return {}
        return {
            "read": self.read,
            "standing": [_standing_document(s) for s in self.standing],
            "refused": [list(r) for r in self.refused],
            "guards": list(self.guards),
            "reach": self.reach,
        }

    @classmethod
    def from_json(cls, json: Mapping[str, Any]) -> FeedbackIntent:
        """The inverse of `to_json`."""
        if not json:
            return cls()
        return cls(
            json["read"],
            tuple(_standing(s) for s in json["standing"]),
            tuple((name, why) for name, why in json["refused"]),
            (json["guards"][0], json["guards"][1]),
            json.get("reach", ""),
        )


class _Read(Generic[T]):
    """Reads documents, and remembers the last few: in a batch several ask for the same one, of up to thousands of records."""

    def __init__(self, read: Callable[[Mapping[str, Any]], T]):
        self._read = read
        self._last: tuple[tuple[Mapping[str, Any], T], ...] = ()

    def __call__(self, document: Mapping[str, Any]) -> T:
        for known, made in self._last:
            if known is document:
                return made
        made = self._read(document)
        self._last = (*self._last[-3:], (document, made))
        return made


class _Known(Generic[T]):
    """Values beside their documents, the latest: what a batch wrote, the next one reads, and it may be thousands of records.

    A document that was read from disk gives the very value that was written, so that what is known about it still is.
    """

    def __init__(self, read: Callable[[Any], T], write: Callable[[T], Any]):
        self._read = read
        self._write = write
        self._pairs: tuple[tuple[T, str], ...] = ()

    def document(self, value: T) -> str:
        """JSON as a text: files that hold it are written and read in one piece, and it is made once."""
        for known, document in self._pairs:
            if known is value:
                return document
        text = json.dumps(self._write(value), separators=(",", ":"))
        return self._keep(value, text)[1]

    def value(self, document: Any) -> T:
        """The inverse of `document`; older versions wrote plain lists and dicts."""
        text = document if isinstance(document, str) else json.dumps(document)
        for value, known in self._pairs:
            if known == text:
                return value
        return self._keep(self._read(json.loads(text)), text)[0]

    def _keep(self, value: T, document: str) -> tuple[T, str]:
        self._pairs = (*self._pairs[1 - _KNOWN :], (value, document))
        return value, document


_KNOWN = 64
"""A place for each output and operator of a query with feedback, as a rule."""

_feedbacks: _Known[Feedback] = _Known(Feedback.from_json, Feedback.to_json)
_records: _Known[Patterns] = _Known(
    lambda document: tuple(Pattern.from_json(r) for r in document),
    lambda records: [r.to_json() for r in records],
)
_shades: _Known[tuple[Shade, ...]] = _Known(
    lambda document: tuple(Shade.from_json(s) for s in document),
    lambda shades: [s.to_json() for s in shades],
)

_seals: _Known[Seals] = _Known(
    lambda document: tuple(Seal.from_json(s) for s in document),
    lambda seals: [s.to_json() for s in seals],
)


def _shared(by_operator: Mapping[str, Patterns]) -> dict[str, Any]:
    """Records by operator. What goes on unchanged from one to the next is written once; the others name the first."""
    first: dict[Same[Patterns], str] = {}
    document: dict[str, Any] = {}
    for name, records in by_operator.items():
        known = first.setdefault(Same(records), name)
        document[name] = _records.document(records) if known == name else {"as": known}
    return document


def _by_operator(document: Mapping[str, Any]) -> dict[str, Patterns]:
    """The inverse of `_shared`; older versions wrote the records of each."""
    return {
        n: _records.value(document[d["as"]] if isinstance(d, Mapping) else d)
        for n, d in document.items()
    }


def _standing_document(standing: Standing) -> dict[str, Any]:
    return standing.to_json(_feedbacks.document)


def _standing(document: Mapping[str, Any]) -> Standing:
    return Standing.from_json(document, _feedbacks.value)


_states = _Read(FeedbackState.from_json)
_intents = _Read(FeedbackIntent.from_json)


def state_of(manifest: Manifest | None) -> FeedbackState:
    """What a manifest keeps of feedback."""
    return FeedbackState() if manifest is None else _states(manifest.feedback)


def intent_of(intent: Intent) -> FeedbackIntent:
    """What an intent took in."""
    return _intents(intent.feedback)


# ---- sending ----
def send(checkpoint: Checkpoint, request: Request) -> int:
    """Put a request on disk; its number, which is above all that were given before."""
    number = max(_newest_file(checkpoint), _newest_taken(checkpoint)) + 1
    while True:
        data = seal({"format": FORMAT, "number": number, **request.to_json()}, kind=KIND)
        try:
            # Never replaces: whoever else asks at this moment gets a number of their own.
            checkpoint.storage.write_new(_path(checkpoint, number), data)
        except FileExistsError:
            number += 1
            continue
        checkpoint.storage.sync(checkpoint.control)
        failpoints.hit("feedback.written")
        return number


def _path(checkpoint: Checkpoint, number: int) -> PurePath:
    return checkpoint.control / f"feedback-{number:06d}.json"


def _numbers(checkpoint: Checkpoint) -> dict[int, str]:
    """The names of the files of requests, by number."""
    names = checkpoint.storage.list(checkpoint.control).files
    numbers = {n: int(m[1]) for n in names if (m := _NAME.fullmatch(n)) is not None}
    # One with more zeros is somebody else's, and must not stand for ours.
    return {number: n for n, number in numbers.items() if n == _path(checkpoint, number).name}


def _newest_file(checkpoint: Checkpoint) -> int:
    return max(_numbers(checkpoint), default=0)


def _newest_taken(checkpoint: Checkpoint) -> int:
    """The highest number that the newest manifest or the newest intent names: their files may be gone."""
    done, intent = manifests.last(checkpoint), manifests.newest_intent(checkpoint)
    return max(state_of(done).read, 0 if intent is None else intent_of(intent).read)


# ---- taking ----
@dataclass(frozen=True)
class Requests:
    """New requests in order, how far ``control/`` was read with them, and files that are none, with the reason."""

    read: int
    asked: Sequence[tuple[int, Request]] = ()
    refused: tuple[tuple[str, str], ...] = ()


def requests(checkpoint: Checkpoint, after: int) -> Requests:
    """The requests with numbers above ``after``. One that is damaged is passed over; its number is used up."""
    asked, refused = [], []
    numbers = {n: name for n, name in sorted(_numbers(checkpoint).items()) if n > after}
    for number, name in numbers.items():
        try:
            asked.append((number, _read(checkpoint, number, name)))
        except (
            SlackwaterError, LookupError, TypeError, ValueError, AttributeError, PermissionError,
            OverflowError, RecursionError,
        ) as error:  # fmt: skip
            first = str(getattr(error, "message", error)).splitlines()
            refused.append((name, first[0] if first else type(error).__name__))
    return Requests(max([after, *numbers]), asked, tuple(refused))


def _read(checkpoint: Checkpoint, number: int, name: str) -> Request:
    document = unseal(checkpoint.storage, checkpoint.control / name, what="request", kind=KIND)
    if document.get("format") != FORMAT:
        raise ValueError(f"its format is {document.get('format')!r}, and {FORMAT} is known")
    if document.get("number") != number:
        raise ValueError(f"it was written as number {document.get('number')!r}")
    return Request.from_json(document)


def remove_taken(checkpoint: Checkpoint, done: Manifest) -> None:
    """Remove requests that the newest manifest has long taken."""
    read = state_of(done).read
    if not read:
        return
    for number, name in _numbers(checkpoint).items():
        if number <= read - KEPT:
            checkpoint.storage.delete(checkpoint.control / name)


def set_aside(checkpoint: Checkpoint, names: Sequence[str]) -> None:
    """Give files that are no requests another name, so that whoever looks after the checkpoint sees which they are."""
    for name in names:
        source, target = checkpoint.control / name, checkpoint.control / f"damaged-{name}"
        with contextlib.suppress(FileNotFoundError, FileExistsError, PermissionError):
            checkpoint.storage.write_new(target, checkpoint.storage.read(source))
            checkpoint.storage.delete(source)


def digest(document: Any) -> str:
    """A short digest of plain lists and dicts."""
    return manifests.fingerprint(json.dumps(document, sort_keys=True))
