"""What a group costs as rows and as partial aggregates, estimated from rates.

A running operator need not estimate: it counts the rows and the partials of each group (`semantics.adaptive.next_modes`).
"""

from __future__ import annotations

from collections.abc import Sequence

from slackwater.semantics.adaptive import Sizes


def eager_bytes(item: float, extent: float, slide: float) -> float:
    """Bytes of a group's partials: one for each window that is open at a time.

    ``extent`` is how long a window stays open, from its start until a bound closes it.

    >>> eager_bytes(16, 300, 60)
    80.0
    """
    return item * extent / slide


def rows_held(rates: Sequence[float], extent: float, behind: Sequence[float] = ()) -> float:
    """Rows of a group that are kept at a time: of each source those of the extent, less what has yet to come.

    ``rates`` are rows per tick of each source, ``behind`` how far each lags behind the first of them.

    >>> rows_held([10, 5, 1], 60, [0, 10, 20])
    890
    """
    late = behind or [0.0] * len(rates)
    return sum(rate * (extent - lag) for rate, lag in zip(rates, late, strict=True))


def threshold(
    sizes: Sizes,
    extent: float,
    slide: float,
    rates: Sequence[float] = (),
    behind: Sequence[float] = (),
) -> float:
    """The volume of an extent (rate times extent) above which a group is smaller eager than lazy.

    Of sources that lag, a part of the volume is not there yet: it does not count.

    >>> threshold(Sizes(row=32, item=16), 300, 60)
    2.5
    """
    absent = sum(rate * lag for rate, lag in zip(rates, behind, strict=bool(behind)))
    return sizes.item * extent / (sizes.row * slide) + absent
