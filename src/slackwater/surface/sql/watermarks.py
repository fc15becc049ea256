"""A bounded delay in the words of others: Flink's ``WATERMARK FOR ts AS ...`` among columns, Spark's ``WATERMARK ts DELAY OF ...`` in FROM."""

from __future__ import annotations

from slackwater.model.policy import BoundedDelay
from slackwater.surface.sql.cursor import Cursor
from slackwater.surface.sql.durations import duration
from slackwater.surface.sql.extents import beginnings
from slackwater.surface.sql.tree import TimeOf


def watermarks(cursor: Cursor, first: int, last: int) -> tuple[int, tuple[TimeOf, ...]]:
    """Of the tokens ``first`` to ``last`` the number behind the last column, and the times that watermarks name."""
    begins = beginnings(cursor, first, last)
    marks = [i for i in begins if cursor.tokens[i].is_word("WATERMARK") and cursor.tokens[i + 1].is_word("FOR")]  # fmt: skip
    if not marks:
        return last, ()
    if begins[-len(marks) :] != marks or marks[0] == first:
        raise cursor.text.error(
            cursor.tokens[marks[0]].span, "SYNTAX", "WATERMARK stands in front of a column",
            hint="put it behind the last column",
        )  # fmt: skip
    end, made = cursor.at, []
    for i in marks:
        cursor.at = i
        made.append(_watermark(cursor))
    cursor.at = end
    return marks[0] - 1, tuple(made)


def _watermark(cursor: Cursor) -> TimeOf:
    word = cursor.next()
    cursor.expect("FOR")
    column = cursor.expect_name("the time column")
    cursor.expect("AS")
    again = cursor.expect_name("the time column")
    if again.name.lower() != column.name.lower():
        raise cursor.text.error(
            again.span, "SYNTAX", f"the watermark for {column.name} is made of another column",
            hint=f"write WATERMARK FOR {column.name} AS {column.name} - INTERVAL '10' SECOND",
        )  # fmt: skip
    delay: str | int = "0 seconds"
    if cursor.take_sign("-"):
        delay = duration(cursor, "the delay").value
    if not cursor.peek().is_sign(",", ")"):
        raise cursor.expected(
            "the end of the watermark",
            back=0,
            hint=f"write AS {column.name} - INTERVAL '10' SECOND",
        )
    return TimeOf(column, None, BoundedDelay(delay), cursor.span_from(word))


def delay_of(cursor: Cursor) -> TimeOf | None:
    """``WATERMARK ts DELAY OF INTERVAL 10 SECONDS`` behind a name in FROM, if it comes next."""
    word = cursor.peek()
    if not (word.is_word("WATERMARK") and cursor.peek(1).is_name):
        return None
    if not cursor.peek(2).is_word("DELAY"):
        return None
    cursor.next()
    column = cursor.expect_name("the time column")
    cursor.expect("DELAY", "OF")
    delay = duration(cursor, "the delay").value
    return TimeOf(column, None, BoundedDelay(delay), cursor.span_from(word))
