"""Directories of a script: relative to the working directory, and each output with one of its own."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass

from slackwater.errors import AnalysisError
from slackwater.surface.sql.text import Span, SqlText

_SCHEME = re.compile(r"[a-z][a-z0-9+.-]+:/", re.IGNORECASE)


@dataclass(frozen=True)
class Directory:
    """A directory that a statement names: of a ``table``, a ``stream`` or the ``checkpoint``."""

    kind: str
    name: str
    path: str
    span: Span

    @property
    def real(self) -> str:
        """The directory itself, whatever links lead to it."""
        plain = re.sub(r"^file:/+", "/", self.path)
        return plain if _SCHEME.match(plain) else os.path.realpath(plain)

    @property
    def called(self) -> str:
        """In a message."""
        return "the checkpoint" if self.kind == "checkpoint" else f"{self.kind} '{self.name}'"


def check_directories(text: SqlText, directories: Sequence[Directory]) -> None:
    """Refuse two tables in one directory, and a table inside another's, a stream's or the checkpoint's, or around it."""
    tables = [d for d in directories if d.kind == "table"]
    for i, table in enumerate(tables):
        for other in (*tables[:i], *(d for d in directories if d.kind != "table")):
            if table.real == other.real:
                raise _error(
                    text, table, other, f"{table.called} and {other.called} have the same directory"
                )
            if _inside(table.real, other.real):
                raise _error(
                    text, table, other, f"{table.called} lies in the directory of {other.called}"
                )
            if _inside(other.real, table.real) and not _hidden(other.real, table.real):
                raise _error(
                    text, other, table, f"{other.called} lies in the directory of {table.called}"
                )


def _inside(path: str, other: str) -> bool:
    return path.startswith(other.rstrip("/") + "/")


def _hidden(path: str, other: str) -> bool:
    """Whether readers of the outer directory pass the inner one over."""
    between = path[len(other.rstrip("/")) + 1 :].split("/")
    return any(part.startswith(("_", ".")) for part in between)


def _error(text: SqlText, one: Directory, other: Directory, message: str) -> AnalysisError:
    return text.error(
        one.span,
        "SAME_DIRECTORY",
        message,
        hint="give each a directory of its own, beside the others",
        also=other.span,
    )
