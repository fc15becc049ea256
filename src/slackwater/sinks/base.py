"""What a sink is: it says where tasks stage an output's files, and publishes what a manifest names.

Contract: ``publish`` may be called again for the same batch after a crash. A *file* sink must then leave the
directory as after one call; any other sink gets the same rows again, with the same batch id.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slackwater.engine.batch import Staging
from slackwater.engine.checkpoint import Checkpoint
from slackwater.engine.manifest import OutputFile
from slackwater.errors import CheckpointError
from slackwater.model.schema import Field

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Sink(ABC):
    """One output of a query."""

    exactly_once = False
    kind = ""

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
        return Staging(str(self.staged))

    @property
    def staged(self) -> Path:
        """The directory of staged files."""
        return self.checkpoint.outputs / self.name / "staged"

    @abstractmethod
    def publish(self, batch: int, files: Sequence[OutputFile]) -> None:
        """Bring a committed batch's files to where users see them."""

    def clean(self, files: Sequence[OutputFile]) -> None:
        """Remove what is no longer needed of a published batch."""
        for file in files:
            if file.name:
                (self.staged / file.name).unlink(missing_ok=True)

    def describe(self) -> dict[str, Any]:
        """For progress records."""
        return {"name": self.name, "description": self.kind, "exactlyOnce": self.exactly_once}

    # ---- for sinks that hand rows to Spark ----
    def frame(self, spark: SparkSession, files: Sequence[OutputFile]) -> DataFrame:
        """The rows of staged files as a DataFrame."""
        from slackwater.engine.analyse import struct_of

        schema = struct_of(self.fields)
        paths = [str(self.staged / f.name) for f in files if f.name]
        if not paths:
            return spark.createDataFrame([], schema)
        for path in paths:
            if not os.path.exists(path):
                raise lost(path)
        return spark.read.schema(schema).parquet(*paths)


def lost(path: str | Path) -> CheckpointError:
    """The error of a staged file that a manifest names but nobody finds."""
    return CheckpointError(
        "OUTPUT_LOST",
        f"output file '{path}' was committed but is in neither the staging nor the sink directory",
        hint="files under '_slackwater' and in the checkpoint belong to the query: restore them from a "
        "backup, or start with a new checkpointLocation and sink directory",
        path=path,
    )
