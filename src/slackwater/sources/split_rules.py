"""What is known at the start of a split source: whether the column engine reads it as Spark would, or rows are read."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping, Sequence

from slackwater.errors import AnalysisError
from slackwater.kernels.types import Parsed, parse
from slackwater.model.schema import Field

# Options of Spark's file source that say which files are read, and when: they mean the same for splits.
NAME_OPTIONS = (
    "maxFilesPerTrigger", "maxBytesPerTrigger", "maxFileAge", "latestFirst", "fileNameOnly", "cleanSource",
    "sourceArchiveDir", "maxCachedFiles", "discardCachedInputRatio", "pathGlobFilter", "recursiveFileLookup",
)  # fmt: skip
# Those that say how parquet is read: only Spark knows them.
ROW_OPTIONS = ("datetimeRebaseMode", "int96RebaseMode", "ignoreCorruptFiles", "ignoreMissingFiles", "mergeSchema")  # fmt: skip

# Settings that change what Spark reads from the same files, each with the values that the column engine follows.
SETTINGS = {
    "spark.sql.caseSensitive": ("false",),
    "spark.sql.parquet.enableVectorizedReader": ("true",),
    "spark.sql.parquet.enableNestedColumnVectorizedReader": ("true",),
    "spark.sql.parquet.datetimeRebaseModeInRead": ("corrected", "exception"),
    "spark.sql.parquet.int96RebaseModeInRead": ("corrected", "exception"),
    "spark.sql.parquet.int96TimestampConversion": ("false",),
    "spark.sql.parquet.fieldId.read.enabled": ("false",),
    "spark.sql.legacy.parquet.nanosAsLong": ("false",),
    "spark.sql.legacy.parquet.returnNullStructIfAllFieldsMissing": ("false",),
    "spark.sql.files.ignoreCorruptFiles": ("false",),
    "spark.sql.files.ignoreMissingFiles": ("false",),
    "spark.sql.sources.validatePartitionColumns": ("true",),
}
_SIZED = re.compile(r"\b(?:var)?char\(\d+\)", re.IGNORECASE)


def rows_because(
    fields: Sequence[Field], options: Mapping[str, str], setting: Callable[[str, str], str | None]
) -> str:
    """Why files with this schema, these options and the session's settings are read by rows; empty if as splits.

    What Spark would refuse is refused.
    """
    asked = _checked_options(options)
    for field in fields:
        if _SIZED.search(field.type):
            raise AnalysisError(
                "UNSUPPORTED_TYPE",
                f"column '{field.name}' is {field.type}; Spark reads no files with char or varchar in their schema",
                hint="declare it as string",
                column=field.name,
            )
        if not _engine_type(field.type):
            return f"the column engine has no type {field.type}"
    if asked:
        return f"option {asked} is for Spark's reader"
    for key, values in SETTINGS.items():
        value = setting(key, values[0])
        if value is not None and value.lower() not in values:
            return f"{key} is {value}"
    return ""


def _checked_options(options: Mapping[str, str]) -> str:
    """The first option that only Spark's reader knows; one that nobody knows is refused."""
    known = {o.lower(): o for o in (*NAME_OPTIONS, *ROW_OPTIONS)}
    asked = ""
    for name in options:
        if name.lower() not in known:
            close = difflib.get_close_matches(name.lower(), list(known), 1, 0.8)
            meant = f"did you mean {known[close[0]]!r}? " if close else ""
            raise AnalysisError(
                "BAD_OPTION",
                f"a source of parquet files has no option {name!r}",
                hint=f"{meant}There are: {', '.join(known.values())}",
                option=name,
            )
        if known[name.lower()] in ROW_OPTIONS:
            asked = asked or known[name.lower()]
    return asked


def _engine_type(text: str) -> bool:
    try:
        return _has_values(parse(text))
    except AnalysisError:
        return False


def _has_values(kind: Parsed) -> bool:
    if kind.kind == "void" or (kind.kind == "struct" and not kind.names):
        return False
    return all(_has_values(p) for p in kind.parts)
