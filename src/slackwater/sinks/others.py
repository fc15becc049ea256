"""Sinks without a directory of their own: memory, console, noop, a user's function, any Spark writer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from slackwater.engine.paths.batch import Staging
from slackwater.engine.store import failpoints
from slackwater.engine.store import manifest as manifests
from slackwater.engine.store.checkpoint import Checkpoint
from slackwater.engine.store.evidence import is_published
from slackwater.engine.store.exact_paths import spark_path
from slackwater.engine.store.manifest import OutputFile
from slackwater.engine.store.storage import Folder
from slackwater.kernels.room import room_for
from slackwater.kernels.types import arrow_schema
from slackwater.model.schema import Field
from slackwater.sinks.base import Sink
from slackwater.sinks.files import check_moved, move
from slackwater.sinks.kept_files import KeptFiles

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class MemorySink(Sink):
    """A temporary view of all results so far, named by ``queryName``; survives a restart."""

    exactly_once = True
    kind = "memory"
    lasting = False
    read_later = True

    @property
    def data(self) -> PurePath:
        """The directory of published files."""
        return self.checkpoint.outputs / self.name / "data"

    @property
    def _kept(self) -> KeptFiles:
        return KeptFiles(Folder(self.storage, self.data))

    def open(self, spark: SparkSession, checkpoint: Checkpoint, query_id: str) -> None:
        super().open(spark, checkpoint, query_id)
        self.storage.make_folder(self.data)
        self._check_kept()
        self._view()

    def _check_kept(self) -> None:
        batches = manifests.committed(self.checkpoint)
        stored = [m for b in batches if (m := manifests.read(self.checkpoint, b)) is not None]
        publishing = [
            f.name
            for m in stored[-1:]
            if not is_published(self.checkpoint, m.batch)
            for f in m.outputs.get(self.name, [])
        ]
        self._kept.check(stored, publishing)

    def check(self, batch: int, files: Sequence[OutputFile]) -> None:
        for file in files:
            check_moved(self.storage, self.staged / file.name, self.data / file.name, file)

    def publish(self, batch: int, files: Sequence[OutputFile]) -> None:
        for file in files:
            with room_for(f"output file '{file.name}'", self.data, file.bytes):
                failpoints.hit("disk.publish")
                move(self.storage, self.staged / file.name, self.data / file.name)
        if files:
            self._kept.add(files)
            self._view()

    def clean(self, files: Sequence[OutputFile]) -> None:
        return None

    def _view(self) -> None:
        from slackwater.engine.analysis.analyse import struct_of

        # A DataFrame lists its files once, so the view is made anew for each batch with results.
        schema = struct_of(self.fields)
        names = self.storage.list(self.data).files
        files = sorted(spark_path(self.data / n) for n in names if n.endswith(".parquet"))
        frame = (
            self.spark.read.schema(schema).parquet(*files)
            if files
            else self.spark.createDataFrame([], schema)
        )
        # Quoted, since a query may have any name.
        frame.createOrReplaceTempView("`" + self.name.replace("`", "``") + "`")


class ConsoleSink(Sink):
    """Prints each batch that has rows."""

    kind = "console"
    lasting = False

    def __init__(self, name: str, fields: tuple[Field, ...], rows: int = 20, truncate: bool = True):
        super().__init__(name, fields)
        self.rows = rows
        self.truncate = truncate

    def publish(self, batch: int, files: Sequence[OutputFile]) -> None:
        if files:
            print(f"-------------------------------------------\nBatch: {batch}")
            self.frame(self.spark, files).show(self.rows, self.truncate)


class NoopSink(Sink):
    """Computes everything and writes nothing; for measurements."""

    kind = "noop"
    lasting = False

    def staging(self) -> Staging | None:
        return None

    def publish(self, batch: int, files: Sequence[OutputFile]) -> None:
        return None


class ForeachSink(Sink):
    """Calls the user's function with a DataFrame and the batch id, at least once per batch."""

    kind = "foreachBatch"

    def __init__(
        self, name: str, fields: tuple[Field, ...], function: Callable[[DataFrame, int], None]
    ):
        super().__init__(name, fields)
        self.function = function

    def publish(self, batch: int, files: Sequence[OutputFile]) -> None:
        self.function(self.frame(self.spark, files), batch)


class TableSink(Sink):
    """Calls a function with an Arrow table and the batch id: no Spark job, so the driver must hold a batch's results."""

    kind = "foreachTable"

    def __init__(
        self, name: str, fields: tuple[Field, ...], function: Callable[[pa.Table, int], None]
    ):
        super().__init__(name, fields)
        self.function = function

    def publish(self, batch: int, files: Sequence[OutputFile]) -> None:
        paths = [self.staged / f.name for f in files if f.name]
        tables = [pq.ParquetFile(pa.BufferReader(self.storage.read(p))).read() for p in paths]
        schema = arrow_schema(self.fields)
        tables = [t.select(schema.names).cast(schema) for t in tables]
        self.function(pa.concat_tables(tables) if tables else schema.empty_table(), batch)


class WriterSink(Sink):
    """Any batch writer that Spark has; at least once, with the query and batch handed on."""

    def __init__(
        self,
        name: str,
        fields: tuple[Field, ...],
        kind: str | None,
        options: dict[str, str],
        table: str | None,
        partition_by: tuple[str, ...] = (),
    ):
        super().__init__(name, fields)
        self.kind = kind or "table"
        self.format = kind
        self.options = options
        self.table = table
        self.partition_by = partition_by

    def publish(self, batch: int, files: Sequence[OutputFile]) -> None:
        if not files:
            return
        writer = self.frame(self.spark, files).write.mode("append").options(**self.options)
        if self.format is not None:
            writer = writer.format(self.format)
        # Delta deduplicates by these two; others ignore them.
        writer = writer.option("txnAppId", f"{self.query_id}-{self.name}").option(
            "txnVersion", batch
        )
        if self.partition_by:
            writer = writer.partitionBy(*self.partition_by)
        if self.table is not None:
            writer.saveAsTable(self.table)
        else:
            writer.save()

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), "table": self.table} if self.table else super().describe()
