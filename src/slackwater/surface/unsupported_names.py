"""Names that PySpark has and we do not: why, and what to use.

A test compares these tables with the installed PySpark, and tries all code between backticks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from slackwater.errors import UnsupportedNameError


class Advice(NamedTuple):
    """Why a stream has no such thing, and what to use, as it reads after "to fix:". Code stands between backticks."""

    why: str
    use: str


_NO_TABLE = "a stream does not end, so there is no table of all its rows"
_LOOK = Advice(
    _NO_TABLE,
    "`stream.preview(20)` runs it for some seconds and returns rows; "
    '`stream.writeStream.format("memory").queryName("results")` keeps all results in a view for '
    '`spark.table("results")`',
)
_BEFORE = "Spark can do it before the stream is made"
_PER_BATCH = "`stream.writeStream.foreachBatch(lambda frame, batch: frame.count())` gets the rows of each batch as a DataFrame"
_AGGREGATE = "over all rows of a stream it would never be complete"
_KEPT = Advice(
    "what a query keeps, and where, follows from its operators: `stream.explain()` shows it",
    "results that are started together read and compute once what they share: "
    '`sw.start([stream.writeStream.format("noop")], checkpointLocation=path)`',
)
_PARTITIONS = Advice(
    "a stream is cut into groups by the keys of each operator",
    '`stream.writeStream.option("partitionGroups", 4)` says into how many',
)
_GROUPINGS = Advice(
    "a row belongs to one group here",
    "start one result per grouping together, which reads the input once: "
    '`sw.start([stream.groupBy("k", sw.window("1 minute")).count().writeStream.format("noop").queryName("by_k"), '
    'stream.groupBy(sw.window("1 minute")).count().writeStream.format("noop").queryName("all")], '
    "checkpointLocation=path)`",
)
_SETS = "rows of two streams are compared only if they are near each other in time"
_BOTH = Advice(
    _SETS,
    '`stream.join(other, on=["k", "v"], within=sw.band(before="1 minute", after="1 minute"), how="left_semi")`',
)
_ONLY_LEFT = Advice(
    _SETS,
    '`stream.join(other, on=["k", "v"], within=sw.band(before="1 minute", after="1 minute"), how="left_anti")`',
)
_SAMPLE = Advice(
    "a row that is read again after a failure must be chosen again",
    'choose by a hash of columns that tell rows apart: `stream.where("pmod(xxhash64(k, ts), 100) < 10")`',
)
_VIEW = Advice(
    "Spark's SQL on a view would not know the stream's progress",
    '`stream.createOrReplaceTempView("packets")` names it for `sw.sql("SELECT * FROM packets", streams={"packets": stream})`, which finds it without streams= then; results become a view of Spark\'s by '
    '`stream.writeStream.format("memory").queryName("results")`',
)
_METADATA = Advice(
    _BEFORE,
    '`sw.stream(df.select("*", "_metadata.file_path"), time="ts")` for a DataFrame over files',
)
_SESSION = Advice(
    "a stream works in the session of its DataFrame", "`SparkSession.active()` is that session"
)
_PROGRESS = Advice("what a running query did is in its progress records", "`query.lastProgress`")
_MAP = Advice(
    "progress cannot be followed through a function that may return any rows",
    f'{_BEFORE}: `sw.stream(df.mapInArrow(lambda batches: batches, df.schema), time="ts")`; or call it on results: '
    + _PER_BATCH,
)
_UNPIVOT = Advice(
    _BEFORE,
    '`sw.stream(df.unpivot(["k", "ts"], ["v", "offset"], "name", "value"), time="ts")`',
)
_COMPARE = Advice("two streams are compared by their text", "`stream.explain()` of both")

ON_STREAMS: Mapping[str, Advice] = {
    # looking at rows
    **dict.fromkeys(
        (
            "collect", "first", "head", "pandas_api", "plot", "show", "tail", "take", "toArrow", "toLocalIterator",
            "toPandas",
        ),
        _LOOK,
    ),
    "limit": Advice(
        "which rows come first depends on when they arrive, and a stream does not end after them",
        "for a look `stream.preview(20)`; for a part of all rows a condition: `stream.where(\"v < 10\")`",
    ),
    "offset": Advice(
        "which rows come first depends on when they arrive",
        "leave rows out by a condition: `stream.where(\"ts >= '2026-01-01'\")`",
    ),
    "isEmpty": Advice(
        "rows may come at any time", 'how many have come: `query.lastProgress["numInputRows"]`'
    ),
    "foreach": Advice(_NO_TABLE, _PER_BATCH),
    "foreachPartition": Advice(_NO_TABLE, _PER_BATCH),
    "rdd": Advice(_NO_TABLE, _PER_BATCH),
    "asTable": Advice(_NO_TABLE, _PER_BATCH),
    "transpose": Advice(_NO_TABLE, _PER_BATCH),
    # aggregates
    "agg": Advice(
        _AGGREGATE, '`stream.groupBy(sw.window("1 minute")).agg("sum(v) AS total", "count(*) AS n")`'
    ),
    "count": Advice(_AGGREGATE, '`stream.groupBy(sw.window("1 minute")).count()`'),
    **dict.fromkeys(
        ("describe", "summary", "stat"),
        Advice(
            _AGGREGATE,
            '`stream.groupBy(sw.window("1 minute")).agg("count(v) AS n", "avg(v) AS mean", "stddev_samp(v) AS deviation", '
            '"min(v) AS least", "max(v) AS greatest")`',
        ),
    ),
    "approxQuantile": Advice(
        _AGGREGATE,
        '`stream.groupBy(sw.window("1 minute")).agg("percentile_approx(v, 0.5) AS median")`',
    ),
    "corr": Advice(
        _AGGREGATE, '`stream.groupBy(sw.window("1 minute")).agg("corr(v, offset) AS c")`'
    ),
    "cov": Advice(
        _AGGREGATE, '`stream.groupBy(sw.window("1 minute")).agg("covar_samp(v, offset) AS c")`'
    ),
    "crosstab": Advice(_AGGREGATE, '`stream.groupBy("k", "v", sw.window("1 minute")).count()`'),
    "freqItems": Advice(
        _AGGREGATE,
        '`stream.groupBy(sw.window("1 minute")).agg(sw.heavyHitters("k", 0.05).alias("frequent"))`',
    ),
    **dict.fromkeys(("cube", "groupingSets", "rollup"), _GROUPINGS),
    # rows and columns
    "withWatermark": Advice(
        "how long to wait for rows is said where the stream is made, and judged for each stream by itself",
        '`sw.stream(df, time="ts", progress=sw.BoundedDelay("10 seconds"))`',
    ),
    "withColumnsRenamed": Advice(
        "columns are renamed one by one or all at once",
        '`stream.withColumnRenamed("k", "key").withColumnRenamed("v", "value")`, or `stream.toDF(*stream.columns)`',
    ),
    "withMetadata": Advice(
        "a stream keeps no metadata of columns",
        "add it to results: `stream.writeStream.foreachBatch(lambda frame, batch: "
        'frame.withMetadata("k", {"unit": "m"}).count())`',
    ),
    "dropna": Advice("a condition says which rows to keep", '`stream.where("v IS NOT NULL")`'),
    "na": Advice(
        "nulls are filled by a method, and left out by a condition",
        '`stream.fillna(0, ["v"])`, `stream.where("v IS NOT NULL")`',
    ),
    "replace": Advice(
        "an expression says what becomes of a value",
        "`stream.withColumn(\"k\", \"CASE WHEN k = 'old' THEN 'new' ELSE k END\")`",
    ),
    "to": Advice(
        "a select brings columns to other types and orders",
        '`stream.select("ts", "k", "CAST(v AS int) AS v")`',
    ),
    "toJSON": Advice(
        "the text alone would have no time", '`stream.select("ts", "to_json(struct(*)) AS value")`'
    ),
    "colRegex": Advice(
        "names can be chosen in Python",
        '`stream.select([c for c in stream.columns if c.startswith(("k", "t"))])`',
    ),
    **dict.fromkeys(("sample", "sampleBy", "randomSplit"), _SAMPLE),
    **dict.fromkeys(("mapInArrow", "mapInPandas"), _MAP),
    **dict.fromkeys(("melt", "unpivot"), _UNPIVOT),
    "metadataColumn": _METADATA,
    "inputFiles": _METADATA,
    "zipWithIndex": Advice(
        "rows have no number of their own that stays the same",
        'name the column that gives their order, such as an offset: `sw.stream(df, time="ts", order="offset")`',
    ),
    "sortWithinPartitions": Advice("rows are put into order of time", "`stream.sort()`"),
    # several streams
    "crossJoin": Advice(
        "each row would have to be kept for ever",
        'any two rows that are near each other in time: `stream.join(other, within=sw.band(before="1 minute", after="1 minute"))`',
    ),
    **dict.fromkeys(("intersect", "intersectAll"), _BOTH),
    **dict.fromkeys(("exceptAll", "subtract"), _ONLY_LEFT),
    "exists": _BOTH,
    "scalar": Advice(
        "a stream has no one value",
        'of a static DataFrame take the value first: `stream.where(F.col("v") > static.agg(F.max("v")).first()[0])`',
    ),
    **dict.fromkeys(
        ("lateralJoin", "nearestByJoin", "zip"),
        Advice(
            "streams are joined by keys and by time",
            '`stream.join(other, on="k", within=sw.band(before="1 minute", after="1 minute"))`',
        ),
    ),
    "hint": Advice(
        "there is one way to run each join",
        "only its memory can be chosen: "
        '`stream.join(other, on="k", within=sw.band(before="1 minute", after="1 minute"), memory="256m")`',
    ),
    # running and keeping
    **dict.fromkeys(
        ("cache", "checkpoint", "is_cached", "localCheckpoint", "persist", "storageLevel", "unpersist"), _KEPT
    ),
    **dict.fromkeys(
        ("coalesce", "repartition", "repartitionById", "repartitionByRange"), _PARTITIONS
    ),
    **dict.fromkeys(
        (
            "createGlobalTempView", "createOrReplaceGlobalTempView", "createTempView", "registerTempTable",
        ),
        _VIEW,
    ),
    "write": Advice(
        _NO_TABLE, '`stream.writeStream.format("parquet").option("path", path)`'
    ),
    "writeTo": Advice(_NO_TABLE, '`stream.writeStream.toTable` appends to a table'),
    "mergeInto": Advice(_NO_TABLE, _PER_BATCH),
    "observe": _PROGRESS,
    "executionInfo": _PROGRESS,
    "isLocal": Advice("a query runs in tasks of Spark's", "`stream.explain()` says what runs where"),
    **dict.fromkeys(("sameSemantics", "semanticHash"), _COMPARE),
    **dict.fromkeys(("sparkSession", "sql_ctx"), _SESSION),
}  # fmt: skip
"""Names of a DataFrame that a stream lacks."""

_OWN_FUNCTION = Advice(
    "a function of yours that sees a whole group would need all its rows at once",
    "aggregates of your own are built from parts: see `sw.udaf`; on results that are complete: "
    '`stream.writeStream.foreachBatch(lambda frame, batch: frame.groupBy("k").count())`',
)
_OWN_STATE = Advice(
    "state is kept by operators, which free it by the stream's progress",
    'sessions (`sw.sessionWindow("5 minutes")`), windows of your own (`sw.customWindow`, `sw.linearWindow`) and aggregates of '
    "your own (`sw.udaf`)",
)

ON_GROUPS: Mapping[str, Advice] = {
    **dict.fromkeys(("apply", "applyInArrow", "applyInPandas"), _OWN_FUNCTION),
    **dict.fromkeys(
        ("applyInPandasWithState", "transformWithState", "transformWithStateInPandas"), _OWN_STATE
    ),
    "cogroup": Advice(
        "groups of two streams are brought together by a join",
        '`stream.join(other, on="k", within=sw.band(before="1 minute", after="1 minute"))`',
    ),
    "pivot": Advice(
        "which columns there are must be known when the query starts",
        'one aggregate per value: `stream.groupBy(sw.window("1 minute")).agg('
        "\"sum(CASE WHEN k = 'a' THEN v END) AS a\", \"sum(CASE WHEN k = 'b' THEN v END) AS b\")`",
    ),
}
"""Names of grouped data that grouped streams lack."""

ON_WRITERS: Mapping[str, Advice] = {
    "clusterBy": Advice(
        "files are put into folders by values", '`stream.writeStream.partitionBy("k")`'
    ),
    "foreach": Advice("results are handed over batch by batch", _PER_BATCH),
}
"""Names of Spark's writer of streams that ours lacks."""


