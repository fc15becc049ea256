"""How patterns go through operators, and what they close.

Each operator has its rule in `operators`, from the patterns of its inputs to those of its output.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from slackwater.model.node import Aggregate, Join, Node
from slackwater.model.window import TimeWindow
from slackwater.semantics.closing import Closing
from slackwater.semantics.join_patterns import key_names
from slackwater.semantics.limits import START, Bounds
from slackwater.semantics.operators.aggregate import closable, finishable, key_columns
from slackwater.semantics.operators.common import no_patterns
from slackwater.semantics.operators.registry import RULES
from slackwater.semantics.pattern_wants import Want, described, plain_column
from slackwater.semantics.patterns import Patterns, Span, Test, above
from slackwater.semantics.window_ids import closed_by

__all__ = [
    "Closing", "Want", "closable", "closing", "described", "finishable", "finishing", "key_columns",
    "passes_patterns", "plain_column", "propagate_patterns", "wants",
]  # fmt: skip


Wants = Mapping[int, Sequence[Want]]
"""By an operator's place among the nodes, what can be used of it besides what its consumers can."""

NO_WANTS: Wants = MappingProxyType({})


def wants(nodes: Sequence[Node], more: Wants = NO_WANTS) -> list[tuple[Want, ...]]:
    """For every operator, in the order of ``nodes`` (children first), what its consumers can use of it, and ``more``."""
    wanted: dict[int, list[Want]] = {id(n): list(more.get(i, ())) for i, n in enumerate(nodes)}
    for node in reversed(nodes):
        below = RULES[type(node)].wants(node, wanted[id(node)])
        for child, own in zip(node.children, below, strict=True):
            wanted[id(child)] += own
    return [tuple(dict.fromkeys(wanted[id(n)])) for n in nodes]


def passes_patterns(node: Node) -> bool:
    """Whether patterns can come out of an operator, if some go in."""
    return RULES[type(node)].patterns is not no_patterns


def propagate_patterns(
    nodes: Sequence[Node],
    bounds: Sequence[Bounds],
    sources: Mapping[str, Patterns],
    more: Wants = NO_WANTS,
) -> list[Patterns]:
    """The patterns of every operator's output, in the order of ``nodes`` (children first).

    ``bounds`` are those of `bounds.propagate`; ``sources`` gives the patterns of each source by name. Patterns that nobody
    can use are left out; ``more`` are wants of others than the operators' consumers.
    """
    if not any(sources.values()) and not any(map(_keyed_by_time, nodes)):
        return [() for _ in nodes]
    needs = wants(nodes, more)
    patterns_of: dict[int, Patterns] = {}
    linear = {id(n): b for n, b in zip(nodes, bounds, strict=True)}
    for node, need, bound in zip(nodes, needs, bounds, strict=True):
        if not need:
            patterns_of[id(node)] = ()  # nobody could use them
            continue
        inputs = [patterns_of[id(c)] for c in node.children]
        below = [linear[id(c)] for c in node.children]
        mine = RULES[type(node)].patterns(node, inputs, below, sources)
        known = {c: v for c, v in bound.items() if v > START}
        patterns_of[id(node)] = described(above(mine, known), need)
    return [patterns_of[id(n)] for n in nodes]


def _keyed_by_time(node: Node) -> bool:
    """Whether the bound of a time becomes a pattern on a key."""
    return isinstance(node, Join) and any(
        set(key_names(node, i)) & {t.name for t in child.times}
        for i, child in enumerate(node.inputs)
    )


# ---- what patterns close ----


def finishing(node: Aggregate, patterns: Patterns) -> Closing:
    """The groups that patterns end whatever the time."""
    usable = [p for p in patterns if set(p.columns) <= set(key_columns(node))]
    names = [plain_column(k.expr) for k in node.keys]
    tests = [tuple(p.test(n) if n else None for n in names) for p in usable]
    return Closing(tuple((t, ((None, None),)) for t in tests))


def closing(node: Aggregate, patterns: Patterns, bound: int) -> Closing:
    """What the patterns in force at an aggregate's input close, besides the linear bound."""
    w = node.window
    if not patterns or not closable(node):
        return Closing()
    assert isinstance(w, TimeWindow)
    names = [plain_column(k.expr) for k in node.keys]
    closed_groups = []
    for p in patterns:
        tests = dict(p.tests)
        time = tests.pop(w.on, None) if w.on not in names else None
        spans: tuple[Span, ...] = ((None, None),) if time is None else time.spans
        if bound > START:
            spans = Test.of([*spans, (None, bound)]).spans
        if set(tests) <= set(names):
            closed_groups.append((tuple(tests.get(n or "") for n in names), spans))
    closed = closed_by(bound, w)
    return Closing(tuple(closed_groups), closed)
