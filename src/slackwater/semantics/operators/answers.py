"""What rules of operators are told of the plan around them, and what they answer with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from slackwater.model.node import Join, Node, Source
from slackwater.model.window import Window
from slackwater.semantics.patterns import Pattern, Patterns

Points = tuple[tuple[int, ...], ...]
BoundOf = Callable[[Node, str], int]
HoldOf = Callable[[Join], "Sequence[int] | None"]

Copies = list[tuple[Node, str]]
"""Inputs and their columns, of which a column of the output has the values."""

Chain = tuple[Window, ...]
Traced = tuple[Chain, int]
"""The windows that a time meets on its way, and its shift since the last of them."""


@dataclass(frozen=True)
class Known:
    """What a frontier is made of: that of an input over its times (``below``), the bound of a node's time, and what a
    join may promise of its inputs while rows of these wait to be joined, or None.
    """

    below: Callable[[Node, Sequence[str]], Points]
    bound: BoundOf
    hold: HoldOf


@dataclass(frozen=True)
class Trace:
    """The time ``column`` of ``source``, followed through the plan; without ``joins`` only where there are none.

    ``below`` follows it to a column of an input.
    """

    source: Source
    column: str
    joins: bool
    below: Callable[[Node, str], list[Traced]]


@dataclass(frozen=True)
class Reaction:
    """What an operator does about records that all readers of its output assert.

    ``inputs`` has the records that go on to each input: rows that match them may be missing there. It is None for an
    input whose rows the operator does not read. ``guard`` are the records whose rows it drops where they come out, since
    they could not go on. ``dark`` are those for which it keeps results back although its inputs sent something: rows below
    are missing, and a result without them would be one that nobody asked for. ``alone`` says that only rows without a
    partner can be such results.
    """

    inputs: tuple[Patterns | None, ...]
    guard: Patterns = ()
    dark: Patterns = ()
    alone: bool = False

    @classmethod
    def of(
        cls,
        inputs: int,
        each: Iterable[tuple[Pattern, Sequence[Pattern | None], bool]],
        alone: bool = False,
    ) -> Reaction:
        """The reaction to single records: what goes on to each input, and whether the operator gets dark by it.

        A record that can go nowhere is guarded at the output; one without a test, or that no row can match, is not sent.
        """
        below: list[list[Pattern]] = [[] for _ in range(inputs)]
        guard, dark = [], []
        for record, sent, darkens in each:
            usable = [
                (i, r) for i, r in enumerate(sent) if r is not None and r.tests and not r.empty
            ]
            for i, r in usable:
                below[i].append(r)
            if not usable:
                guard.append(record)
            elif darkens:
                dark.append(record)
        return cls(tuple(tuple(b) for b in below), tuple(guard), tuple(dark), alone)


Newest = Mapping[str, int]
"""By time column the greatest time of the rows that may be missing, or `START`: none is."""


def least(points: Iterable[tuple[int, ...]]) -> Points:
    """The points that are not above another, in order."""
    distinct = sorted(set(points))
    return tuple(
        p
        for p in distinct
        if not any(q != p and all(a <= b for a, b in zip(q, p, strict=True)) for q in distinct)
    )
