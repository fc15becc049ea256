"""``sw.checkPunctuation``: whether a sample of a stream keeps what its scheme declares; for the team that owns the source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slackwater.errors import AnalysisError
from slackwater.semantics.contracts.finite import (  # fmt: skip
    Element,
    broken,
    is_linear,
    uncovered,
    unfit,
    well_typed,
)
from slackwater.semantics.contracts.template_text import parse_scheme
from slackwater.semantics.pattern_text import PATTERN_TYPES, pattern_of, plain
from slackwater.semantics.patterns import Pattern


@dataclass(frozen=True)
class PunctuationReport:
    """What is wrong with a sample.

    ``broken`` is the first row that matches punctuation which came before it, with that punctuation. ``unfit`` is
    punctuation that fits no template. ``uncovered`` are rows with a template of which no punctuation covers them: in a sample
    that ends anywhere, the newest rows always are. ``linear`` are columns of which all punctuation is one rising bound.
    """

    broken: tuple[Mapping[str, Any], Mapping[str, Any]] | None
    unfit: tuple[Mapping[str, Any], ...]
    uncovered: tuple[tuple[Mapping[str, Any], str], ...]
    linear: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether the sample is grammatical and obeys its scheme."""
        return self.broken is None and not self.unfit and not self.uncovered


def checkPunctuation(
    rows: Sequence[Mapping[str, Any]],
    column: str,
    scheme: Sequence[str],
    schema: Mapping[str, str],
) -> PunctuationReport:
    """Whether rows, in order of arrival, keep what a scheme declares. Nothing is started, and Spark is not needed.

    Parameters
    ----------
    rows
        Rows as mappings; a row with a value in ``column`` is punctuation.
    column
        The column with patterns: by column an operation and a value, as a mapping or a pair.
    scheme
        The templates that ``sw.Punctuated(column, scheme=...)`` declares.
    schema
        Types of the other columns by name, as Spark writes them.

    Examples
    --------
    >>> rows = [{"k": 1, "ts": 5}, {"done": {"k": ("=", 1)}}, {"k": 1, "ts": 7}]
    >>> report = checkPunctuation(rows, "done", ["[[k:#]]"], {"k": "bigint", "ts": "bigint"})
    >>> report.ok, report.broken
    (False, ({'k': 1, 'ts': 7}, {'k': ('=', 1)}))
    """
    types = {c: t for c, t in schema.items() if c != column}
    templates = parse_scheme(scheme, types)
    stream: list[Element] = []
    given: dict[int, Mapping[str, Any]] = {}
    for number, row in enumerate(rows):
        stated = row.get(column)
        item: Element
        if stated is not None:
            item = pattern_of({c: _pair(test) for c, test in stated.items()}, types)
        else:
            item = _row({c: v for c, v in row.items() if c != column}, types, number)
        given[id(item)] = stated if stated is not None else row
        stream.append(item)
    bad = broken(stream)
    return PunctuationReport(
        None if bad is None else (given[id(bad[0])], given[id(bad[1])]),
        tuple(given[id(p)] for p in unfit(stream, templates)),
        tuple((given[id(r)], str(t)) for r, t in uncovered(stream, templates)),
        tuple(c for c in types if _any(stream) and is_linear(stream, c)),
    )


def _pair(test: Any) -> tuple[str | None, Any]:
    if isinstance(test, Mapping):
        return test.get("op"), test.get("value")
    op, *value = test
    return op, value[0] if value else None


def _row(row: Mapping[str, Any], types: Mapping[str, str], number: int) -> Mapping[str, Any]:
    """A row with values as patterns hold them."""
    values = {
        c: plain(v, types[c]) if v is not None and types.get(c) in PATTERN_TYPES else v
        for c, v in row.items()
        if c in types
    }
    kinds = {c: "bigint" if t in PATTERN_TYPES and t != "string" else t for c, t in types.items()}
    if len(values) != len(row) or not well_typed({c: values.get(c) for c in types}, kinds):
        shown = ", ".join(f"{c} {t}" for c, t in types.items())
        raise AnalysisError(
            "BAD_ROWS",
            f"row {number} does not fit the schema: {dict(row)}",
            hint=f"give rows with these columns: {shown}",
            row=number,
        )
    return values


def _any(stream: Sequence[Element]) -> bool:
    return any(isinstance(p, Pattern) for p in stream)
