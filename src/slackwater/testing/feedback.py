"""Whether results are those that feedback allows."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slackwater.semantics.feedback.value import Feedback

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Range:
    """What is wrong with results: rows that a run without feedback does not have, and rows that are missing although no
    feedback is about them. True if there are none.
    """

    created: tuple[Row, ...] = ()
    lost: tuple[Row, ...] = ()

    def __bool__(self) -> bool:
        return not self.created and not self.lost


def in_range(
    results: Iterable[Any],
    reference: Iterable[Any],
    feedback: Feedback | Sequence[Feedback],
    *,
    zone: str = "UTC",
) -> Range:
    """Whether results lie between those of a run without feedback and the same without all rows that were given up.

    Parameters
    ----------
    results, reference
        Rows with feedback and without: mappings, or rows of Spark. How often a row occurs counts.
    feedback
        All that was in force at some time.
    zone
        The session's time zone, in which times of rows that name no zone are read.

    Examples
    --------
    >>> from slackwater.model.schema import Field
    >>> from slackwater.semantics.feedback.columns import Columns
    >>> from slackwater.semantics.feedback.text import parsed
    >>> low = parsed("~{v < 3}", Columns((Field("v", "int"),)))
    >>> bool(in_range([{"v": 5}], [{"v": 1}, {"v": 5}], low))
    True
    >>> in_range([{"v": 1}, {"v": 1}], [{"v": 1}, {"v": 5}], low)
    Range(created=({'v': 1},), lost=({'v': 5},))
    """
    given_up = [feedback] if isinstance(feedback, Feedback) else list(feedback)
    shown: dict[Any, Row] = {}
    counts = [Counter[Any](), Counter[Any]()]
    for rows, count in zip((results, reference), counts, strict=True):
        for row in rows:
            plain = row if isinstance(row, Mapping) else row.asDict(recursive=True)
            key = frozen(plain)
            shown[key] = plain
            count[key] += 1
    got, wanted = counts
    lost = [
        key
        for key in (wanted - got).elements()
        if not any(f.matches(shown[key], zone) for f in given_up)
    ]
    return Range(
        tuple(shown[key] for key in (got - wanted).elements()), tuple(shown[key] for key in lost)
    )


def frozen(value: Any) -> Any:
    """A value as a part of a key: rows that show the same are the same."""
    if isinstance(value, Mapping):
        return tuple((k, frozen(v)) for k, v in sorted(value.items()))
    if isinstance(value, (list, tuple)):
        return tuple(frozen(v) for v in value)
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    return value
