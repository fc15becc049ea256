"""A text or file as statements; nothing of Spark is needed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from slackwater.errors import AnalysisError
from slackwater.surface.sql.cursor import Cursor
from slackwater.surface.sql.from_clause import Checked
from slackwater.surface.sql.statements import StatementReader
from slackwater.surface.sql.text import SqlText
from slackwater.surface.sql.tokens import tokens_of
from slackwater.surface.sql.tree import Setting, Statement
from slackwater.surface.sql.variables import Variables


def text_of(given: str | Path) -> SqlText:
    """The text of a script, or of the file that a path names."""
    if isinstance(given, Path):
        try:
            raw = given.read_text(encoding="utf-8", errors="strict")
        except UnicodeDecodeError as error:
            raise AnalysisError(
                "BAD_FILE",
                f"'{given}' is not UTF-8: {error.reason} at byte {error.start}",
                hint="save it as UTF-8",
            ) from None
        return SqlText(raw, str(given))
    if not isinstance(given, str):
        raise AnalysisError(
            "BAD_OPTION",
            f"a script is a text or a pathlib.Path, not a {type(given).__name__}",
            hint="give Path(file) for a file",
        )
    return SqlText(given, "script.sql")


def read(text: SqlText, variables: Variables, checked: Checked) -> tuple[Cursor, list[Statement]]:
    """The statements of a text."""
    cursor = Cursor(text, tokens_of(text), variables)
    return cursor, StatementReader(checked).read(cursor)


def session_settings(text: SqlText, variables: Mapping[str, Any] | None) -> dict[str, str]:
    """What ``SET spark...`` says, for who makes the session."""
    _, statements = read(text, Variables(text, variables), lambda _, __: None)
    return {
        s.option.name: s.option.value
        for s in statements
        if isinstance(s, Setting) and s.option.name.lower().startswith("spark.")
    }
