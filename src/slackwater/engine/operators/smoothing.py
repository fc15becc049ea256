"""Aggregates that spread the end of a window over several batches, as the group task sees them.

How far each bucket has come is a ledger in the manifest. While results wait, the operator's bound is held back with
them: consumers learn that a window is complete when the last bucket of it is out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slackwater.engine.operators.aggregate import AggregateProgram
from slackwater.engine.operators.low_table import Drained, drain, entries_of, rule_of
from slackwater.engine.operators.program import Arrival, GroupContext, State, StateStep
from slackwater.engine.operators.results import present
from slackwater.engine.paths.batch import Batch
from slackwater.engine.paths.reports import Figures, TableFigures
from slackwater.engine.plan.plan import Operator
from slackwater.engine.plan.sources import has_patterns
from slackwater.kernels.buckets import bucket_range
from slackwater.kernels.windows import partials_step as aggregate
from slackwater.kernels.windows import smoothing
from slackwater.model.codec import from_json, to_json
from slackwater.semantics.limits import END
from slackwater.semantics.low_table import bound_of_pane
from slackwater.semantics.smoothing import Smoothing, held_bound


@dataclass(frozen=True)
class Ledger:
    """How far one group has come.

    ``closed`` has pieces: first bucket, end bucket (excluded), last window that is out. ``held`` counts partials that wait.
    ``low``: whether low-level tables have entries of finished panes.
    """

    closed: Sequence[tuple[int, int, int]] = ()
    held: int = 0
    low: bool = False


def is_smooth(batch: Batch, operator: Operator) -> bool:
    """Whether an aggregate by panes or window ids spreads its closed windows, or did so and may have some left.

    Not without group columns, since all is in one bucket then, and not where patterns close single groups.
    """
    if has_patterns(batch.plan.sources):
        return False
    wanted = batch.settings.smooth > 0 and bool(operator.aggregation.keys)
    wanted = wanted or rule_of(batch, operator) is not None
    return wanted or operator.id in batch.ledgers


def regroup(ledgers: Sequence[Ledger], count: int) -> list[Ledger]:
    """The ledgers of the groups for another number of groups."""
    pieces = [p for ledger in ledgers for p in ledger.closed]
    held = int(any(ledger.held for ledger in ledgers))
    regrouped = []
    for g in range(count):
        low, high = bucket_range(g, count)
        mine = tuple((max(a, low), min(b, high), c) for a, b, c in pieces if a < high and b > low)
        regrouped.append(Ledger(mine, held, ledgers[0].low))
    return regrouped


def owes(ledger: Ledger) -> bool:
    """Whether results wait to come out."""
    return bool(ledger.held or ledger.low)


class SmoothProgram(AggregateProgram):
    """Window aggregates over panes or window ids, a part of the closed windows at a time."""

    def __init__(self, operator: Operator, context: GroupContext):
        super().__init__(operator, context)
        self.proofs = ()  # what is out is not by the bounds here
        batch = context.batch
        self.operator, self.batch, self.reports = operator, batch, context.low_tables
        self.buckets = buckets = context.buckets
        settings = batch.settings
        # Whoever waits for the results of a flush wants all of them.
        self.rule = Smoothing(settings.smooth, settings.smooth_windows)
        self.at_once = batch.flush or not settings.smooth
        child = batch.plan.name_of(operator.node.children[0])
        size = buckets[1] - buckets[0]
        self.closed = np.full(size, self._closed(batch.bound(child, operator.on)), np.int64)
        known = context.ledger(operator)
        ledger = Ledger() if known is None else from_json(Ledger, known)
        for low, high, wid in ledger.closed:
            self.closed[low - buckets[0] : high - buckets[0]] = wid

    def first_needed(self, part: str, bounds: Sequence[int]) -> int:
        """By what is out, not by the bounds."""
        return aggregate.needed(self.spec, int(self.closed.min()))

    def step(self, inputs: Sequence[Arrival], state: State) -> StateStep:
        (rows,) = inputs
        waiting = drain(self.batch, self.operator, self.reports, rows.new, self.buckets)
        w = self.spec.sliding
        # Windows with rows that wait in a low-level table are not complete here.
        arrived = bound_of_pane(waiting.pane, rows.new, w.origin, self.spec.panes.width)
        close_to = self._closed(arrived)
        stored = self.schema.empty_table()
        if (self.closed < close_to).any():
            low = aggregate.needed(self.spec, int(self.closed.min()))
            stored = state(low, self._last_pane(close_to))
        done = smoothing.step(
            self.spec,
            aggregate.merge_partials(self.spec, [*rows.tables, waiting.rows]),
            stored,
            self.buckets,
            self.closed,
            close_to,
            None if self.at_once or close_to >= END else self.rule,
        )
        self.closed = done.closed
        hold = held_bound(int(done.closed.min()), rows.new, w)
        return StateStep(
            present(self.node, done.output),
            done.keep,
            done.dropped_rows,
            Figures(partials=done.complete, held=done.held, low=self._low_figures(waiting)),
            ledger=to_json(Ledger(self._pieces(), done.held, waiting.owes)),
            hold=(hold,),
            low_tables=waiting.tables,
            compact_rows=self._compact_rows(done.held),
        )

    def _compact_rows(self, held: int) -> int | None:
        """A merge of runs must not bring the burst back; those whose results wait are soon gone anyway."""
        if self.at_once:
            return None
        return 0 if held else self.rule.most

    def _low_figures(self, waiting: Drained) -> TableFigures | None:
        """What the tables did; of reports that all groups get, the first group speaks for all."""
        if not self.reports and not waiting.tables and not waiting.rows.num_rows:
            return None
        first = self.buckets[0] == 0
        return TableFigures(
            sum(r.arrived for r in self.reports) if first else 0,
            sum(r.sent for r in self.reports) if first else 0,
            waiting.rows.num_rows,
            sum(entries_of(t) for t in waiting.tables) if first else 0,
        )

    def _pieces(self) -> list[tuple[int, int, int]]:
        starts = np.flatnonzero(np.diff(self.closed, prepend=self.closed[0] - 1))
        ends = np.append(starts[1:], len(self.closed))
        first = self.buckets[0]
        return [(int(a) + first, int(b) + first, int(self.closed[a])) for a, b in zip(starts, ends)]
