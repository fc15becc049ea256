"""Bounds: ints with a floor and a ceiling, and how each operator maps them.

``bound(v)`` says that no later row has a time < v (exclusive: a row equal to v is on time). A bound
never goes back. `START` says nothing is known yet, `END` that the stream has ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from slackwater.errors import AnalysisError
from slackwater.model.node import (
    Aggregate,
    Dedup,
    Filter,
    Join,
    Late,
    Node,
    Project,
    Sort,
    Source,
    Union,
)
from slackwater.semantics import join
from slackwater.semantics.limits import END, START
from slackwater.semantics.windows import result_bound

__all__ = [
    "END", "START", "Bounds", "advanced", "aligned", "minimum", "output_bounds", "propagate",
    "shift", "topological",
]  # fmt: skip

Bounds = Mapping[str, int]
"""Bound by progressing column."""


def shift(bound: int, ticks: int) -> int:
    """The bound of ``time + ticks``. Unknown stays unknown, ended stays ended.

    A finite bound saturates below `END`: a shift must never claim that a stream has ended.

    >>> shift(10, -3), shift(START, 5) == START, shift(END, -5) == END, shift(END - 1, 9) == END - 1
    (7, True, True, True)
    """
    if bound <= START:
        return START
    if bound >= END:
        return END
    return max(START, min(END - 1, bound + ticks))


def minimum(bounds: Iterable[int]) -> int:
    """The bound of a union: the least of its inputs' (`END` of none, since nothing can come).

    >>> minimum([20, 19])
    19
    """
    return min(bounds, default=END)


def aligned(bound: int, granularity: int, origin: int = 0) -> int:
    """The greatest ``origin + k*granularity`` that is <= ``bound``: what a consumer can use of it.

    >>> aligned(13, 5), aligned(-1, 5), aligned(13, 5, 1)
    (10, -5, 11)
    """
    if bound <= START or bound >= END:
        return bound
    return max(START, origin + (bound - origin) // granularity * granularity)


def advanced(old: Bounds, new: Bounds) -> dict[str, int]:
    """The bounds of ``new`` that say more than ``old``: what is worth telling downstream.

    >>> advanced({"a": 3, "b": 5}, {"a": 4, "b": 5, "c": START})
    {'a': 4}
    """
    return {name: v for name, v in new.items() if v > old.get(name, START)}


def topological(outputs: Iterable[Node]) -> tuple[Node, ...]:
    """All operators below ``outputs``, children first, each shared one once.

    Operators are told apart by identity. The order depends on the trees alone, so that a position
    in it can serve as an operator's name across processes.
    """
    seen: set[int] = set()
    order: list[Node] = []

    def visit(node: Node) -> None:
        if id(node) in seen:
            return
        seen.add(id(node))
        for child in node.children:
            visit(child)
        order.append(node)

    for output in outputs:
        visit(output)
    return tuple(order)


def propagate(
    nodes: Sequence[Node],
    sources: Mapping[str, Bounds],
    holds: Mapping[int, Sequence[int]] | None = None,
) -> list[dict[str, int]]:
    """The output bounds of every operator, in the order of ``nodes`` (children first).

    ``sources`` gives the bounds of each source, by its name and column. The result is keyed by
    position, not by object, since positions survive pickling into tasks and JSON. ``holds`` gives, by
    position too, what joins may promise of their inputs while rows of these wait to be joined, and
    aggregates while results wait to come out.
    """
    found: dict[int, dict[str, int]] = {}
    for position, node in enumerate(nodes):
        inputs = [found[id(c)] for c in node.children]
        if isinstance(node, Join | Aggregate) and holds and position in holds:
            columns = node.on if isinstance(node, Join) else (node.window.on,)
            held = zip(inputs, columns, holds[position], strict=True)
            inputs = [{**b, on: min(b[on], h)} for b, on, h in held]
        found[id(node)] = output_bounds(node, inputs, sources)
    return [found[id(node)] for node in nodes]


def output_bounds(
    node: Node, inputs: Sequence[Bounds], sources: Mapping[str, Bounds]
) -> dict[str, int]:
    """The bounds of one operator's output, from those of its inputs."""
    if isinstance(node, Source):
        given = sources.get(node.name, {})
        return {t.name: given.get(t.name, START) for t in node.times}
    if isinstance(node, Late):
        # Late rows break the source's bounds, so only the end of the stream is progress here.
        ended = all(v >= END for v in inputs[0].values())
        return {t.name: END if ended else START for t in node.times}
    if isinstance(node, Project):
        return {out: shift(inputs[0][name], ticks) for out, name, ticks in node.origins}
    if isinstance(node, Union):
        # Progressing columns correspond by position; the first input names them.
        columns = [[b[t.name] for t in c.times] for c, b in zip(node.inputs, inputs, strict=True)]
        return {t.name: minimum(c[i] for c in columns) for i, t in enumerate(node.times)}
    if isinstance(node, Aggregate):
        pairs = zip(node.times, node.windows, strict=True)
        return {t.name: result_bound(inputs[0][w.on], w) for t, w in pairs}
    if isinstance(node, Join):
        return _join_bounds(node, [b[on] for b, on in zip(inputs, node.on, strict=True)])
    if isinstance(node, Sort):
        # Rows that wait for their turn by one time may be old by another.
        known = {t.name: inputs[0][t.name] for t in node.times}
        return {n: v if n == node.on or v >= END else START for n, v in known.items()}
    if isinstance(node, Filter | Dedup):
        return {t.name: inputs[0][t.name] for t in node.times}
    raise AnalysisError(
        "UNKNOWN_OPERATOR",
        f"no rule maps bounds through {type(node).__name__}",
        hint="add its rule to slackwater.semantics.bounds.output_bounds",
        operator=type(node).__name__,
    )


def _join_bounds(node: Join, bounds: Sequence[int]) -> dict[str, int]:
    """Bounds of a join's own time (the greatest), of the least, and of each input's time that is kept."""
    single = join.time_bounds(node.within, bounds)
    kept = dict(zip(node.time_names, single, strict=True))
    found = {}
    for time in node.times:
        # An input that is a join itself may have a greatest time of its own.
        if time.name in kept:
            found[time.name] = kept[time.name]
        elif time.kind == "greatest":
            found[time.name] = join.max_bound(node.within, bounds, node.how)
        else:
            found[time.name] = join.min_bound(node.within, bounds)
    return found
