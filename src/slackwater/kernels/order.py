"""Order and equality of columns as 64-bit integers, in Spark's sense.

Null is least, NaN is greatest and equal to itself, -0.0 equals 0.0, text is ordered by bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.kernels.buckets import (
    Column,
    as_int64,
    decimal_words,
    flat,
    float_bits,
    list_parts,
)

Ints = npt.NDArray[np.int64]

_ROOM = 1 << 62
_SIGN = np.uint64(1 << 63)
_MAGNITUDE = np.int64((1 << 63) - 1)


class Codes(NamedTuple):
    """``codes`` lie in [0, size); equal values have equal codes, and codes rise with the values."""

    codes: Ints
    size: int


def group_codes(columns: Sequence[Column | Ints], rows: int) -> Codes:
    """Codes of rows by several columns, the first one counting most."""
    total = Codes(np.zeros(rows, dtype=np.int64), 1)
    for column in columns:
        total = _join(total, column_codes(column))
    return total


def column_codes(column: Column | Ints) -> Codes:
    """Codes of one column, null first."""
    if isinstance(column, np.ndarray):
        return int_codes(column)
    array = flat(column)
    t = array.type
    if pa.types.is_null(t):
        return Codes(np.zeros(len(array), dtype=np.int64), 1)
    if pa.types.is_struct(t):
        present = array.is_valid().to_numpy(zero_copy_only=False).astype(np.int64)
        inner = group_codes(list(array.flatten()), len(array))
        joined = _join(Codes(present, 2), inner)
        return joined
    if pa.types.is_map(t):
        return _map_codes(array)
    if pa.types.is_list(t) or pa.types.is_large_list(t):
        elements, offsets = list_parts(array)
        return _sequence_codes([column_codes(elements).codes], offsets, array)
    if has_image(t):
        codes = int_codes(image(array))
    elif pa.types.is_decimal(t):
        low, high = decimal_words(array)
        codes = _join(int_codes(high), int_codes((low ^ _SIGN).view(np.int64)))
    else:
        return _text_codes(array)
    return _with_nulls(codes, array)


def has_image(t: pa.DataType) -> bool:
    """Whether values of the type map one to one onto 64-bit integers in their order."""
    if pa.types.is_decimal(t):
        return bool(t.precision <= 18)
    return bool(
        pa.types.is_integer(t)
        or pa.types.is_floating(t)
        or pa.types.is_boolean(t)
        or pa.types.is_temporal(t)
    )


def image(array: pa.Array) -> Ints:
    """Values as 64-bit integers in their order; nulls give any value."""
    t = array.type
    if pa.types.is_floating(t):
        bits = float_bits(array)
        return np.asarray(bits ^ ((bits >> np.int64(63)) & _MAGNITUDE))
    if pa.types.is_decimal(t):
        return decimal_words(array)[0].view(np.int64)
    return as_int64(array)


def from_image(codes: Ints, t: pa.DataType, valid: npt.NDArray[np.bool_]) -> pa.Array:
    """The inverse of ``image``; null where not ``valid``."""
    mask = ~valid
    if pa.types.is_floating(t):
        bits = codes ^ ((codes >> np.int64(63)) & _MAGNITUDE)
        return pa.array(bits.view(np.float64), mask=mask).cast(t, safe=False)
    if pa.types.is_decimal(t):
        words = np.stack([codes, codes >> np.int64(63)], axis=1)
        return decimal_array(words, t, valid)
    values = np.where(valid, codes, 0)
    if pa.types.is_boolean(t):
        return pa.array(values.astype(np.bool_), mask=mask)
    if pa.types.is_date32(t):
        return pa.array(values.astype(np.int32), mask=mask).view(t)
    if pa.types.is_temporal(t):
        return pa.array(values, mask=mask).view(t)
    return pa.array(values, mask=mask).cast(t)


def decimal_array(words: Ints, t: pa.DataType, valid: npt.NDArray[np.bool_]) -> pa.Array:
    """decimal128 values from (low, high) words, an array of shape (n, 2)."""
    bits = pa.py_buffer(np.packbits(valid, bitorder="little").tobytes())
    data = pa.py_buffer(np.ascontiguousarray(words, dtype="<i8").tobytes())
    return pa.Array.from_buffers(t, len(valid), [bits, data])


def int_codes(values: Ints) -> Codes:
    """Codes of integers: their distance from the least one if that is small, else ranks."""
    if len(values) == 0:
        return Codes(values, 1)
    least, most = int(values.min()), int(values.max())
    if most - least < max(4 * len(values), 1 << 20):
        return Codes(values - np.int64(least), most - least + 1)
    encoded = pa.array(values).dictionary_encode()
    distinct = encoded.dictionary.to_numpy(zero_copy_only=False)
    rank = np.empty(len(distinct), dtype=np.int64)
    rank[np.argsort(distinct)] = np.arange(len(distinct))
    return Codes(rank[encoded.indices.to_numpy(zero_copy_only=False)], len(distinct))


def dense(codes: Codes) -> Codes:
    """The same order with no unused codes."""
    _, inverse = np.unique(codes.codes, return_inverse=True)
    inverse = inverse.astype(np.int64, copy=False)
    return Codes(inverse, int(inverse.max()) + 1 if len(inverse) else 1)


def stable_order(codes: Codes) -> Ints:
    """The rows in order of their codes, rows of equal code in their own order."""
    n = len(codes.codes)
    bits = max(n - 1, 1).bit_length()
    if codes.size << bits >= 1 << 63:
        return np.argsort(codes.codes, kind="stable")
    # Sorting plain integers that carry the row is several times faster than a stable argsort.
    packed = (codes.codes << np.int64(bits)) | np.arange(n)
    packed.sort()
    return np.asarray(packed & np.int64((1 << bits) - 1))


def _join(a: Codes, b: Codes) -> Codes:
    if a.size * b.size >= _ROOM:
        a = dense(a)
    if a.size * b.size >= _ROOM:
        b = dense(b)
    return Codes(a.codes * np.int64(b.size) + b.codes, a.size * b.size)


def _with_nulls(codes: Codes, array: pa.Array) -> Codes:
    if not array.null_count:
        return codes
    nulls = array.is_null().to_numpy(zero_copy_only=False)
    return Codes(np.where(nulls, 0, codes.codes + 1), codes.size + 1)


def _text_codes(array: pa.Array) -> Codes:
    if array.null_count == len(array):
        return Codes(np.zeros(len(array), dtype=np.int64), 1)
    encoded = array.dictionary_encode()
    order = pc.array_sort_indices(encoded.dictionary.cast(pa.binary())).to_numpy()
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(1, len(order) + 1)
    indices = encoded.indices.fill_null(0).to_numpy(zero_copy_only=False)
    codes = rank[indices]
    if array.null_count:
        codes[array.is_null().to_numpy(zero_copy_only=False)] = 0
    return Codes(codes, len(order) + 1)


def _sequence_codes(elements: Sequence[Ints], offsets: Ints, array: pa.Array) -> Codes:
    """Codes of lists of codes: each list as bytes whose order is the lists' order."""
    if len(array) == 0:
        return Codes(np.empty(0, dtype=np.int64), 1)
    wide = np.stack(elements, axis=1).astype(">i8") if elements else np.empty((0, 1), ">i8")
    width = 8 * wide.shape[1]
    data = pa.py_buffer(wide.tobytes())
    ends = pa.py_buffer((offsets * width).astype(np.int64).tobytes())
    texts = pa.Array.from_buffers(pa.large_binary(), len(array), [None, ends, data])
    codes = _text_codes(texts.cast(pa.binary()))
    return _with_nulls(codes, array)


def _map_codes(array: pa.Array) -> Codes:
    """Maps are equal whatever the order of their entries: sort those by key first."""
    pair = pa.struct([("k", array.type.key_type), ("v", array.type.item_type)])
    entries, offsets = list_parts(array.cast(pa.list_(pair)))
    keys, values = entries.flatten()
    key, value = column_codes(keys).codes, column_codes(values).codes
    row = np.repeat(np.arange(len(array)), np.diff(offsets))
    order = np.lexsort((key, row))
    return _sequence_codes([key[order], value[order]], offsets, array)
