"""What a sink is: it says where tasks stage an output's files, and publishes what a manifest names.

Contract: ``publish`` may be called again for the same batch after a crash. A *file* sink must then leave the
directory as after one call; any other sink gets the same rows again, with the same batch id.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from slackwater.engine.paths.batch import Staging
from slackwater.engine.plan.reserved import check_twice
from slackwater.engine.store.checkpoint import Checkpoint
from slackwater.engine.store.exact_paths import spark_path
from slackwater.engine.store.files import damaged, file_checksum
from slackwater.engine.store.manifest import OutputFile
from slackwater.engine.store.storage import Storage
from slackwater.errors import AnalysisError, CheckpointError, SetupError
from slackwater.kernels.translate.types import fields_of_struct
from slackwater.model.schema import Field

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Sink(ABC):
    """One output of a query."""

    exactly_once = False
    kind = ""
    lasting = True
    """Whether the output outlives the session, so that the query wants a checkpoint that does, too."""
    read_later = False
    """Whether staged files are read after the query's end."""

    def __init__(self, name: str, fields: tuple[Field, ...]):
        self.name = name
        self.fields = fields
        self.checkpoint: Checkpoint

    def open(self, spark: SparkSession, checkpoint: Checkpoint, query_id: str) -> None:
        """Called once per start, before the first batch."""
        self.spark = spark
        self.checkpoint = checkpoint
        self.query_id = query_id

    def staging(self) -> Staging | None:
        """Where tasks put this output's files; None if nobody wants the rows."""
        return Staging(str(self.staged), storage=self.storage)

    @property
    def storage(self) -> Storage:
        """What holds the staged files."""
        return self.checkpoint.storage

    @property
    def staged(self) -> PurePath:
        """The directory of staged files."""
        return self.checkpoint.outputs / self.name / "staged"

    def check(self, batch: int, files: Sequence[OutputFile]) -> None:
        """Refuse staged files that are not what their tasks wrote, before the first one is published."""
        for file in files:
            if file.name:
                check_file(self.storage, self.staged / file.name, file)

    @abstractmethod
    def publish(self, batch: int, files: Sequence[OutputFile]) -> None:
        """Bring a committed batch's files to where users see them."""

    def clean(self, files: Sequence[OutputFile]) -> None:
        """Remove what is no longer needed of a published batch."""
        for file in files:
            if file.name:
                self.storage.delete(self.staged / file.name)

    def forget(self, before: int) -> None:
        """Remove what was only needed to publish batches below ``before`` again, as none of them will be."""
        return

    def describe(self) -> dict[str, Any]:
        """For progress records."""
        return {"name": self.name, "description": self.kind, "exactlyOnce": self.exactly_once}

    # ---- for sinks that hand rows to Spark ----
    def frame(self, spark: SparkSession, files: Sequence[OutputFile]) -> DataFrame:
        """The rows of staged files as a DataFrame."""
        from slackwater.engine.analysis.analyse import struct_of

        schema = struct_of(self.fields)
        paths = [self.staged / f.name for f in files if f.name]
        if not paths:
            return spark.createDataFrame([], schema)
        for path in paths:
            if not self.storage.exists(path):
                raise lost(path)
        return spark.read.schema(schema).parquet(*map(spark_path, paths))


def check_format(spark: SparkSession, kind: str) -> None:
    """Refuse a format that Spark does not have, before a batch is computed for it."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        sources = spark.sparkContext._jvm.org.apache.spark.sql.execution.datasources.DataSource  # type: ignore[union-attr]
        sources.lookupDataSource(kind, spark._jsparkSession.sessionState().conf())
    except PySparkException as error:
        raise _no_format(kind) from error
    except Py4JError as error:
        if "NOT_FOUND" in str(error) or "ClassNotFound" in str(error):
            raise _no_format(kind) from error
    except (TypeError, AttributeError):
        return  # this Spark keeps its formats elsewhere: it will say so itself


def _no_format(kind: str) -> AnalysisError:
    return AnalysisError(
        "FORMAT_NOT_FOUND",
        f"Spark has no format {kind!r}",
        hint="use parquet, json, csv, orc, memory, console or noop; for another one add its package "
        "to the session (spark.jars.packages)",
        format=kind,
    )


def check_types(fields: Sequence[Field], partition_by: Sequence[str], kind: str) -> None:
    """Refuse columns that text files cannot hold, before a batch is computed for them."""
    columns = [f for f in fields if f.name not in partition_by]
    if kind == "text" and [f.type for f in columns] != ["string"]:
        raise AnalysisError(
            "BAD_SINK_SCHEMA",
            f"a text sink takes one string column, not {', '.join(f.name for f in columns)}",
            hint="use json or csv, or select one string column",
        )
    if kind == "csv":
        check_twice(
            [name for f in fields for name in text_columns(f)],
            "csv has no structs, so that 'window' becomes 'window_start' and 'window_end': rename your column, "
            'or the window with sw.window(...).alias("w"), or use json or parquet',
        )
    for f in columns if kind == "csv" else ():
        inner = f.type.removeprefix("struct<")
        if any(word in inner for word in ("array<", "map<", "struct<", "binary", "variant")):
            raise AnalysisError(
                "BAD_SINK_SCHEMA",
                f"csv cannot hold column '{f.name}' of type {f.type}",
                hint="use json or parquet, or turn it into text, e.g. with to_json(...)",
                column=f.name,
            )


def check_partitions(fields: Sequence[Field], partition_by: Sequence[str]) -> None:
    """Refuse what Spark refuses: directories of values that have parts, and files without a column."""
    for f in fields:
        if f.name in partition_by and f.type.startswith(("struct<", "array<", "map<")):
            raise AnalysisError(
                "BAD_PARTITION_COLUMN",
                f"partitionBy: column '{f.name}' is {f.type}, which cannot name a directory",
                hint="partition by one of its parts: add it with withColumn(...)",
                column=f.name,
            )
    if partition_by and len(set(partition_by)) == len(fields):
        raise AnalysisError(
            "BAD_PARTITION_COLUMN",
            "partitionBy names every column, and nothing is left for the files",
            hint="leave one out, or add a column",
        )


def text_columns(field: Field) -> list[str]:
    """What a column is called in a format without structs: a window becomes two columns."""
    if not field.type.startswith("struct<"):
        return [field.name]
    return [f"{field.name}_{name}" for name, _ in fields_of_struct(field.type)]


def check_file(storage: Storage, path: PurePath, file: OutputFile) -> None:
    """Compare a staged file with what its task wrote; length alone if an older version did."""
    try:
        size, crc = file_checksum(storage, path)
    except FileNotFoundError:
        raise lost(path) from None
    if size != file.bytes or file.crc not in (None, crc):
        reason = f"{size} bytes where {file.bytes} were written, or another checksum"
        raise damaged(path, "output file", reason)


def make_folder(storage: Storage, folder: PurePath) -> None:
    """The directory of a sink, or an error that names it."""
    try:
        storage.make_folder(folder)
    except OSError as error:
        raise SetupError(
            "NOT_WRITABLE",
            f"sink directory '{folder}' cannot be written: {error.strerror}",
            hint="give a path that this user may create and write",
            path=folder,
        ) from error


def lost(path: PurePath) -> CheckpointError:
    """The error of a staged file that a manifest names but nobody finds."""
    return CheckpointError(
        "OUTPUT_LOST",
        f"output file '{path}' was committed but is in neither the staging nor the sink directory",
        hint="files under '_slackwater' and in the checkpoint belong to the query: restore them from a "
        "backup, or start with a new checkpointLocation and sink directory",
        path=path,
    )
