"""What the joins of a batch have in common: results in chunks first, then what to store."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

import pyarrow as pa

from slackwater.kernels.joins.batch import JoinBatch, Kept
from slackwater.kernels.joins.spec import Predicate, output_schema


class BatchResults(ABC):
    """The results of a batch in chunks; what to store is known when all of them were taken."""

    def __init__(self, batch: JoinBatch, predicate: Predicate | None, row_base: int) -> None:
        self._batch = batch
        self._predicate = predicate
        self._row_base = row_base
        self._done = False
        self._marks: dict[int, pa.Table] = {}
        self.schema = output_schema(batch.spec, [t.schema for t in batch.new])
        """Schema of the chunks."""
        self.output: Iterator[pa.Table] = self._all_chunks()
        """Chunks of results, in no particular order."""

    def finish(self) -> Kept:
        """What to store; call it when ``output`` is exhausted."""
        if not self._done:
            raise RuntimeError("finish() before all chunks of the output were taken")
        return self._batch.kept(self._row_base, self._marks)

    @abstractmethod
    def _chunks(self) -> Iterator[pa.Table]:
        """The results; afterwards the sides say which rows stay, and ``_marks`` which stored ones met a partner."""

    def _all_chunks(self) -> Iterator[pa.Table]:
        yield from self._chunks()
        self._done = True

    def _slices(self, table: pa.Table) -> Iterator[pa.Table]:
        """The table in pieces, for the sake of those who count on the size of a chunk."""
        size = self._batch.spec.max_pairs
        for at in range(0, table.num_rows, size):
            yield table.slice(at, size)
