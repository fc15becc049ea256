"""Footers of Parquet files as other writers make them: bounds of texts and binaries cut to some bytes, with the mark that they are no values.

Arrow's writer does not cut them, so footers are written anew: Thrift's compact protocol, as far as a footer needs it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

MAGIC = b"PAR1"
TRUE, FALSE, BYTE, DOUBLE, BINARY, LIST, SET, STRUCT = 1, 2, 3, 7, 8, 9, 10, 12
INTEGERS = (4, 5, 6)

Fields = dict[int, tuple[int, Any]]
"""A struct: the type and the value of each field, by its number."""

# Where things are in a footer, by the format's definition.
ROW_GROUPS, COLUMNS, META_DATA, TYPE, STATISTICS = 4, 1, 3, 1, 12
BYTE_ARRAY = 6
OLD_MAX, OLD_MIN, MAX, MIN, MAX_IS_EXACT, MIN_IS_EXACT = 1, 2, 5, 6, 7, 8


class _Reader:
    def __init__(self, data: bytes):
        self.data, self.at = data, 0

    def take(self, count: int) -> bytes:
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self) -> int:
        value = shift = 0
        while True:
            (byte,) = self.take(1)
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7

    def signed(self) -> int:
        value = self.number()
        return (value >> 1) ^ -(value & 1)

    def value(self, kind: int) -> Any:
        if kind in (TRUE, FALSE):
            return kind == TRUE
        if kind == BYTE:
            return self.take(1)
        if kind in INTEGERS:
            return self.signed()
        if kind == DOUBLE:
            return self.take(8)
        if kind == BINARY:
            return self.take(self.number())
        if kind == STRUCT:
            return self.fields()
        assert kind in (LIST, SET), "footers have no maps"
        (head,) = self.take(1)
        count, of = head >> 4, head & 15
        count = self.number() if count == 15 else count
        if of in (TRUE, FALSE):
            return of, [self.take(1) for _ in range(count)]
        return of, [self.value(of) for _ in range(count)]

    def fields(self) -> Fields:
        found: Fields = {}
        number = 0
        while True:
            (head,) = self.take(1)
            if not head:
                return found
            step, kind = head >> 4, head & 15
            number = number + step if step else self.signed()
            found[number] = kind, self.value(kind)


def _number(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def _signed(value: int) -> bytes:
    return _number(value << 1 if value >= 0 else (-value << 1) - 1)


def _value(kind: int, value: Any) -> bytes:
    if kind in (TRUE, FALSE):
        return b""
    if kind in (BYTE, DOUBLE):
        return bytes(value)
    if kind in INTEGERS:
        return _signed(value)
    if kind == BINARY:
        return _number(len(value)) + bytes(value)
    if kind == STRUCT:
        return _fields(value)
    of, items = value
    head = bytes([min(len(items), 15) << 4 | of]) + (
        _number(len(items)) if len(items) > 14 else b""
    )
    made = items if of in (TRUE, FALSE) else [_value(of, item) for item in items]
    return head + b"".join(made)


def _fields(fields: Fields) -> bytes:
    out, before = b"", 0
    for number, (kind, value) in sorted(fields.items()):
        kind = (TRUE if value else FALSE) if kind in (TRUE, FALSE) else kind
        step = number - before
        head = bytes([step << 4 | kind]) if step <= 15 else bytes([kind]) + _signed(number)
        out, before = out + head + _value(kind, value), number
    return out + b"\0"


def rewritten(path: Path, change: Callable[[Fields], None]) -> None:
    """Write the footer of a file anew, with the statistics of texts and binaries changed, in each row group that has some."""
    data = path.read_bytes()
    (length,) = struct.unpack("<I", data[-8:-4])
    assert data[-4:] == MAGIC
    footer = _Reader(data[-8 - length : -8]).fields()
    assert _fields(footer) == data[-8 - length : -8], "what is not changed is as it was"
    for group in footer[ROW_GROUPS][1][1]:
        for column in group[COLUMNS][1][1]:
            meta = column[META_DATA][1]
            if STATISTICS in meta and meta[TYPE][1] == BYTE_ARRAY:
                change(meta[STATISTICS][1])
    made = _fields(footer)
    path.write_bytes(data[: -8 - length] + made + struct.pack("<I", len(made)) + MAGIC)


def cut_bounds(path: Path, length: int, *, text: bool) -> None:
    """Cut the bounds of texts or binaries to ``length`` bytes: a least value to what begins it, a greatest one to the next above that."""

    def change(statistics: Fields) -> None:
        for old in (OLD_MAX, OLD_MIN):
            statistics.pop(old, None)
        if MAX not in statistics:
            return
        low, high = statistics[MIN][1], statistics[MAX][1]
        below, above = (below_text, above_text) if text else (below_bytes, above_bytes)
        for place, mark, value, cut in (
            (MIN, MIN_IS_EXACT, low, below(low, length)),
            (MAX, MAX_IS_EXACT, high, above(high, length)),
        ):
            statistics[place] = (BINARY, cut)
            statistics[mark] = (TRUE, cut == value)
        assert statistics[MIN][1] <= low and high <= statistics[MAX][1]

    rewritten(path, change)


def below_bytes(value: bytes, length: int) -> bytes:
    return value[:length]


def above_bytes(value: bytes, length: int) -> bytes:
    """The next above all that begin so; the value itself if there is none."""
    head = value[:length]
    while len(value) > length and head:
        if head[-1] < 255:
            return head[:-1] + bytes([head[-1] + 1])
        head = head[:-1]
    return value


def below_text(value: bytes, length: int) -> bytes:
    return value[:length].decode("utf-8", "ignore").encode()


def above_text(value: bytes, length: int) -> bytes:
    """As `above_bytes`, of whole characters."""
    head = below_text(value, length).decode()
    while len(value) > length and head:
        code = ord(head[-1]) + 1
        code = 0xE000 if code == 0xD800 else code
        if code < 0x110000:
            return (head[:-1] + chr(code)).encode()
        head = head[:-1]
    return value
