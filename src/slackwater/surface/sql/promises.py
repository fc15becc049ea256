"""Policies and promises: how bounds advance, and how good results must be."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from slackwater.errors import AnalysisError
from slackwater.model.policy import (
    BoundedDelay,
    BoundedLatency,
    BoundedRows,
    MaxDelay,
    Ordered,
    Policy,
    Punctuated,
    Quality,
)
from slackwater.surface.sql.cursor import Cursor
from slackwater.surface.sql.durations import duration
from slackwater.surface.sql.text import Span
from slackwater.surface.sql.tree import Promise

PROMISES = ("ERROR", "COVERAGE", "RECALL", "DELAY")
_POLICIES = ("ORDERED", "MAX", "DELAY", "ROWS", "LATENCY", "PUNCTUATED", "ERROR", "COVERAGE", "RECALL")  # fmt: skip
_MORE = ("IDLE", "FUTURE", "LAG", "IN")


def promise(cursor: Cursor) -> Promise:
    """What stands behind WITH at the end of a query."""
    first = cursor.peek()
    if cursor.take("DELAY"):
        policy: Policy = BoundedDelay(_value(cursor, "the delay"))
    elif cursor.peek().is_word(*PROMISES):
        policy = quality(cursor)
    else:
        raise cursor.expected("ERROR, COVERAGE, RECALL or DELAY", known=PROMISES, back=0)
    return Promise(_further(cursor, policy), cursor.span_from(first))


def policy(cursor: Cursor) -> Policy:
    """What stands behind PROGRESS."""
    made: Policy
    if cursor.take("ORDERED"):
        made = Ordered()
    elif cursor.take("MAX"):
        cursor.expect("DELAY")
        made = MaxDelay()
    elif cursor.take("DELAY"):
        made = BoundedDelay(_value(cursor, "the delay"))
    elif cursor.take("ROWS"):
        token = cursor.peek()
        value = cursor.variables.value(token) if token.kind in ("number", "variable") else ""
        if not value.isdigit():
            raise cursor.expected("a number of rows")
        cursor.next()
        made = BoundedRows(rows=int(value))
    elif cursor.take("LATENCY"):
        made = BoundedLatency(_value(cursor, "the latency"))
    elif cursor.take("PUNCTUATED"):
        cursor.expect("BY")
        column = cursor.expect_name("the column of punctuation")
        made = Punctuated(column.name, data=cursor.take("AND", "DATA") is not None)
    elif cursor.peek().is_word("ERROR", "COVERAGE", "RECALL"):
        made = quality(cursor)
    else:
        raise cursor.expected(
            "how the bound advances", known=_POLICIES, back=0,
            hint="write ORDERED, MAX DELAY, DELAY 10 SECONDS, ROWS 100, LATENCY 1 MINUTE, PUNCTUATED BY column or ERROR 1 %",
        )  # fmt: skip
    return _further(cursor, made)


def _further(cursor: Cursor, policy: Policy) -> Policy:
    while True:
        if cursor.take("IDLE"):
            cursor.expect("AFTER")
            policy = policy.idleAfter(_value(cursor, "how long a partition is silent"))
        elif cursor.take("FUTURE"):
            cursor.expect("GUARD")
            span: Any = (
                None if cursor.take("OFF") else _value(cursor, "how far ahead a time may be")
            )
            aside = cursor.take("ASIDE") is not None
            policy = policy.futureGuard(span, future="side" if aside else "keep")
        elif cursor.take("LAG"):
            cursor.expect("LIMIT")
            policy = policy.lagLimit(_value(cursor, "how far behind a partition may be"))
        elif cursor.is_words("IN", "STEPS"):
            cursor.expect("IN", "STEPS", "OF")
            policy = policy.inSteps(_value(cursor, "the step of the bound"))
        else:
            return policy


def _value(cursor: Cursor, what: str) -> str | int:
    return duration(cursor, what).value


def quality(cursor: Cursor) -> Quality:
    """``ERROR 1 % [CONFIDENCE 95 %] [PER GROUP]``, ``COVERAGE 99 %``, ``RECALL 95 % OVER d``."""
    first = cursor.next()
    kind = first.word.lower()
    given: dict[str, Any] = {kind: _share(cursor, first.text)}
    if kind == "error":
        if word := cursor.take("CONFIDENCE"):
            given["confidence"] = _share(cursor, word.text)
        if cursor.take("PER"):
            cursor.expect("GROUP")
            given["per"] = "group"
    if kind == "recall":
        cursor.expect("OVER")
        given["over"] = _value(cursor, "the stretch of time of a recall")
    try:
        return replace(Quality(**given))
    except AnalysisError as error:
        raise _out_of_range(cursor, error, kind, cursor.span_from(first)) from None


def _share(cursor: Cursor, what: str) -> float:
    token = cursor.peek()
    value = cursor.variables.value(token) if token.kind in ("number", "variable") else ""
    try:
        number = float(value)
    except ValueError:
        raise cursor.expected(f"a number and % after {what.upper()}", hint="write it as in ERROR 1 %") from None  # fmt: skip
    cursor.next()
    if not cursor.take_sign("%"):
        shown = f"{number * 100:g}" if 0 < number < 1 else f"{number:g}"
        raise cursor.text.error(
            token.span, "SYNTAX", f"{what.upper()} is given in %, and there is no % here",
            hint=f"write {what.upper()} {shown} %",
        )  # fmt: skip
    return float(f"{number / 100:.12g}")


def _out_of_range(cursor: Cursor, error: AnalysisError, kind: str, span: Span) -> AnalysisError:
    ends = "above 0 % and below 100 %" if kind == "error" else "above 0 % and at most 100 %"
    if error.parameters.get("name") == "confidence":
        kind, ends = "confidence", "above 0 % and below 100 %"
    return cursor.text.error(
        span, "BAD_QUALITY", f"{kind.upper()} is out of its range: {ends}",
        hint=f"write, for example, {kind.upper()} {'1' if kind == 'error' else '95'} %",
    )  # fmt: skip
