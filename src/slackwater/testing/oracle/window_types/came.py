"""Rows as windows see them: when they came, and the bound in force at that moment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from slackwater.model.node import Aggregate
from slackwater.semantics.limits import END, START
from slackwater.testing.oracle.expressions import compile_expression
from slackwater.testing.oracle.results import hashable, result
from slackwater.testing.oracle.run import Run
from slackwater.testing.oracle.types import Item, Row
from slackwater.testing.oracle.types import Window as Extent
from slackwater.testing.oracle.windows import time_of

if TYPE_CHECKING:
    from slackwater.testing.oracle.patterns import Exclusions


class Came(NamedTuple):
    """A row, when it came, its group, and the bound in force at that moment."""

    row: Row
    time: int
    key: tuple[Any, ...]
    step: int
    bound: int


class Completing(NamedTuple):
    """A window that this step completes, for one group."""

    wid: int | None
    extent: Extent
    key: tuple[Any, ...]
    rows: list[Row]


Given = Callable[[], "dict[str, Any]"]
"""Gives the row that is asked about, as it reaches the aggregate."""

Completed = Callable[[Any, Sequence[Came], Sequence[int], Sequence[str]], list[Completing]]
"""The windows of a type that the last step completes: the window, all rows, the bounds after each step, names of keys."""

OfGroup = Callable[[Any, "tuple[Any, ...]", "list[Came]", int, int], list[Completing]]
"""The windows of one group: the window, the group's key, its rows, the bounds before and after the last step."""


def by_key(came: Sequence[Came]) -> dict[tuple[Any, ...], list[Came]]:
    """The rows of each group."""
    groups: dict[tuple[Any, ...], list[Came]] = {}
    for c in came:
        groups.setdefault(c.key, []).append(c)
    return groups


def by_group(of_group: OfGroup) -> Completed:
    """Windows of a type that are those of each group, made from its rows and the last two bounds alone."""

    def completed(
        w: Any, came: Sequence[Came], bounds: Sequence[int], key_names: Sequence[str]
    ) -> list[Completing]:
        before, after = ([START, *bounds])[-2:]
        groups = by_key(came).items()
        return [f for key, mine in groups for f in of_group(w, key, mine, before, after)]

    return completed


def in_order(mine: Sequence[Came], order: Sequence[str]) -> list[Came]:
    """Rows in their order of arrival."""

    def place(c: Came) -> Any:
        return (c.step, *(c.row[o] for o in order)) if order else (c.step, c.time)

    return sorted(mine, key=place)


def completed_results(
    node: Aggregate, run: Run, completed: Completed, per: Sequence[str] | None = None
) -> list[Item]:
    """Results of a type that looks at all rows that ever came; of ``per`` rather than all keys windows are made."""
    w, child = node.window, node.child
    keys = [compile_expression(k.expr.sql) for k in node.keys]
    bounds = [b[w.on] for b in run.bounds[id(child)]]
    came = [
        Came(
            i.row,
            time_of(i.row, w.on),
            tuple(hashable(k(i.row)) for k in keys),
            i.step,
            bounds[i.step - 1] if i.step else START,
        )
        for i in run.items[id(child)]
        if w.on not in i.kept_out
    ]
    names = [k.name for k in node.keys]
    found = []
    for group, ended in _ended_groups(node, run, came, per):
        # For a group that punctuation has ended, the stream has.
        own = [END if e else b for e, b in zip(ended, bounds, strict=True)]
        open_ones = [c for c in group if not (c.step and ended[c.step - 1])]
        found += completed(w, open_ones, own, names)
    return [Item(result(node, f.wid, f.extent, f.key, f.rows), run.steps) for f in found]


def _ended_groups(
    node: Aggregate, run: Run, came: list[Came], per: Sequence[str] | None
) -> list[tuple[list[Came], list[bool]]]:
    """Rows that are in windows together, and after which steps punctuation had ended them."""
    steps = range(1, run.steps + 2)
    if not run.exclusions.any:
        return [(came, [False for _ in steps])]
    groups: dict[tuple[Any, ...], list[Came]] = {}
    for c in came:
        named = zip(node.keys, c.key, strict=True)
        part = tuple((k.name, v) for k, v in named if per is None or k.name in per)
        groups.setdefault(part, []).append(c)
    return [
        (rows, [run.exclusions.ended(node, dict(part), n) for n in steps])
        for part, rows in groups.items()
    ]


def excluded_group(node: Aggregate, row: Row, steps: int, ask: Exclusions) -> bool:
    """No later result is of a group of which no row can come."""
    return ask.ended(node, row, steps)
