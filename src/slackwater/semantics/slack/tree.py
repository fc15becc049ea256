"""What the consumers of one stream share: a tree of filters, with the consumers as its leaves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from slackwater.errors import AnalysisError
from slackwater.model.codec import LEAN, positional


@dataclass(frozen=True)
class Consumer:
    """A leaf: a window, a join's input, an output in order. ``slack`` is what it needs, no more, no less."""

    name: str
    slack: int

    @property
    def sharable(self) -> int:
        """The slack that may lie in front of it."""
        return self.slack


@dataclass(frozen=True)
class Stage:
    """The stream itself (``selectivity`` None), or a filter that lets through that share of its rows."""

    name: str
    children: tuple[Stage | Consumer, ...]
    selectivity: float | None = None

    @cached_property
    def sharable(self) -> int:
        """The largest slack above its output that delays none of its consumers too much."""
        return min(c.sharable for c in self.children)

    @cached_property
    def consumers(self) -> tuple[Consumer, ...]:
        """All leaves below it."""
        return tuple(
            leaf
            for c in self.children
            for leaf in ([c] if isinstance(c, Consumer) else c.consumers)
        )

    @property
    def share(self) -> float:
        """The part of its input rows that comes out."""
        return 1.0 if self.selectivity is None else self.selectivity


def stages(tree: Stage, rate: float = 1.0) -> Iterator[tuple[Stage, float]]:
    """Every stage, parents first, with the rate of its output, when the stream has ``rate``."""
    out = rate * tree.share
    yield tree, out
    for c in tree.children:
        if isinstance(c, Stage):
            yield from stages(c, out)


def with_slack(tree: Stage, slack: Mapping[str, int]) -> Stage:
    """The tree with the slack of the consumers that ``slack`` names changed."""
    children = tuple(
        replace(c, slack=slack.get(c.name, c.slack))
        if isinstance(c, Consumer)
        else with_slack(c, slack)
        for c in tree.children
    )
    return replace(tree, children=children)


@dataclass(frozen=True)
class Query:
    """A consumer and the conditions its rows must meet (texts; equal texts are the same condition)."""

    name: str
    slack: int
    conditions: frozenset[str] = field(default=frozenset())


def global_plan(
    stream: str, queries: Sequence[Query], selectivity: Mapping[str, float] | None = None
) -> Stage:
    """The shared tree of several queries over one stream.

    Conditions stand above all consumers. One that several queries have is tested once, conditions that the
    same queries have are one filter, and so a filter that is no branch never has a filter below it. A
    filter is named by all conditions that its output meets; ``selectivity`` is by that name, of the rows that
    reach the filter (1 where nothing is known: then nothing is gained by moving slack behind it).

    >>> a, b = Query("a", 2, frozenset({"x"})), Query("b", 4, frozenset({"x", "y"}))
    >>> [s.name for s, _ in stages(global_plan("s", [a, b]))]
    ['s', 'x', 'x and y']
    """
    if not queries:
        raise AnalysisError(
            "NO_CONSUMER", f"stream '{stream}' has no consumer", hint="give at least one query"
        )
    known = selectivity or {}

    def below(
        met: frozenset[str], left: list[tuple[Query, frozenset[str]]]
    ) -> Iterator[Stage | Consumer]:
        yield from (Consumer(q.name, q.slack) for q, rest in left if not rest)
        left = [(q, rest) for q, rest in left if rest]
        while left:
            counts: dict[str, int] = {}
            for _, rest in left:
                for text in rest:
                    counts[text] = counts.get(text, 0) + 1
            # The condition that most of them have is tested first; ties go by its text.
            first = min(counts, key=lambda text: (-counts[text], text))
            chosen = [(q, rest) for q, rest in left if first in rest]
            left = [(q, rest) for q, rest in left if first not in rest]
            common = frozenset.intersection(*(rest for _, rest in chosen))
            name = " and ".join(sorted(met | common))
            deeper = below(met | common, [(q, rest - common) for q, rest in chosen])
            yield Stage(name, tuple(deeper), known.get(name, 1.0))

    return Stage(stream, tuple(below(frozenset(), [(q, q.conditions) for q in queries])))


@positional
@dataclass(frozen=True)
class Selectivity:
    """Rows that reached a filter and rows that it let through, older ones counting less and less.

    ``keep`` is the part of the counts that stays with every batch, so that a change is followed within some
    1 / (1 - keep) batches.
    """

    rows_in: float = 0.0
    rows_out: float = 0.0
    keep: float = field(default=0.9, metadata=LEAN)

    def seen(self, rows_in: int, rows_out: int) -> Selectivity:
        """After a batch; one without rows changes nothing.

        >>> Selectivity(keep=0.5).seen(10, 10).seen(5, 0).value
        0.5
        """
        if not rows_in:
            return self
        return replace(
            self,
            rows_in=self.rows_in * self.keep + rows_in,
            rows_out=self.rows_out * self.keep + rows_out,
        )

    @property
    def value(self) -> float:
        """The share that passes; 1 before any row was seen."""
        return self.rows_out / self.rows_in if self.rows_in else 1.0
