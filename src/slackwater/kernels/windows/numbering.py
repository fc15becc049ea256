"""Counting rows per key in order of arrival, over batches.

The state is a table of counters: ``_bucket``, the keys, ``_n``. Counters add up: a batch appends what it
counted, and merging runs is adding.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slackwater.kernels.order import group_codes, stable_order
from slackwater.kernels.types import arrow_type
from slackwater.kernels.windows.partials_step import AggregateSpec

Ints = npt.NDArray[np.int64]


def counters_schema(spec: AggregateSpec) -> pa.Schema:
    """Columns of a table of counters."""
    keys = dict(zip(spec.key_names, spec.keys, strict=True))
    return pa.schema(
        [
            pa.field("_bucket", pa.int16()),
            *(pa.field(n, arrow_type(keys[n].type)) for n in spec.bucket_keys),
            pa.field("_n", pa.int64()),
        ]
    )


def counter_rows(spec: AggregateSpec, rows: pa.Table, n: Ints) -> pa.Table:
    """Counters that add ``n`` for the key of each row, each key once."""
    schema = counters_schema(spec)
    names = schema.names[:-1]
    table = rows.select(names)
    return merge_counters(spec, [table.append_column("_n", pa.array(n, pa.int64()))])


def merge_counters(spec: AggregateSpec, tables: Sequence[pa.Table]) -> pa.Table:
    """Counters with each key once."""
    schema = counters_schema(spec)
    table = pa.concat_tables(
        [schema.empty_table(), *(t.select(schema.names).cast(schema) for t in tables)]
    )
    if not table.num_rows:
        return table
    codes = group_codes([table.column(c) for c in schema.names[:-1]], table.num_rows)
    order = stable_order(codes)
    starts = np.flatnonzero(np.diff(codes.codes[order], prepend=np.int64(-1)))
    sums = np.add.reduceat(_ints(table)[order], starts)
    keys = table.select(schema.names[:-1]).take(pa.array(order[starts]))
    return keys.append_column(schema.field("_n"), pa.array(sums)).cast(schema)


def counts_of(spec: AggregateSpec, rows: pa.Table, counters: Sequence[pa.Table]) -> Ints:
    """The count of each row's key."""
    schema = counters_schema(spec)
    names = schema.names[:-1]
    whole = merge_counters(spec, counters)
    m = whole.num_rows
    both = pa.concat_tables(
        [whole.select(names), rows.select(names).cast(whole.select(names).schema)]
    )
    codes = group_codes([both.column(c) for c in names], both.num_rows).codes
    distinct, place = np.unique(codes, return_inverse=True)
    sums = np.zeros(len(distinct), np.int64)
    sums[place[:m]] = _ints(whole)
    return sums[place[m:]]


def numbered(
    spec: AggregateSpec, rows: pa.Table, counters: pa.Table, order: Sequence[str]
) -> tuple[pa.Table, pa.Table]:
    """Rows in order with ``_row``, their number within their key from 0 on; and counters to add.

    ``rows`` has the columns of the counters' key, and ``order``. What ``order`` leaves open is decided by the
    other columns, so that the same rows get the same numbers, however they come.
    """
    names = counters_schema(spec).names[:-1]
    n = rows.num_rows
    rest = [c for c in rows.column_names if c not in names and c not in order]
    by = [*names, *order, *rest]
    placed = stable_order(group_codes([rows.column(c) for c in by], n))
    rows = rows.take(pa.array(placed))
    key = group_codes([rows.column(c) for c in names], n).codes
    starts = np.flatnonzero(np.diff(key, prepend=np.int64(-1)))
    lengths = np.diff(np.append(starts, n))[: len(starts)]
    number = np.arange(n) - np.repeat(starts, lengths) + counts_of(spec, rows, [counters])
    added = counter_rows(spec, rows.take(pa.array(starts)), lengths)
    return rows.append_column("_row", pa.array(number)), added


def _ints(table: pa.Table) -> Ints:
    return np.asarray(table.column("_n").to_numpy())
