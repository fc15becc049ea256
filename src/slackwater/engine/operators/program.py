"""What a stateful operator must offer to run in a group task."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from slackwater.engine.store.manifest import Run
from slackwater.semantics.frontier import Points
from slackwater.semantics.patterns import Patterns

MAIN = ""
"""The part of an operator that has only one."""


@dataclass(frozen=True)
class Arrival:
    """One input of an operator in one batch: its new rows, and its bound before and after them.

    ``before`` and ``after`` are the patterns that hold besides the bound. ``frontiers`` are the points before and
    after the batch that no later row lies below, for operators that progress on several times at once.
    """

    tables: Sequence[pa.Table]
    old: int
    new: int
    before: Patterns = ()
    after: Patterns = ()
    frontiers: tuple[Points, Points] = ((), ())


@dataclass(frozen=True)
class Part:
    """The shape of one part of an operator's state; ``order`` is the column that runs are cut by."""

    order: str
    schema: pa.Schema


class State(Protocol):
    """Reads stored rows."""

    def __call__(self, low: int, high: int, part: str = MAIN) -> pa.Table:
        """Rows of a part whose ``order`` value lies in [low, high], and perhaps some more."""
        ...


@dataclass(frozen=True)
class StateStep:
    """What a batch did to one operator of one group: results, rows to store per part, rows too late for it.

    ``output`` may be an iterator, so that a large result need not be in memory at once; ``keep`` is read after
    it is exhausted. Of a part in ``rewritten``, ``keep`` holds all rows that are still needed, not just the new.
    ``ledger`` is control state for the manifest; ``hold`` then says what may be promised of each input.
    ``low_tables`` are those of the operator that hold entries after the batch. ``compact_rows`` limits the rows that a merge
    of runs may take in this batch further than the settings do. ``readers`` are results under other
    names than the operator's own, where several share its state.
    """

    output: pa.Table | Iterable[pa.Table]
    keep: pa.Table | Mapping[str, pa.Table]
    late: int = 0
    statistics: Mapping[str, Any] = field(default_factory=dict)
    rewritten: frozenset[str] = frozenset()
    ledger: Mapping[str, Any] | None = None
    hold: tuple[int, ...] = ()
    low_tables: Sequence[Run] | None = None
    compact_rows: int | None = None
    readers: Mapping[str, pa.Table] = field(default_factory=dict)

    @property
    def kept(self) -> Mapping[str, pa.Table]:
        """Rows to store, by part."""
        return {MAIN: self.keep} if isinstance(self.keep, pa.Table) else self.keep

    @property
    def tables(self) -> Iterable[pa.Table]:
        """The results, in pieces."""
        return [self.output] if isinstance(self.output, pa.Table) else self.output

    def results(self, name: str) -> Iterator[tuple[str, pa.Table]]:
        """The results in pieces, each with its producer; the operator is called ``name``."""
        for table in self.tables:
            yield name, table
        yield from self.readers.items()


class Program(Protocol):
    """How one kind of operator runs, for one partition-group and batch."""

    parts: dict[str, Part]

    def first_needed(self, part: str, bounds: Sequence[int]) -> int:
        """Smallest ``order`` value in a part that rows above the inputs' ``bounds`` may need."""
        ...

    def step(self, inputs: Sequence[Arrival], state: State) -> StateStep:
        """All new rows first, then the bounds from old to new."""
        ...

    def compact(self, part: str, rows: pa.Table, first: int) -> pa.Table:
        """Rows of several runs as those of one, without what is no longer needed."""
        ...
