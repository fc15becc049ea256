"""Many ranges as data: whether values lie inside, by search in a sorted list, as a function of the column engine.

A thousand ranges as a thousand conditions take an engine a tenth of a second to read, and a row all of them to be tested. Here
the text names the list by a number, and whoever runs it holds the list.
"""

from __future__ import annotations

import hashlib
import pickle
import threading
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slackwater.model.names import ours

Range = tuple[int | None, int | None]
"""From a number to below another one; None is open."""

MOST_COLUMNS = 4
_LEAST, _MOST = -(1 << 63), (1 << 63) - 1

_lock = threading.Lock()
_known: WeakValueDictionary[int, Listed] = WeakValueDictionary()


def function(columns: int) -> str:
    """The name of the function for lists over so many columns."""
    return ours(f"_inside{columns}")


class Listed:
    """Boxes, each with one range per column; the ranges of the first column are apart and in order.

    One that is there is known to the column engine of its process, so who unpickles one can run the statements that name it.
    Lists of the same boxes are one object: else the last one made would be known, and no other when that goes.
    """

    __slots__ = ("__weakref__", "boxes", "high", "low", "number", "written")

    boxes: tuple[tuple[Range, ...], ...]
    number: int
    low: list[NDArray[np.int64]]
    high: list[NDArray[np.int64]]
    written: bytes | None

    def __new__(cls, boxes: Sequence[tuple[Range, ...]]) -> Listed:
        given = tuple(boxes)
        number = int.from_bytes(hashlib.sha256(repr(given).encode()).digest()[:7], "big")
        with _lock:
            known = _known.get(number)
            if known is not None:
                return known
            made = super().__new__(cls)
            made.boxes, made.number, made.written = given, number, None
            # Both ends belong to these, so that they are 64-bit numbers.
            made.low = [_ends(given, i, 0) for i in range(len(given[0]))]
            made.high = [_ends(given, i, 1) for i in range(len(given[0]))]
            _known[number] = made
        return made

    def __reduce__(self) -> Any:
        # Tasks of each batch are sent the same lists: they are written once, and those that were read last stay.
        if self.written is None:
            self.written = pickle.dumps(self.boxes, pickle.HIGHEST_PROTOCOL)
        return read, (self.written,)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Listed) and self.boxes == other.boxes

    def __hash__(self) -> int:
        return self.number

    def __repr__(self) -> str:
        return f"Listed({len(self.boxes)} boxes, number {self.number})"

    def call(self, texts: Sequence[str]) -> str:
        """The SQL that is true for values inside one of the boxes; null if one is null.

        >>> Listed([((1, 3),), ((7, None),)]).call(['"k"']).startswith('__sw_inside1("k", ')
        True
        """
        return f"{function(len(texts))}({', '.join([*texts, str(self.number)])})"

    def inside(self, values: Sequence[NDArray[np.int64]]) -> NDArray[np.bool_]:
        """Which rows lie inside one of the boxes.

        >>> Listed([((1, 3),), ((7, None),)]).inside([np.array([0, 1, 2, 3, 7])]).tolist()
        [False, True, True, False, True]
        """
        at = np.searchsorted(self.low[0], values[0], side="right") - 1
        found: NDArray[np.bool_] = at >= 0
        at = np.maximum(at, 0)
        for value, low, high in zip(values, self.low, self.high, strict=True):
            found &= (value >= low[at]) & (value <= high[at])
        return found


@lru_cache(maxsize=16)
def read(data: bytes) -> Listed:
    """A list that was pickled."""
    return Listed(pickle.loads(data))


def apart(boxes: Sequence[tuple[Range, ...]]) -> tuple[int, list[tuple[Range, ...]]] | None:
    """A column on which no two boxes overlap, and the boxes in its order; None if there is none.

    >>> apart([((5, 6), (0, 9)), ((1, 2), (0, 9))])
    (0, [((1, 2), (0, 9)), ((5, 6), (0, 9))])
    >>> apart([((1, 4), (0, 9)), ((3, 5), (0, 9))]) is None
    True
    """
    for column in range(len(boxes[0])):
        ordered = sorted(boxes, key=lambda b: _first(b[column]))
        ranges = [b[column] for b in ordered]
        if all(a[1] is not None and b[0] is not None and a[1] <= b[0] for a, b in pairwise(ranges)):
            return column, ordered
    return None


def evaluate(*columns: pa.Array) -> pa.Array:
    """The function itself: the last column is the number of the list, the same in every row."""
    *values, numbers = (_plain(c) for c in columns)
    if not len(numbers):
        return pa.array([], pa.bool_())
    listed = _known.get(int(numbers[0]))
    if listed is None:
        raise RuntimeError(f"list {numbers[0]} of ranges is not known in this process")
    return pa.array(listed.inside(values))


FUNCTIONS: tuple[Callable[..., pa.Array], ...] = (
    lambda a, n: evaluate(a, n),
    lambda a, b, n: evaluate(a, b, n),
    lambda a, b, c, n: evaluate(a, b, c, n),
    lambda a, b, c, d, n: evaluate(a, b, c, d, n),
)
"""The same for each number of columns: the column engine counts what a function takes."""


def _plain(column: Any) -> NDArray[np.int64]:
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    values: NDArray[np.int64] = column.fill_null(0).to_numpy(zero_copy_only=False)
    return values


def _first(one: Range) -> int:
    return _LEAST - 1 if one[0] is None else one[0]


def _ends(boxes: Sequence[tuple[Range, ...]], column: int, end: int) -> NDArray[np.int64]:
    ends = [box[column][end] for box in boxes]
    if end:
        return np.array([_MOST if e is None else min(max(e - 1, _LEAST), _MOST) for e in ends], np.int64)  # fmt: skip
    return np.array([_LEAST if e is None else min(max(e, _LEAST), _MOST) for e in ends], np.int64)
