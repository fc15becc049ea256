"""Rows or partial aggregates: what a group's state costs either way, and when a group changes sides.

A group is *lazy* while its rows are kept as they came, and *eager* while they are reduced to partial aggregates. Few
rows are smaller than the partials of all windows they are in; many rows are not.

A running operator need not estimate either side: it counts the rows and the partials of each group (`next_modes`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

MARK = 16
"""Bytes by which an eager group is remembered, besides its keys."""


@dataclass(frozen=True)
class Sizes:
    """Bytes of a row that is kept as it came, of a partial aggregate, and of an eager group's mark."""

    row: float
    item: float
    mark: float = MARK


@dataclass(frozen=True)
class ModeRules:
    """``down``: an eager group becomes lazy when its rows would need less than this share of its partials' bytes.

    ``share``: lazy groups that had better be eager wait until they hold this share of all rows kept, since moving them
    means to write the others anew. Both are slack: they cost memory, and save work.
    """

    down: float = 0.8
    share: float = 0.125


BUFFERED = ModeRules(share=math.inf)
"""No group is ever reduced before its windows close."""


def next_modes(
    eager: Flags,
    kept: Ints,
    becoming: Ints,
    reduced: Ints,
    items: Ints,
    sizes: Sizes,
    *,
    bound_moved: bool,
    rules: ModeRules | None = None,
) -> Flags:
    """Which groups are eager from now on.

    Parameters
    ----------
    eager
        Which groups are eager now.
    kept, becoming
        Rows kept of each group, and the partials that they would become.
    reduced, items
        Rows that went into each group's partials and are of use still, and how many partials these are. A lazy group
        that has some is in transition: they stay until their windows close, whatever is decided.
    bound_moved
        Whether windows closed in this batch: only then has an eager group lost rows, and may become lazy.
    """
    rules = rules or ModeRules()
    rows = sizes.row * kept
    up = ~eager & (rows > sizes.item * becoming + sizes.mark)
    if up.any() and kept[up].sum() < rules.share * kept.sum():
        up[:] = False
    down = np.zeros_like(eager)
    if bound_moved:
        down = eager & (sizes.row * reduced < rules.down * sizes.item * items)
    gone = (kept == 0) & (reduced == 0)
    return np.asarray((eager | up) & ~down & ~gone)


def worth_it(sizes: Sizes, rows_per_item: float) -> bool:
    """Whether rows as such save at least half of the bytes of their partials, on average.

    >>> worth_it(Sizes(26, 106), 1.5), worth_it(Sizes(26, 106), 40)
    (True, False)
    """
    return sizes.row * rows_per_item <= 0.5 * sizes.item
