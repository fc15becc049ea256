"""Which of many records may cover what a row group holds, asked of all at once.

The *hull* of a test on whole numbers is from its least value to its greatest. A record covers values only if each of its
hulls does. What passes is a candidate, and whoever asks must look at it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TypeGuard

import numpy as np

from slackwater.model.same import Same
from slackwater.semantics.patterns import Patterns, Test, Value

_INT64 = np.iinfo(np.int64)


class Hulls:
    """The hulls of records, by column."""

    def __init__(self, records: Patterns):
        self._count = len(records)
        self._by_column: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        for column in dict.fromkeys(c for r in records for c in r.columns):
            tests = [r.test(column) for r in records]
            low = np.array([_end(t, 0, 0, _INT64.min) for t in tests], np.int64)
            high = np.array([_end(t, -1, 1, _INT64.max) for t in tests], np.int64)
            self._by_column[column] = low, high

    @property
    def columns(self) -> frozenset[str]:
        """The columns that records test."""
        return frozenset(self._by_column)

    def candidates(self, held: Mapping[str, Test]) -> list[int]:
        """The numbers of the records that may cover rows whose columns hold ``held``; one that does is never left out."""
        may = np.ones(self._count, np.bool_)
        for column, (low, high) in self._by_column.items():
            test = held.get(column)
            if test is None or not test.spans:
                continue
            first, last = test.spans[0][0], test.spans[-1][1]
            if first is None or _is_number(first):
                may &= low <= (_INT64.min if first is None else first)
            if last is None or _is_number(last):
                may &= high >= (_INT64.max if last is None else last)
        return [int(i) for i in np.flatnonzero(may)]


@lru_cache(maxsize=16)
def hulls(records: Same[Patterns]) -> Hulls:
    """Those of records, made once."""
    return Hulls(records.it)


def _end(test: Test | None, span: int, side: int, unknown: int) -> int:
    """An end of the hull of a test; ``unknown`` if it is open, or no number of 64 bits: then it holds nothing back."""
    if test is None or not test.spans:
        return unknown
    value = test.spans[span][side]
    return value if _is_number(value) else unknown


def _is_number(value: Value | None) -> TypeGuard[int]:
    return isinstance(value, int) and bool(_INT64.min <= value <= _INT64.max)
