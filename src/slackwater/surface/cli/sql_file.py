"""``.sql`` files for the commands: their session, their variables, and how rows of a bare query are shown."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slackwater.errors import AnalysisError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from slackwater.surface.sql.script import Script
    from slackwater.surface.stream import Stream
    from slackwater.surface.writer import StreamWriter


def variables_of(given: Sequence[str]) -> dict[str, str]:
    """``--set name=value``, as often as it is given."""
    made: dict[str, str] = {}
    for item in given:
        name, sign, value = item.partition("=")
        if not sign or not name.strip():
            raise AnalysisError(
                "BAD_OPTION",
                f"--set {item}: there is no name and value",
                hint="write --set name=value",
            )
        made[name.strip()] = value
    return made


def fresh_log(stem: str) -> Path:
    """A new file for Spark's log, which its owner alone may read."""
    number, path = tempfile.mkstemp(prefix=f"slackwater-{stem}-", suffix=".log")
    os.close(number)
    return Path(path)


def check_syntax(path: Path, variables: dict[str, str] | None) -> None:
    """An error where the text breaks off; needs neither Java nor PySpark."""
    from slackwater.surface.sql.dialect import check
    from slackwater.surface.sql.reading import read, text_of
    from slackwater.surface.sql.variables import Variables

    text = text_of(path)
    read(text, Variables(text, variables), check)


def settings_of(path: Path, variables: dict[str, str]) -> dict[str, str]:
    """What ``SET spark...`` says in a file."""
    from slackwater.surface.sql.reading import session_settings, text_of

    return session_settings(text_of(path), variables)


def script_of(
    path: Path, spark: SparkSession, variables: dict[str, str], *, as_json: bool = False
) -> Script:
    """The script of a file; rows of a bare query go to standard output."""
    from slackwater.surface.sql.reading import text_of
    from slackwater.surface.sql.script import Script

    def shown(stream: Stream, name: str) -> StreamWriter:
        return printed(stream, name, as_json=as_json)

    return Script(spark, text_of(path), variables, own_session=True, shown=shown)


def printed(
    stream: Stream, name: str, *, as_json: bool = False, piped: bool = True
) -> StreamWriter:
    """How rows go to standard output: as JSON lines if that is asked, and with ``piped`` where it is no terminal."""
    if not as_json and (sys.stdout.isatty() or not piped):
        return stream.writeStream.format("console").queryName(name)
    return stream.writeStream._foreach_table(_lines).queryName(name)


def _lines(table: pa.Table, _: int) -> None:
    """Rows as JSON, one in each line."""
    for row in table.to_pylist():
        sys.stdout.write(json.dumps(row, default=_plain, ensure_ascii=False) + "\n")
    sys.stdout.flush()


def _plain(value: Any) -> Any:
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.hex()
    return str(value)
