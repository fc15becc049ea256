"""The low-level table: partial aggregates of a task, one per slot, that newcomers push out.

The slot of a group follows from its hash. A newcomer of the same group and pane is merged with the entry, any other pushes
it out. Which rows of a batch come first is not known, so the kernel chooses: newcomers that find their own entry,
then the others by pane. The outcome is that of taking the batch entry by entry in this order, and depends on nothing else;
it is computed slot by slot all at once.

`step` never sends more entries than arrive (and the old ones that arrivals pay for).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slackwater.kernels.aggregates import partials as states
from slackwater.kernels.buckets import Words, flat, hash_of
from slackwater.kernels.order import group_codes, stable_order
from slackwater.kernels.windows import partials_step as aggregate
from slackwater.kernels.windows.partials_step import AggregateSpec, ints
from slackwater.semantics.low_table import LowTable, old_to_send

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

SLOT = "_slot"
MOST_CHUNKS = 8


class LowState(NamedTuple):
    """``entries``: partials with their ``_slot``; ``carry``: arrivals since an old entry was last sent on;
    ``position``: where the search for one stopped.
    """

    entries: pa.Table
    carry: int = 0
    position: int = 0


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


class Arrived(NamedTuple):
    """``entries`` after newcomers took their slots; those that they ``pushed`` out, and those that got none, leave."""

    entries: pa.Table
    pushed: pa.Table


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
    done = arrive(spec, state.entries, new, rule)
    count, carry = old_to_send(state.carry, arrivals, rule.every)
    old = old_rows(done.entries, open_pane, rule) if count else np.empty(0, np.int64)
    slots = ints(done.entries, SLOT)
    # The search goes on after the slot where it stopped, round the table.
    after = int(np.searchsorted(slots[old], state.position, side="right"))
    old = np.roll(old, -after)[:count]
    position = int(slots[old[-1]]) if len(old) else state.position
    flushed, entries = parted(done.entries, old)
    sent = together(spec, [done.pushed, flushed])
    return LowStep(LowState(entries, carry, position), sent, len(old))


def below(entries: pa.Table, pane: int) -> tuple[pa.Table, pa.Table]:
    """Entries of panes below ``pane``, and the others."""
    old = ints(entries, "_pane") < pane
    return entries.filter(pa.array(old)), entries.filter(pa.array(~old))


def arrive(
    spec: AggregateSpec,
    entries: pa.Table,
    new: Sequence[pa.Table],
    rule: LowTable,
) -> Arrived:
    """Merge newcomers with their entries, or give them a slot."""
    schema = aggregate.partials_schema(spec)
    fresh = pa.concat_tables(
        [schema.empty_table(), *(t.select(schema.names).cast(schema) for t in new)]
    )
    hashes = hash_of([fresh.column(c) for c in spec.key_names], rows=fresh.num_rows)
    home = (hashes % np.uint64(rule.size)).astype(np.int64)
    # Entries whose slot nobody asks for are not even looked at.
    asked = np.zeros(rule.size, np.bool_)
    asked[home] = True
    if rule.probe:
        asked[home ^ 1] = True
    near, far = parted(entries, np.flatnonzero(asked[ints(entries, SLOT)]))
    met = _meet(spec, near, fresh, home, hashes)
    at = np.full(rule.size, -1, np.int64)
    at[met.slot[met.resident]] = np.flatnonzero(met.resident)
    pushed = _placed(met, at, rule)
    slots = np.flatnonzero(at >= 0)
    kept = met.table.take(pa.array(at[slots]))
    kept = kept.append_column(pa.field(SLOT, pa.int32()), pa.array(slots.astype(np.int32)))
    entries = pa.concat_tables([far, kept])
    if entries.column(0).num_chunks > MOST_CHUNKS:
        entries = entries.combine_chunks()
    return Arrived(entries, met.table.take(pa.array(pushed)))


def _meet(
    spec: AggregateSpec, entries: pa.Table, fresh: pa.Table, home: Ints, hashes: Words
) -> _Met:
    schema = fresh.schema
    table = pa.concat_tables([entries.select(schema.names), fresh])
    here, n = entries.num_rows, table.num_rows
    slot = np.concatenate([ints(entries, SLOT).astype(np.int64), home])
    tie = np.concatenate([np.zeros(here, np.int64), hashes.view(np.int64)])
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
    return _Met(table, ints(table, "_pane"), slot[firsts], np.asarray(firsts < here), tie[firsts])


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


def old_rows(entries: pa.Table, pane: int, rule: LowTable) -> Ints:
    """The rows of entries of panes below ``pane``, by slot."""
    rows = np.flatnonzero(ints(entries, "_pane") < pane)
    at = np.full(rule.size, -1, np.int64)  # quicker than to sort them
    at[ints(entries, SLOT)[rows]] = rows
    return np.asarray(at[at >= 0])


def parted(entries: pa.Table, rows: Ints) -> tuple[pa.Table, pa.Table]:
    """The ``rows`` of a table in this order, and the others."""
    if not len(rows):
        return entries.slice(0, 0), entries
    stay = np.ones(entries.num_rows, np.bool_)
    stay[rows] = False
    return entries.take(pa.array(rows)), entries.filter(pa.array(stay))


def together(spec: AggregateSpec, tables: Sequence[pa.Table]) -> pa.Table:
    """Partials of these entries, one table after the other."""
    schema = aggregate.partials_schema(spec)
    return pa.concat_tables([schema.empty_table(), *(t.select(schema.names) for t in tables)])
