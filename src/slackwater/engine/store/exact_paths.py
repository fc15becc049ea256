"""Paths that mean exactly one file, whatever characters their names have.

Spark and the column engine take some characters of a path for patterns. Arrow and Python do not.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import PurePath

from slackwater.errors import AnalysisError, ExecutionError, SetupError

_PATTERN = frozenset("{}[]*?\\")


def is_pattern(path: str | PurePath) -> bool:
    """Whether Spark would take a path for a pattern.

    >>> is_pattern("/in/a b%20#'é.parquet"), is_pattern("/in[1]/a.parquet")
    (False, True)
    """
    return not _PATTERN.isdisjoint(str(path))


def spark_path(path: str | PurePath) -> str:
    r"""The text that means exactly this path where Spark expects a pattern.

    >>> print(spark_path("/in[1]/a*.parquet"))
    /in\[1\]/a\*.parquet
    """
    return "".join(f"\\{c}" if c in _PATTERN else c for c in str(path))


@contextmanager
def engine_paths(paths: Sequence[str]) -> Iterator[Mapping[str, str]]:
    """For each path the one by which the column engine opens exactly that file, valid in this context.

    The engine has no way to say that a name is no pattern. Such a file gets a link with a plain name.
    """
    strange = [p for p in dict.fromkeys(paths) if is_pattern(p)]
    if not strange:
        yield {p: p for p in paths}
        return
    with tempfile.TemporaryDirectory(prefix="slackwater-links-", dir=_plain_folder()) as folder:
        links = {p: os.path.join(folder, f"{i}.parquet") for i, p in enumerate(strange)}
        for path, link in links.items():
            os.symlink(path, link)
        yield {p: links.get(p, p) for p in paths}


def _plain_folder() -> str:
    for folder in (tempfile.gettempdir(), "/tmp", "/var/tmp"):
        if not is_pattern(folder) and os.access(folder, os.W_OK | os.X_OK):
            return folder
    raise SetupError(
        "NOT_WRITABLE",
        f"the temporary directory '{tempfile.gettempdir()}' has a character of {' '.join(sorted(_PATTERN))} in its name, "
        "and files with such characters need links in a directory without",
        hint="set TMPDIR to a directory that can be written and has a plain name",
    )


def check_folder(path: str, what: str) -> None:
    """Refuse to read a directory by rows if Spark would take its name for a pattern."""
    if is_pattern(path):
        raise AnalysisError(
            "PATTERN_IN_PATH",
            f"{what} '{path}' is read by Spark, which takes such a name for a pattern and would read other files",
            hint="rename the directory: without any of { } [ ] * ? and backslash; or read parquet as splits, with "
            "sw.readStream(spark).schema(...).parquet(...) and expressions that explain() shows in the column engine",
            path=path,
        )


def check_names(files: Sequence[str]) -> None:
    """Refuse files of a row source whose names Spark would take for patterns: it reads others, or some twice."""
    strange = next((f for f in files if is_pattern(f)), None)
    if strange is not None:
        raise ExecutionError(
            "PATTERN_IN_PATH",
            f"file '{strange}' is read by Spark, which takes its name for a pattern and would read other files, or "
            "some more than once",
            hint="start a new checkpointLocation after you have renamed the file: without any of { } [ ] * ? and "
            "backslash; or read parquet as splits, with sw.readStream(spark).schema(...).parquet(...)",
            path=strange,
        )
