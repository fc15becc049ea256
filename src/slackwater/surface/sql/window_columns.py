"""The columns of windows in expressions: ``window_start``, ``window.end``, ``window(...)`` again, a time that is a key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from slackwater.model.time import TimeColumn
from slackwater.surface.sql.expressions import Expressions
from slackwater.surface.sql.scopes import Scope, WindowOf
from slackwater.surface.sql.tree import Cut
from slackwater.surface.sql.windows import (
    COLUMNS,
    STRUCTS,
    column_text,
    end_of_call,
    is_call,
    of_call,
    ticks_of,
)
from slackwater.surface.windows import RowsSpec, SessionSpec


@dataclass(frozen=True)
class Tick:
    """A time column that is a key: a window of one tick."""

    cut: Cut
    column: str
    spec: Any


class WindowColumns:
    """Knows the window of a group, and finds its columns among tokens."""

    def __init__(self, scope: Scope):
        self.scope = scope
        self.expressions: Expressions = scope.expressions
        self.text, self.tokens = self.expressions.text, self.expressions.tokens
        self.window: WindowOf | None = scope.relation.window
        self.ticks: list[Tick] = []

    def column(self, parts: Sequence[str]) -> str | None:
        """The column of the window that a name is; a column of the user's comes first where the two can be told apart."""
        if self.window is None or parts[0].lower() not in COLUMNS:
            names = {s.name.lower() for s in self.scope.relation.sides}
            qualified = (
                len(parts) == 2 and parts[0].lower() in names and parts[1].lower() in COLUMNS
            )
            if self.window is None or not qualified:
                return None
            return parts[1].lower()
        if len(parts) > 1 and parts[0].lower() not in STRUCTS:
            return None
        sessions = isinstance(self.window.spec, SessionSpec)
        if parts[0].lower() == ("wid" if sessions else "session_window"):
            return None  # a session has no id, and other windows are no sessions
        return parts[0].lower()

    def of_keys(self) -> tuple[str, ...]:
        """The names that are keys of the group: all that a table function adds, else the window itself."""
        if self.window is None:
            return ()
        return COLUMNS if self.window.kind == "function" else STRUCTS

    def swaps(self, cut: Cut) -> dict[int, tuple[int, str]]:
        """The columns of windows in an expression, with what stands for them."""
        swaps: dict[int, tuple[int, str]] = {}
        cursor = self.expressions.cursor
        i = cut.first
        while i < cut.last:
            token = self.tokens[i]
            follows = i > cut.first and self.tokens[i - 1].is_sign(".")
            if not token.is_name or follows:
                i += 1
                continue
            end = self._tick_at(i, cut.last, swaps) or self._column_at(i, cut.last, swaps, cursor)
            i = end or i + 1
        return swaps

    def _tick_at(self, at: int, limit: int, swaps: dict[int, tuple[int, str]]) -> int | None:
        for tick in self.ticks:
            width = tick.cut.last - tick.cut.first
            run = self.tokens[at : at + width]
            if at + width <= limit and self.expressions.same(
                run, self.expressions.tokens_of(tick.cut)
            ):
                if at + width < limit and self.tokens[at + width].is_sign("("):
                    continue
                struct = tick.spec.name if len(self.ticks) == 1 else f"{tick.column}_window"
                swaps[at] = (at + width, column_text("window_start", struct, False))
                return at + width
        return None

    def _column_at(
        self, at: int, limit: int, swaps: dict[int, tuple[int, str]], cursor: Any
    ) -> int | None:
        token = self.tokens[at]
        if self.window is None:
            return None
        integer = self.time().is_integer
        if is_call(cursor, at):
            end = end_of_call(cursor, at)
            self._check_same(cursor.cut(at, end))
            swaps[at] = (end, column_text("window", "window", integer))
            return end
        if token.name.lower() == "window_time" and self.tokens[at + 1].is_sign("("):
            swaps[at] = (end_of_call(cursor, at), column_text("window_time", "window", integer))
            return swaps[at][0]
        if self.tokens[at + 1].is_sign("("):
            return None
        parts, end = [token.name], at + 1
        while end + 1 < limit and self.tokens[end].is_sign(".") and self.tokens[end + 1].is_name:
            parts.append(self.tokens[end + 1].name)
            end += 2
        name = self.column(parts)
        if name is None:
            return None
        width = 1 if parts[0].lower() == name else 3
        if name in STRUCTS and len(parts) > 1 and parts[0].lower() in STRUCTS:
            field_name = parts[1].lower()
            if field_name in ("start", "end"):
                swaps[at] = (at + 3, column_text(f"window_{field_name}", "window", integer))
                return at + 3
        swaps[at] = (at + width, column_text(name, "window", integer))
        return at + width

    def time(self) -> TimeColumn:
        """The time that the window goes by."""
        assert self.window is not None
        if isinstance(self.window.spec, RowsSpec):
            return TimeColumn("", "long", None)
        return self.scope.stream._time(self.window.spec.on, "a window")

    def _check_same(self, cut: Cut) -> None:
        """``window(...)`` in the select list is the one of GROUP BY."""
        assert self.window is not None
        time = self.time()
        other = of_call(cut, self.scope).spec
        if ticks_of(other, time) != ticks_of(self.window.spec, time):
            raise self.text.error(
                cut.span, "SEVERAL_WINDOWS", "this window is not the one of GROUP BY",
                hint="write the same window, or window_start and window_end", also=self.window.span,
            )  # fmt: skip
