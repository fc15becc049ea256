"""A fused scan whose path begins with a guard of feedback: the rows that it keeps, and apart from them what progress needs of all rows.

The rows that stay are read by one statement, in which the guard is a filter of the scan: of the others it reads the columns that the
guard tests, and no more. Progress is told of all rows. Footers tell it, where no time is missing, late or implausible; else
a second statement reads times and partitions alone. That was less than one statement with all columns of all rows, however
many the guard keeps, since rows that it drops are not grouped either.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.engine.lowlevel.fused import (
    Dialect,
    Fused,
    measures_sql,
    numbers_of,
    times_of_footers,
)
from slackwater.engine.lowlevel.splits import Split, row_count
from slackwater.engine.lowlevel.time_ranges import TimeRange
from slackwater.engine.paths.batch import Batch
from slackwater.engine.plan.steps import GuardStep
from slackwater.model.join_times import leaves
from slackwater.model.names import sub_query
from slackwater.model.node import Source
from slackwater.model.schema import Field
from slackwater.semantics.lateness import (
    beyond_sql,
    entering_verdicts,
    is_beyond,
    is_late,
    usable_sql,
)
from slackwater.semantics.limits import END


@dataclass(frozen=True)
class Apart:
    """A fused path that begins with a guard: the guard, and the path behind it."""

    guard: GuardStep
    rest: Fused

    @classmethod
    def of(cls, fused: Fused) -> Apart | None:
        """None if no guard stands at the beginning of the path."""
        steps = fused.path.steps
        if not steps or not isinstance(steps[0], GuardStep):
            return None
        return cls(steps[0], replace(fused, path=replace(fused.path, steps=steps[1:])))

    def kept(self, batch: Batch, base: str, ranges: Sequence[TimeRange | None]) -> str:
        """The rows of ``base`` that the guard lets pass: a row whose time is not plausible is spared."""
        duck = Dialect(duck=True)
        limits = numbers_of(batch, self.rest)[len(self.rest.source.times) :]
        spared = [
            f" OR coalesce({beyond_sql(usable_sql(duck.ticks(time)), str(limit))}, FALSE)"
            for time, limit, known in zip(self.rest.source.times, limits, ranges, strict=False)
            if limit < END and (known is None or is_beyond(known.greatest, limit))
        ]
        match = self.guard.match.duck
        return f"SELECT * FROM {sub_query(base)} WHERE NOT {match}{''.join(spared)}"

    def measures_of_footers(
        self, batch: Batch, splits: Sequence[Split], ranges: Sequence[TimeRange | None]
    ) -> pa.Table | None:
        """The measures of all rows, if footers tell them: see `measures_sql`."""
        source = self.rest.source
        spans = times_of_footers(batch, self.rest, ranges)
        if len(spans) != len(source.times):
            return None
        bounds = numbers_of(batch, self.rest)
        if any(is_late(least, bounds[i]) for i, (least, _) in spans.items()):
            return None
        columns = {f"_verdict{i}": pa.array([0], pa.int32()) for i in spans}
        for i, (least, greatest) in spans.items():
            columns[f"_hi{i}"] = pa.array([greatest], pa.int64())
            columns[f"_lo{i}"] = pa.array([least], pa.int64())
        return pa.table({**columns, "_n": pa.array([row_count(splits)], pa.int64())})

    def measures(self, batch: Batch, base: str, ranges: Sequence[TimeRange | None]) -> str:
        """The statement that measures all rows; ``base`` has the columns that progress needs."""
        return measures_sql(batch, self.rest, base, ranges)

    def dropped(self, every: pa.Table, kept: pa.Table) -> int:
        """How many rows the guard has dropped: of the rows that enter operators, those that are not kept."""
        return self._entering(every) - self._entering(kept)

    def _entering(self, table: pa.Table) -> int:
        source = self.rest.source
        at = next(i for i, t in enumerate(source.times) if t.name == self.rest.path.time)
        entering = pa.array(entering_verdicts(source.late), pa.int32())
        mask = pc.is_in(table[f"_verdict{at}"].cast(pa.int32()), value_set=entering)
        return int(pc.sum(table.filter(mask)["_n"]).as_py() or 0)


def progress_fields(source: Source, fields: Sequence[Field]) -> tuple[Field, ...]:
    """The columns that progress needs of each row."""
    wanted = {leaf.name for time in source.times for leaf in leaves(time)}
    if source.partition is not None:
        wanted.add(source.partition)
    return tuple(f for f in fields if f.name in wanted)
