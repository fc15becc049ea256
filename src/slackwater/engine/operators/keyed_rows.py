"""Rows with their time and bucket, as deduplication and sorts get them."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from slackwater.model.names import BUCKET, TIME


def keyed_schema(schema: pa.Schema) -> pa.Schema:
    """The columns of rows, with their time and bucket."""
    return pa.schema([*schema, pa.field(TIME, pa.int64()), pa.field(BUCKET, pa.int16())])


def keyed_rows(arrived: Sequence[pa.Table], schema: pa.Schema) -> pa.Table:
    """New rows of the given columns as one table, with their time and bucket."""
    full = keyed_schema(schema)
    return pa.concat_tables(
        [full.empty_table(), *(t.select(full.names).cast(full) for t in arrived)]
    )
