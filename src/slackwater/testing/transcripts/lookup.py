"""The joins with a relation of a transcript's query, without Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from slackwater.model.join import HOWS
from slackwater.model.lookups import RelationJoin
from slackwater.model.node import Node, raw_name
from slackwater.model.relation import Relation
from slackwater.model.schema import Expr, Field, Named, column
from slackwater.model.time import parse_duration, parse_span
from slackwater.testing.transcripts.windows import bad, listed, time_column

Expression = Callable[[str, Sequence[Field]], Expr]

KNOWN = {"lookup", "keys", "how", "where", "hold", "deadline", "only", "as"}


def build_relation(name: str, spec: Mapping[str, Any]) -> Relation:
    """A relation as a transcript declares it: its columns, and those of them that are its key."""
    fields = tuple(Field(c, str(t)) for c, t in spec["columns"].items())
    return Relation(name, f"relations/{name}", fields, tuple(listed(spec["key"])), fields)


def build_lookup(
    node: Node, relation: Relation, step: Mapping[str, Any], expression: Expression
) -> RelationJoin:
    """The operators of a ``lookup`` step; ``expression`` reads a text. ``only`` is a condition on the relation's rows."""
    if unknown := set(step) - KNOWN:
        raise bad(f"lookup {dict(step)!r}: unknown {sorted(unknown)}", f"use: {sorted(KNOWN)}")
    if "only" in step:
        condition = expression(step["only"], relation.schema)
        relation = Relation(
            relation.name, relation.path, relation.fields, relation.key, relation.schema, (condition,)
        )  # fmt: skip
    given = step.get("keys", list(relation.key))
    keys = tuple(k if isinstance(k, str) else k[0] for k in given)
    shared = {r for k, r in zip(given, relation.key, strict=True) if isinstance(k, str)}
    columns = _columns(node, relation, shared)
    fields = tuple(Field(c.name, c.expr.type) for c in columns)
    hold, on, deadline = None, "", 0
    if "hold" in step:
        time = time_column(node, None)
        hold, on = parse_span(step["hold"], time, what="hold", positive=False), time.name
    if "deadline" in step:
        on, deadline = (
            time_column(node, None).name,
            parse_duration(step["deadline"], what="deadline"),
        )
    return RelationJoin(
        node,
        relation,
        tuple(Named(k, expression(f"`{k}`", node.schema)) for k in keys),
        columns,
        HOWS[step.get("how", "inner")],
        expression(step["where"], fields) if "where" in step else None,
        on,
        hold,
        deadline,
    )


def _columns(node: Node, relation: Relation, shared: set[str]) -> tuple[Named, ...]:
    """The stream's columns, then those of the relation; one that both have is called after the relation."""
    own = [Named(f.name, column(raw_name(0, f.name), f.type)) for f in node.schema]
    taken = {c.name for c in own}
    for f in relation.schema:
        if f.name in shared:
            continue
        name = f"{relation.name}_{f.name}" if f.name in taken else f.name
        own.append(Named(name, column(raw_name(1, f.name), f.type)))
    return tuple(own)
