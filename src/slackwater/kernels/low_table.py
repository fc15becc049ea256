"""The low-level table: partial aggregates of a task, one per slot, that newcomers push out.

The slot of a group follows from its hash. A newcomer of the same group and pane is merged with the entry, any other pushes
it out. Which rows of a batch come first is not known, so the kernel chooses: newcomers that find their own entry,
then the others by pane. The outcome is that of taking the batch entry by entry in this order, and depends on nothing else;
it is computed slot by slot all at once.

`step` never sends more entries than arrive (and the old ones that arrivals pay for). `ordered_step` is the variant for
streams in order whose output must be in order, too: there one collision sends all old entries at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slackwater.kernels import aggregate
from slackwater.kernels import partials as states
from slackwater.kernels.aggregate import AggregateSpec, ints
from slackwater.kernels.buckets import flat, hash_of
from slackwater.kernels.order import group_codes, stable_order
from slackwater.semantics.limits import START
from slackwater.semantics.low_table import LowTable, old_to_send

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

SLOT = "_slot"


class LowState(NamedTuple):
    """``entries``: partials with their ``_slot``; ``carry``: arrivals since an old entry was last sent on;
    ``position``: where the search for one stopped; ``window``: the newest pane, of the ordered variant only.
    """

    entries: pa.Table
    carry: int = 0
    position: int = 0
    window: int = START


class LowStep(NamedTuple):
    """``sent``: the partials that leave, in the order in which they do; ``flushed``: how many of them left because
    they were old and not because a newcomer needed the slot.
    """

    state: LowState
    sent: pa.Table
    flushed: int = 0


class _Met(NamedTuple):
    """Entries and newcomers, merged: ``resident`` ones keep their ``slot``, for others it is the one they want."""

    table: pa.Table
    pane: Ints
    slot: Ints
    resident: Flags
    tie: Ints


def entries_schema(spec: AggregateSpec) -> pa.Schema:
    """Columns of the entries."""
    return aggregate.partials_schema(spec).append(pa.field(SLOT, pa.int32()))


def empty(spec: AggregateSpec) -> LowState:
    """A table without entries."""
    return LowState(entries_schema(spec).empty_table())


def step(
    spec: AggregateSpec,
    state: LowState,
    new: Sequence[pa.Table],
    rule: LowTable,
    open_pane: int,
) -> LowStep:
    """Take new partials in, and send on what they push out; panes below ``open_pane`` are old."""
    arrivals = sum(t.num_rows for t in new)
    met = _meet(spec, state.entries, new, rule)
    at = np.full(rule.size, -1, np.int64)
    at[met.slot[met.resident]] = np.flatnonzero(met.resident)
    out = _placed(met, at, rule)
    count, carry = old_to_send(state.carry, arrivals, rule.every)
    old = _next_old(met, at, open_pane, state.position, count)
    position = int(old[-1]) if len(old) else state.position
    out = np.concatenate([out, at[old]])
    at[old] = -1
    return LowStep(LowState(_kept(met, at), carry, position), _sent(spec, met, out), len(old))


def ordered_step(
    spec: AggregateSpec, state: LowState, new: Sequence[pa.Table], rule: LowTable
) -> LowStep:
    """The same for a stream in order, with output in order: the old entries are those of the window before, and each
    arrival sends one on. A newcomer that pushes out an entry of its own window sends all old ones first.
    """
    panes = np.unique(np.concatenate([np.empty(0, np.int64), *(ints(t, "_pane") for t in new)]))
    sent: list[pa.Table] = []
    flushed = 0
    for pane in panes:  # a batch of a stream in order has few
        fresh = [t.filter(pa.array(ints(t, "_pane") == pane)) for t in new]
        done = _ordered_window(spec, state, fresh, rule, int(pane))
        state, flushed = done.state, flushed + done.flushed
        sent.append(done.sent)
    return LowStep(
        state, pa.concat_tables([aggregate.partials_schema(spec).empty_table(), *sent]), flushed
    )


def _ordered_window(
    spec: AggregateSpec, state: LowState, new: Sequence[pa.Table], rule: LowTable, pane: int
) -> LowStep:
    before, position = state.window, state.position
    met = _meet(spec, state.entries, new, rule)
    at = np.full(rule.size, -1, np.int64)
    at[met.slot[met.resident]] = np.flatnonzero(met.resident)
    out: list[Ints] = []
    if pane > before:
        # What is old now is two windows old: it cannot wait for a third.
        stale = _old(met, at, before)
        out.append(at[stale])
        at[stale] = -1
        position = 0
    # One step of the search per arrival; each stops at an old entry, or the end of the table.
    arrivals = sum(t.num_rows for t in new)
    old = _old(met, at, pane)
    ahead = old[old >= position][:arrivals]
    position = int(ahead[-1]) + 1 if len(ahead) == arrivals else rule.size
    out.append(at[ahead])
    at[ahead] = -1
    flushed = sum(len(o) for o in out)
    # Newcomers take free slots and those of old entries first.
    old = _old(met, at, pane)
    free = at.copy()
    free[old] = -1
    pushed = _placed(met, free, rule)
    if len(pushed):  # a collision within the window: all old ones go first
        flushed += len(old)
        out += [at[old], pushed]
        at, position = free, rule.size
    else:
        out.append(at[old[free[old] >= 0]])
        at = np.where(free >= 0, free, at)
    window = max(before, pane)
    return LowStep(
        LowState(_kept(met, at), 0, position, window),
        _sent(spec, met, np.concatenate(out)),
        flushed,
    )


def below(entries: pa.Table, pane: int) -> tuple[pa.Table, pa.Table]:
    """Entries of panes below ``pane``, and the others."""
    old = ints(entries, "_pane") < pane
    return entries.filter(pa.array(old)), entries.filter(pa.array(~old))


def _meet(spec: AggregateSpec, entries: pa.Table, new: Sequence[pa.Table], rule: LowTable) -> _Met:
    schema = aggregate.partials_schema(spec)
    table = pa.concat_tables(
        [entries.select(schema.names), *(t.select(schema.names).cast(schema) for t in new)]
    )
    here, n = entries.num_rows, table.num_rows
    hashes = hash_of([table.column(c) for c in spec.key_names], rows=n)
    slot = (hashes % np.uint64(rule.size)).astype(np.int64)
    slot[:here] = ints(entries, SLOT)
    codes = group_codes(
        [*(_identity(table.column(c)) for c in spec.key_names), ints(table, "_pane")], n
    )
    # Rows of a group and pane lie together, an entry before its newcomers.
    order = stable_order(codes)
    starts = np.flatnonzero(np.diff(codes.codes[order], prepend=np.int64(-1)))
    firsts = order[starts]
    if len(starts) < n:
        sorted_table = table.take(pa.array(order))
        groups = table.select(["_bucket", *spec.key_names, "_pane"]).take(pa.array(firsts))
        merged = states.merge_groups(spec.stored, sorted_table, starts)
        table = pa.table([*groups.columns, *merged.columns], schema=schema)
    else:
        table = table.take(pa.array(order))
    return _Met(
        table,
        ints(table, "_pane"),
        slot[firsts],
        np.asarray(firsts < here),
        hashes[firsts].view(np.int64),
    )


def _identity(column: pa.ChunkedArray) -> pa.Array | Ints:
    """Text by the number of its first occurrence: here only equality counts, and text is dear to sort."""
    array = flat(column)
    if not (pa.types.is_string(array.type) or pa.types.is_binary(array.type)):
        return array
    indices = array.dictionary_encode().indices
    return np.asarray(indices.fill_null(-1).to_numpy(zero_copy_only=False)).astype(np.int64)


def _placed(met: _Met, at: Ints, rule: LowTable) -> Ints:
    """Put the newcomers into ``at``, the entry of each slot or -1; those that leave or never get in."""
    fresh = np.flatnonzero(~met.resident)
    if not len(fresh):
        return fresh
    pairs = met.slot[fresh] >> int(rule.probe)
    fresh = fresh[np.lexsort((met.tie[fresh], met.pane[fresh], pairs))]
    out: list[Ints] = []
    if rule.probe:
        pairs = met.slot[fresh] >> 1
        rank = np.arange(len(fresh)) - np.searchsorted(pairs, pairs)
        # Two slots are full after two newcomers at the latest, then each pushes out what lies in its own.
        for turn in range(2):
            one = fresh[rank == turn]
            home = met.slot[one]
            beside = (at[home] >= 0) & (at[home ^ 1] < 0)
            home = np.where(beside, home ^ 1, home)
            out.append(at[home])
            at[home] = one
        fresh = fresh[rank >= 2]
        fresh = fresh[np.argsort(met.slot[fresh], kind="stable")]
    home = met.slot[fresh]
    last = np.append(home[1:] != home[:-1], True)[: len(home)]
    out += [at[home[last]], fresh[~last]]
    at[home[last]] = fresh[last]
    gone = np.concatenate(out)
    return gone[gone >= 0]


def _old(met: _Met, at: Ints, pane: int) -> Ints:
    """The slots whose entries are of panes below ``pane``."""
    slots = np.flatnonzero(at >= 0)
    return np.asarray(slots[met.pane[at[slots]] < pane])


def _next_old(met: _Met, at: Ints, open_pane: int, position: int, count: int) -> Ints:
    """The slots of the next ``count`` old entries after ``position``, round the table."""
    if not count:
        return np.empty(0, np.int64)
    old = _old(met, at, open_pane)
    return np.roll(old, -int(np.searchsorted(old, position, side="right")))[:count]


def _kept(met: _Met, at: Ints) -> pa.Table:
    slots = np.flatnonzero(at >= 0)
    return met.table.take(pa.array(at[slots])).append_column(
        pa.field(SLOT, pa.int32()), pa.array(slots.astype(np.int32))
    )


def _sent(spec: AggregateSpec, met: _Met, rows: Ints) -> pa.Table:
    return met.table.take(pa.array(rows)) if len(rows) else met.table.slice(0, 0)
