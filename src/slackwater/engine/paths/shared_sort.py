"""What sorts with one store of rows need of rows: their time, and which of the sorts want them."""

from __future__ import annotations

import pyarrow as pa

from slackwater.engine.paths.keyed_rows import in_one_bucket, timed_rows, timed_sql
from slackwater.engine.paths.steps import Queried
from slackwater.engine.plan.plan import Operator, Path
from slackwater.model.names import FOR, TIME, sub_query
from slackwater.model.node import SharedSort


def admit(operator: Operator, path: Path, table: pa.Table, queried: Queried) -> pa.Table:
    """Rows for several sorts. A row that no sort wants waits nowhere."""
    assert isinstance(operator.node, SharedSort)
    rows = sub_query(timed_sql(operator, path))
    marked = f"SELECT *, {_wanted_by(operator.node)} AS {FOR} FROM {rows}"
    sql = f"SELECT * FROM {sub_query(marked)} WHERE {FOR} <> 0"
    return in_one_bucket(timed_rows(operator, path, table, queried, sql, (TIME, FOR)))


def _wanted_by(node: SharedSort) -> str:
    """DuckDB expression of the bits of the sorts whose filters let a row through."""
    terms = []
    for filters, bit in zip(node.filters, node.bits, strict=True):
        term = str(bit)
        for condition in reversed(filters):
            # A later filter sees only what the ones before it let through.
            term = f"CASE WHEN {condition.duck} THEN {term} ELSE 0 END"
        terms.append(f"CAST({term} AS BIGINT)")
    return f"({' | '.join(terms)})"
