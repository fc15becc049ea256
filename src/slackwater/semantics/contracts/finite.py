"""Finite streams of rows and punctuation: whether they are grammatical, obey a scheme, are punctuated linearly."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from slackwater.errors import AnalysisError
from slackwater.semantics.contracts.templates import Template, conforms
from slackwater.semantics.patterns import Pattern

Row = Mapping[str, Any]
Element = Row | Pattern


def well_typed(row: Row, schema: Mapping[str, str]) -> bool:
    """Whether a row has the columns of a schema, in their order, with values of their types; null is of any."""
    if list(row) != list(schema):
        return False
    return all(v is None or _is_of(v, schema[c]) for c, v in row.items())


def _is_of(value: Any, type: str) -> bool:
    if type == "string":
        return isinstance(value, str)
    if type == "boolean":
        return isinstance(value, bool)
    if isinstance(value, bool):
        return False
    return isinstance(value, (int, float) if type in ("float", "double") else int)


def broken(stream: Iterable[Element]) -> tuple[Row, Pattern] | None:
    """The first row that matches a pattern which came before it, with that pattern; None if there is none."""
    given: list[Pattern] = []
    for item in stream:
        if isinstance(item, Pattern):
            given.append(item)
            continue
        met = next((p for p in given if p.matches(item)), None)
        if met is not None:
            return item, met
    return None


def is_grammatical(stream: Iterable[Element]) -> bool:
    """Whether no row matches a pattern that came before it."""
    return broken(stream) is None


def unfit(stream: Iterable[Element], scheme: Sequence[Template]) -> list[Pattern]:
    """The patterns that fit no template: a stream obeys only without such (the first condition)."""
    _check(scheme)
    patterns = [p for p in stream if isinstance(p, Pattern)]
    return [p for p in patterns if not any(conforms(p, t) for t in scheme)]


def uncovered(stream: Iterable[Element], scheme: Sequence[Template]) -> list[tuple[Row, Template]]:
    """Rows with a template of which no pattern matches them: a stream obeys only without such (the second condition)."""
    _check(scheme)
    items = list(stream)
    patterns = [p for p in items if isinstance(p, Pattern)]
    fitting = {t: [p for p in patterns if conforms(p, t)] for t in scheme}
    return [
        (row, t)
        for row in items
        if not isinstance(row, Pattern)
        for t in scheme
        if not any(p.matches(row) for p in fitting[t])
    ]


def obeys(stream: Iterable[Element], scheme: Sequence[Template]) -> bool:
    """Whether each pattern fits a template, and each row is covered once per template."""
    items = list(stream)
    return not unfit(items, scheme) and not uncovered(items, scheme)


def is_linear(stream: Iterable[Element], column: str) -> bool:
    """Whether all punctuation is up to a value of one column, and no such value is below an earlier one."""
    template, last = Template.of({column: "+"}), None
    for p in stream:
        if not isinstance(p, Pattern):
            continue
        if not conforms(p, template):
            return False
        limit: Any = p.tests[0][1].limit
        if last is not None and limit < last:
            return False
        last = limit
    return True


def _check(scheme: Sequence[Template]) -> None:
    if not scheme:
        raise AnalysisError(
            "BAD_SCHEME",
            "a scheme has at least one template",
            hint='give one, e.g. "[[ts:+]]"',
        )
