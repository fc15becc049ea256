"""What rows of a stream find in a relation, by brute force: every row of the table is looked at."""

from __future__ import annotations

from typing import Any

from slackwater.model.node import Lookup, raw_name
from slackwater.model.relation import Relation
from slackwater.model.schema import Expr
from slackwater.testing.oracle.expressions import compile_expression
from slackwater.testing.oracle.run import Run
from slackwater.testing.oracle.types import Row


def partners(node: Lookup, run: Run, row: Row, step: int) -> list[dict[str, Any]]:
    """The pairs of a row with the rows of the version of a step, under the names that columns have inside the join."""
    own = {raw_name(0, f.name): row[f.name] for f in node.child.schema}
    wanted = [compile_expression(k.expr.sql)(row) for k in node.keys]
    pairs = []
    for other in _rows(node.relation, run.tables[node.relation.name][step]):
        held = [other[name] for name in node.relation.key]
        if any(v is None for v in (*wanted, *held)) or wanted != held:
            continue
        pair = {**own, **{raw_name(1, f.name): other[f.name] for f in node.relation.schema}}
        if node.where is None or _tested(node, pair) is True:
            pairs.append(pair)
    return pairs


def alone(node: Lookup, row: Row) -> dict[str, Any]:
    """A row without a partner."""
    nothing = {raw_name(1, f.name): None for f in node.relation.schema}
    return {**{raw_name(0, f.name): row[f.name] for f in node.child.schema}, **nothing}


def shown(node: Lookup, pair: Row) -> dict[str, Any]:
    """The user's columns of a pair."""
    return {o.name: compile_expression(o.expr.sql)(pair) for o in node.outputs}


def _tested(node: Lookup, pair: Row) -> Any:
    assert node.where is not None
    seen = {c.name: compile_expression(c.expr.sql)(pair) for c in node.tested}
    return compile_expression(node.where.sql)(seen)


def _rows(relation: Relation, rows: list[Row]) -> list[Row]:
    for change in relation.changes:
        if isinstance(change, Expr):
            keep = compile_expression(change.sql)
            rows = [r for r in rows if keep(r) is True]
        else:
            rows = [{c.name: compile_expression(c.expr.sql)(r) for c in change} for r in rows]
    return rows
