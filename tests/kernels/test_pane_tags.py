"""A row's window ids travel as one number, its pane; what reduces and stores rows knows nothing else."""

from __future__ import annotations

from math import gcd

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from slackwater.kernels.column_engine import connect, sql_to_arrow
from slackwater.kernels.windows import partials_step as aggregate
from slackwater.kernels.windows.partials_step import AggregateSpec
from slackwater.model.aggregate import Primitive
from slackwater.model.schema import Field, column
from slackwater.model.window import TimeWindow
from slackwater.semantics.panes import Panes
from slackwater.semantics.window_ids import wid_range
from tests.examples import examples

COUNT = Primitive("_a0", "count", (), "bigint")
SUM = Primitive("_a1", "sum", (column("v", "bigint"),), "bigint")
KEYS = (Field("k", "string"),)


def reduced(rows: pa.Table, w: TimeWindow) -> pa.Table:
    """The partials of rows for windows of shape ``w``."""
    spec = AggregateSpec(KEYS, w, (COUNT, SUM), "panes", True)
    sql = aggregate.partial_select(spec, ['"k"'], '"ts"', "t")
    raw = sql_to_arrow(connect(), sql, {"t": rows})
    return aggregate.merge_partials(spec, [aggregate.partials(raw, spec)])


@examples(25)
@given(
    times=st.lists(st.integers(-40, 40), min_size=1, max_size=12),
    size=st.integers(1, 6),
    per_window=st.integers(1, 7),
    per_slide=st.integers(1, 7),
    origin=st.integers(-9, 9),
)
def test_what_is_stored_depends_on_the_pane_alone(
    times: list[int], size: int, per_window: int, per_slide: int, origin: int
) -> None:
    """Windows of any shape over the same panes keep the same partials, and the pane gives the ids back."""
    g = gcd(per_window, per_slide)
    w = TimeWindow(size * max(per_window, per_slide) // g, size * per_slide // g, origin, "ts")
    tumbling = TimeWindow(size, size, origin, "ts")
    panes = Panes.of(w)
    if panes.width != size:
        return  # a multiple of the slide: its panes are longer
    rows = pa.table({
        "k": pa.array(["ab"[t % 2] for t in times], pa.string()),
        "ts": pa.array(times, pa.int64()),
        "v": pa.array([7 * t for t in times], pa.int64()),
    })  # fmt: skip
    assert reduced(rows, w).equals(reduced(rows, tumbling))
    for time in times:
        pane = np.array([(time - origin) // size])
        assert (panes.first_window(pane)[0], panes.end_window(pane)[0]) == wid_range(time, w)
