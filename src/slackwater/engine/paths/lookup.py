"""Joins with a relation as SQL of the column engine: rows of a path against the table of a version."""

from __future__ import annotations

import re
from collections.abc import Mapping

from slackwater.engine.plan.steps import LookupStep
from slackwater.model.duck_sql import quote
from slackwater.model.join import How
from slackwater.model.names import PLACE, ROWS, key, ours, sub_query
from slackwater.model.node import raw_name

FIRST = ours("_first")
"""Whether a row of a relation is the first of those with its key, so that a row of the stream is counted once."""

ASKING = ours("_asking")
"""How many rows come with a key."""

_LEFT, _RIGHT = ours("_l"), ours("_r")
_JOINS: dict[How, str] = {
    "inner": "JOIN", "left": "LEFT JOIN", "left_semi": "SEMI JOIN", "left_anti": "ANTI JOIN",
}  # fmt: skip
_QUOTED = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*\"""")


def table_key(n: int) -> str:
    """The column of a table's key number n."""
    return ours(f"_r{n}")


def lookup_sql(step: LookupStep, rows: str) -> str:
    """The rows of ``rows`` after the step."""
    made = ", ".join(f"{c.expr.duck} AS {quote(c.name)}" for c in step.columns)
    test = f"{equal(step)}{_further(step)}"
    left = f"({left_sql(step, sub_query(rows))}) AS {_LEFT}"
    return f"SELECT {made} FROM {left} {_JOINS[step.how]} {step.table} AS {_RIGHT} ON {test}"


def lost_sql(step: LookupStep, rows: str) -> str:
    """How many of ``rows`` have no partner."""
    left = f"({left_sql(step, sub_query(rows))}) AS {_LEFT}"
    test = f"{equal(step)}{_further(step)}"
    return f"SELECT count(*) FROM {left} ANTI JOIN {step.form.table} AS {_RIGHT} ON {test}"


def left_sql(step: LookupStep, rows: str, guard: str | None = None, carried: str = "") -> str:
    """The rows as they come under their names inside the join, with their keys; these are null where ``guard`` is not true."""
    items = [f"{quote(n)} AS {quote(raw_name(0, n))}" for n in step.used]
    for i, k in enumerate(step.keys):
        text = str(k.duck) if guard is None else f"CASE WHEN {guard} THEN {k.duck} END"
        items.append(f"{text} AS {key(i)}")
    return f"SELECT {', '.join(items)}{carried} FROM {rows}"


def keys_sql(step: LookupStep, rows: str) -> str:
    """The keys that rows come with, each once, and how many rows have it."""
    keys = [f"{k.duck} AS {key(i)}" for i, k in enumerate(step.keys)]
    made = f"SELECT {', '.join(keys)} FROM {sub_query(rows)}"
    return f"SELECT *, count(*) AS {ASKING} FROM {sub_query(made)} GROUP BY ALL"


def placed_keys_sql(step: LookupStep) -> str:
    """The keys of each row, with its place."""
    keys = [f"{k.duck} AS {key(i)}" for i, k in enumerate(step.keys)]
    return f"SELECT {', '.join(keys)}, {PLACE} FROM {ROWS}"


def equal(step: LookupStep) -> str:
    """That the keys of both sides are equal; null equals nothing."""
    return " AND ".join(f"{key(i)} = {table_key(i)}" for i in range(len(step.keys)))


def further(step: LookupStep) -> str | None:
    """The further condition of a match, over the columns inside the join."""
    if step.where is None:
        return None
    places = {quote(c.name): f"({c.expr.duck})" for c in step.tested}
    return f"coalesce({placed(str(step.where.duck), places)}, FALSE)"


def _further(step: LookupStep) -> str:
    test = further(step)
    return "" if test is None else f" AND {test}"


def placed(sql: str, places: Mapping[str, str]) -> str:
    """A text of the column engine with other texts in the place of quoted names; strings stay as they are.

    >>> placed('"a" > 1', {'"a"': '"_1.a"'})
    '"_1.a" > 1'
    """
    return _QUOTED.sub(lambda m: places.get(m[0], m[0]), sql)
