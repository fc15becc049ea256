"""What the punctuation of a source says, batch by batch: patterns of its partitions, and of the whole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from slackwater.errors import ExecutionError
from slackwater.model.node import Source
from slackwater.semantics.bounds import END, START
from slackwater.semantics.lateness import is_beyond
from slackwater.semantics.partition_names import partition_name
from slackwater.semantics.patterns import Pattern, Patterns, Test, above, crossed, joined
from slackwater.semantics.settings import BoundRule, guard_limit
from slackwater.semantics.summary import SourceSummary

if TYPE_CHECKING:
    from slackwater.semantics.progress import ColumnState, SourceState

MAX_PATTERNS = 1000
"""More patterns than this, after all that can be merged was merged, are an error: they are in every record."""


def linear_limit(pattern: Pattern, s: BoundRule) -> int | None:
    """The bound that a pattern is, on a column whose punctuation it came with; None for other patterns."""
    if not s.patterns or pattern.columns != (s.column,):
        return None
    limit = pattern.tests[0][1].limit
    return limit if isinstance(limit, int) else None


def plausible(pattern: Pattern, s: BoundRule, now: int | None) -> bool:
    """Whether a pattern ends no further ahead of the clock than times of the column may lie."""
    test, limit = pattern.test(s.column), guard_limit(s, now)
    if test is None or limit is None or not test.spans:
        return True
    end = test.spans[-1][1]
    return not isinstance(end, int) or not is_beyond(end, limit)


def advance_patterns(
    source: Source,
    state: SourceState,
    summary: SourceSummary,
    columns: Mapping[str, ColumnState],
) -> tuple[Patterns, dict[str, Patterns]]:
    """What punctuation says of the source after a batch, and what each partition said."""
    if not (summary.patterns or state.patterns or state.by_partition):
        return (), {}
    bounds = {name: c.bound for name, c in columns.items() if c.bound > START}
    if all(v >= END for v in bounds.values()) and len(bounds) == len(columns):
        return (), {}
    by_partition: dict[str, Patterns] = {}
    if source.partition is None:
        new = list(summary.patterns.get("", ()))
    else:
        for name in sorted({*state.by_partition, *summary.patterns}):
            both = joined(state.by_partition.get(name, ()), summary.patterns.get(name, ()), columns)
            by_partition[name] = above(both, _partition_bounds(columns, name))
        new = [
            p
            for name, ps in by_partition.items()
            for p in ps
            if _speaks_of(p, source.partition, name)
        ]
        new += _common(columns, by_partition)
    patterns = above(joined(state.patterns, new, columns), bounds)
    if sum(len(ps) for ps in (patterns, *by_partition.values())) > MAX_PATTERNS:
        raise ExecutionError(
            "TOO_MANY_PATTERNS",
            f"punctuation of stream '{source.name}' amounts to more than {MAX_PATTERNS} patterns that hold "
            "at the same time",
            hint="punctuate groups in sets or ranges, or the time for all groups now and then, so that older "
            "punctuation can be forgotten",
            stream=source.name,
            limit=MAX_PATTERNS,
        )
    return patterns, by_partition


def _partition_bounds(columns: Mapping[str, ColumnState], name: str) -> dict[str, int]:
    bounds = {
        c: state.partitions[name].bound for c, state in columns.items() if name in state.partitions
    }
    return {c: v for c, v in bounds.items() if v > START}


def _common(columns: Mapping[str, ColumnState], by_partition: Mapping[str, Patterns]) -> Patterns:
    """What all partitions that take part say; nothing while one that is awaited has not spoken."""
    state = next(iter(columns.values()))
    if state.awaits_unseen:
        return ()
    sides = []
    for name, p in state.partitions.items():
        if p.idle or p.excluded:
            continue
        bounds = _partition_bounds(columns, name)
        linear = tuple(Pattern.of({c: Test.below(v)}) for c, v in bounds.items())
        sides.append((*by_partition.get(name, ()), *linear))
    return crossed(sides, columns)


def _speaks_of(pattern: Pattern, column: str, partition: str) -> bool:
    """Whether a pattern names its own partition, and so holds for the whole source."""
    test = pattern.test(column)
    if test is None or len(test.spans) > 1:
        return False
    low = test.spans[0][0] if test.spans else None
    return partition_name(low) == partition and test == Test.among([low])
