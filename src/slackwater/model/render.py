"""A query as text: for people (explain), and to tell whether two queries are the same (restart)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from slackwater.model.join import Anytime, Band, Tumbling, Within
from slackwater.model.names import PREFIX, alone, is_ours
from slackwater.model.node import (
    Aggregate,
    Dedup,
    Filter,
    Held,
    Join,
    Late,
    Lookup,
    Node,
    Outpaced,
    Pace,
    Parted,
    Project,
    SharedPanes,
    SharedSort,
    Sort,
    Source,
    Union,
    Waiting,
)
from slackwater.model.registry import Registry
from slackwater.model.relation import Relation
from slackwater.model.schema import Expr, Named
from slackwater.model.spans import STORED, Shown, in_words, setting, words_of
from slackwater.model.window import describe_window


def render(node: Node, *, policies: bool = False) -> list[str]:
    """The tree below a node, one line per operator, children indented.

    Without ``policies`` only what may not change on a restart is shown: two queries with equal text have
    the same state. Policy parameters and the late setting are left out, since they may change, and spans are plain
    numbers, as checkpoints hold them. With ``policies`` the text is for people.
    """
    lines: list[str] = []
    todo = [(node, "")]
    while todo:
        each, indent = todo.pop()
        lines.append(indent + _line(each, policies))
        todo += [(child, indent + "  ") for child in reversed(each.children)]
    return lines


def digest(node: Node) -> str:
    """A short name for a node that depends on its meaning alone."""
    text = "\n".join(render(node))
    return hashlib.sha256(text.encode()).hexdigest()[:6]


def line_of(node: Node) -> str:
    """The line of a node without those below it."""
    return _line(node, False)


def _line(node: Node, policies: bool) -> str:
    return LINES[type(node)](node, policies)


def _source(node: Source, policies: bool) -> str:
    columns = ", ".join(f"{f.name} {f.type}" for f in node.schema)
    times = ", ".join(f"{t.name} {t.kind}" for t in node.times)
    text = f"stream {node.name}({columns}) time {times}"
    if node.order:
        text += f" order {', '.join(node.order)}"
    if node.partition:
        text += f" partition {node.partition}"
    if policies:
        shown = ", ".join(_policy(p) for p in node.policies)
        text += f" progress {shown} late {node.late}"
    return text


def _late(node: Late, _: bool) -> str:
    return "late rows"


def _filter(node: Filter, _: bool) -> str:
    return f"where {_as_ever(node.condition.sql)}"


def _project(node: Project, _: bool) -> str:
    return "select " + _columns(node.columns, _clash(c.name for c in node.columns))


def _union(node: Union, _: bool) -> str:
    return "union"


def _dedup(node: Dedup, policies: bool) -> str:
    spans = _shown(node, policies)
    within = "" if node.within is None else f" within {spans.span(node.within, node.on)}"
    return f"dropDuplicates {', '.join(node.subset)}{within} on {node.on}"


def _sort(node: Sort, _: bool) -> str:
    return f"sort by {node.on}"


def _pace(node: Pace, policies: bool) -> str:
    clock = " and the clock" if node.clock else ""
    return f"pace {_shown(node, policies).span(node.limit, node.on)} by {node.on}{clock}"


def _outpaced(node: Outpaced, policies: bool) -> str:
    return f"dropped by {_pace(node, policies)}"


def _aggregate(node: Aggregate, policies: bool) -> str:
    window = describe_window(node.window, _shown(node, policies))
    keys = _columns(node.keys)
    clash = _clash([*(k.name for k in node.keys), *(p.column for p in node.primitives)])
    calls = ", ".join(
        f"{p.column if clash else p.name}={_as_ever(p.call)}" for p in node.primitives
    )
    outputs = _columns(node.outputs, clash)
    empty = " with empty windows" if node.emit_empty else ""
    return f"aggregate by [{keys}] window {window}{empty}: {calls} -> {outputs}"


def _join(node: Join, policies: bool) -> str:
    within = _within(node.within, node.on, _shown(node, policies))
    sides = list(zip(*node.keys, strict=True))
    equal = [" = ".join(_as_ever(k.expr.sql) for k in pair) for pair in sides]
    keys = " and ".join(equal) or "any rows"
    test = node.where.sql if isinstance(node.where, Expr) else node.where
    where = "" if test is None else f" where {test}"
    if node.pair:
        # What the names of a condition mean; of other joins the outputs tell.
        where += f" of {_plainly(node.pair)}"
    outputs = _plainly(node.outputs)
    times = ", ".join(node.on)
    # How much memory there is may change, but not whether it is bounded: that is another form of state.
    where += "" if node.memory is None else " in bounded memory"
    return f"{node.how} join on {keys} within {within} of {times}{where} -> {outputs}"


def _lookup(node: Lookup, policies: bool) -> str:
    relation = node.relation
    pairs = zip(node.keys, relation.key, strict=True)
    keys = " and ".join(f"{k.expr.sql} = `{name}`" for k, name in pairs)
    where = "" if node.where is None else f" where {node.where.sql}"
    if node.pair:
        where += f" of {_plainly(node.pair)}"
    made = f"-> {_plainly(node.outputs)}"
    shown = relation_text(relation, policies=policies)
    return f"{node.how} join with {shown} on {keys}{where} {made}"


def relation_text(relation: Relation, *, policies: bool = False) -> str:
    """A relation in the line of a join: its columns, its directory, and what is made of its rows."""
    if relation.known_as and not policies:
        return relation.known_as
    columns = ", ".join(f"{f.name} {f.type}" for f in relation.fields)
    text = f"relation {relation.name}({columns})"
    if relation.path:  # that of a directory; where else rows come from is no part of the query
        text += f" of '{relation.path}'"
    for change in relation.changes:
        made = f" where {change.sql}" if isinstance(change, Expr) else f" select {_plainly(change)}"
        text += made
    return text


def _parted(node: Parted, policies: bool) -> str:
    which = "that wait for segments of" if node.waits else "joined at once with"
    keys = ", ".join(k.expr.sql for k in node.keys)
    return f"rows {which} {relation_text(node.relation, policies=policies)} on {keys}"


def _waiting(node: Waiting, policies: bool) -> str:
    # How long rows wait may change.
    long = f" for {in_words(node.deadline)}" if policies else ""
    return f"rows wait by {node.on}{long} for {_lookup(node, policies)}"


def _held(node: Held, policies: bool) -> str:
    # How long rows are held may change.
    spans = _shown(node, policies)
    long = f" for {spans.span(node.hold, node.on)}" if policies else ""
    return f"hold rows by {node.on}{long} for {_lookup(node, policies)}"


def _columns(columns: Sequence[Named], clash: bool = False) -> str:
    if clash:
        return _plainly(columns)
    return ", ".join(f"{_as_ever(c.expr.sql)} AS {alone(c.name)}" for c in columns)


def _plainly(columns: Sequence[Named]) -> str:
    return ", ".join(f"{c.expr.sql} AS {c.name}" for c in columns)


_OURS = re.compile(rf"(?<!`)`{PREFIX}((?:_a|__e|__key|__order)\d+|__pass)`(?!`)")


def _as_ever(sql: str) -> str:
    """The text without the prefix of our names: ids of operators are made of it, and old checkpoints have them.

    >>> _as_ever("(`__sw_a0` + `__sw_total`)")
    '(`_a0` + `__sw_total`)'
    """
    return _OURS.sub(r"`\1`", sql)


def _clash(names: Iterable[str]) -> bool:
    """Whether names of ours would become those of users without their prefix. No old query has such names."""
    lower = [n.lower() for n in names]
    return any(alone(n) in lower for n in lower if is_ours(n))


def _shown(node: Node, policies: bool) -> Shown:
    return words_of(node) if policies else STORED


def _within(within: Within, on: Sequence[str], shown: Shown) -> str:
    if isinstance(within, Band):
        ends = "" if within.closed == "both" else f" closed {within.closed}"
        before, after = (shown.span(n, on[0]) for n in (within.before, within.after))
        return f"band -{before} .. +{after}{ends}"
    if isinstance(within, Anytime):
        return "at any time"
    if isinstance(within, Tumbling):
        window = within.window
        return f"window {shown.span(window.range, on[0])}{shown.origin(window.origin, on[0])}"
    return f"reach {', '.join(shown.span(n, c) for n, c in zip(within.ticks, on, strict=True))}"


def _policy(policy: object) -> str:
    shown = [
        f"{name}={setting(value)}"
        for name, value in vars(policy).items()
        if value not in (None, "default", "keep", "", False)
    ]
    return f"{type(policy).__name__}({', '.join(shown)})"


LINES: Registry[Callable[[Any, bool], str]] = Registry(
    __name__,
    {
        Source: _source,
        Late: _late,
        Filter: _filter,
        Project: _project,
        Union: _union,
        Dedup: _dedup,
        Sort: _sort,
        SharedSort: _sort,
        Pace: _pace,
        Outpaced: _outpaced,
        Aggregate: _aggregate,
        SharedPanes: _aggregate,
        Join: _join,
        Lookup: _lookup,
        Held: _held,
        Parted: _parted,
        Waiting: _waiting,
    },
)
"""The line of each type of operator, with or without policies; ids of operators are digests of these lines."""


def describe(outputs: Sequence[tuple[str, Node]]) -> dict[str, list[str]]:
    """The restart text of each output by name."""
    return {name: render(node) for name, node in outputs}
