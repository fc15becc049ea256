"""File sinks: exactly once, readable as an ordinary Spark directory.

Tasks write below ``<path>/_slackwater`` (Spark ignores names that start with an underscore); publishing
renames into place. A rename that has happened is not repeated, so publishing twice changes nothing.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from slackwater.engine.analysis.text import quoted
from slackwater.engine.paths.batch import Staging
from slackwater.engine.paths.task_errors import written_by_spark
from slackwater.engine.store import failpoints
from slackwater.engine.store.checkpoint import Checkpoint
from slackwater.engine.store.files import sync_dir
from slackwater.engine.store.manifest import OutputFile
from slackwater.kernels.room import room_for
from slackwater.kernels.types import arrow_schema
from slackwater.model.schema import Field
from slackwater.sinks.base import Sink, check_file, lost, make_folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class ParquetSink(Sink):
    """Tasks write the final files; publishing is renames only."""

    exactly_once = True
    kind = "parquet"

    def __init__(
        self, name: str, fields: tuple[Field, ...], path: str, partition_by: tuple[str, ...] = ()
    ):
        super().__init__(name, fields)
        self.path = Path(path.removeprefix("file://")).absolute()
        self.partition_by = partition_by

    @property
    def staged(self) -> Path:
        return self.path / "_slackwater" / f"{self.query_id}-{self.name}"

    def staging(self) -> Staging:
        return Staging(str(self.staged), self.partition_by)

    def open(self, spark: SparkSession, checkpoint: Checkpoint, query_id: str) -> None:
        super().open(spark, checkpoint, query_id)
        make_folder(self.staged)
        if not self.partition_by:
            self._write_schema()

    def _write_schema(self) -> None:
        """An empty file, so that the directory can be read before the first result."""
        target = self.path / f"part-schema-{self.query_id[:8]}-{self.name}.parquet"
        if not target.exists():
            temp = self.staged / target.name
            pq.write_table(arrow_schema(self.fields).empty_table(), temp, store_schema=False)
            os.replace(temp, target)

    def check(self, batch: int, files: Sequence[OutputFile]) -> None:
        for file in files:
            check_moved(self.staged / file.name, self._folder(file) / file.name, file)

    def _folder(self, file: OutputFile) -> Path:
        return self.path / file.partition if file.partition else self.path

    def publish(self, batch: int, files: Sequence[OutputFile]) -> None:
        folders = set()
        for file in files:
            folder = self._folder(file)
            with room_for(f"output file '{file.name}'", self.path, file.bytes):
                folder.mkdir(parents=True, exist_ok=True)
                failpoints.hit("publish.rename")
                failpoints.hit("disk.publish")
                move(self.staged / file.name, folder / file.name)
            folders.add(folder)
        for folder in folders:
            sync_dir(folder)

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
        self.path = Path(path.removeprefix("file://")).absolute()
        self.kind = kind
        self.options = options
        self.partition_by = partition_by

    def open(self, spark: SparkSession, checkpoint: Checkpoint, query_id: str) -> None:
        super().open(spark, checkpoint, query_id)
        make_folder(self.path / "_slackwater")

    def check(self, batch: int, files: Sequence[OutputFile]) -> None:
        if not self._done(batch).exists():
            super().check(batch, files)

    def _stem(self, batch: int) -> str:
        return f"part-b{batch:08d}-{self.query_id[:8]}-{self.name}"

    def _done(self, batch: int) -> Path:
        return self.path / "_slackwater" / f"{self._stem(batch)}.done"

    def publish(self, batch: int, files: Sequence[OutputFile]) -> None:
        if not files:
            return
        stem, done = self._stem(batch), self._done(batch)
        if done.exists():
            return
        hidden = self.path / "_slackwater" / stem
        shutil.rmtree(hidden, ignore_errors=True)
        frame = self._shaped(self.frame(self.spark, files)).coalesce(1)
        writer = frame.write.format(self.kind).options(**self.options)
        if self.partition_by:
            writer = writer.partitionBy(*self.partition_by)
        size = sum(f.bytes for f in files)
        with written_by_spark(self.path, size), room_for("results", self.path, size):
            writer.save(str(hidden))
            self._place(hidden, stem)
            done.touch()
        shutil.rmtree(hidden, ignore_errors=True)

    def _place(self, hidden: Path, stem: str) -> None:
        """Move what Spark wrote to where users see it, under names made of the batch alone."""
        for number, source in enumerate(sorted(hidden.rglob("part-*"))):
            folder = self.path / source.parent.relative_to(hidden)
            folder.mkdir(parents=True, exist_ok=True)
            failpoints.hit("publish.rename")
            failpoints.hit("disk.publish")
            os.replace(source, folder / f"{stem}-{number:03d}.{source.name.partition('.')[2]}")
            sync_dir(folder)

    def forget(self, before: int) -> None:
        mine = re.compile(
            rf"part-b(\d+)-{re.escape(self.query_id[:8])}-{re.escape(self.name)}(\.done)?"
        )
        for path in list((self.path / "_slackwater").iterdir()):
            named = mine.fullmatch(path.name)
            if named is None or int(named[1]) >= before:
                continue
            if named[2]:
                path.unlink(missing_ok=True)
            else:
                shutil.rmtree(path, ignore_errors=True)

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


def check_moved(source: Path, target: Path, file: OutputFile) -> None:
    """Compare a file with what its task wrote, where it is: in staging, or moved by an earlier try."""
    moved = target.exists() and not source.exists()
    check_file(target if moved else source, file)


def move(source: Path, target: Path) -> None:
    """Rename, unless an earlier try has done it."""
    try:
        os.rename(source, target)
    except FileNotFoundError:
        if not target.exists():
            raise lost(target) from None
