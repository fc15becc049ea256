"""What deduplication needs of rows: their time, and the bucket of what makes them equal."""

from __future__ import annotations

import pyarrow as pa

from slackwater.engine.paths.keyed_rows import in_buckets, timed_rows
from slackwater.engine.paths.steps import Queried
from slackwater.engine.plan.plan import Operator, Path
from slackwater.kernels.buckets import bucket_of
from slackwater.model.node import Dedup


def admit(operator: Operator, path: Path, table: pa.Table, queried: Queried) -> pa.Table:
    """Rows for a deduplication."""
    assert isinstance(operator.node, Dedup)
    rows = timed_rows(operator, path, table, queried)
    return in_buckets(rows, bucket_of([rows[c] for c in operator.node.subset]))
