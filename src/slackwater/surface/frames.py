"""Streaming DataFrames that Spark could not run batch by batch are refused before they are read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from slackwater.errors import AnalysisError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_REFUSED = {
    "GlobalLimit": ("limit", "rows of a stream have no end: filter with where, or stop the query when there are enough"),
    "LocalLimit": ("limit", "rows of a stream have no end: filter with where, or stop the query when there are enough"),
    "Offset": ("offset", "rows of a stream have no end: filter with where"),
    "Tail": ("tail", "rows of a stream have no end: filter with where"),
    "Sort": ("orderBy", "leave it out, and call sort() on the stream: rows leave in order of time then"),
}  # fmt: skip


def check_frame(df: DataFrame) -> None:
    """Refuse what needs all rows of a stream, or counts them over batches."""
    refused = _refused(df._jdf.queryExecution().analyzed())
    if refused is not None:
        name, way = _REFUSED[refused]
        raise AnalysisError(
            "UNSUPPORTED_FRAME",
            f"the DataFrame of sw.stream has {name} over streaming rows, which no batch can do alone",
            hint=way,
            operator=name,
        )


def _refused(plan: Any) -> str | None:
    if not plan.isStreaming():
        return None  # rows that are all there may be cut and sorted
    kind = str(plan.nodeName())
    if kind in _REFUSED:
        return kind
    children = plan.children()
    return next((k for i in range(children.size()) if (k := _refused(children.apply(i)))), None)
