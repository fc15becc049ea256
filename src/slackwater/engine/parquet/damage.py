"""Which file is to blame when a scan of many files fails.

Many files stand in one SQL text, and the column engine does not say which of them it could not read. So after a
failure, and only then, the footers and pages of the files are read one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.parquet as pq

from slackwater.engine.parquet.columns import FileColumns, bad_file, one_line, refusal
from slackwater.errors import ExecutionError, SlackwaterError
from slackwater.kernels.column_engine import connect, is_engine_error
from slackwater.model.duck_sql import literal
from slackwater.model.names import ours
from slackwater.model.schema import Field

ROW_NUMBER = "file_row_number"
_ROWS = 65_536


def parquet_sql(path: str, *, rows: bool = False) -> str:
    """The table function that reads a file; ``rows``: with the number of each row.

    Footers have no word of NaN. The column engine takes a column's limits there for those of all its values, and would drop or
    keep NaN by them, unless it is told.
    """
    return (
        f"read_parquet({literal(path)}, hive_partitioning = false, can_have_nan = true, "
        f"{ROW_NUMBER} = {str(rows).lower()})"
    )


@contextmanager
def blamed(
    fields: Sequence[Field], files: Sequence[FileColumns], paths: Mapping[str, str], memory: str
) -> Iterator[None]:
    """Errors of the column engine become those of the file that caused them, if one did.

    ``paths`` are those by which the column engine opens the files.
    """
    try:
        yield
    except SlackwaterError:
        raise
    except Exception as error:
        if not is_engine_error(error):
            raise
        refused = refusal(str(error), fields, files)
        if refused is not None:
            raise refused from error
        for file in files:
            _check_pages(file, paths[file.path], memory)
            _check_columns(file, paths[file.path], fields, memory)
        raise


def _check_pages(file: FileColumns, path: str, memory: str) -> None:
    """Read all of a file, by both readers that we have."""
    try:
        with pq.ParquetFile(file.path, page_checksum_verification=True) as opened:
            for _ in opened.iter_batches(_ROWS):
                pass
    except (pa.ArrowException, OSError) as error:
        raise bad_file(file.path, error) from error
    try:
        _drain(f"SELECT * FROM {parquet_sql(path)}", memory)
    except Exception as error:
        if not _is_fault(error):
            raise
        raise bad_file(file.path, error) from error


def _check_columns(file: FileColumns, path: str, fields: Sequence[Field], memory: str) -> None:
    """Values that cannot be had as the declared type, in a file that is sound."""
    table = parquet_sql(path)
    names = list(connect(memory).sql(f"SELECT * FROM {table}").columns)
    for field in fields:
        try:
            sql = file.column(field, names)
        except ExecutionError:
            continue  # its type is refused, and nobody has asked for it
        try:
            _drain(f"SELECT {sql} AS {ours('_c')} FROM {table}", memory)
        except Exception as error:
            if not _is_fault(error):
                raise
            raise ExecutionError(
                "BAD_COLUMN_VALUE",
                f"column '{field.name}' of '{file.path}' has a value that cannot be read as {field.type}: {one_line(error)}",
                hint="declare the type that the files have, and convert it on the stream",
                path=file.path,
                column=field.name,
            ) from error


def _drain(sql: str, memory: str) -> None:
    for _ in connect(memory).cursor().sql(sql).to_arrow_reader(_ROWS):
        pass


def _is_fault(error: Exception) -> bool:
    """Whether values cannot be read. What fails after the first rows comes by way of Arrow, which has no other type for it."""
    return is_engine_error(error) or (
        isinstance(error, OSError) and "Out of Memory" not in str(error)
    )
