"""The oracle: what a query answers, by brute force from the definitions.

It keeps every row for ever and computes each window from its extent; there are no panes, no partial
aggregates, no state to purge. Rows are dicts; times are ints (microseconds, or the column's unit).
Slow on purpose; it is what the kernels and the engine are compared with.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from slackwater.errors import AnalysisError
from slackwater.model.node import Join, Lookup, Node, Source
from slackwater.model.unnamed_time import UNNAMED
from slackwater.testing.oracle.join_node import JoinNode
from slackwater.testing.oracle.late import check_raise, judge
from slackwater.testing.oracle.operators.common import Coming
from slackwater.testing.oracle.operators.registry import OPERATORS
from slackwater.testing.oracle.patterns import Exclusions
from slackwater.testing.oracle.progress import History
from slackwater.testing.oracle.run import BoundOf, Limits, Run
from slackwater.testing.oracle.types import Item, StepResult, Window

__all__ = ["Oracle", "StepResult", "Window"]


class Oracle(Run):
    """Runs outputs of a query step by step; a step is one micro-batch.

    Examples
    --------
    >>> from slackwater.model.node import Sort, Source
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

    def __init__(self, outputs: Mapping[str, Node]) -> None:
        self.outputs = outputs
        self.steps = 0
        self.nodes = []
        for output in self.outputs.values():
            self._collect(output)
        self.histories = {}
        for node in self.nodes:
            if isinstance(node, Source):
                if node.name in self.histories and self.histories[node.name].source != node:
                    raise AnalysisError(
                        "DUPLICATE_STREAM",
                        f"two different streams are named '{node.name}'",
                        hint="give each its own name=",
                        name=node.name,
                    )
                self.histories[node.name] = History(node)
        self.items = {id(n): [] for n in self.nodes}
        self.bounds = {id(n): [] for n in self.nodes}
        self.joins = {id(n): JoinNode(n) for n in self.nodes if isinstance(n, Join)}
        self.tables = {n.relation.name: [] for n in self.nodes if isinstance(n, Lookup)}
        self.exclusions = Exclusions(
            self.histories, lambda node, steps: self.bounds[id(node)][steps - 1]
        )
        self.late_rows = {}
        self.late = {}
        self.dropped = 0
        self.judged = {}
        self.may_come = self._may_come
        self.closed = {}

    def step(
        self,
        rows: Mapping[str, Sequence[Mapping[str, Any]]],
        now: int | None = None,
        end: bool | Collection[str] = False,
        relations: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
    ) -> StepResult:
        """One micro-batch: all its rows through the plan, then its new bounds.

        ``now`` is the clock in microseconds, None for none. ``end`` ends all streams, or those named,
        with this batch. ``relations`` are the rows of each relation in the version of this step. A late row on a stream with ``late="raise"`` raises `LateRowError`, and the
        step has not happened.
        """
        for name in rows:
            if name not in self.histories:
                raise AnalysisError(
                    "STREAM_NOT_FOUND",
                    f"rows for '{name}', which the query does not read",
                    hint=f"its streams are: {', '.join(self.histories)}",
                    name=name,
                )
        check_raise(self, rows, now)
        self.late_rows, self.late, self.dropped = {}, {}, 0
        for name, versions in self.tables.items():
            versions.append([dict(r) for r in (relations or {})[name]])
        for name, history in self.histories.items():
            ended = end if isinstance(end, bool) else name in end
            history.add(rows.get(name, ()), now, ended)
            judge(self, name, history)
        for node in self.nodes:
            definition = OPERATORS[type(node)]
            self.bounds[id(node)].append(definition.bounds(node, self))
            self.items[id(node)] += self.leaving(node, definition.items(node, self))
        self.steps += 1
        return StepResult(
            {
                name: [i.row for i in self._last(n) if _first(n) not in i.kept_out]
                for name, n in self.outputs.items()
            },
            self.late_rows,
            {n.name: self.bounds[id(n)][-1] for n in self.nodes if isinstance(n, Source)},
            {name: self.bounds[id(n)][-1] for name, n in self.outputs.items()},
            self.late,
            self.dropped,
        )

    def leaving(self, node: Node, items: list[Item]) -> list[Item]:
        """What others get of the rows that come out of an operator at this step: all, by definition."""
        return items

    def _collect(self, node: Node) -> None:
        if not any(n is node for n in self.nodes):
            for child in node.children:
                self._collect(child)
            self.nodes.append(node)

    def _last(self, node: Node) -> list[Item]:
        return [i for i in self.items[id(node)] if i.step == self.steps - 1]

    def _may_come(self, node: Node, limits: Limits, bound: BoundOf) -> bool:
        def below(child: Node, limits: Limits) -> bool:
            return OPERATORS[type(child)].may_come(child, limits, coming)

        coming = Coming(below, bound)
        return below(node, limits)


def _first(node: Node) -> str:
    return node.times[0].name if node.times else UNNAMED
