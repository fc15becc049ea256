"""The union that keeps order: a row waits until no input can bring an older one.

An input tells how far it is by its rows alone, so one in a lull, or late, keeps the rows of all others waiting.
Punctuation in a lull (``told``) helps against the lull; against an input that is late nothing helps, for
there is nothing to tell.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from benchmarks.baselines.buffering import checked
from slackwater.kernels.windows.partials_step import ints
from slackwater.model.names import TIME
from slackwater.semantics.limits import START


class Merge:
    """Inputs of one schema, each in order of `TIME`, as one in order."""

    def __init__(self, inputs: int) -> None:
        self.frontiers = [START] * inputs
        self.waiting: list[pa.Table] = []

    @property
    def frontier(self) -> int:
        """No later row is older."""
        return min(self.frontiers)

    @property
    def held_rows(self) -> int:
        """Rows that wait."""
        return sum(t.num_rows for t in self.waiting)

    @property
    def held_bytes(self) -> int:
        """Their bytes."""
        return sum(t.nbytes for t in self.waiting)

    def step(self, new: Sequence[pa.Table], told: Sequence[int] = ()) -> pa.Table:
        """More rows of each input, and what is told of each; the rows that may leave, in order."""
        for i, table in enumerate(new):
            seen = checked(ints(table, TIME), self.frontiers[i])
            self.frontiers[i] = max(seen, told[i] if told else START)
        rows = pa.concat_tables([*self.waiting, *new]).combine_chunks()
        times = ints(rows, TIME)
        # A row as old as the frontier may leave too: what comes later is no older.
        leaving = times <= self.frontier
        rest = rows.filter(pa.array(~leaving))
        self.waiting = [rest] if rest.num_rows else []
        ready = rows.filter(pa.array(leaving))
        return ready.take(pa.array(np.argsort(times[leaving], kind="stable")))
