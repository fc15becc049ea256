"""Columns that somebody reads, by their names or in texts.

A column whose name stands in no text is read by no expression. A name that stands in a text for another reason
(inside a string, say) costs a column too many, and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from slackwater.model.schema import Expr
from slackwater.model.spark_sql import quoted


class Columns:
    """Columns that are read: ``names`` and those that ``texts`` speak of, or all of them."""

    def __init__(
        self, names: Iterable[str] = (), texts: Iterable[Expr] = (), *, every: bool = False
    ):
        self._every = every
        self._names = {n.lower() for n in names}
        self._texts = [e.sql for e in texts]

    def __contains__(self, name: str) -> bool:
        if self._every or name.lower() in self._names:
            return True
        return any(_speaks_of(text, name) for text in self._texts)

    def and_those_of(self, *texts: Expr) -> Columns:
        """These, and those that further expressions speak of."""
        more = Columns(self._names, every=self._every)
        more._texts = [*self._texts, *(e.sql for e in texts)]
        return more


ALL = Columns(every=True)


def _speaks_of(text: str, name: str) -> bool:
    """Whether a column may be meant in a text: texts written by hand may name it without quotes, in any letter case."""
    if quoted(name) in text:
        return True
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text, re.IGNORECASE) is not None
