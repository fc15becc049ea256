"""File sinks: exactly once, readable as an ordinary Spark directory.

Tasks write below ``<path>/_slackwater`` (Spark ignores names that start with an underscore); publishing
renames into place. A rename that has happened is not repeated, so publishing twice changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from slackwater.engine.paths.batch import Staging
from slackwater.engine.paths.task_errors import written_by_spark
from slackwater.engine.store import failpoints
from slackwater.engine.store.checkpoint import Checkpoint
from slackwater.engine.store.local import OUTPUT
from slackwater.engine.store.manifest import OutputFile
from slackwater.engine.store.storage import Storage, below, renaming
from slackwater.kernels.room import room_for
from slackwater.kernels.types import arrow_schema
from slackwater.model.schema import Field
from slackwater.model.spark_sql import quoted
from slackwater.sinks.base import Sink, check_file, lost, make_folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class ParquetSink(Sink):
    """Tasks write the final files; publishing is renames only."""

    exactly_once = True
    kind = "parquet"
    place: Storage = OUTPUT
    """What holds the directory."""

    def __init__(
        self, name: str, fields: tuple[Field, ...], path: str, partition_by: tuple[str, ...] = ()
    ):
        super().__init__(name, fields)
        self.path: PurePath = Path(path.removeprefix("file://")).absolute()
        self.partition_by = partition_by

    @property
    def storage(self) -> Storage:
        return self.place

    @property
    def staged(self) -> PurePath:
        return self.path / "_slackwater" / f"{self.query_id}-{self.name}"

    def staging(self) -> Staging:
        return Staging(str(self.staged), self.partition_by, self.storage)

    def open(self, spark: SparkSession, checkpoint: Checkpoint, query_id: str) -> None:
        super().open(spark, checkpoint, query_id)
        renaming(self.place)  # or it could not publish
        make_folder(self.storage, self.staged)
        if not self.partition_by:
            self._write_schema()

    def _write_schema(self) -> None:
        """An empty file, so that the directory can be read before the first result."""
        target = self.path / f"part-schema-{self.query_id[:8]}-{self.name}.parquet"
        if not self.storage.exists(target):
            temp = self.staged / target.name
            self.storage.delete(temp)  # of a start that died here
            with self.storage.writer(temp) as out:
                pq.write_table(arrow_schema(self.fields).empty_table(), out, store_schema=False)
            renaming(self.storage).rename(temp, target)

    def check(self, batch: int, files: Sequence[OutputFile]) -> None:
        for file in files:
            check_moved(self.storage, self.staged / file.name, self._folder(file) / file.name, file)

    def _folder(self, file: OutputFile) -> PurePath:
        return self.path / file.partition if file.partition else self.path

    def publish(self, batch: int, files: Sequence[OutputFile]) -> None:
        folders = set()
        for file in files:
            folder = self._folder(file)
            with room_for(f"output file '{file.name}'", self.path, file.bytes):
                self.storage.make_folder(folder)
                failpoints.hit("publish.rename")
                failpoints.hit("disk.publish")
                move(self.storage, self.staged / file.name, folder / file.name)
            folders.add(folder)
        for folder in folders:
            self.storage.sync(folder)

    def clean(self, files: Sequence[OutputFile]) -> None:
        return None  # the staged files are the published ones

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), "path": str(self.path)}


class TextSink(Sink):
    """json, csv, and other formats that Spark writes as files: one file per batch and directory.

    Spark rewrites the staged parquet into a hidden directory; the result is renamed into place under a name
    made of the batch alone, so a second try replaces nothing and adds nothing.
    """

    exactly_once = True
    place: Storage = OUTPUT
    """What holds the directory."""

    def __init__(
        self,
        name: str,
        fields: tuple[Field, ...],
        path: str,
        kind: str,
        options: dict[str, str],
        partition_by: tuple[str, ...] = (),
    ):
        super().__init__(name, fields)
        self.path: PurePath = Path(path.removeprefix("file://")).absolute()
        self.kind = kind
        self.options = options
        self.partition_by = partition_by

    def open(self, spark: SparkSession, checkpoint: Checkpoint, query_id: str) -> None:
        super().open(spark, checkpoint, query_id)
        renaming(self.place)  # or it could not publish
        make_folder(self.place, self.path / "_slackwater")

    def check(self, batch: int, files: Sequence[OutputFile]) -> None:
        if not self.place.exists(self._done(batch)):
            super().check(batch, files)

    def _stem(self, batch: int) -> str:
        return f"part-b{batch:08d}-{self.query_id[:8]}-{self.name}"

    def _done(self, batch: int) -> PurePath:
        return self.path / "_slackwater" / f"{self._stem(batch)}.done"

    def publish(self, batch: int, files: Sequence[OutputFile]) -> None:
        if not files:
            return
        stem, done = self._stem(batch), self._done(batch)
        if self.place.exists(done):
            return
        hidden = self.path / "_slackwater" / stem
        self.place.delete_folder(hidden)
        frame = self._shaped(self.frame(self.spark, files)).coalesce(1)
        writer = frame.write.format(self.kind).options(**self.options)
        if self.partition_by:
            writer = writer.partitionBy(*self.partition_by)
        size = sum(f.bytes for f in files)
        with written_by_spark(self.path, size), room_for("results", self.path, size):
            writer.save(str(hidden))
            self._place(hidden, stem)
            self.place.append(done, b"")
        self.place.delete_folder(hidden)

    def _place(self, hidden: PurePath, stem: str) -> None:
        """Move what Spark wrote to where users see it, under names made of the batch alone."""
        parts = sorted(p for p in below(self.place, hidden) if p.name.startswith("part-"))
        for number, source in enumerate(parts):
            folder = self.path / source.parent.relative_to(hidden)
            self.place.make_folder(folder)
            failpoints.hit("publish.rename")
            failpoints.hit("disk.publish")
            name = f"{stem}-{number:03d}.{source.name.partition('.')[2]}"
            renaming(self.place).rename(source, folder / name)
            self.place.sync(folder)

    def forget(self, before: int) -> None:
        mine = re.compile(
            rf"part-b(\d+)-{re.escape(self.query_id[:8])}-{re.escape(self.name)}(\.done)?"
        )
        ours = self.path / "_slackwater"
        names = self.place.list(ours)
        for name in (*names.files, *names.folders):
            named = mine.fullmatch(name)
            if named is None or int(named[1]) >= before:
                continue
            if named[2]:
                self.place.delete(ours / name)
            else:
                self.place.delete_folder(ours / name)

    def _shaped(self, frame: DataFrame) -> DataFrame:
        """csv has no structs: a window becomes two columns."""
        if self.kind != "csv":
            return frame
        from pyspark.sql import functions as F
        from pyspark.sql.types import StructType

        columns = []
        for field in frame.schema.fields:
            if isinstance(field.dataType, StructType):
                columns += [
                    F.col(f"{quoted(field.name)}.{quoted(sub)}").alias(f"{field.name}_{sub}")
                    for sub in field.dataType.names
                ]
            else:
                columns.append(F.col(quoted(field.name)))
        return frame.select(*columns)

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), "path": str(self.path)}


def check_moved(storage: Storage, source: PurePath, target: PurePath, file: OutputFile) -> None:
    """Compare a file with what its task wrote, where it is: in staging, or moved by an earlier try."""
    moved = storage.exists(target) and not storage.exists(source)
    check_file(storage, target if moved else source, file)


def move(storage: Storage, source: PurePath, target: PurePath) -> None:
    """Rename, unless an earlier try has done it."""
    try:
        renaming(storage).rename(source, target)
    except FileNotFoundError:
        if not storage.exists(target):
            raise lost(target) from None
