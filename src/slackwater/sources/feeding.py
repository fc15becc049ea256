"""Rows handed on some at a time, with the error that ends them as it was."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import pyarrow as pa


@contextmanager
def fed(schema: pa.Schema, tables: Iterable[pa.Table]) -> Iterator[pa.RecordBatchReader]:
    """A reader of some tables. An error of theirs leaves the context, whatever its users make of it."""
    raised: list[BaseException] = []

    def batches() -> Iterator[pa.RecordBatch]:
        try:
            for table in tables:
                yield from table.to_batches()
        except BaseException as error:
            raised.append(error)
            raise

    try:
        yield pa.RecordBatchReader.from_batches(schema, batches())
    except Exception:
        if not raised:
            raise
    if raised:
        raise raised[0]
