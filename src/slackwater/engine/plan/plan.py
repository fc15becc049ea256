"""A query as the tasks of a batch see it: values, which `layout` makes.

A **path** leads from a producer (a source, its late rows, a stateful operator) through row operators to
one consumer (a stateful operator or an output). Unions vanish: they are several paths into one consumer.
Stateful operators stand on **levels**: level 0 are the sources, an operator is one level above its highest
producer; all operators of a level run in the same tasks, one task per partition-group, and a shuffle lies
between two levels. An output is written by the tasks of its producer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from slackwater.engine.plan.operators.registry import stateful
from slackwater.engine.plan.steps import LookupStep, Step, Stretch, fields_after, stretches
from slackwater.kernels.rows.waiting import Places
from slackwater.kernels.windows.partials_step import AggregateSpec
from slackwater.model.meaning import Meaning
from slackwater.model.node import Node, Source
from slackwater.model.schema import Expr, Field

if TYPE_CHECKING:
    from slackwater.engine.plan.reading import Reading


@dataclass(frozen=True)
class Path:
    """Rows on their way.

    ``time`` is the producer's column by which the consumer progresses; the consumer's own column is that
    time plus ``shift`` ticks. ``input`` says which of the consumer's inputs the rows belong to.
    """

    id: int
    producer: str
    steps: tuple[Step, ...]
    consumer: str
    time: str
    fields: tuple[Field, ...]
    shift: int = 0
    input: int = 0

    @property
    def blocked_by(self) -> Expr | None:
        """The first expression that the column engine cannot evaluate, or None."""
        return next((e for s in self.steps for e in s.expressions if e.duck is None), None)

    @property
    def stretches(self) -> tuple[Stretch, ...]:
        """Its steps, cut where another engine takes over."""
        return stretches(self.steps)

    @property
    def begins_in_spark(self) -> bool:
        """Whether Spark evaluates its first steps."""
        return bool(self.steps) and self.stretches[0].by_spark

    @property
    def behind_first(self) -> Path:
        """The rest of the path, behind the steps that one engine evaluates."""
        first = self.stretches[0].steps
        rest = self.steps[len(first) :]
        return replace(self, steps=rest, fields=fields_after(first, self.fields))

    @property
    def lookups(self) -> tuple[LookupStep, ...]:
        """The steps that hold rows against a relation."""
        return tuple(s for s in self.steps if isinstance(s, LookupStep))

    @property
    def has_filter(self) -> bool:
        """Whether some row may be dropped on the way."""
        return any(s.drops_rows for s in self.steps)


@dataclass(frozen=True)
class Operator:
    """A stateful operator: its id is stable over restarts of the same query.

    ``places`` say where rows wait that several sorts share, in the batch at hand.
    """

    id: str
    node: Node
    level: int
    spec: AggregateSpec | None = None
    places: Places | None = None

    @property
    def is_aggregate(self) -> bool:
        """Whether it computes aggregates."""
        return self.spec is not None

    @property
    def aggregation(self) -> AggregateSpec:
        """What the kernel of an aggregate computes."""
        assert self.spec is not None, f"{self.id} is no aggregate"
        return self.spec

    @property
    def on(self) -> str:
        """The progressing column of its first input."""
        return self.columns[0]

    @property
    def columns(self) -> tuple[str, ...]:
        """The progressing column of each input."""
        return stateful(self.node).times(self.node)

    @property
    def producers(self) -> tuple[str, ...]:
        """Names under which its results leave: its own, or those of the operators that share its state."""
        return stateful(self.node).results(self.node, self.id)


@dataclass(frozen=True)
class Output:
    """A named result: the rows of ``node``."""

    name: str
    node: Node


@dataclass(frozen=True)
class Plan:
    """The whole query; see the module's text.

    ``readings`` say how each input is read (`reading`); a plan that has none is not complete.
    """

    nodes: tuple[Node, ...]
    names: tuple[str, ...]
    sources: tuple[Source, ...]
    operators: tuple[Operator, ...]
    outputs: tuple[Output, ...]
    paths: tuple[Path, ...]
    ansi: bool
    zone: str
    before: Plan | None = None
    meaning: Meaning | None = None
    readings: tuple[Reading, ...] = ()

    @property
    def unshared(self) -> Plan:
        """The plan in which every aggregate is an operator of its own, with its own paths."""
        return self if self.before is None else self.before

    @cached_property
    def top(self) -> int:
        """The highest level; at least 1, since level 1 computes the bounds."""
        return max([1, *(op.level for op in self.operators)])

    def operator(self, id: str) -> Operator | None:
        """The operator of that id, or None."""
        return next((op for op in self.operators if op.id == id), None)

    def path(self, id: int) -> Path:
        """The path of that id."""
        return next(p for p in self.paths if p.id == id)

    def paths_from(self, producer: str) -> Iterator[Path]:
        """Paths that start at ``producer``."""
        return (p for p in self.paths if p.producer == producer)

    def paths_to(self, consumer: str) -> Iterator[Path]:
        """Paths that end at ``consumer``."""
        return (p for p in self.paths if p.consumer == consumer)

    def at(self, level: int) -> tuple[Operator, ...]:
        """Operators of a level."""
        return tuple(op for op in self.operators if op.level == level)

    def node(self, name: str) -> Node:
        """The node of that name."""
        return self.nodes[self.names.index(name)]

    def name_of(self, node: Node) -> str:
        """Name of a node (source name, operator id, or a running name)."""
        return next(n for m, n in zip(self.nodes, self.names, strict=True) if m is node)
