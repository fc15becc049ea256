"""The oracle: what a query answers, by brute force from the definitions.

It keeps every row for ever and computes each window from its extent; there are no panes, no partial
aggregates, no state to purge. Rows are dicts; times are ints (microseconds, or the column's unit).
Slow on purpose; it is what the kernels and the engine are compared with.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

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
from slackwater.model.window import JointWindow, TimeWindow
from slackwater.semantics.limits import END, START
from slackwater.testing.oracle.closing import Closing
from slackwater.testing.oracle.expressions import compile_expression
from slackwater.testing.oracle.join_node import JoinNode
from slackwater.testing.oracle.patterns import Exclusions
from slackwater.testing.oracle.progress import History, bound
from slackwater.testing.oracle.types import Item, Row, StepResult, Window
from slackwater.testing.oracle.window_types import bound_of_results
from slackwater.testing.oracle.windows import end_of, first_not_reached, time_of

__all__ = ["Oracle", "StepResult", "Window"]


@dataclass
class Oracle(Closing):
    """Runs outputs of a query step by step; a step is one micro-batch.

    Examples
    --------
    >>> from slackwater.model.policy import Ordered
    >>> from slackwater.model.schema import Field
    >>> from slackwater.model.time import TimeColumn
    >>> s = Source((Field("ts", "bigint"),), (TimeColumn("ts", "long", None),), "s",
    ...            policies=(Ordered(),))
    >>> oracle = Oracle({"out": Sort(s.schema, s.times, s, "ts")})
    >>> oracle.step({"s": [{"ts": 5}, {"ts": 3}]}).outputs
    {'out': [{'ts': 3}]}
    >>> oracle.step({}, end=True).outputs
    {'out': [{'ts': 5}]}
    """

    outputs: Mapping[str, Node]
    nodes: list[Node] = field(init=False)
    steps: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.nodes = []
        for output in self.outputs.values():
            self._collect(output)
        self._sources: dict[str, History] = {}
        for node in self.nodes:
            if isinstance(node, Source):
                if node.name in self._sources and self._sources[node.name].source != node:
                    raise AnalysisError(
                        "DUPLICATE_STREAM",
                        f"two different streams are named '{node.name}'",
                        hint="give each its own name=",
                        name=node.name,
                    )
                self._sources[node.name] = History(node)
        # By id of a node: all that ever came out, and the bounds after each step.
        self._items: dict[int, list[Item]] = {id(n): [] for n in self.nodes}
        self._bounds: dict[int, list[dict[str, int]]] = {id(n): [] for n in self.nodes}
        self._joins = {id(n): JoinNode(n) for n in self.nodes if isinstance(n, Join)}
        self._exclusions = Exclusions(
            self._sources, lambda node, steps: self._bounds[id(node)][steps - 1]
        )
        self._late_rows: dict[str, list[Row]] = {}
        self._late: dict[str, dict[str, int]] = {}
        self._dropped = 0

    def step(
        self,
        rows: Mapping[str, Sequence[Mapping[str, Any]]],
        now: int | None = None,
        end: bool | Collection[str] = False,
    ) -> StepResult:
        """One micro-batch: all its rows through the plan, then its new bounds.

        ``now`` is the clock in microseconds, None for none. ``end`` ends all streams, or those named,
        with this batch. A late row on a stream with ``late="raise"`` raises `LateRowError`, and the
        step has not happened.
        """
        for name in rows:
            if name not in self._sources:
                raise AnalysisError(
                    "STREAM_NOT_FOUND",
                    f"rows for '{name}', which the query does not read",
                    hint=f"its streams are: {', '.join(self._sources)}",
                    name=name,
                )
        self._check_raise(rows, now)
        self._late_rows, self._late, self._dropped = {}, {}, 0
        for name, history in self._sources.items():
            ended = end if isinstance(end, bool) else name in end
            history.add(rows.get(name, ()), now, ended)
            self._judge(name, history)
        for node in self.nodes:
            self._bounds[id(node)].append(self._node_bounds(node))
            self._items[id(node)] += self._new_items(node)
        self.steps += 1
        return StepResult(
            {
                name: [i.row for i in self._last(n) if not n.times or _first(n) not in i.kept_out]
                for name, n in self.outputs.items()
            },
            self._late_rows,
            {n.name: self._bounds[id(n)][-1] for n in self.nodes if isinstance(n, Source)},
            {name: self._bounds[id(n)][-1] for name, n in self.outputs.items()},
            self._late,
            self._dropped,
        )

    def _collect(self, node: Node) -> None:
        if not any(n is node for n in self.nodes):
            for child in node.children:
                self._collect(child)
            self.nodes.append(node)

    def _last(self, node: Node) -> list[Item]:
        return [i for i in self._items[id(node)] if i.step == self.steps - 1]

    # --- bounds ------------------------------------------------------------------------------------

    def _node_bounds(self, node: Node) -> dict[str, int]:
        below = [self._bounds[id(c)][-1] for c in node.children]
        if isinstance(node, Source):
            history = self._sources[node.name]
            return {
                t.name: bound(history, t, p, self._before(node, t.name))
                for t, p in zip(node.times, node.policies, strict=True)
            }
        if isinstance(node, Late):
            ended = self._sources[node.source.name].ended
            return {t.name: END if ended else START for t in node.times}
        if isinstance(node, Project):
            return {
                out: v if (v := below[0][name]) in (START, END) else v + ticks
                for out, name, ticks in node.origins
            }
        if isinstance(node, Join):
            own = [b[on] for b, on in zip(below, node.on, strict=True)]
            return self._joins[id(node)].bounds(own)
        if isinstance(node, Union):
            return {
                t.name: min(b[c.times[i].name] for c, b in zip(node.inputs, below, strict=True))
                for i, t in enumerate(node.times)
            }
        if isinstance(node, Aggregate):
            if isinstance(node.window, JointWindow):
                ends = zip(node.times, node.window.windows, strict=True)
                return {t.name: _next_end(below[0][w.on], w) for t, w in ends}
            v = below[0][node.window.on]
            if not isinstance(node.window, TimeWindow):
                return {_first(node): bound_of_results(v, node.window)}
            return {_first(node): _next_end(v, node.window)}
        return {t.name: below[0][t.name] for t in node.times}

    # --- rows --------------------------------------------------------------------------------------

    def _new_items(self, node: Node) -> list[Item]:
        """What comes out of an operator at this step."""
        if isinstance(node, Source):
            return self._source_items(node)
        if isinstance(node, Late):
            rows = self._late_rows[node.source.name]
            return [Item({f.name: r.get(f.name) for f in node.schema}, self.steps) for r in rows]
        if isinstance(node, Filter):
            keep = compile_expression(node.condition.sql)
            return [i for i in self._arriving(node.child) if keep(i.row) is True]
        if isinstance(node, Project):
            return [self._projected(node, i) for i in self._arriving(node.child)]
        if isinstance(node, Union):
            return [i for c in node.inputs for i in self._united(node, c)]
        if isinstance(node, Join):
            return self._joined(node)
        if isinstance(node, Dedup):
            return self._first_ones(node)
        if isinstance(node, Sort):
            return self._sorted(node)
        if isinstance(node, Aggregate):
            if isinstance(node.window, JointWindow):
                return self._closed_boxes(node)
            if not isinstance(node.window, TimeWindow):
                return self._completed(node)
            return self._closed_windows(node)
        raise AnalysisError(
            "UNKNOWN_OPERATOR", f"the oracle does not know {type(node).__name__}", hint="teach it"
        )

    def _arriving(self, child: Node) -> list[Item]:
        return [i for i in self._items[id(child)] if i.step == self.steps]

    def _source_items(self, node: Source) -> list[Item]:
        history = self._sources[node.name]
        items = []
        for a in history.arrivals:
            if a.step == self.steps and not a.punctuation:
                out = frozenset(
                    column
                    for column, (why, _) in self._reasons(history, a.row).items()
                    if why != "late" or node.late == "drop"
                )
                items.append(
                    Item({f.name: a.row.get(f.name) for f in node.schema}, self.steps, out)
                )
        return items

    def _projected(self, node: Project, item: Item) -> Item:
        row = {c.name: compile_expression(c.expr.sql)(item.row) for c in node.columns}
        out = frozenset(new for new, old, _ in node.origins if old in item.kept_out)
        return Item(row, self.steps, out)

    def _united(self, node: Union, child: Node) -> list[Item]:
        to = dict(zip((t.name for t in child.times), (t.name for t in node.times), strict=False))
        names = [f.name for f in node.schema]
        return [
            Item(
                dict(zip(names, (i.row[f.name] for f in child.schema), strict=True)),
                self.steps,
                frozenset(to[c] for c in i.kept_out if c in to),
            )
            for i in self._arriving(child)
        ]

    def _joined(self, node: Join) -> list[Item]:
        sides = list(zip(node.inputs, node.on, strict=True))
        rows = [[i for i in self._arriving(c) if on not in i.kept_out] for c, on in sides]
        bounds = [self._bounds[id(c)][-1][on] for c, on in sides]
        return [Item(r, self.steps) for r in self._joins[id(node)].step(rows, bounds)]

    def _first_ones(self, node: Dedup) -> list[Item]:
        before = self._before(node.child, node.on)
        frontier = before
        if node.within is not None and node.on not in node.subset and before not in (START, END):
            frontier = before - node.within
        kept = list(self._items[id(node)])
        new: list[Item] = []
        arriving = [i for i in self._arriving(node.child) if node.on not in i.kept_out]
        for item in sorted(arriving, key=lambda i: time_of(i.row, node.on)):
            subset = {c: item.row[c] for c in node.subset}
            gone = self._exclusions.any and self._exclusions.excluded(
                node.child, subset, self.steps
            )
            if time_of(item.row, node.on) < frontier or gone:
                self._dropped += 1
            elif not any(self._repeats(node, item.row, k.row) for k in kept):
                kept.append(item)
                new.append(item)
        return new

    def _repeats(self, node: Dedup, row: Row, earlier: Row) -> bool:
        if any(row[c] != earlier[c] for c in node.subset):
            return False
        apart = abs(time_of(row, node.on) - time_of(earlier, node.on))
        return node.within is None or apart <= node.within

    def _sorted(self, node: Sort) -> list[Item]:
        before, after = self._before(node.child, node.on), self._bounds[id(node.child)][-1][node.on]
        for item in self._arriving(node.child):
            late = node.on not in item.kept_out and time_of(item.row, node.on) < before
            self._dropped += late
        # A row leaves at the first step whose bound passes it, if none had when it came.
        leaving = [
            i
            for i in self._items[id(node.child)]
            if node.on not in i.kept_out
            and before <= time_of(i.row, node.on)
            and (after >= END or time_of(i.row, node.on) < after)
        ]
        if before >= END:
            leaving = []
        leaving.sort(key=lambda i: time_of(i.row, node.on))
        return [Item(i.row, self.steps, i.kept_out) for i in leaving]


def _next_end(v: int, w: TimeWindow) -> int:
    """The time of the next result when the bound of its rows is ``v``."""
    return v if v in (START, END) else end_of(first_not_reached(v, w), w) - 1


def _first(node: Node) -> str:
    return node.times[0].name
