"""Results of rows that waited, for a partner in a relation or for a segment of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa

from slackwater.engine.paths.relation_files import empty_table
from slackwater.engine.paths.steps import relation
from slackwater.engine.plan.steps import LookupStep
from slackwater.kernels.column_engine import connect, sql_to_arrow
from slackwater.kernels.types import arrow_schema
from slackwater.model.names import MATCHED, ROWS
from slackwater.model.node import Held, Waiting


def joined(
    step: LookupStep, rows: pa.Table, tables: Mapping[str, pa.Table], memory: str
) -> pa.Table:
    """The rows after a join with a relation, against its ``tables``."""
    return sql_to_arrow(connect(memory), relation((step,)), {ROWS: rows, **tables})


def left_alone(node: Held | Waiting, rows: pa.Table, memory: str) -> pa.Table:
    """Rows that leave without a partner: with nulls in the place of the relation's columns."""
    step = replace(LookupStep.of(node), how="left", where=None, pair=())
    return marked(node, joined(step, rows, {step.table: empty_table(step.form)}, memory), False)


def marked(node: Held | Waiting, rows: pa.Table, met: bool) -> pa.Table:
    """Results with the column that says whether they have met a partner."""
    schema = arrow_schema(node.schema)
    rows = rows.append_column(MATCHED, pa.repeat(pa.scalar(met), rows.num_rows))
    return rows.select(schema.names).cast(schema)
