"""``sw.readStream(spark)``: files as a stream, parquet as splits, csv and json as rows."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slackwater.engine.analysis.analyse import fields_of
from slackwater.engine.analysis.bad_types import schema_of
from slackwater.engine.analysis.connect import check_classic
from slackwater.engine.lowlevel.inputs import SplitInput
from slackwater.engine.store.exact_paths import check_folder, spark_path
from slackwater.errors import AnalysisError
from slackwater.sources.split_rules import rows_because

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


class ReadStream:
    """A reader with Spark's surface: ``schema``, ``option``, then ``parquet``, ``csv`` or ``json``."""

    def __init__(self, spark: SparkSession):
        self._spark = spark
        self._schema: StructType | None = None
        self._options: dict[str, str] = {}

    def schema(self, schema: StructType | str) -> ReadStream:
        """The columns: a StructType or DDL text such as ``"k string, ts timestamp"``."""
        self._schema = schema_of(schema)
        return self

    def option(self, key: str, value: Any) -> ReadStream:
        """An option of Spark's file source, e.g. ``maxFilesPerTrigger``."""
        self._options[key] = str(value).lower() if isinstance(value, bool) else str(value)
        return self

    def options(self, **options: Any) -> ReadStream:
        """Several options."""
        for key, value in options.items():
            self.option(key, value)
        return self

    def parquet(self, path: str) -> SplitInput:
        """Parquet files as splits: scanned in columns, without passing through the JVM.

        Without a schema the one of the files that are there now is taken. A file is read however old it is;
        ``option("maxFileAge", "7d")`` gives Spark's rule, by which one that comes a week behind the newest is skipped.
        """
        local = _checked(path)
        schema = self._schema
        if schema is None:
            if not any(local.rglob("*.parquet")):
                raise AnalysisError(
                    "NO_SCHEMA",
                    f"'{path}' has no parquet file to take the schema from",
                    hint='give it: sw.readStream(spark).schema("k string, ts timestamp").parquet(...)',
                    path=path,
                )
            schema = self._spark.read.parquet(spark_path(local)).schema
        # A file may lack any column, so nothing is ever known not to be null.
        fields = tuple(replace(f, nullable=True) for f in fields_of(schema))
        why = rows_because(fields, self._options, self._spark.conf.get)
        return SplitInput(self._spark, str(local), fields, dict(self._options), by_rows=why)

    def csv(self, path: str) -> DataFrame:
        """csv files as a streaming DataFrame."""
        return self._rows("csv", path)

    def json(self, path: str) -> DataFrame:
        """json files as a streaming DataFrame."""
        return self._rows("json", path)

    def _rows(self, kind: str, path: str) -> DataFrame:
        local = _checked(path)
        check_folder(str(local), "source directory")
        if self._schema is None:
            raise AnalysisError(
                "NO_SCHEMA",
                f"a stream of {kind} files needs a schema",
                hint=f'give it: sw.readStream(spark).schema("k string, ts timestamp").{kind}(...)',
            )
        reader = self._spark.readStream.format(kind).schema(self._schema)
        # Spark would leave out files a week older than the newest; a stream must not lose them.
        for key, value in {"maxFileAge": "36500d", **self._options}.items():
            reader = reader.option(key, value)
        return reader.load(str(local))


def readStream(spark: SparkSession) -> ReadStream:
    """A reader of file streams; see `ReadStream`.

    Examples
    --------
    >>> src = readStream(spark).schema("k long, ts timestamp").parquet("in")    # doctest: +SKIP
    """
    check_classic(spark, "sw.readStream")
    return ReadStream(spark)


def _checked(path: str) -> Path:
    if "://" in path and not path.startswith("file://"):
        raise AnalysisError(
            "NOT_LOCAL",
            f"source directory '{path}' is not on a file system of this machine",
            hint="read it with spark.readStream...load(path) and give that DataFrame to sw.stream",
            path=path,
        )
    local = Path(path.removeprefix("file://").removeprefix("file:"))
    if not local.exists():
        raise AnalysisError(
            "PATH_NOT_FOUND",
            f"source directory '{path}' does not exist",
            hint="create it before the stream starts; it may be empty",
            path=path,
        )
    # Spark would take '..' away by name, and go wrong where a link stands before it.
    return Path(os.path.realpath(local)) if ".." in local.parts else local.absolute()
