"""Templates: the form of a punctuation. Which columns it restricts, and how.

A template has a class per column: ``+`` (all values up to one), ``#`` (single values), ``-`` (anything), and for feedback
``^`` (all values from one on). Columns that are left out are ``-``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from slackwater.model.spark_sql import quoted
from slackwater.semantics.patterns import Pattern, Test

Class = Literal["+", "#", "^"]
"""How a tagged column is restricted; a column that is not tagged is ``-``."""

_WORD = re.compile(r"[^\W\d]\w*")

CLASSES = ("+", "#", "-", "^")


@dataclass(frozen=True)
class Template:
    """The tagged columns with their classes, in order of the columns' names."""

    tags: tuple[tuple[str, Class], ...]

    @classmethod
    def of(cls, tags: Mapping[str, Class]) -> Template:
        """The template with these tags.

        >>> print(Template.of({"ts": "+", "sensor": "#"}))
        [[sensor:#, ts:+]]
        """
        return cls(tuple(sorted(tags.items())))

    @property
    def columns(self) -> frozenset[str]:
        """The columns that are tagged."""
        return frozenset(c for c, _ in self.tags)

    def kind(self, column: str) -> str:
        """The class of a column."""
        return next((k for c, k in self.tags if c == column), "-")

    def __str__(self) -> str:
        return f"[[{', '.join(f'{_name(c)}:{k}' for c, k in self.tags)}]]"

    def shown(self, columns: Iterable[str]) -> str:
        """The template with all columns of a schema, in their order.

        >>> Template.of({"b": "#"}).shown(["a", "b"])
        '[[a:-, b:#]]'
        """
        return f"[[{', '.join(f'{_name(c)}:{self.kind(c)}' for c in columns)}]]"

    def useful_on(self, columns: Iterable[str]) -> bool:
        """Whether it restricts some of these columns and no other."""
        return bool(self.tags) and self.columns <= set(columns)


def _name(column: str) -> str:
    """A column as a template names it: in backticks, if it is no word."""
    return column if _WORD.fullmatch(column) else quoted(column)


def conforms(pattern: Pattern, template: Template) -> bool:
    """Whether a pattern has the form of a template: on every column a test of the column's class, or none."""
    tests = dict(pattern.tests)
    return tests.keys() == template.columns and all(admits(k, tests[c]) for c, k in template.tags)


def admits(kind: Class, test: Test) -> bool:
    """Whether a class admits a test.

    Several values, and a range of whole numbers with two ends, are single values said at once. So is null.

    >>> admits("+", Test.below(7)), admits("#", Test.below(7)), admits("#", Test.among([7, 9, None]))
    (True, False, True)
    """
    if test.empty:
        return False
    if kind == "#":
        return all(_single(low, high) for low, high in test.spans)
    if test.null or len(test.spans) != 1:
        return False
    low, high = test.spans[0]
    return (low is None and high is not None) if kind == "+" else (low is not None and high is None)


def _single(low: int | str | None, high: int | str | None) -> bool:
    if isinstance(low, str):
        return high == low + "\0"
    return low is not None and high is not None


def form(pattern: Pattern) -> str:
    """The form of a pattern, as a template would say it; a test of no class shows as ``?``.

    >>> form(Pattern.of({"a": Test.below(3), "b": Test.among([1]), "c": Test(((None, 2), (5, None)))}))
    '[[a:+, b:#, c:?]]'
    """
    kinds: tuple[Class, ...] = ("+", "#", "^")
    shown = ((c, next((k for k in kinds if admits(k, t)), "?")) for c, t in pattern.tests)
    return f"[[{', '.join(f'{_name(c)}:{k}' for c, k in shown)}]]"


def covers(wide: Template, narrow: Template) -> bool:
    """Whether each pattern of the form ``narrow`` lies within some pattern of the form ``wide``.

    The rule is the sound one: where the wide one restricts a column, the narrow one must too, to no more than
    can be covered. ``^`` is covered by ``-`` alone.

    >>> up, both = Template.of({"a": "+"}), Template.of({"a": "+", "b": "#"})
    >>> covers(up, both), covers(both, up)
    (True, False)
    """
    kinds = dict(narrow.tags)
    return bool(wide.tags) and all(
        (k == "+" and kinds.get(c) in ("+", "#")) or (k == "#" and kinds.get(c) == "#")
        for c, k in wide.tags
    )


def merged(one: Template, other: Template) -> Template:
    """The form of what two streams say together: all tags, and ``#`` where one says ``+`` and the other ``#``.

    >>> print(merged(Template.of({"a": "+", "b": "#"}), Template.of({"a": "#", "c": "+"})))
    [[a:#, b:#, c:+]]
    """
    tags = dict(one.tags)
    for c, k in other.tags:
        tags[c] = k if tags.get(c, k) == k else "#"
    return Template.of(tags)


def least(templates: Iterable[Template]) -> tuple[Template, ...]:
    """The templates that no other covers: where one of the others is of use, one of these is."""
    distinct = sorted(set(templates), key=lambda t: t.tags)
    kept: list[Template] = []
    for t in sorted(distinct, key=lambda t: (len(t.tags), [k != "+" for _, k in t.tags])):
        if not any(covers(k, t) for k in kept):
            kept.append(t)
    return tuple(sorted(kept, key=lambda t: t.tags))
