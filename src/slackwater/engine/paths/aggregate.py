"""What an aggregate needs of rows: partials, or where its windows or its plan ask for them the rows themselves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from slackwater.engine.paths.steps import Queried, relation, ticks_sql
from slackwater.engine.plan.plan import Operator, Path
from slackwater.kernels.windows import adaptive, joint
from slackwater.kernels.windows import partials_step as aggregate
from slackwater.kernels.windows.counting import counted_rows, counted_select
from slackwater.kernels.windows.partials_step import AggregateSpec
from slackwater.model.duck_sql import quote
from slackwater.model.names import FLOOR, sub_query
from slackwater.model.node import Aggregate
from slackwater.semantics.windows import keeps_rows, needs_rows


@dataclass(frozen=True)
class Arriving:
    """Rows on their way to an aggregate, in the column engine's words; ``ticks`` are the times of its windows.

    ``floor`` is the column of the first window that a row may enter, where rows are judged one by one.
    """

    spec: AggregateSpec
    keys: list[str]
    ticks: list[str]
    rows: str
    floor: str | None
    queried: Callable[[str], pa.Table]


Reduction = Callable[[Arriving], pa.Table]
"""What the windows of one type need of rows."""


def admit(
    operator: Operator, path: Path, table: pa.Table, queried: Queried, reduction: Reduction
) -> pa.Table:
    """Rows for an aggregate."""
    node = operator.node
    assert isinstance(node, Aggregate)
    times = {t.name: t for t in node.child.times}
    return reduction(
        Arriving(
            operator.aggregation,
            [str(k.expr.duck) for k in node.keys],
            [ticks_sql(times[w.on]) for w in node.windows],
            sub_query(relation(path.steps)),
            quote(FLOOR) if FLOOR in table.column_names else None,
            lambda sql: queried(sql, table),
        )
    )


def partials(a: Arriving) -> pa.Table:
    """Rows are reduced where they are read."""
    sql = aggregate.partial_select(a.spec, a.keys, a.ticks[0], a.rows, floor=a.floor)
    return aggregate.partials(a.queried(sql), a.spec)


def partials_by_plan(a: Arriving) -> pa.Table:
    """Windows of time: rows travel where the plan keeps them as they are."""
    if not keeps_rows(a.spec.plan):
        return partials(a)
    return adaptive.rows(
        a.queried(adaptive.rows_select(a.spec, a.keys, a.ticks[0], a.rows)), a.spec
    )


def counted(a: Arriving) -> pa.Table:
    """Windows that count rows: where the order of arrival decides, rows travel to their counter."""
    if not needs_rows(a.spec.window):
        return partials(a)
    return counted_rows(a.queried(counted_select(a.spec, a.keys, a.ticks[0], a.rows)), a.spec)


def joint_partials(a: Arriving) -> pa.Table:
    """Windows of several times: partials per cell."""
    sql = joint.partial_select(a.spec, a.keys, a.ticks, a.rows)
    return aggregate.partials(a.queried(sql), a.spec)
