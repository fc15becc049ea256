"""What a stateful operator must offer to run in a group task: a `Program`, and what that is given and gives back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.engine.paths.batch import Batch
from slackwater.engine.paths.reports import Figures, RelationReads, TableReport
from slackwater.engine.plan.plan import Operator
from slackwater.engine.store.manifest import Run
from slackwater.engine.store.runs import reaches
from slackwater.kernels.buckets import bucket_range
from slackwater.kernels.windows.sealing import Proven
from slackwater.semantics.frontier import Points
from slackwater.semantics.limits import Bounds
from slackwater.semantics.patterns import Patterns

MAIN = ""
"""The part of an operator that has only one."""


@dataclass(frozen=True)
class Arrival:
    """One input of an operator in one batch: its new rows, and its bound before and after them.

    ``before`` and ``after`` are the patterns that hold besides the bound. ``frontiers`` are the points before and
    after the batch that no later row lies below, for operators that progress on several times at once. ``linear`` are
    the bounds of all times of the input, before and after the batch.
    """

    tables: Sequence[pa.Table]
    old: int
    new: int
    before: Patterns = ()
    after: Patterns = ()
    frontiers: tuple[Points, Points] = ((), ())
    linear: tuple[Bounds, Bounds] = field(default=({}, {}))


Emit = Callable[[str, pa.Table], None]
"""Sends results on, along the paths of their producer, which is named."""


@dataclass(frozen=True)
class GroupContext:
    """One partition-group of an operator in one batch: all that its program may know besides the operator.

    Results that may not fit into memory go to ``emit`` while the program steps. ``low_tables`` is what low-level tasks
    say of the tables in which partials of the operator wait (`low_table`). ``relations`` counts what is read of these.
    """

    batch: Batch
    group: int
    inputs: Sequence[Arrival]
    emit: Emit
    low_tables: Sequence[TableReport] = ()
    relations: RelationReads = field(default_factory=RelationReads)

    @property
    def buckets(self) -> tuple[int, int]:
        """The half-open range of buckets of the group."""
        return bucket_range(self.group, self.batch.groups)

    @property
    def old(self) -> list[int]:
        """The inputs' bounds before the batch."""
        return [a.old for a in self.inputs]

    @property
    def new(self) -> list[int]:
        """The inputs' bounds after the batch."""
        return [a.new for a in self.inputs]

    @property
    def has_patterns(self) -> bool:
        """Whether patterns hold at the only input; operators with several inputs look for themselves."""
        return len(self.inputs) == 1 and bool(self.inputs[0].before or self.inputs[0].after)

    def runs(self, operator: Operator) -> list[Run]:
        """The runs of the group when the batch began."""
        groups = self.batch.runs.get(operator.id, [])
        return groups[self.group] if self.group < len(groups) else []

    def ledger(self, operator: Operator) -> Any:
        """The ledger of the group when the batch began; None if there is none."""
        groups = self.batch.ledgers.get(operator.id, [])
        return groups[self.group] if self.group < len(groups) else None


@dataclass(frozen=True)
class Part:
    """The shape of one part of an operator's state; ``order`` is the column that runs are cut by.

    Runs of ``blocks`` are written, read and merged by the program alone, block by block.
    """

    order: str
    schema: pa.Schema
    blocks: bool = False


class State(Protocol):
    """Reads stored rows."""

    def __call__(self, low: int, high: int, part: str = MAIN) -> pa.Table:
        """Rows of a part whose ``order`` value lies in [low, high], and perhaps some more."""
        ...


@dataclass(frozen=True)
class StateStep:
    """What a batch did to one operator of one group: results, rows to store per part, rows too late for it.

    Of a part in ``rewritten``, ``keep`` holds all rows that are still needed, not just the new.
    ``ledger`` is control state for the manifest; ``hold`` then says what may be promised of each input.
    ``low_tables`` are those of the operator that hold entries after the batch. ``compact_rows`` limits the rows that a merge
    of runs may take in this batch further than the settings do. ``readers`` are results under other
    names than the operator's own, where several share its state. ``runs`` are those that the program wrote itself,
    ``merged`` counts what it merged.
    """

    output: pa.Table | Sequence[pa.Table]
    keep: pa.Table | Mapping[str, pa.Table]
    late: int = 0
    figures: Figures = Figures()  # noqa: RUF009
    rewritten: frozenset[str] = frozenset()
    ledger: Mapping[str, Any] | None = None
    hold: tuple[int, ...] = ()
    low_tables: Sequence[Run] | None = None
    compact_rows: int | None = None
    readers: Mapping[str, pa.Table] = field(default_factory=dict)
    runs: Sequence[Run] = ()
    merged: int = 0

    @property
    def kept(self) -> Mapping[str, pa.Table]:
        """Rows to store, by part."""
        return {MAIN: self.keep} if isinstance(self.keep, pa.Table) else self.keep

    @property
    def tables(self) -> Sequence[pa.Table]:
        """The results, in pieces."""
        return [self.output] if isinstance(self.output, pa.Table) else self.output

    def results(self, name: str) -> Iterator[tuple[str, pa.Table]]:
        """The results in pieces, each with its producer; the operator is called ``name``."""
        for table in self.tables:
            yield name, table
        yield from self.readers.items()


class Program(ABC):
    """How one kind of operator runs, for one partition-group and batch."""

    parts: dict[str, Part]

    @abstractmethod
    def first_needed(self, part: str, bounds: Sequence[int]) -> int:
        """Smallest ``order`` value in a part that rows above the inputs' ``bounds`` may need."""

    @abstractmethod
    def step(self, inputs: Sequence[Arrival], state: State) -> StateStep:
        """All new rows first, then the bounds from old to new."""

    def proven(self) -> Sequence[Proven]:
        """What partials proved of panes, when all of the batch is done."""
        return ()

    def needs(self, run: Run, bounds: Sequence[int]) -> bool:
        """Whether rows above the inputs' ``bounds`` may need something of a run."""
        return reaches(run, self.first_needed(run.part, bounds))

    def compact(self, part: str, rows: pa.Table, first: int) -> pa.Table:
        """Rows of several runs as those of one, without what is no longer needed."""
        return rows.filter(pc.greater_equal(rows[self.parts[part].order], first))
