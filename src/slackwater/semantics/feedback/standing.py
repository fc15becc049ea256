"""What stands: feedback that consumers have sent and not taken back, and how requests and time change it.

Pure functions of what stood before, the requests that have come, and a point in time. A batch that is tried again takes
what its intent says, and asks none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from slackwater.model.same import Same
from slackwater.semantics.feedback.order import is_testable
from slackwater.semantics.feedback.value import Feedback
from slackwater.semantics.patterns import Patterns, Test

Kind = Literal["send", "renew", "retract"]


@dataclass(frozen=True)
class Request:
    """What a consumer asks of a running query: to take feedback in, to renew its lease, or to end it.

    ``lease`` is in microseconds of the query's clock, or in ticks of its times if it has none; None is for ever. ``target`` is the
    number of the request that is renewed or retracted.
    """

    kind: Kind
    output: str = ""
    name: str = ""
    feedback: Feedback | None = None
    lease: int | None = None
    target: int = 0

    def to_json(self) -> dict[str, Any]:
        """Plain lists and dicts."""
        if self.kind != "send":
            return {"ask": self.kind, "target": self.target}
        assert self.feedback is not None
        return {
            "ask": self.kind, "output": self.output, "name": self.name,
            "feedback": self.feedback.to_json(), "lease": self.lease,
        }  # fmt: skip

    @classmethod
    def from_json(cls, json: Mapping[str, Any]) -> Request:
        """The inverse of `to_json`; what is no request is a ``KeyError``, ``TypeError`` or ``ValueError``."""
        kind = json["ask"]
        if kind in ("renew", "retract"):
            return cls(kind, target=int(json["target"]))
        if kind != "send":
            raise ValueError(f"it asks for {kind!r}, which is not known")
        lease = json["lease"]
        feedback = Feedback.from_json(json["feedback"])
        _check(feedback)
        names = str(json["output"]), str(json["name"])
        return cls("send", *names, feedback, None if lease is None else int(lease))


def _check(feedback: Feedback) -> None:
    """That feedback which was read from a file is as `Feedback.of` makes it; a ``ValueError`` or ``TypeError`` if it is not."""
    names = [c.name for c in feedback.columns]
    tested = {name for r in feedback.records for name in r.columns}
    if not tested or not all(isinstance(n, str) for n in names) or tested != set(names):
        raise ValueError("its columns are not those that its records test")
    for column in feedback.columns:
        if not isinstance(column.type, str) or not is_testable(column.type):
            raise ValueError(f"column '{column.name}' has the type {column.type!r}")
    for record in feedback.records:
        for _, test in record.tests:
            if test != Test.of(test.spans, test.null is True):
                raise ValueError("the spans of a test are out of order")


@dataclass(frozen=True)
class Standing:
    """Feedback that is in force.

    ``id`` is the number of its request; what a start declares has none. ``batch`` is the first in which it acted, ``until``
    is when its lease ends.
    """

    id: int
    output: str
    name: str
    feedback: Feedback
    batch: int
    lease: int | None = None
    until: int | None = None

    @property
    def declared(self) -> bool:
        """Whether the query's start says so."""
        return self.id == 0

    def to_json(self, written: Callable[[Feedback], Any] = Feedback.to_json) -> dict[str, Any]:
        """Plain lists and dicts; ``written`` says how the feedback is."""
        return {
            "id": self.id, "output": self.output, "name": self.name, "feedback": written(self.feedback),
            "batch": self.batch, "lease": self.lease, "until": self.until,
        }  # fmt: skip

    @classmethod
    def from_json(
        cls, json: Mapping[str, Any], read: Callable[[Any], Feedback] = Feedback.from_json
    ) -> Standing:
        """The inverse of `to_json`."""
        return cls(**{**json, "feedback": read(json["feedback"])})


def taken(
    standing: Sequence[Standing],
    requests: Iterable[tuple[int, Request]],
    *,
    batch: int,
    now: int | None,
) -> tuple[Standing, ...]:
    """What stands when requests, in the order of their numbers, have been taken in.

    A name that is sent again replaces what stood under it. ``now`` is what leases are counted from; None if nobody knows
    a time yet, and then they begin when it is known.
    """
    kept = list(standing)
    for number, request in requests:
        if request.kind == "retract":
            kept = [s for s in kept if s.id != request.target or s.declared]
        elif request.kind == "renew":
            kept = [_leased(s, now) if s.id == request.target else s for s in kept]
        else:
            assert request.feedback is not None
            name = request.name or f"feedback-{number}"
            kept = [s for s in kept if s.declared or (s.output, s.name) != (request.output, name)]
            fresh = Standing(number, request.output, name, request.feedback, batch, request.lease)
            kept.append(_leased(fresh, now))
    return tuple(kept)


def _leased(standing: Standing, now: int | None) -> Standing:
    if standing.lease is None or now is None:
        return standing
    return replace(standing, until=now + standing.lease)


def leased(standing: Sequence[Standing], now: int | None) -> tuple[Standing, ...]:
    """What stands at a time: without what had its lease; a lease that waited for a first time begins."""
    if now is None:
        return tuple(standing)
    begun = [_leased(s, now) if s.until is None else s for s in standing]
    return tuple(s for s in begun if s.until is None or now < s.until)


def declared(
    standing: Sequence[Standing], wanted: Iterable[tuple[str, Feedback]], batch: int
) -> tuple[Standing, ...]:
    """What stands when a start declares ``wanted``, by output: this and no other, besides what was sent."""
    before = [s for s in reversed(standing) if s.declared]
    # From batch to batch they are mostly the very same, which is found without a look at their records.
    same = {(s.output, Same(s.feedback)): s for s in reversed(before)}
    counts: dict[str, int] = {}
    own = []
    for output, feedback in wanted:
        counts[output] = counts.get(output, 0) + 1
        name = f"declared-{counts[output]}"
        known = same.get((output, Same(feedback)))
        if known is None:
            equal = (s for s in before if s.output == output and s.feedback == feedback)
            known = next(equal, Standing(0, output, name, feedback, batch))
        own.append(known if known.name == name else replace(known, name=name))
    return (*own, *(s for s in standing if not s.declared))


def without(
    standing: Iterable[Standing], left: Callable[[Standing], Patterns]
) -> tuple[Standing, ...]:
    """What stands without the records that are over; ``left`` gives those that are not."""
    kept = []
    for s in standing:
        records = left(s)
        if records == s.feedback.records:
            kept.append(s)
        elif records:
            kept.append(replace(s, feedback=replace(s.feedback, records=records)))
    return tuple(kept)
