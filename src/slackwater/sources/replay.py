"""``sw.replay``: given micro-batches as a streaming DataFrame, one batch each, in order."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from slackwater.engine.analysis.analyse import fields_of
from slackwater.engine.analysis.bad_types import schema_of
from slackwater.engine.analysis.connect import check_classic
from slackwater.engine.lowlevel.inputs import SplitInput
from slackwater.engine.store.local import PRIVATE
from slackwater.errors import AnalysisError
from slackwater.kernels.types import arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

MARK = "slackwater-replay-"
_FIRST_TIME = 1_600_000_000


def replay(
    spark: SparkSession,
    batches: Sequence[Any],
    schema: StructType | str,
    *,
    directory: str | None = None,
    splits: bool = False,
) -> DataFrame | SplitInput:
    """A streaming DataFrame that yields each item of ``batches`` as one micro-batch.

    Parameters
    ----------
    batches
        Lists of rows (tuples, dicts or Rows), Arrow tables, or DataFrames; an empty list is a batch without rows.
    schema
        The columns, as a StructType or DDL text.
    directory
        Where the batches are written; a temporary directory, removed at exit, by default.
    splits
        Give a split source over the same files instead of a DataFrame.

    Examples
    --------
    >>> df = replay(spark, [[(1, "a")], [(2, "b")]], "t long, k string")      # doctest: +SKIP
    """
    check_classic(spark, "sw.replay")
    schema = schema_of(schema)
    folder = Path(tempfile.mkdtemp(prefix=MARK))
    if directory is not None:
        os.rmdir(folder)
        folder = (
            Path(directory) / f"{MARK}batches"
        )  # the mark in the path says that this is a replay
    PRIVATE.make_folder(folder.parent, outside=True)
    PRIVATE.make_folder(folder)
    for number, batch in enumerate(_tables(spark, batches, schema)):
        write_batch(batch, schema, folder, number)
    source = SplitInput(
        spark, str(folder.absolute()), fields_of(schema), {"maxFilesPerTrigger": "1"}, replay=True
    )
    if directory is None:
        atexit.register(shutil.rmtree, str(folder), ignore_errors=True)
    return source if splits else source.rows_frame()


def _tables(spark: SparkSession, batches: Sequence[Any], schema: StructType) -> list[pa.Table]:
    """The batches as Arrow tables. Lists of rows are converted by Spark, all in one job."""
    names = [f.name for f in schema.fields]
    given = [b if isinstance(b, pa.Table) or hasattr(b, "toArrow") else list(b) for b in batches]
    rows = [row for batch in given if isinstance(batch, list) for row in batch]
    whole = arrow_schema(fields_of(schema)).empty_table()
    if rows:
        whole = spark.createDataFrame(rows, schema, verifySchema=True).toArrow()
    tables, first = [], 0
    for batch in given:
        if isinstance(batch, list):
            tables.append(whole.slice(first, len(batch)))
            first += len(batch)
        elif isinstance(batch, pa.Table):
            tables.append(batch.select(names))
        else:
            tables.append(batch.select(*names).toArrow())
    return tables


def write_batch(table: pa.Table, schema: StructType, folder: Path, number: int) -> None:
    """Write one batch as the file that comes after all earlier ones."""
    table = table.cast(arrow_schema(fields_of(schema)))
    name = folder / f".batch-{number:08d}.parquet"
    PRIVATE.append(name, b"")  # with the owner's rights, which Arrow does not know
    pq.write_table(table, name)
    # The file source takes files by time of change: give each batch a second of its own.
    os.utime(name, (_FIRST_TIME + number, _FIRST_TIME + number))
    target = folder / f"batch-{number:08d}.parquet"
    if target.exists():
        raise AnalysisError(
            "REPLAY_EXISTS",
            f"'{folder}' already holds a replay",
            hint="give each replay a directory of its own",
            path=folder,
        )
    os.rename(name, target)
