"""Windows that end at rows: ``(t - range, t]`` for the time t of every n-th row of a key.

A pane is one tick. Since windows are as if they slid by a tick, they are put together like sliding ones, at the
ticks that have a window. Which ticks do is told by a hidden count per tick: `MARK` counts the n-th rows in
order of arrival, `RANK` counts rows, for the rank of time. What is below the bound is only counted:
`Counters` are additive rows (key, n) whose sum is the number of the key's rows before it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slackwater.kernels.windows import assemble
from slackwater.kernels.windows.numbering import counter_rows, counts_of
from slackwater.kernels.windows.partials_step import (
    AggregateSpec,
    finished,
    ints,
    merge_partials,
    merged,
    output_schema,
)
from slackwater.model.aggregate import Primitive
from slackwater.model.schema import column
from slackwater.model.window import ByTuple
from slackwater.semantics.lateness import is_late
from slackwater.semantics.limits import clamp

MARK = Primitive("_mark", "count", (column("_mark", "boolean"),), "bigint")
RANK = Primitive("_rank", "count", (), "bigint")

Flags = npt.NDArray[np.bool_]


class ByTupleStep(NamedTuple):
    """Results, partials and counters to keep, and how many new partials no open window needs."""

    output: pa.Table
    keep: pa.Table
    counters: pa.Table
    dropped: int


def hidden(w: ByTuple) -> tuple[Primitive, ...]:
    """What must be counted per tick besides the user's aggregates."""
    if w.every == 1:
        return ()
    return (MARK,) if w.over == "arrival" else (RANK,)


def needed(w: ByTuple, bound: int) -> int:
    """First tick that a window at ``bound`` or later needs."""
    return clamp(bound - w.range + 1)


def step(
    spec: AggregateSpec, new: pa.Table, state: pa.Table, counters: pa.Table, old: int, bound: int
) -> ByTupleStep:
    """Close the windows at ticks in [old, bound).

    ``state`` holds the stored ticks from `needed` (old) on (more is harmless), ``counters`` all counters.
    """
    w = spec.window
    assert isinstance(w, ByTuple)
    new = merge_partials(spec, [new])
    tick = ints(new, "_pane")
    done = max(old, bound)
    dropped = int(np.count_nonzero(tick < needed(w, old)))
    keep = new.filter(pa.array(tick >= needed(w, done)))
    ranked = spec.hidden == (RANK,)
    late = new.filter(pa.array(is_late(tick, clamp(old)))) if ranked else new.slice(0, 0)
    none = counter_rows(spec, late, ints(late, "_rank_n") if ranked else ints(late, "_pane"))
    if bound <= old:
        return ByTupleStep(output_schema(spec).empty_table(), keep, none, dropped)
    stored = state.filter(pa.array(ints(state, "_pane") >= needed(w, old)))
    table, key = merged(spec, [new.filter(pa.array(tick >= needed(w, old))), stored])
    tick = ints(table, "_pane")
    closing = (tick >= clamp(old)) & (tick < clamp(bound))
    if ranked:
        # Rows before `old`: those counted, and late ones of this batch.
        rows = np.where(closing, ints(table, "_rank_n"), 0)
        before = counts_of(spec, table, [counters, none])
        marked = closing & _has_multiple(key, rows, before, w.every)
        gone = table.filter(pa.array(closing))
        added = counter_rows(spec, gone, ints(gone, "_rank_n"))
        none = pa.concat_tables([none, added])
    elif spec.hidden == (MARK,):
        marked = closing & (ints(table, "_mark_n") > 0)
    else:
        marked = closing
    frame = assemble.frame_at(key, tick, spec.panes, np.flatnonzero(marked))
    return ByTupleStep(finished(spec, table, frame), keep, none, dropped)


def _has_multiple(
    key: assemble.Ints, rows: assemble.Ints, before: assemble.Ints, every: int
) -> Flags:
    """Whether one of the ranks that a tick's rows have is a multiple of ``every``.

    ``rows`` are per tick, ``before`` the number of the key's rows before its first tick here.
    """
    starts = np.flatnonzero(np.diff(key, prepend=np.int64(-1)))
    total = np.cumsum(rows)
    offset = np.repeat((total - rows)[starts], np.diff(np.append(starts, len(rows))))
    last = before + total - offset
    return np.asarray(last // every > (last - rows) // every)