UNKNOWN = Advice(
    "this release of Slackwater does not know it",
    "`stream.writeStream.foreachBatch(lambda frame, batch: frame.count())`: results are DataFrames there",
)
"""For names of a PySpark that is newer than these tables."""


def is_theirs(name: str) -> bool:
    """Whether a DataFrame has the name: it is no column's then, also where we lack it."""
    from pyspark.sql import DataFrame

    return name in ON_STREAMS or (not name.startswith("_") and hasattr(DataFrame, name))


def unsupported(
    kind: str, name: str, table: Mapping[str, Advice], also: str = ""
) -> UnsupportedNameError:
    """The error for a name of PySpark's that ``kind``, such as ``"a stream"``, does not have."""
    why, use = table.get(name, UNKNOWN)
    return UnsupportedNameError(
        "NOT_ON_A_STREAM",
        f"{kind} has no '{name}': {why}" + (f"; {also}" if also else ""),
        hint=use,
        name=name,
    )


class Advising:
    """A class whose unknown attributes say what to use instead of them."""

    _kind: str
    _advice: Mapping[str, Advice]

    if not TYPE_CHECKING:  # type checkers see what there is

        def __getattr__(self, name: str) -> Any:
            # An error inside a property would be hidden by ours: let it be seen.
            if hasattr(type(self), name):
                return object.__getattribute__(self, name)
            if name in self._advice:
                raise unsupported(self._kind, name, self._advice)
            raise AttributeError(f"{self._kind} has no attribute '{name}'", name=name, obj=self)
