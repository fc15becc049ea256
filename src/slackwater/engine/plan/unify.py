"""Equal operators become one: a query may say the same thing twice, in two statements or by a function that is called twice.

Two operators of one meaning over the same inputs have the same rows, so their state is one as well. Otherwise nothing but
the order of outputs would tell whose state is whose. It is as if the user had written the operator once and read it twice.

Not equal are

- streams, each of which is judged by itself: also two with the same policy, since that may change from start to start;
- row operators that are told to react to feedback otherwise, where only outputs read them;
- operators with a setting that may change from start to start (how long rows are held, how much memory a join has), and
  what reads them. Their names are kept with the outputs that read them (`known`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from slackwater.engine.plan.operators.registry import ROW_OPERATORS
from slackwater.engine.plan.plan import Output
from slackwater.model.node import Held, Join, Lookup, Node, Source, Waiting
from slackwater.model.reacting import USUAL, Reacting
from slackwater.model.render import line_of
from slackwater.semantics.bounds import topological


def unified(outputs: Sequence[Output]) -> list[Output]:
    """The same outputs over one operator where there were equal ones. How it reacts to feedback is agreed among these."""
    first: dict[int, Node] = {}
    alike: dict[Any, list[Node]] = {}
    reacting: dict[int, Reacting] = {}
    order = topological([o.node for o in outputs])
    held: set[int] = set()
    for node in reversed(order):
        if id(node) in held or type(node) not in ROW_OPERATORS:
            held.update(map(id, node.children))
    for node in order:
        made = first[id(node)] = _over(node, first)
        if _stays_apart(made):
            continue
        # Where no state depends on it, one that is told to react otherwise does so.
        free = type(made) in ROW_OPERATORS and id(node) not in held
        own = made.reacting if free else USUAL
        # Equal children are one by now, so that no comparison goes further down.
        known = alike.setdefault((type(made), line_of(made), own, *map(id, made.children)), [])
        one = next((other for other in known if _equal(other, made)), None)
        if one is None:
            known.append(made)
        else:
            first[id(node)] = one
            reacting[id(one)] = reacting.get(id(one), one.reacting).and_also(made.reacting)
    merged = [replace(o, node=first[id(o.node)]) for o in outputs]
    agreed: dict[int, Node] = {}
    for node in topological([o.node for o in merged]):
        made = _over(node, agreed)
        settings = reacting.get(id(node), made.reacting)
        agreed[id(node)] = made if settings == made.reacting else replace(made, reacting=settings)
    return [replace(o, node=agreed[id(o.node)]) for o in merged]


def _over(node: Node, made: dict[int, Node]) -> Node:
    """The node over what was made of its children."""
    children = [made[id(c)] for c in node.children]
    if all(new is old for new, old in zip(children, node.children, strict=True)):
        return node
    return node.with_children(*children)


def _stays_apart(node: Node) -> bool:
    if isinstance(node, Join):
        return node.memory is not None
    return isinstance(node, Source | Held | Waiting)


def _equal(one: Node, other: Node) -> bool:
    if isinstance(one, Lookup) and isinstance(other, Lookup):
        # Two relations of one name are refused, where relations are opened.
        return one == other and one.relation.use == other.relation.use
    return one == other
