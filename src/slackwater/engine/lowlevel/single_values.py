"""Patterns that close single values, read in columns: of thousands of rows that name one value each, one pattern."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from slackwater.semantics.pattern_text import WHOLE
from slackwater.semantics.patterns import Pattern, Test

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]


class Singles(NamedTuple):
    """Which of the patterns are read; what they say together, with the code of their partition and how many they are."""

    read: Mask
    patterns: list[tuple[int, Pattern, int]]


def single_values(
    maps: pa.MapArray, codes: Ints, types: Mapping[str, str], times: Collection[str]
) -> Singles:
    """What those of the patterns say that test one column, which is none of ``times``, by ``=``.

    ``codes`` are the partitions of the patterns, none of which is null. Values that are not plain to read are left to
    others, who can say what is wrong with them.
    """
    read = np.zeros(len(maps), np.bool_)
    offsets = maps.offsets.to_numpy()
    alone = np.flatnonzero(np.diff(offsets) == 1)
    at = pa.array(offsets[:-1][alone])
    tests = maps.items.take(at)
    operations = tests.field("op")
    plain = pc.and_(pc.equal(operations, "="), tests.field("value").is_valid())
    plain = pc.and_(pc.fill_null(plain, False), tests.is_valid()).to_numpy(zero_copy_only=False)
    names = maps.keys.take(at)
    patterns: list[tuple[int, Pattern, int]] = []
    for name in names.unique().to_pylist():
        column = next((c for c in types if c.lower() == str(name).lower()), None)
        if column is None or column in times:
            continue
        mine = np.flatnonzero(plain & pc.equal(names, name).to_numpy(zero_copy_only=False))
        values = _values(tests.field("value").take(pa.array(mine)), types[column])
        if values is None:
            continue
        read[alone[mine]] = True
        own = codes[alone[mine]]
        for code, test in _by_partition(values, own):
            count = int(np.count_nonzero(own == code))
            patterns.append((code, Pattern.of({column: test}), count))
    return Singles(read, patterns)


def _values(texts: pa.Array, type: str) -> pa.Array | None:
    """Values of a type that is easily read, None if it is not, or if a text is none of them."""
    if type == "string":
        return texts
    if type not in WHOLE:
        return None
    try:
        return texts.cast(pa.int64())
    except pa.ArrowInvalid:
        return None


def _by_partition(values: pa.Array, codes: Ints) -> Iterator[tuple[int, Test]]:
    for code in np.unique(codes):
        mine = pc.unique(values.filter(pa.array(codes == code)))
        if pa.types.is_integer(mine.type):
            yield int(code), _runs(np.sort(mine.to_numpy()))
        else:
            yield int(code), Test.among(mine.to_pylist())


def _runs(values: Ints) -> Test:
    """A test for whole numbers, in order and each once: neighbours are one span."""
    cuts = np.flatnonzero(np.diff(values) > 1) + 1
    lows = values[np.concatenate([[0], cuts])]
    highs = values[np.concatenate([cuts - 1, [len(values) - 1]])]
    spans = zip(lows.tolist(), highs.tolist(), strict=True)
    return Test(tuple((low, high + 1) for low, high in spans))
