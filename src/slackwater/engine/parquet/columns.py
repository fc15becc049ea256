"""The declared columns over one file: by name, or from its folders, or null.

What cannot be read as declared is refused when, and only when, a row of that column is asked for: Spark never looks at
a column that a query does not use.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from slackwater.engine.parquet.types import Mismatch, Stored, matches, reading, stored_columns
from slackwater.errors import ExecutionError
from slackwater.kernels.types import duck_type, parse
from slackwater.model.duck_sql import quote
from slackwater.model.schema import Field

_REFUSED = "__sw_refused"
_MARK = re.compile(rf"{_REFUSED} (\d+) (\d+)")


def read_metadata(path: str) -> pq.FileMetaData:
    """The footer of a parquet file, or an error that names the file."""
    try:
        return pq.read_metadata(path)
    except (pa.ArrowException, OSError) as error:
        raise bad_file(path, error) from error


def bad_file(path: str, why: object) -> ExecutionError:
    """The error of a file that is damaged, or no parquet."""
    return ExecutionError(
        "BAD_FILE",
        f"'{path}' cannot be read: {one_line(why)}",
        hint="its batch has begun, so this checkpoint takes no other file in its place: remove the file and start "
        "on a new checkpointLocation. A file that is still being written needs another name until it is complete, "
        "one that starts with '_' or '.'",
        path=path,
    )


def one_line(why: object) -> str:
    """What a reader says of a file, which may quote bytes of it; what stands behind a line's end would be lost on the way from a task."""
    return " ".join("".join(c if c.isprintable() else " " for c in str(why)).split())


class FileColumns:
    """How the declared columns are read from one file.

    Parameters
    ----------
    path
        The file.
    folders
        SQL of the columns that the names of its folders give, by declared name.
    """

    def __init__(self, path: str, folders: Sequence[tuple[str, str]] = ()):
        self.path = path
        self.folders = dict(folders)
        footer = read_metadata(path)
        try:
            self.stored = stored_columns(footer.schema)
        except (pa.ArrowException, OSError) as error:
            raise bad_file(path, error) from error
        self.old_calendar = is_old_calendar(footer)

    @property
    def has_like_names(self) -> bool:
        """Whether names differ in letter case only; the column engine then calls some by another name."""
        return len({s.name.lower() for s in self.stored}) < len(self.stored)

    def selected(
        self, fields: Sequence[Field], names: Sequence[str] | None = None, number: int = 0
    ) -> list[str]:
        """The SQL of each declared column; ``names`` are those that the engine gives to the file's columns.

        A column that is refused fails when a row of it is read, with a mark that `refusal` understands.
        """
        items = []
        for i, field in enumerate(fields):
            try:
                sql = self.column(field, names)
            except ExecutionError:
                sql = f"CAST(error('{_REFUSED} {number} {i}') AS {duck_type(field.type)})"
            items.append(f"{sql} AS {quote(field.name)}")
        return items

    def column(self, field: Field, names: Sequence[str] | None = None) -> str:
        """The SQL of a declared column, or the error that refuses it."""
        if field.name in self.folders:
            return self.folders[field.name]
        same = matches(self.stored, field.name)
        if len(same) > 1:
            raise ExecutionError(
                "AMBIGUOUS_COLUMN",
                f"'{self.path}' has several columns like '{field.name}': {', '.join(s.name for s in same)}",
                hint="name them apart; column names are compared without regard to case",
                path=self.path,
                column=field.name,
            )
        if not same:
            return f"CAST(NULL AS {duck_type(field.type)})"
        name = same[0].name
        if names is not None:
            name = names[[s is same[0] for s in self.stored].index(True)]
        try:
            return reading(same[0], parse(field.type), quote(name), old=self.old_calendar)
        except Mismatch as error:
            raise self._other_type(field, same[0], error) from None

    def _other_type(self, field: Field, stored: Stored, why: Mismatch) -> ExecutionError:
        inside = "" if str(why) == str(stored) else f" ({why})"
        return ExecutionError(
            "BAD_COLUMN_TYPE",
            f"column '{field.name}' of '{self.path}' is stored as {stored}{inside}, but the schema says {field.type}",
            hint="declare the type that the files have, and cast it on the stream",
            path=self.path,
            column=field.name,
        )


def refusal(text: str, fields: Sequence[Field], files: Sequence[FileColumns]) -> ExecutionError | None:  # fmt: skip
    """The error that a mark in the column engine's error stands for."""
    mark = _MARK.search(text)
    if mark is None:
        return None
    try:
        files[int(mark[1])].column(fields[int(mark[2])])
    except ExecutionError as error:
        return error
    return None


def is_old_calendar(footer: pq.FileMetaData) -> bool:
    """Whether Spark wrote the file with the calendar that it had before version 3."""
    remarks: dict[bytes, bytes] = footer.metadata or {}
    if b"org.apache.spark.legacyDateTime" in remarks or b"org.apache.spark.legacyINT96" in remarks:
        return True
    version = remarks.get(b"org.apache.spark.version")
    return version is not None and version.split(b".")[0] in (b"1", b"2")
