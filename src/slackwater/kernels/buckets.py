"""Buckets of keys: a hash that stays the same for ever.

State is stored by bucket, so these numbers are a format: never change a constant here. A value is hashed
by what it is, not by its width: the int 5 and the bigint 5 share a bucket.

====================== ==========================================================================
int, date, timestamp   the value as a 64-bit word
boolean                0 or 1
float, double          the bits as a double; -0.0 as 0.0, one NaN
decimal                the unscaled value: mix(low word) ^ high word
string, binary         sum over 8-byte little-endian words (zero padded) of mix(word ^ mix(i + 1)),
                       plus a constant times the number of bytes plus that of words
array                  as a string, with the elements' hashes for words, plus the constant times the
                       number of elements
map                    the sum over entries of mix(key ^ mix(value)): order does not matter
struct                 its fields, as key columns
null                   a constant
====================== ==========================================================================

All arithmetic is modulo 2**64; ``mix`` is the finaliser of splitmix64; columns are folded by
``h = mix(h * 31 + column)``. The bucket is the top bits of the hash.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.model.names import BUCKET

BUCKETS = 256

Column: TypeAlias = "pa.Array | pa.ChunkedArray"
Words = npt.NDArray[np.uint64]

_SEED = np.uint64(0x51AC7A7E25D0F1E5)
_NULL = np.uint64(0x9AE16A3B2F90404F)
_LENGTH = np.uint64(0x9E3779B97F4A7C15)
_M1 = np.uint64(0xBF58476D1CE4E5B9)
_M2 = np.uint64(0x94D049BB133111EB)


def bucket_of(
    columns: Sequence[Column], buckets: int = BUCKETS, *, rows: int | None = None
) -> npt.NDArray[np.int16]:
    """The bucket of each row by its key ``columns``; ``rows`` is needed only without columns."""
    h = hash_of(columns, rows=rows)
    top = ((h >> np.uint64(32)) * np.uint64(buckets)) >> np.uint64(32)
    return np.asarray(top, dtype=np.int16)


def buckets_of(table: pa.Table) -> pa.ChunkedArray:
    """The buckets of a table's rows: the column has another name beside users' columns."""
    return table[BUCKET if BUCKET in table.column_names else "_bucket"]


def hash_of(columns: Sequence[Column], *, rows: int | None = None) -> Words:
    """The 64-bit hash of each row."""
    n = len(columns[0]) if columns else (rows or 0)
    h = np.full(n, _SEED, dtype=np.uint64)
    for column in columns:
        h = _mix(h * np.uint64(31) + _hash(flat(column)))
    return h


def group_of(bucket: npt.ArrayLike, groups: int) -> npt.NDArray[np.int64]:
    """The partition-group of a bucket when there are ``groups`` of them."""
    return np.asarray(bucket, dtype=np.int64) * groups // BUCKETS


def bucket_range(group: int, groups: int) -> tuple[int, int]:
    """The buckets [first, end) of a partition-group."""
    return -(-group * BUCKETS // groups), -(-(group + 1) * BUCKETS // groups)


def flat(column: Column) -> pa.Array:
    """The column as one array without dictionary."""
    if isinstance(column, pa.ChunkedArray):
        # Combining copies even a single chunk.
        column = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
        if isinstance(column, pa.ChunkedArray):
            column = pa.concat_arrays(column.chunks) if column.num_chunks else column.chunk(0)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return column


def float_bits(array: pa.Array) -> npt.NDArray[np.int64]:
    """The bits of floats as doubles, with one zero and one NaN; nulls give any value."""
    values = array.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False)
    values = values + 0.0  # -0.0 + 0.0 is 0.0
    values = np.where(np.isnan(values), np.nan, values)
    return values.view(np.int64)


def decimal_words(array: pa.Array) -> tuple[Words, npt.NDArray[np.int64]]:
    """Low (unsigned) and high (signed) word of the unscaled values; nulls give any value."""
    if not pa.types.is_decimal128(array.type):
        array = array.cast(pa.decimal128(array.type.precision, array.type.scale))
    n = len(array)
    if n == 0:
        return np.empty(0, np.uint64), np.empty(0, np.int64)
    words = np.frombuffer(array.buffers()[1], dtype="<u8", count=2 * (n + array.offset))
    pairs = words[2 * array.offset :].reshape(n, 2)
    return pairs[:, 0].copy(), pairs[:, 1].copy().view(np.int64)


def _mix(z: Words) -> Words:
    z = (z ^ (z >> np.uint64(30))) * _M1
    z = (z ^ (z >> np.uint64(27))) * _M2
    return np.asarray(z ^ (z >> np.uint64(31)))


def _hash(array: pa.Array) -> Words:
    t = array.type
    if pa.types.is_null(t):
        return np.full(len(array), _NULL, dtype=np.uint64)
    h = _mix(_words(array, t))
    if array.null_count:
        h = np.where(array.is_null().to_numpy(zero_copy_only=False), _NULL, h)
    return h


def _words(array: pa.Array, t: pa.DataType) -> Words:
    if pa.types.is_floating(t):
        return float_bits(array).view(np.uint64)
    if pa.types.is_decimal(t):
        low, high = decimal_words(array)
        return _mix(low) ^ high.view(np.uint64)
    if is_text(t):
        # Each distinct value once: keys repeat.
        encoded = array.dictionary_encode()
        if array.null_count == len(array):
            return np.zeros(len(array), dtype=np.uint64)
        words = _text(encoded.dictionary.cast(pa.large_binary()))
        return np.asarray(words[encoded.indices.fill_null(0).to_numpy(zero_copy_only=False)])
    if pa.types.is_map(t):
        return _entries(array)
    if pa.types.is_list(t) or pa.types.is_large_list(t):
        filled, offsets = list_parts(array)
        return _sequence(_hash(filled), offsets)
    if pa.types.is_struct(t):
        return hash_of(list(array.flatten()), rows=len(array))
    return as_int64(array).view(np.uint64)


def as_int64(array: pa.Array) -> npt.NDArray[np.int64]:
    """Integers, booleans, dates and times as 64-bit integers; nulls give 0."""
    t = array.type
    if pa.types.is_boolean(t):
        array = array.cast(pa.int8())
    elif pa.types.is_date32(t):
        array = array.view(pa.int32())
    elif pa.types.is_temporal(t):
        array = array.view(pa.int32() if t.bit_width == 32 else pa.int64())
    if array.null_count:
        array = array.fill_null(0)
    return np.asarray(array.to_numpy(zero_copy_only=False), dtype=np.int64)


def is_text(t: pa.DataType) -> bool:
    """Whether values are byte strings."""
    return bool(
        pa.types.is_string(t)
        or pa.types.is_binary(t)
        or pa.types.is_large_string(t)
        or pa.types.is_large_binary(t)
    )


def list_parts(array: pa.Array) -> tuple[pa.Array, npt.NDArray[np.int64]]:
    """The elements of the non-null lists, and where each list starts (one more than lists)."""
    lengths = pc.list_value_length(array).fill_null(0).to_numpy(zero_copy_only=False)
    offsets = np.zeros(len(array) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return array.flatten(), offsets


def _entries(array: pa.Array) -> Words:
    lists = array.cast(
        pa.list_(pa.struct([("k", array.type.key_type), ("v", array.type.item_type)]))
    )
    entries, offsets = list_parts(lists)
    keys, values = entries.flatten()
    return _sums(_mix(_hash(keys) ^ _mix(_hash(values))), offsets)


def _text(array: pa.Array) -> Words:
    """Hash of byte strings, word by word, all strings at once."""
    n = len(array)
    if n == 0:
        return np.empty(0, dtype=np.uint64)
    if array.null_count:
        array = array.fill_null(b"")
    starts = np.frombuffer(array.buffers()[1], dtype=np.int64)[array.offset : array.offset + n + 1]
    lengths = np.diff(starts)
    words = -(-lengths // 8)
    offsets = np.zeros(n + 1, dtype=np.int64)
    np.cumsum(words, out=offsets[1:])
    padded = np.zeros(int(offsets[-1]) * 8, dtype=np.uint8)
    total = int(starts[-1] - starts[0])
    if total:
        data = np.frombuffer(array.buffers()[2], dtype=np.uint8)[starts[0] : starts[-1]]
        shift = np.repeat(offsets[:-1] * 8 - (starts[:-1] - starts[0]), lengths)
        padded[np.arange(total) + shift] = data
    h = _sequence(padded.view("<u8").astype(np.uint64, copy=False), offsets)
    return np.asarray(h + lengths.astype(np.uint64) * _LENGTH)


def _sequence(words: Words, offsets: npt.NDArray[np.int64]) -> Words:
    lengths = np.diff(offsets)
    position = np.arange(len(words)) - np.repeat(offsets[:-1], lengths)
    tagged = _mix(words ^ _mix(position.astype(np.uint64) + np.uint64(1)))
    return np.asarray(_sums(tagged, offsets) + lengths.astype(np.uint64) * _LENGTH)


def _sums(words: Words, offsets: npt.NDArray[np.int64]) -> Words:
    prefix = np.zeros(len(words) + 1, dtype=np.uint64)
    np.cumsum(words, out=prefix[1:])
    return np.asarray(prefix[offsets[1:]] - prefix[offsets[:-1]])
