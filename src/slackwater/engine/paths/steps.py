"""The row operators of a path, and times in ticks, as SQL of the column engine."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from slackwater.engine.paths.lookup import lookup_sql
from slackwater.engine.plan.steps import (
    FilterStep,
    LookupStep,
    PaceStep,
    ProjectStep,
    Step,
    unknown_step,
)
from slackwater.model.duck_sql import quote
from slackwater.model.names import ROWS, sub_query
from slackwater.model.schema import Named, column
from slackwater.model.time import TimeColumn

Queried = Callable[[str, pa.Table], pa.Table]
"""Runs SQL of the column engine over a table, which is called `ROWS` in it."""


def ticks_sql(time: TimeColumn) -> str:
    """DuckDB expression of a progressing column's time in ticks."""
    if time.parts:
        whole = [ticks_sql(p) for p in time.parts]
        # Where a part is null, which an outer join makes it, the others decide.
        filled = [f"coalesce({', '.join([one, *whole])})" for one in whole]
        return f"{time.kind}({', '.join(filled)})"
    name = quote(time.name)
    if time.kind == "window":
        end = f"struct_extract({name}, 'end')"
        return f"({end} - 1)" if time.integer else f"(epoch_us({end}) - 1)"
    return f"CAST({name} AS BIGINT)" if time.kind == "long" else f"epoch_us({name})"


def relation(steps: tuple[Step, ...], base: str = f"SELECT * FROM {ROWS}") -> str:
    """The SQL of a path's row operators over a base relation."""
    sql = base
    for step in steps:
        match step:
            case FilterStep():
                sql = f"SELECT * FROM {sub_query(sql)} WHERE {step.condition.duck}"
            case PaceStep():
                test = step.passes(ticks_sql(step.time), str(step.limit))
                sql = f"SELECT * FROM {sub_query(sql)} WHERE {test}"
            case ProjectStep():
                items = ", ".join(f"{c.expr.duck} AS {quote(c.name)}" for c in step.columns)
                sql = f"SELECT {items} FROM {sub_query(sql)}"
            case LookupStep():
                sql = lookup_sql(step, sql)
            case _:
                raise unknown_step(step)
    return sql


def carrying(steps: tuple[Step, ...], name: str) -> tuple[Step, ...]:
    """The same steps with one more column taken along as it is."""
    extra = Named(name, column(name, "bigint"))
    return tuple(_with_column(step, extra) for step in steps)


def _with_column(step: Step, extra: Named) -> Step:
    match step:
        case FilterStep() | PaceStep():
            return step
        case ProjectStep():
            return ProjectStep((*step.columns, extra))
        case LookupStep():
            return step.carrying(extra)
        case _:
            raise unknown_step(step)


def renamed(steps: tuple[Step, ...], table: pa.Table) -> pa.Table | None:
    """The table after row operators that only choose and rename columns; None if one does more."""
    for step in steps:
        match step:
            case FilterStep() | LookupStep() | PaceStep():
                return None
            case ProjectStep():
                places = {quote(c): c for c in table.column_names}
                chosen = [places.get(str(c.expr.duck)) for c in step.columns]
                if None in chosen:
                    return None
                table = table.select(chosen).rename_columns([c.name for c in step.columns])
            case _:
                raise unknown_step(step)
    return table
