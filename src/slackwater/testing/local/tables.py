"""Tables of relations for runs in one process: versions written as files, one after the other."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from slackwater.engine.driver.copies import CopyUse
from slackwater.engine.driver.relation_forms import SEGMENTS
from slackwater.engine.driver.relations import RelationUse
from slackwater.kernels.types import arrow_schema
from slackwater.model.relation import Relation
from slackwater.model.schema import Field
from slackwater.sources.tables import ParquetTable
from slackwater.testing.executors.observing import array

FIRST_CHANGE = 1_700_000_000


class WrittenTable:
    """A relation whose versions a test writes, each as two files in place of those of the one before.

    With ``memory`` it is read in segments of two rows, and so many bytes of it may stay in an executor. With ``theta`` it is copied,
    into segments of at least so many bytes. With ``waiting`` rows may wait for segments, as its values say of `RelationUse`; then a version stays
    when the next one comes: each has a directory of its own, and a link leads to the newest.
    """

    def __init__(
        self,
        folder: Path,
        relation: Relation,
        memory: int | None = None,
        theta: int | None = None,
        waiting: Mapping[str, Any] | None = None,
    ):
        self.theta = theta
        self.memory = memory
        self.waiting = waiting
        self.folder = folder
        self.fields = relation.fields
        path = folder if waiting is None else folder / "newest"
        self.table = ParquetTable(relation.name, str(path), relation.fields)
        self.versions = 0
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def use(self) -> RelationUse:
        """The relation as a query uses it: looked at in every batch."""
        copy = None if self.theta is None else CopyUse(self.table, None, self.theta, waits=True)
        if self.memory is None:
            return RelationUse(self.table, copy=copy)
        more = dict(self.waiting or {})
        return RelationUse(self.table, memory=self.memory, form=SEGMENTS, copy=copy, **more)

    def write(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """The next version."""
        table = table_of(self.fields, rows)
        folder, old = self.folder, list(self.folder.iterdir())
        self.versions += 1
        if self.waiting is not None:
            folder = self.folder / f"{self.versions:04d}"
            folder.mkdir()
        half = table.num_rows // 2
        for i, part in enumerate((table.slice(0, half), table.slice(half))):
            path = folder / f"{self.versions:04d}-{i}.parquet"
            pq.write_table(part, path, row_group_size=None if self.memory is None else 2)
            # So that what is kept of a run does not depend on when it ran.
            os.utime(path, (FIRST_CHANGE, FIRST_CHANGE + self.versions))
        if folder != self.folder:
            (self.folder / "next").symlink_to(folder)
            (self.folder / "next").replace(self.folder / "newest")
            return
        for path in old:
            path.unlink()


def table_of(fields: Sequence[Field], rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Rows of a relation as an Arrow table."""
    schema = arrow_schema(fields)
    return pa.table([array([r.get(f.name) for r in rows], f.type) for f in schema], schema=schema)
