"""How far apart in time partners of a join may be, as users write it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from slackwater.model.join import Closed


@dataclass(frozen=True)
class BandSpec:
    """A span of time around a row, not yet bound to streams; made by `band`."""

    before: Any
    after: Any
    closed: Closed = "both"


def band(*, before: Any = None, after: Any = None, closed: Closed = "both") -> BandSpec:
    """Partners of a left row lie in ``[time - before, time + after]`` of the right stream.

    Durations are texts such as ``"2 minutes"`` (ints for integer times); one that is left out is zero.

    Parameters
    ----------
    before, after
        How much older and how much newer than the left row a right row may be. A negative ``before`` asks for
        right rows that are newer by at least as much.
    closed
        Which ends belong to the span: ``"both"``, ``"left"`` (the older end only), ``"neither"``.

    Examples
    --------
    >>> band(before="2 minutes", after="3 minutes")
    BandSpec(before='2 minutes', after='3 minutes', closed='both')
    """
    return BandSpec(before, after, closed)
