"""How far apart in time rows may lie to join, as a query states it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from slackwater.model.window import TimeWindow

How = Literal["inner", "left", "right", "full", "left_semi", "left_anti"]
HOWS: dict[str, How] = {
    "inner": "inner",
    "left": "left", "leftouter": "left", "left_outer": "left",
    "right": "right", "rightouter": "right", "right_outer": "right",
    "full": "full", "outer": "full", "fullouter": "full", "full_outer": "full",
    "semi": "left_semi", "leftsemi": "left_semi", "left_semi": "left_semi",
    "anti": "left_anti", "leftanti": "left_anti", "left_anti": "left_anti",
}  # fmt: skip
"""How rows join, by what users may call it; the names are those of Spark."""
Closed = Literal["both", "left", "neither"]


def is_existence(how: How) -> bool:
    """Whether a result is one row of the left input, chosen by whether a partner exists.

    >>> is_existence("left_anti"), is_existence("left")
    (True, False)
    """
    return how in ("left_semi", "left_anti")


@dataclass(frozen=True)
class Band:
    """Two inputs a and b: ``a.time - before <= b.time <= a.time + after``.

    ``closed`` says which of the two ends belong to the band. Either span may be negative: with
    ``before=-1`` b comes strictly after a.
    """

    before: int
    after: int
    closed: Closed = "both"


@dataclass(frozen=True)
class Tumbling:
    """All rows of a result lie in the same window of a tumbling ``window``."""

    window: TimeWindow


@dataclass(frozen=True)
class Reach:
    """``ticks[i]`` is how long a row of input i stays joinable, its end included.

    The rows of a result keep ``time_i - time_j <= ticks[j]`` for all i != j.
    """

    ticks: tuple[int, ...]


@dataclass(frozen=True)
class Anytime:
    """Rows join at any distance in time: a band without ends. Only punctuation of the keys says that no partner comes."""


@dataclass(frozen=True)
class Condition:
    """A further condition on joined rows as a function: Arrow columns in, an array of booleans out.

    ``columns`` are the result's columns that it takes, in order; none: it takes one table of all. The ``version``
    tells two functions apart; the functions themselves do not take part in comparisons.
    """

    name: str
    version: str
    columns: tuple[str, ...]
    function: Callable[..., Any] = field(compare=False, repr=False)

    def __str__(self) -> str:
        return f"function {self.name}@{self.version}({', '.join(self.columns) or 'all columns'})"


@dataclass(frozen=True)
class MixedKey:
    """A key whose ``types`` differ between the inputs.

    ``widest`` is the type that can hold the values of all inputs, if there is one; ``shown`` that of the column in the
    result, if the inputs have one in common there.
    """

    name: str
    types: tuple[str, ...]
    widest: str | None = None
    shown: str | None = None


Within: TypeAlias = Band | Tumbling | Reach | Anytime
