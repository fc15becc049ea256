"""What a sort needs of rows: their time. A sort is global, so that all its rows are in one bucket."""

from __future__ import annotations

import pyarrow as pa

from slackwater.engine.paths.keyed_rows import in_one_bucket, timed_rows
from slackwater.engine.paths.steps import Queried
from slackwater.engine.plan.plan import Operator, Path


def admit(operator: Operator, path: Path, table: pa.Table, queried: Queried) -> pa.Table:
    """Rows for a sort."""
    return in_one_bucket(timed_rows(operator, path, table, queried))
