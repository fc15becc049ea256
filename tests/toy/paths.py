"""What it needs of rows: their time. Rows do not meet each other, so that any group may have them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from slackwater.engine.paths.keyed_rows import in_buckets, timed_rows
from slackwater.engine.paths.steps import Queried
from slackwater.engine.plan.plan import Operator, Path
from slackwater.kernels.buckets import BUCKETS
from slackwater.model.names import TIME


def admit(operator: Operator, path: Path, table: pa.Table, queried: Queried) -> pa.Table:
    rows = timed_rows(operator, path, table, queried)
    return in_buckets(rows, (rows[TIME].to_numpy() % BUCKETS).astype(np.int16))
