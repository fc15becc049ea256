"""Rows with their time, for operators that keep rows as they are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slackwater.engine.paths.steps import Queried, relation, ticks_sql
from slackwater.engine.plan.plan import Operator, Path
from slackwater.kernels.types import cast_table
from slackwater.model.names import BUCKET, TIME, sub_query


def timed_sql(operator: Operator, path: Path) -> str:
    """SQL of a path's rows with their time in ticks (`TIME`)."""
    child = operator.node.children[path.input]
    time = next(t for t in child.times if t.name == operator.columns[path.input])
    return f"SELECT *, {ticks_sql(time)} AS {TIME} FROM {sub_query(relation(path.steps))}"


def timed_rows(
    operator: Operator,
    path: Path,
    table: pa.Table,
    queried: Queried,
    sql: str = "",
    added: Sequence[str] = (TIME,),
) -> pa.Table:
    """Rows of ``sql`` (by default `timed_sql`) in the schema of the operator's input, then the ``added`` columns."""
    rows = queried(sql or timed_sql(operator, path), table)
    result = cast_table(rows.drop_columns(list(added)), operator.node.children[path.input].schema)
    for name in added:
        result = result.append_column(name, rows[name].cast(pa.int64()))
    return result


def in_buckets(rows: pa.Table, buckets: NDArray[np.int16]) -> pa.Table:
    """The rows with the bucket of each."""
    return rows.append_column(BUCKET, pa.array(buckets, pa.int16()))


def in_one_bucket(rows: pa.Table) -> pa.Table:
    """The rows, all in one bucket: one group has them all."""
    return in_buckets(rows, np.zeros(rows.num_rows, np.int16))
