"""WHERE behind a window in FROM: conditions on rows, and on the windows that they are in."""

from __future__ import annotations

from dataclasses import dataclass

from slackwater.errors import AnalysisError
from slackwater.surface.sql.conjuncts import conjuncts
from slackwater.surface.sql.expressions import Expressions, quoted
from slackwater.surface.sql.scopes import Condition, Scope, WindowOf
from slackwater.surface.sql.tree import Cut, Select
from slackwater.surface.sql.window_columns import WindowColumns
from slackwater.surface.sql.windows import COLUMNS, STRUCTS, column_text, is_call, row_texts
from slackwater.surface.windows import ByTupleSpec, SessionSpec, WindowSpec


@dataclass(frozen=True)
class Filters:
    """WHERE taken apart: conditions on rows, and conditions on windows alone, which choose groups."""

    rows: tuple[Condition, ...]
    windows: tuple[Condition, ...] = ()


@dataclass(frozen=True)
class _Name:
    """A name in a condition: its tokens, and the column of the window that it is, '' for one of the row."""

    at: int
    end: int
    column: str


def filters_of(where: Cut, scope: Scope) -> Filters:
    """The conditions of a WHERE.

    A row is in one window of TUMBLE, which follows from its time. With other windows a condition on the window alone
    says the same of all rows of a group; one that speaks of the row as well would choose rows of some windows only.
    """
    window = scope.relation.window
    names = [] if window is None else _names(where, scope)
    if window is None or not any(n.column for n in names):
        if window is not None and scope.relation.chosen and _depends(window):
            raise _mixed(where, window, scope)
        return Filters(((where, {}),))
    spec = window.spec
    if isinstance(spec, WindowSpec) and spec.slide is None:
        time = scope.stream._time(spec.on, "a window")
        texts = row_texts(spec, time, quoted(time.name))
        if all(n.column in ("", *texts) for n in names):
            return Filters(((where, {n.at: (n.end, texts[n.column]) for n in names if n.column}),))
    integer = WindowColumns(scope).time().is_integer
    rows: list[Condition] = []
    windows: list[Condition] = []
    for cut in conjuncts(scope.expressions.cursor, where):
        inside = [n for n in names if cut.first <= n.at < cut.last]
        own = {n.at: (n.end, column_text(n.column, "window", integer)) for n in inside if n.column}
        if own and len(own) < len(inside):
            raise _mixed(cut, window, scope)
        (windows if own else rows).append((cut, own))
    if _depends(window) and (rows or window.narrowed):
        raise _mixed(where, window, scope)
    return Filters(tuple(rows), tuple(windows))


def _names(where: Cut, scope: Scope) -> list[_Name]:
    """The names in a condition; none if no word of it could be a column of the window."""
    expressions = scope.expressions
    tokens = expressions.tokens
    if not any(t.is_name and t.name.lower() in COLUMNS for t in expressions.tokens_of(where)):
        return []
    columns = WindowColumns(scope)
    written = expressions.write(where)
    starts = {tokens[i].start: i for i in range(where.first, where.last)}
    names = []
    for start, end, parts in expressions.names(written):
        span = written.back(start, end)
        at = starts.get(span.start, where.first)
        side = scope.name_of(parts[:2], span) if len(parts) > 1 else None
        own = side is not None or scope.name_of(parts[:1], span) is not None
        column = "" if own else columns.column(parts) or ""
        count = len(parts) if parts[0].lower() in STRUCTS else 1 + (parts[0].lower() != column)
        if column in STRUCTS and len(parts) == 2 and parts[1].lower() in ("start", "end"):
            column = f"window_{parts[1].lower()}"
        names.append(_Name(at, at + 2 * count - 1, column))
    return names


def _depends(window: WindowOf) -> bool:
    """Whether the windows of a row depend on which other rows there are."""
    return isinstance(window.spec, SessionSpec | ByTupleSpec)


def _mixed(cut: Cut, window: WindowOf, scope: Scope) -> AnalysisError:
    """A condition on rows and their window, where the two cannot be told apart."""
    by_rows = _depends(window)
    return scope.expressions.text.error(
        cut.span, "BAD_WINDOW",
        "WHERE speaks of rows and of the window, which depends on the rows that WHERE leaves" if by_rows
        else "this condition speaks of a row and of its window, joined by more than AND, and only windows of TUMBLE take that",
        hint="write the window's part into HAVING, behind GROUP BY, and the rows' part into a sub-query in FROM" if by_rows
        else "write the window's part into HAVING, behind GROUP BY, joined to the rest by AND; with TUMBLE the two may mix",
        also=window.span,
    )  # fmt: skip


def of_groups(error: AnalysisError, select: Select, expressions: Expressions) -> AnalysisError:
    """The error of a WHERE; of one that names the window of its GROUP BY, which rows do not have, with the way out."""
    assert select.where is not None
    cursor = expressions.cursor
    called = any(is_call(cursor, i) for i in range(select.where.first, select.where.last - 1))
    name = str(error.parameters.get("name", "")).lower()
    named = (
        bool(select.group)
        and error.condition == "COLUMN_NOT_FOUND"
        and name.partition(".")[0] in COLUMNS
    )
    if error.place is None or not (
        named or (called and error.condition == "UNSUPPORTED_EXPRESSION")
    ):
        return error
    return AnalysisError(
        error.condition, f"WHERE sees rows, and {name if named else 'the window'} is a column of groups",
        hint="write the condition into HAVING, behind GROUP BY", name=name,
    ).at(error.place)  # fmt: skip
