"""Windows of a type that a user defined: partials per (key, window id), cut by the windows' ends."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from slackwater.kernels.windows import assemble
from slackwater.kernels.windows.partials_step import (
    AggregateSpec,
    AggregateStep,
    finished,
    ints,
    merge_partials,
    merged,
    output_schema,
)
from slackwater.semantics.limits import clamp


def step(
    spec: AggregateSpec, new: pa.Table, state: pa.Table, old: int, bound: int
) -> AggregateStep:
    """Close the windows whose end lies in (old, bound]; ids need not follow each other in any way."""
    new = merge_partials(spec, [new])
    end = ints(new, "_pane")
    done = max(old, bound)
    dropped = int(np.count_nonzero(end <= clamp(old)))
    keep = new.filter(pa.array(end > clamp(done)))
    if bound <= old:
        return AggregateStep(output_schema(spec).empty_table(), keep, dropped)
    table, _ = merged(spec, [_closing(new, old, bound), _closing(state, old, bound)])
    rows = np.arange(table.num_rows)
    frame = assemble.frame_of(ints(table, "_wid"), rows, rows + 1, rows)
    return AggregateStep(finished(spec, table, frame), keep, dropped)


def _closing(table: pa.Table, old: int, bound: int) -> pa.Table:
    end = ints(table, "_pane")
    return table.filter(pa.array((end > clamp(old)) & (end <= clamp(bound))))
