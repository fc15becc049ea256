"""Functions that a transcript's joins may use in ``where``, by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.surface.conditions import ConditionSpec, condition


def rising(a_v: pa.Array, b_v: pa.Array) -> pa.Array:
    """Values rise from a to b; null where one is null."""
    return pc.less_equal(a_v, b_v)


def odd_sum(rows: pa.Table) -> Any:
    """The values of all columns that end in _v have an odd sum, nulls being nothing: a NumPy array."""
    total = sum(pc.fill_null(rows[c], 0).to_numpy() for c in rows.column_names if c.endswith("_v"))
    return total % 2 == 1


CONDITIONS: Mapping[str, ConditionSpec] = {
    "rising": condition(rising),
    "odd_sum": condition(odd_sum, name="odd", version="1"),
}
