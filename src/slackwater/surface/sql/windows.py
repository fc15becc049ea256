"""Windows in three spellings, as the specifications that Python has for them."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from typing import Any

from slackwater.errors import AnalysisError
from slackwater.model.node import Node, Source
from slackwater.model.time import TimeColumn, parse_instant, parse_span
from slackwater.model.unnamed_time import left_out
from slackwater.surface.sql.cursor import Cursor
from slackwater.surface.sql.durations import duration
from slackwater.surface.sql.expressions import Expressions
from slackwater.surface.sql.extents import skip
from slackwater.surface.sql.scopes import Scope, WindowOf
from slackwater.surface.sql.text import Span
from slackwater.surface.sql.tree import Cut, Duration, TableFunction, WindowClause, Word
from slackwater.surface.windows import (
    SessionSpec,
    Windowing,
    WindowSpec,
    byTuple,
    landmark,
    rows,
    sessionWindow,
    window,
)

STRUCTS = ("window", "session_window")
COLUMNS = (*STRUCTS, "wid", "window_start", "window_end", "window_time")
"""What a window adds to its rows."""


def time_of(scope: Scope, word: Word | None, asking: str, span: Span) -> TimeColumn:
    """The progressing column that a window is on."""
    check_timed(scope, word.span if word else span, asking)
    name = None if word is None else scope.column(word)
    try:
        return scope.stream._time(name, asking)
    except AnalysisError as error:
        raise error.at(scope.expressions.text.place(word.span if word else span)) from None


def check_timed(scope: Scope, span: Span, asking: str) -> None:
    """An error at the select list that left the time out, if there is none any more."""
    check_node(scope.stream._node, scope.expressions, span, asking)


def check_node(node: Node, expressions: Expressions, span: Span, asking: str) -> None:
    """As `check_timed`, of one operator."""
    if node.times:
        return
    dropped = left_out(node)
    place = expressions.clauses.of(dropped)
    have = "" if dropped is None else ", ".join(t.name for t in dropped.child.times)
    words = "window_end" if have == "window" else have
    raise expressions.text.error(
        place or span, "NO_PROGRESS",
        f"{asking} needs a time, and this select list left it out" if place else f"{asking} needs a time, and there is none",
        hint=f"add {words} to that select list" if words else "read a stream that has a time",
        also=span if place is not None else None,
    )  # fmt: skip


# --- the clause -----------------------------------------------------------------------------------


def of_clause(clause: WindowClause, scope: Scope) -> WindowOf:
    """``[RANGE ... SLIDE ...]``: ends are aligned, as in Python."""
    text = scope.expressions.text
    attribute = clause.attribute[0] if clause.attribute else None
    made: Windowing
    by_rows = clause.slide is not None and clause.slide.rows
    if clause.all:
        time = time_of(scope, attribute, "a window", clause.span)
        if clause.slide is None or by_rows:
            raise text.error(
                clause.span, "BAD_WINDOW", "RANGE ALL needs a SLIDE: how often results come",
                hint="write [RANGE ALL SLIDE 1 MINUTE WATTR ts]",
            )  # fmt: skip
        origin = _origin(clause, scope, time)
        made = landmark(
            clause.slide.value, _epoch(time) if origin is None else origin, on=time.name
        )
    elif clause.range is not None and clause.range.rows:
        if clause.slide is not None and not by_rows:
            raise text.error(
                clause.slide.span, "BAD_WINDOW", "the range counts rows, the slide does not",
                hint="write SLIDE 10 ROWS", also=clause.range.span,
            )  # fmt: skip
        per = [scope.column(p) for p in clause.partition] or None
        slide = None if clause.slide is None else int(clause.slide.value)
        on = None if attribute is None else time_of(scope, attribute, "a window", clause.span).name
        at: Any = "source" if isinstance(scope.stream._node, Source) else "operator"
        made = rows(int(clause.range.value), slide, per, at, on=on)
    elif by_rows or clause.slide_by:
        made = _by_tuple(clause, scope)
    else:
        assert clause.range is not None
        time = time_of(scope, attribute, "a window", clause.span)
        slide_of = None if clause.slide is None else clause.slide.value
        made = window(
            clause.range.value, slide_of, origin=_origin(clause, scope, time), on=time.name
        )
    if clause.partition and not (clause.range is not None and clause.range.rows):
        raise text.error(
            clause.partition[0].span, "BAD_WINDOW", "PATTR counts the rows of each group, and this window counts time",
            hint="write GROUP BY instead, or RANGE 1000 ROWS",
        )  # fmt: skip
    return WindowOf(made, clause.span, "clause")


def _by_tuple(clause: WindowClause, scope: Scope) -> Windowing:
    text = scope.expressions.text
    if clause.range is None:
        raise text.error(clause.span, "BAD_WINDOW", "the window has no RANGE", hint="add RANGE 5 MINUTES")  # fmt: skip
    every = 1
    if clause.slide is not None:
        if not clause.slide.rows:
            raise text.error(
                clause.slide.span, "BAD_WINDOW", "SATTR slides by rows, and this is a time",
                hint="write SLIDE 1 ROW",
            )  # fmt: skip
        every = int(clause.slide.value)
    attribute = clause.attribute[0] if clause.attribute else clause.slide_attribute
    time = time_of(scope, attribute, "a window", clause.span)
    over: Any = "rank" if clause.slide_by == "rank" else "arrival"
    return byTuple(clause.range.value, every, over, on=time.name)


def _origin(clause: WindowClause, scope: Scope, time: TimeColumn) -> Any:
    if clause.origin is None:
        return None
    expressions = scope.expressions
    tokens = [t for t in expressions.tokens_of(clause.origin) if not t.is_word("TIMESTAMP", "TIMESTAMP_NTZ", "DATE")]  # fmt: skip
    value = expressions.variables.value(tokens[0]) if tokens else ""
    if len(tokens) == 2 and tokens[0].is_sign("-"):
        value = "-" + expressions.variables.value(tokens[1])
    elif len(tokens) != 1 or tokens[0].kind not in ("text", "number", "variable"):
        raise expressions.text.error(
            clause.origin.span, "BAD_WINDOW", "the origin is no literal",
            hint="write ORIGIN TIMESTAMP '2026-01-01 00:00:00', or a number on integer times",
        )  # fmt: skip
    return int(value) if value.lstrip("-").isdigit() else value


def _epoch(time: TimeColumn) -> Any:
    return 0 if time.is_integer else _instant(0, time)


def _instant(ticks: int, time: TimeColumn) -> Any:
    """A point in time as `sw.window` takes it."""
    if time.is_integer:
        return ticks
    zone = None if time.is_local else dt.timezone.utc
    return dt.datetime(1970, 1, 1, tzinfo=zone) + dt.timedelta(microseconds=ticks)


# --- windows whose starts are aligned -------------------------------------------------------------


def starting(
    scope: Scope, time: TimeColumn, size: Duration, slide: Duration | None, offset: Duration | None
) -> Windowing:
    """Windows that start at offset + k * slide: Spark's, and those of table functions."""
    place = scope.expressions.text.place

    def ticks(given: Duration, what: str, positive: bool = True) -> int:
        sign = -1 if isinstance(given.value, str) and given.value.startswith("-") else 1
        value = given.value.removeprefix("-") if isinstance(given.value, str) else given.value
        try:
            return sign * int(parse_span(value, time, what=what, positive=positive))
        except AnalysisError as error:
            raise error.at(place(given.span)) from None

    long = ticks(size, "the size")
    step = long if slide is None else ticks(slide, "the slide")
    moved = 0 if offset is None else ticks(offset, "the offset", positive=False)
    if step > long:
        assert slide is not None
        raise scope.expressions.text.error(
            slide.span, "BAD_WINDOW", "the slide is longer than the window, so that rows between windows are lost",
            hint="HOP takes the slide first, then the size; window(ts, size, slide) the other way round; "
            "[RANGE size SLIDE slide WATTR ts] allows gaps",
            also=size.span,
        )  # fmt: skip
    origin = (moved + long) % step
    return window(
        size.value,
        None if slide is None else slide.value,
        origin=None if origin == 0 else _instant(origin, time),
        on=time.name,
    )


