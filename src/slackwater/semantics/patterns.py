"""Patterns: punctuation over any columns, and the algebra of what it says.

A pattern has a test per column (no test: wildcard) and says that no later row passes all of its tests.
Values are ints (whole numbers, dates in days, times in ticks, booleans as 0 and 1) or text. Both have a next
value (``x + 1``; the text with a zero character behind it), so that constants, sets and ranges of either end
are all half-open spans, and the algebra below is exact.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Value = int | str
Span = tuple[Value | None, Value | None]
"""From (inclusive) to (exclusive); None is no end."""


def following(value: Value) -> Value:
    r"""The least value above ``value``.

    >>> following(4), following("a")
    (5, 'a\x00')
    """
    return value + 1 if isinstance(value, int) else value + "\0"


@dataclass(frozen=True)
class Test:
    """Values in one of the spans (disjoint, in order, none empty, none touching), or null."""

    __test__ = False  # not a test case, whatever its name

    spans: tuple[Span, ...] = ()
    null: bool = False

    @classmethod
    def of(cls, spans: Iterable[Span], null: bool = False) -> Test:
        """The test that spans make together; they may overlap and be empty.

        >>> Test.of([(5, 7), (None, 3), (3, 5)]).spans
        ((None, 7),)
        """
        ordered = [s for s in spans if s[0] is None or s[1] is None or s[0] < s[1]]  # type: ignore[operator]
        ordered.sort(key=lambda s: (s[0] is not None, s[0] if s[0] is not None else 0))
        joined: list[Span] = []
        for low, high in ordered:
            if joined and _reaches(joined[-1][1], low):
                joined[-1] = (joined[-1][0], _later(joined[-1][1], high))
            else:
                joined.append((low, high))
        return cls(tuple(joined), null)

    @classmethod
    def among(cls, values: Iterable[Value | None]) -> Test:
        """One of the values."""
        listed = list(values)
        points = [(v, following(v)) for v in listed if v is not None]
        return cls.of(points, any(v is None for v in listed))

    @classmethod
    def below(cls, limit: Value) -> Test:
        """Values < ``limit``."""
        return cls(((None, limit),))

    @property
    def limit(self) -> Value | None:
        """Where a test that is just "below v" ends; None for others."""
        if len(self.spans) == 1 and not self.null and self.spans[0][0] is None:
            return self.spans[0][1]
        return None

    @property
    def empty(self) -> bool:
        """Whether nothing passes."""
        return not self.spans and not self.null

    def matches(self, value: Value | None) -> bool:
        """Whether a value passes."""
        if value is None:
            return self.null
        return any(
            (low is None or low <= value) and (high is None or value < high)  # type: ignore[operator]
            for low, high in self.spans
        )

    def __or__(self, other: Test) -> Test:
        return Test.of((*self.spans, *other.spans), self.null or other.null)

    def __and__(self, other: Test) -> Test:
        if self == other:
            return self
        both, i, j = [], 0, 0
        while i < len(self.spans) and j < len(other.spans):
            a, b = self.spans[i], other.spans[j]
            low, high = _higher(a[0], b[0]), _sooner(a[1], b[1])
            if low is None or high is None or low < high:  # type: ignore[operator]
                both.append((low, high))
            if a[1] is not None and (b[1] is None or a[1] <= b[1]):  # type: ignore[operator]
                i += 1
            else:
                j += 1
        return Test(tuple(both), self.null and other.null)

    def __sub__(self, other: Test) -> Test:
        holes: list[Span] = []
        at: Value | None = None
        open_end = True
        for low, high in other.spans:
            if low is not None:
                holes.append((at, low))
            if high is None:
                open_end = False
            at = high
        if open_end:
            holes.append((at, None))
        rest = self & Test(tuple(holes), True)
        return Test(rest.spans, self.null and not other.null)

    def within(self, other: Test) -> bool:
        """Whether all that passes here passes there."""
        if self.null and not other.null:
            return False
        wide = iter(other.spans)
        at = next(wide, None)
        for span in self.spans:  # both are in order, and disjoint
            while at is not None and not _inside(span, at):
                at = next(wide, None)
            if at is None:
                return False
        return True

    def apart(self, other: Test) -> bool:
        """Whether each has at most one span, and nothing passes both."""
        if len(self.spans) != 1 or len(other.spans) != 1 or (self.null and other.null):
            return False
        (a, b), (c, d) = self.spans[0], other.spans[0]
        return (b is not None and c is not None and b <= c) or (  # type: ignore[operator]
            d is not None and a is not None and d <= a  # type: ignore[operator]
        )

    def to_json(self) -> list[Any]:
        """Plain lists."""
        return [[list(s) for s in self.spans], self.null]

    @classmethod
    def from_json(cls, json: Sequence[Any]) -> Test:
        """The inverse of `to_json`."""
        return cls(tuple((low, high) for low, high in json[0]), json[1])


@dataclass(frozen=True)
class Pattern:
    """Tests by column, in order of the columns' names."""

    tests: tuple[tuple[str, Test], ...]

    @classmethod
    def of(cls, tests: Mapping[str, Test]) -> Pattern:
        """The pattern with these tests."""
        return cls(tuple(sorted(tests.items())))

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are tested."""
        return tuple(c for c, _ in self.tests)

    @property
    def empty(self) -> bool:
        """Whether no row can match."""
        return any(t.empty for _, t in self.tests)

    @property
    def size(self) -> int:
        """How many spans it takes to write it down."""
        return sum(len(t.spans) + t.null for _, t in self.tests)

    def test(self, column: str) -> Test | None:
        """The test on a column; None is the wildcard."""
        return next((t for c, t in self.tests if c == column), None)

    def matches(self, row: Mapping[str, Any]) -> bool:
        """Whether a row passes all tests."""
        return all(t.matches(row.get(c)) for c, t in self.tests)

    def within(self, other: Pattern) -> bool:
        """Whether every row that matches this one matches the other."""
        return not self._unmet(other)

    def apart(self, other: Pattern) -> bool:
        """Whether it is plain to see that no row matches both; False does not say that one does."""
        for c, t in self.tests:
            for d, u in other.tests:
                if c == d and t.apart(u):
                    return True
        return False

    def _unmet(self, other: Pattern) -> list[str]:
        """Columns on which this pattern is wider than the other."""
        mine = dict(self.tests)
        return [c for c, t in other.tests if c not in mine or not mine[c].within(t)]

    def __and__(self, other: Pattern) -> Pattern:
        tests = dict(self.tests)
        for c, t in other.tests:
            tests[c] = tests[c] & t if c in tests else t
        return Pattern.of(tests)

    def replaced(self, column: str, test: Test) -> Pattern:
        """The same with another test on one column."""
        return Pattern.of({**dict(self.tests), column: test})

    def without(self, other: Pattern, keep: frozenset[str]) -> Pattern | None:
        """What this one says beyond the other, if that is a pattern; None if nothing.

        It is this pattern itself where the difference is no pattern, or would cut a column of ``keep``.
        """
        unmet = self._unmet(other)
        if not unmet:
            return None
        if len(unmet) > 1 or unmet[0] in keep:
            return self
        column = unmet[0]
        mine, theirs = self.test(column), other.test(column)
        if mine is None or theirs is None:
            return self
        rest = mine - theirs
        return self if rest == mine else self.replaced(column, rest)

    def to_json(self) -> dict[str, Any]:
        """Plain lists and dicts."""
        return {c: t.to_json() for c, t in self.tests}

    @classmethod
    def from_json(cls, json: Mapping[str, Any]) -> Pattern:
        """The inverse of `to_json`."""
        return cls.of({c: Test.from_json(t) for c, t in json.items()})


Patterns = tuple[Pattern, ...]


def joined(old: Patterns, new: Iterable[Pattern], times: Iterable[str] = ()) -> Patterns:
    """All that both say, without repetition. ``old`` is the result of an earlier call.

    Patterns that differ in one column are merged; what another pattern says as well is cut away, but never
    on the columns ``times``, since a consumer that needs "below v" could not use a remainder. The same
    statements give the same rows excluded, whatever the order in which they came.
    """
    keep = frozenset(times)
    patterns = list(old)
    for pattern in merged(p for p in new if not p.empty):
        if any(not pattern.apart(other) and pattern.within(other) for other in patterns):
            continue
        left = [p if p.apart(pattern) else p.without(pattern, keep) for p in patterns]
        patterns = [p for p in left if p is not None and not p.empty]
        rest: Pattern | None = pattern
        for other in patterns:
            if rest is not None and not rest.apart(other):
                rest = rest.without(other, keep)
        if rest is not None and not rest.empty:
            patterns.append(rest)
    return merged(patterns)


def merged(patterns: Iterable[Pattern]) -> Patterns:
    """The same statements, patterns that differ in one column only made one; in a fixed order."""
    distinct = list(dict.fromkeys(patterns))
    columns = sorted({c for p in distinct for c in p.columns})
    before = -1
    while before != len(distinct):
        before = len(distinct)
        for column in columns:
            by: dict[Any, list[Pattern]] = {}
            for p in distinct:
                rest: Any = tuple(t for t in p.tests if t[0] != column)
                by.setdefault((p,) if len(rest) == len(p.tests) else rest, []).append(p)
            distinct = [_merged(column, alike) for alike in by.values()]
    return tuple(sorted(distinct, key=_order))


def _merged(column: str, alike: Sequence[Pattern]) -> Pattern:
    """Patterns that differ in one column as one."""
    if len(alike) == 1:
        return alike[0]
    tests = [t for p in alike if (t := p.test(column)) is not None]
    both = Test.of((s for t in tests for s in t.spans), any(t.null for t in tests))
    return alike[0].replaced(column, both)


def crossed(inputs: Sequence[Patterns], times: Iterable[str] = ()) -> Patterns:
    """What all inputs say: the rule of a union, and of a source's partitions."""
    if not inputs:
        return ()
    common = inputs[0]
    for other in inputs[1:]:
        both = (p & q for p in common for q in other if not p.apart(q))
        common = joined((), (p for p in both if not p.empty), times)
    return common


