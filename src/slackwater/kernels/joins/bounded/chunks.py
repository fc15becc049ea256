"""Cutting the rows of a batch into chunks that fit in memory, and chunks into blocks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.kernels.joins.bounded.probe import ints
from slackwater.kernels.joins.step import TIME
from slackwater.model.names import CODE


def plain(schema: pa.Schema) -> pa.Schema:
    """The schema without dictionaries: a block must be readable without the rest of its file."""
    return pa.schema(
        [
            pa.field(f.name, f.type.value_type if pa.types.is_dictionary(f.type) else f.type)
            for f in schema
        ]
    )


class Chunks:
    """The rows of one side in the order they came, about ``size`` bytes at a time.

    Only one table is asked for ahead of its use, so that a batch need not fit in memory.
    """

    def __init__(self, tables: Iterable[pa.Table], size: int) -> None:
        self._tables: Iterator[pa.Table] = (t for t in tables if t.num_rows)
        self._size = size
        self._rest: pa.Table | None = next(self._tables, None)
        self._next = self._gather()

    @property
    def waiting(self) -> bool:
        """Whether there are more rows."""
        return self._next is not None

    @property
    def oldest(self) -> int:
        """The oldest time of the next chunk."""
        assert self._next is not None
        oldest: int = pc.min(self._next.column(TIME)).as_py()
        return oldest

    def take(self) -> pa.Table:
        """The next chunk: at least one row, in one piece."""
        assert self._next is not None
        # Let go of the chunk before the next one is gathered.
        chunk, self._next = self._next, None
        self._next = self._gather()
        return chunk

    def _gather(self) -> pa.Table | None:
        parts: list[pa.Table] = []
        room = float(self._size)
        while self._rest is not None and (room > 0 or not parts):
            width = max(1.0, self._rest.nbytes / self._rest.num_rows)
            rows = min(self._rest.num_rows, int(room / width))
            if rows < 1:
                if parts:
                    break
                rows = 1
            parts.append(self._rest.slice(0, rows))
            room -= rows * width
            self._rest = self._rest.slice(rows) if rows < self._rest.num_rows else None
            if self._rest is None:
                self._rest = next(self._tables, None)
        if not parts:
            return None
        whole = pa.concat_tables(parts).combine_chunks()
        return whole.cast(plain(whole.schema))


def cut(table: pa.Table, size: int) -> list[pa.Table]:
    """Blocks of about ``size`` bytes, in order of time; within a block rows are in order of their code.

    Few blocks then reach into a given span of time, and looking up a block's codes goes through memory in order.
    """
    rows = max(1, int(size * table.num_rows // max(1, table.nbytes)))
    return split(table, -(-table.num_rows // rows))


def split(table: pa.Table, parts: int) -> list[pa.Table]:
    """As `cut`, into at most so many blocks of about equal size.

    In which order rows of equal times or codes come does not matter: a stable sort takes eight times as long.
    """
    order = np.argsort(ints(table, TIME))
    codes = ints(table, CODE)
    pieces = [p for p in np.array_split(order, min(parts, table.num_rows)) if len(p)]
    return [table.take(pa.array(p[np.argsort(codes[p])])) for p in pieces]