def of_function(function: TableFunction, scope: Scope) -> WindowOf:
    """The window of a table function."""
    for column in COLUMNS[3:]:
        if any(c.lower() == column for c in scope.stream.columns):
            raise scope.expressions.text.error(
                function.input.span, "DUPLICATE_COLUMN",
                f"'{column}' is a column of this stream, and {function.kind} adds one of that name",
                hint=f"rename it where the stream is made: {column} AS first_{column}",
            )  # fmt: skip
    sizes = function.sizes
    if function.kind in ("LANDMARK", "ROWS", "BY_TUPLE"):
        made = of_clause(_as_clause(function), scope)
        return replace(made, kind="function", partition=function.partition)
    time = time_of(scope, function.time, function.kind, function.span)
    if function.kind == "SESSION":
        return WindowOf(_session(sizes["gap"], time), function.span, "function", function.partition)
    spec = starting(scope, time, sizes["size"], sizes.get("slide"), sizes.get("offset"))
    return WindowOf(spec, function.span, "function")


def _as_clause(function: TableFunction) -> WindowClause:
    """The clause that says the same: windows of all time, of rows, and by tuple have one alignment in both."""
    sizes = function.sizes
    made = WindowClause(
        function.span,
        range=sizes.get("size"),
        slide=sizes.get("slide") or sizes.get("every"),
        attribute=() if function.time is None else (function.time,),
        partition=function.partition,
        origin=function.origin,
    )
    if function.kind == "LANDMARK":
        return replace(made, all=True)
    return replace(made, slide_by="" if function.kind == "ROWS" else function.over or "row-num")


