"""The low-level table for streams in order whose output must be in order, too.

Queries use `kernels.windows.low_table.step`, which needs no order. Here one collision sends all old entries at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from slackwater.kernels.windows.low_table import (
    SLOT,
    Ints,
    arrive,
    entries_schema,
    old_rows,
    parted,
    together,
)
from slackwater.kernels.windows.partials_step import AggregateSpec, ints
from slackwater.semantics.limits import START
from slackwater.semantics.low_table import LowTable


class OrderedState(NamedTuple):
    """``entries``: partials with their slot; ``position``: where the search for old ones stopped; ``window``: the newest pane."""

    entries: pa.Table
    position: int = 0
    window: int = START


class OrderedStep(NamedTuple):
    """``sent``: the partials that leave, in order; ``flushed``: how many left because they were old."""

    state: OrderedState
    sent: pa.Table
    flushed: int = 0


def empty(spec: AggregateSpec) -> OrderedState:
    """A table without entries."""
    return OrderedState(entries_schema(spec).empty_table())


def ordered_step(
    spec: AggregateSpec, state: OrderedState, new: Sequence[pa.Table], rule: LowTable
) -> OrderedStep:
    """Take new partials in; the old entries are those of the window before, and each arrival sends one on.

    A newcomer that pushes out an entry of its own window sends all old ones first.
    """
    panes = np.unique(np.concatenate([np.empty(0, np.int64), *(ints(t, "_pane") for t in new)]))
    sent: list[pa.Table] = []
    flushed = 0
    for pane in panes:  # a batch of a stream in order has few
        fresh = [t.filter(pa.array(ints(t, "_pane") == pane)) for t in new]
        done = _window(spec, state, fresh, rule, int(pane))
        state, flushed = done.state, flushed + done.flushed
        sent.append(done.sent)
    return OrderedStep(state, together(spec, sent), flushed)


def _window(
    spec: AggregateSpec, state: OrderedState, new: Sequence[pa.Table], rule: LowTable, pane: int
) -> OrderedStep:
    entries, position, before = state
    out: list[pa.Table] = []
    if pane > before:
        # What is old now is two windows old: it cannot wait for a third.
        stale, entries = parted(entries, old_rows(entries, before, rule))
        out.append(stale)
        position = 0
    # One step of the search per arrival; each stops at an old entry, or the end of the table.
    arrivals = sum(t.num_rows for t in new)
    old = old_rows(entries, pane, rule)
    slots = ints(entries, SLOT)[old]
    ahead = np.flatnonzero(slots >= position)[:arrivals]
    position = int(slots[ahead[-1]]) + 1 if len(ahead) == arrivals else rule.size
    gone, entries = parted(entries, old[ahead])
    flushed = sum(t.num_rows for t in out) + gone.num_rows
    # Old entries give way like none: they come back where no newcomer took their slot.
    waiting, entries = parted(entries, old_rows(entries, pane, rule))
    entries, pushed = arrive(spec, entries, new, rule)
    displaced, waiting = parted(waiting, _taken(waiting, entries))
    out += [gone, displaced]
    if pushed.num_rows:  # a collision within the window: all old ones go first
        flushed += waiting.num_rows
        out += [waiting, pushed]
        position = rule.size
    else:
        entries = pa.concat_tables([entries, waiting])
    after = OrderedState(entries, position, max(before, pane))
    return OrderedStep(after, together(spec, out), flushed)


def _taken(waiting: pa.Table, entries: pa.Table) -> Ints:
    """The rows of ``waiting`` whose slots are those of ``entries``."""
    return np.flatnonzero(np.isin(ints(waiting, SLOT), ints(entries, SLOT)))
