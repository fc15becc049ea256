"""An aggregate's results as its consumers see them: the user's names, and the window's start and end."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from slackwater.kernels.types import arrow_schema
from slackwater.model.node import Aggregate
from slackwater.semantics.windows import extents


def present(node: Aggregate, output: pa.Table) -> pa.Table:
    """Results over windows with ids: keys, the window's id, the window, the primitives."""
    wids = window_ids(output, "_wid")
    ends = [pa.array(e) for e in extents(wids.to_numpy(), node.window)]
    fixed = [f for f in node.schema if f.name not in {o.name for o in node.outputs}]
    return presented(node, output, {fixed[-2].name: wids}, [ends])


def presented(
    node: Aggregate,
    output: pa.Table,
    ids: dict[str, pa.Array],
    windows: Sequence[Sequence[pa.Array]],
) -> pa.Table:
    """Keys, ``ids`` of windows where there are some, the start and end of each window, the primitives."""
    columns = {key.name: output[f"_k{i}"] for i, key in enumerate(node.keys)} | ids
    kind = arrow_schema([f for f in node.schema if f.name == node.times[0].name]).field(0).type
    for time, ends in zip(node.times, windows, strict=True):
        columns[time.name] = pa.StructArray.from_arrays(
            [e.cast(f.type) for e, f in zip(ends, kind, strict=True)], fields=list(kind)
        )
    return pa.table(columns | {p.column: output[p.name] for p in node.primitives})


def window_ids(output: pa.Table, name: str) -> pa.Array:
    """A column of ids or times that a kernel gives, as one array of 64 bits."""
    return output[name].combine_chunks().cast(pa.int64())