def _session(gap: Duration, time: TimeColumn) -> Windowing:
    """Rows exactly a gap apart are in one session, as Spark and Flink have it."""
    return sessionWindow(gap.value, on=time.name, closed=True)


def is_call(cursor: Cursor, at: int) -> bool:
    """Whether the token of that number opens ``window(...)`` or ``session_window(...)``."""
    tokens = cursor.tokens
    return (
        tokens[at].is_word("WINDOW", "SESSION_WINDOW")
        and tokens[at + 1].is_sign("(")
        and not (at and tokens[at - 1].is_sign("."))
    )


def end_of_call(cursor: Cursor, at: int) -> int:
    """The number of the token behind the bracket that closes a call."""
    saved = cursor.at
    cursor.at = at + 2
    skip(cursor)
    end, cursor.at = cursor.at, saved
    return end


def of_call(cut: Cut, scope: Scope) -> WindowOf:
    """``window(ts, size [, slide [, offset]])`` and ``session_window(ts, gap)``, as Spark has them."""
    cursor = Cursor(scope.expressions.text, scope.expressions.tokens, scope.expressions.variables)
    cursor.at = cut.first + 2
    # The time of a window's result is its window_time, whichever way it is written.
    inner = cursor.take("WINDOW_TIME") is not None and cursor.expect_sign("(") is not None
    first = cursor.expect_name("the time column")
    while cursor.take_sign("."):
        more = cursor.expect_name("the time column")
        first = Word(f"{first.name}.{more.name}", first.span.to(more.span))
    if inner:
        cursor.expect_sign(")")
    given: list[Duration] = []
    session = cursor.tokens[cut.first].is_word("SESSION_WINDOW")
    names = ("the gap",) if session else ("the size", "the slide", "the offset")
    while len(given) < len(names) and cursor.take_sign(","):
        given.append(duration(cursor, names[len(given)]))
    if session and (cursor.at != cut.last - 1 or not given):
        raise scope.expressions.text.error(
            cut.span, "BAD_WINDOW", "session_window() takes a time column and a gap, which is the same for all rows",
            hint="write session_window(ts, '5 minutes')",
        )  # fmt: skip
    if cursor.at != cut.last - 1 or not given:
        raise scope.expressions.text.error(
            cut.span, "BAD_WINDOW", "window() takes a time column, a size, and perhaps a slide and an offset",
            hint="write window(ts, '10 minutes', '1 minute')",
        )  # fmt: skip
    time = time_of(scope, first, "a window", cut.span)
    if session:
        return WindowOf(_session(given[0], time), cut.span, "call")
    spec = starting(scope, time, given[0], given[1] if len(given) > 1 else None, given[2] if len(given) > 2 else None)  # fmt: skip
    return WindowOf(spec, cut.span, "call")


