"""An aggregate's results as its consumers see them: the user's names, and the window's start and end."""

from __future__ import annotations

import pyarrow as pa

from slackwater.kernels.types import arrow_schema
from slackwater.model.node import Aggregate
from slackwater.model.window import JointWindow, SessionWindow
from slackwater.semantics.windows import extents


def present(node: Aggregate, output: pa.Table) -> pa.Table:
    """Keys, the window's id (sessions have none, nor have several windows), the windows, the primitives."""
    kind = arrow_schema([f for f in node.schema if f.name == node.times[0].name]).field(0).type
    columns: dict[str, pa.Array] = {key.name: output[f"_k{i}"] for i, key in enumerate(node.keys)}
    if isinstance(node.window, JointWindow):
        for i, (time, w) in enumerate(zip(node.times, node.window.windows, strict=True)):
            wids = output[f"_wid{i or ''}"].combine_chunks().cast(pa.int64())
            columns[time.name] = _struct([pa.array(e) for e in extents(wids.to_numpy(), w)], kind)
        return pa.table(columns | {p.column: output[p.name] for p in node.primitives})
    if isinstance(node.window, SessionWindow):
        ends = [output[c].combine_chunks().cast(pa.int64()) for c in ("_start", "_end")]
    else:
        wids = output["_wid"].combine_chunks().cast(pa.int64())
        ends = [pa.array(e) for e in extents(wids.to_numpy(), node.window)]
        fixed = [f for f in node.schema if f.name not in {o.name for o in node.outputs}]
        columns[fixed[-2].name] = wids
    columns[node.times[0].name] = _struct(ends, kind)
    for primitive in node.primitives:
        columns[primitive.column] = output[primitive.name]
    return pa.table(columns)


def _struct(ends: list[pa.Array], kind: pa.StructType) -> pa.StructArray:
    return pa.StructArray.from_arrays(
        [e.cast(f.type) for e, f in zip(ends, kind, strict=True)], fields=list(kind)
    )