def above(patterns: Patterns, bounds: Mapping[str, int]) -> Patterns:
    """What patterns say beyond linear bounds: those that bounds imply are left out, and a test on times that
    begins below the bound of its column begins at the beginning, since earlier rows do not come either.
    """
    left = []
    for p in patterns:
        tests = dict(p.tests)
        for column, bound in bounds.items():
            if column in tests and not tests[column].null:
                wide = tests[column] | Test.below(bound)
                if wide == Test.below(bound):
                    break
                if wide.spans[0][1] != bound:
                    tests[column] = wide
        else:
            left.append(Pattern.of(tests))
    return tuple(left)


def _order(p: Pattern) -> list[Any]:
    return [
        (
            c,
            t.null,
            [((s[0] is not None, str(s[0])), (s[1] is not None, str(s[1]))) for s in t.spans],
        )
        for c, t in p.tests
    ]


def _inside(a: Span, b: Span) -> bool:
    return (b[0] is None or (a[0] is not None and b[0] <= a[0])) and (  # type: ignore[operator]
        b[1] is None or (a[1] is not None and a[1] <= b[1])  # type: ignore[operator]
    )


def _reaches(high: Value | None, low: Value | None) -> bool:
    return high is None or low is None or low <= high  # type: ignore[operator]


def _later(a: Value | None, b: Value | None) -> Value | None:
    return None if a is None or b is None else max(a, b)


def _sooner(a: Value | None, b: Value | None) -> Value | None:
    return b if a is None else a if b is None else min(a, b)


def _higher(a: Value | None, b: Value | None) -> Value | None:
    return b if a is None else a if b is None else max(a, b)
