"""What rules of operators are told of the plan around them, and what they answer with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from slackwater.model.node import Join, Node, Source
from slackwater.model.window import Window

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


def least(points: Iterable[tuple[int, ...]]) -> Points:
    """The points that are not above another, in order."""
    distinct = sorted(set(points))
    return tuple(
        p
        for p in distinct
        if not any(q != p and all(a <= b for a, b in zip(q, p, strict=True)) for q in distinct)
    )
