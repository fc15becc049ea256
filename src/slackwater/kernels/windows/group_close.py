"""Close single groups of a window aggregate: what patterns complete ahead of the linear bound.

Whether a group's window is closed follows from the patterns in force alone, so nothing is stored about it:
a window comes out at the step at which it turns from open to closed, and never again.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slackwater.kernels.windows import partials_step as aggregate
from slackwater.kernels.windows.partials_step import AggregateSpec
from slackwater.kernels.windows.pattern_match import closed, matched_keys
from slackwater.model.window import TimeWindow
from slackwater.semantics.limits import END
from slackwater.semantics.pattern_rules import Closing
from slackwater.semantics.window_ids import extent

Mask = NDArray[np.bool_]


class Closed(NamedTuple):
    """``output``: windows closed now; ``pool``: the partials, merged; ``dead``: those no open window needs."""

    output: pa.Table
    pool: pa.Table
    dead: Mask


def is_closed(
    window: TimeWindow, closing: Closing, keys: list[pa.ChunkedArray], wids: NDArray[np.int64]
) -> Mask:
    """Which (group, window) pairs are closed."""
    starts, ends = extent(wids, window)
    return closed(closing, keys, starts, ends, wids)


def close_groups(
    spec: AggregateSpec, pool: pa.Table, before: Closing, after: Closing, new: Closing
) -> Closed:
    """Windows that patterns close, from ``pool``: all partials that are stored or have just come.

    ``before`` and ``after`` are all patterns in force; ``new`` those that came with this step. Windows that the
    linear bound closes, before or now, are not in the output: `aggregate.step` gives them.
    """
    pool = aggregate.merge_partials(spec, [pool])
    spoken = matched_keys(new, _keys(spec, pool), pool.num_rows)
    output = aggregate.output_schema(spec).empty_table()
    if spoken.any():
        chosen = pool.filter(pa.array(spoken))
        done = aggregate.step(spec, chosen.slice(0, 0), chosen, after.closed, END)
        wids = _wids(done.output)
        keys = _keys(spec, done.output)
        now = is_closed(_window(spec), after, keys, wids)
        now &= ~is_closed(_window(spec), before, keys, wids)
        output = done.output.filter(pa.array(now))
    return Closed(output, pool, dead_partials(spec, pool, after))


def dead_partials(spec: AggregateSpec, rows: pa.Table, after: Closing) -> Mask:
    """Which partials lie in closed windows only."""
    pane = np.asarray(rows["_pane"].to_numpy())
    keys = _keys(spec, rows)
    first, end = spec.panes.first_window(pane), spec.panes.end_window(pane)
    dead = np.ones(len(pane), bool)
    most = int((end - first).max()) if len(pane) else 0
    for ahead in range(most):
        wids = np.minimum(first + ahead, end - 1)
        dead &= is_closed(_window(spec), after, keys, wids)
        if not dead.any():
            break
    return dead


def _window(spec: AggregateSpec) -> TimeWindow:
    assert isinstance(spec.window, TimeWindow)
    return spec.window


def _keys(spec: AggregateSpec, table: pa.Table) -> list[pa.ChunkedArray]:
    return [table[n] for n in spec.key_names]


def _wids(table: pa.Table) -> NDArray[np.int64]:
    return np.asarray(table["_wid"].to_numpy())
