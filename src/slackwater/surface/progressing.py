"""Which columns of a projection still progress, and how their bounds follow from those below."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from slackwater.engine.analysis.analyse import Analyser
from slackwater.model.node import Aggregate, Node
from slackwater.model.schema import Named
from slackwater.model.time import TimeColumn
from slackwater.model.window import ByTuple, RowWindow, TimeWindow

Origin = tuple[str, str, int]
"""A column, the one below that it comes from, and by how many ticks it was moved."""


def progressing(
    node: Node, analyser: Analyser, columns: Sequence[Named]
) -> tuple[tuple[TimeColumn, ...], tuple[Origin, ...]]:
    """The progressing ones of ``columns`` over ``node``, in the order of the node's own."""
    span = window_range(node)
    order = [t.name for t in node.times]
    # Parts of a greatest or least count even where they alone do not progress.
    by_name = {p.name: p for t in node.times for p in (*t.parts, t)}
    every: list[tuple[TimeColumn, Origin]] = []
    for c in columns:
        image = analyser.monotone(node.schema, c, tuple(by_name.values()), span)
        if image is None:
            continue
        origin, moved = image
        before = by_name[origin]
        time = replace(before, name=c.name)
        if before.kind == "window" and not c.expr.type.startswith("struct<"):
            kind: Any = "long" if before.integer else before.type
            time = TimeColumn(c.name, kind, before.unit)
        every.append((time, (c.name, origin, moved)))
    placed = [(order.index(o[1]), t, o) for t, o in every if o[1] in order]
    placed += _combined(node, order, every)
    placed.sort(key=lambda item: item[0])
    return tuple(t for _, t, _ in placed), tuple(o for _, _, o in placed)


def _combined(
    node: Node, order: Sequence[str], single: Sequence[tuple[TimeColumn, Origin]]
) -> list[tuple[int, TimeColumn, Origin]]:
    """The greatest and least of several columns, if all of them are kept and moved alike."""
    combined = []
    for time in node.times:
        kept = [[(t, o[2]) for t, o in single if o[1] == p.name] for p in time.parts]
        if not time.parts or not all(kept):
            continue
        parts, moves = zip(*(k[0] for k in kept), strict=True)
        if len(set(moves)) == 1:
            name = f"{time.kind}({', '.join(p.name for p in parts)})"
            new = replace(time, name=name, parts=parts)
            combined.append((order.index(time.name), new, (name, time.name, moves[0])))
    return combined


def window_range(node: Node) -> int | None:
    """Length of the windows whose struct a stream carries, if it is known."""
    while node.children:
        if isinstance(node, Aggregate):
            return _range_of(node)
        node = node.children[0]
    return None


def _range_of(node: Aggregate) -> int | None:
    """Length of an aggregate's windows, where they all have the same."""
    w = node.window
    return w.range if isinstance(w, TimeWindow | RowWindow | ByTuple) else None