# --- columns of a window --------------------------------------------------------------------------


def column_text(name: str, struct: str, integer: bool) -> str:
    """What stands for a window's column, over the struct that the aggregate's result has."""
    window = f"`{struct}`"
    if name == "window_start":
        return f"{window}.start"
    if name == "window_end":
        return f"{window}.`end`"
    if name == "window_time":
        return f"{window}.`end` - {'1' if integer else 'INTERVAL 1 MICROSECOND'}"
    return window if name in STRUCTS else "`wid`"


def ticks_of(spec: Windowing, time: TimeColumn) -> object:
    """Range, slide and origin of a time window as numbers, so that two spellings can be compared."""
    if isinstance(spec, SessionSpec):
        return int(parse_span(spec.gap, time, what="the gap")), spec.closed, spec.on
    if not isinstance(spec, WindowSpec):
        return spec
    long = int(parse_span(spec.range, time, what="the size"))
    slide = long if spec.slide is None else int(parse_span(spec.slide, time, what="the slide"))
    origin = 0
    if spec.origin is not None:
        origin = int(parse_instant(spec.origin, time, "UTC", what="the origin"))
    return long, slide, origin % slide, spec.on


def row_texts(spec: WindowSpec, time: TimeColumn, column: str) -> dict[str, str]:
    """The columns of the window of a row: of instants in what the column engine computes itself."""
    if time.kind == "window":
        column = f"({column}.`end` - {'1' if time.is_integer else 'INTERVAL 1 MICROSECOND'})"
    long = int(parse_span(spec.range, time, what="the size"))
    origin = 0
    if spec.origin is not None:
        origin = int(parse_instant(spec.origin, time, "UTC", what="the origin"))
    at = f"unix_micros({column})"
    if time.is_integer:
        at = column
    elif time.is_local:
        # As an interval, which knows no zone and so no hour that a zone leaves out.
        since = f"CAST({column} - TIMESTAMP_NTZ'1970-01-01 00:00:00' AS INTERVAL SECOND)"
        at = f"CAST(CAST({since} AS DECIMAL(20, 6)) * 1000000 AS BIGINT)"
    past = f"pmod({_plus(at, -origin % long)}, {long}L)"
    ends = {"window_start": 0, "window_end": long, "window_time": long - 1}
    texts = {name: _plus(f"({at} - {past})", more) for name, more in ends.items()}
    if time.is_local:
        micros = {n: f"make_dt_interval(0, 0, 0, ({t}) / 1000000BD)" for n, t in texts.items()}
        texts = {n: f"(TIMESTAMP_NTZ'1970-01-01 00:00:00' + {m})" for n, m in micros.items()}
    elif not time.is_integer:
        texts = {n: f"timestamp_micros({t})" for n, t in texts.items()}
    struct = f"named_struct('start', {texts['window_start']}, 'end', {texts['window_end']})"
    wid = f"({_plus(f'({at} - {past})', -origin)} DIV {long}L)"
    return {**texts, "wid": wid, "window": struct}


def _plus(text: str, more: int) -> str:
    """A sum of a text and a number of ticks."""
    return f"({text} {'-' if more < 0 else '+'} {abs(more)}L)" if more else text
