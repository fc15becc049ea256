"""What rows need that wait for segments of a relation: their time, and the bucket of the first of these, so that one group reads it."""

from __future__ import annotations

import pyarrow as pa

from slackwater.engine.paths.keyed_rows import in_buckets, timed_rows
from slackwater.engine.paths.steps import Queried
from slackwater.engine.plan.plan import Operator, Path
from slackwater.kernels.buckets import bucket_of
from slackwater.model.names import COLD


def admit(operator: Operator, path: Path, table: pa.Table, queried: Queried) -> pa.Table:
    """Rows that wait."""
    rows = timed_rows(operator, path, table, queried)
    return in_buckets(rows, bucket_of([rows[COLD]]))
