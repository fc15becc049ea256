"""From a query's tree to what the tasks of a batch do.

A **path** leads from a producer (a source, its late rows, a stateful operator) through row operators to
one consumer (a stateful operator or an output). Unions vanish: they are several paths into one consumer.
Stateful operators stand on **levels**: level 0 are the sources, an operator is one level above its highest
producer; all operators of a level run in the same tasks, one task per partition-group, and a shuffle lies
between two levels. An output is written by the tasks of its producer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from slackwater.engine.plan.reserved import check_sources
from slackwater.errors import AnalysisError
from slackwater.kernels.rows.waiting import Places
from slackwater.kernels.windows.by_tuple import hidden
from slackwater.kernels.windows.partials_step import AggregateSpec
from slackwater.model.meaning import Meaning
from slackwater.model.node import (
    STATEFUL,
    Aggregate,
    Dedup,
    Filter,
    Join,
    Late,
    Node,
    Project,
    SharedPanes,
    SharedSort,
    Sort,
    Source,
    Union,
)
from slackwater.model.render import digest
from slackwater.model.rewrite import Rewrite
from slackwater.model.schema import Expr, Field, Named, column
from slackwater.model.window import ByTuple, TimeWindow, is_all_time
from slackwater.semantics.bounds import topological
from slackwater.semantics.cost import choose_plan
from slackwater.semantics.settings import resolve_source
from slackwater.semantics.windows import keeps_rows, plan_of

LOW_LEVEL = 0


@dataclass(frozen=True)
class Step:
    """One row operator on a path: a filter (``condition``) or a projection (``columns``)."""

    condition: Expr | None = None
    columns: tuple[Named, ...] = ()

    @property
    def expressions(self) -> tuple[Expr, ...]:
        """The expressions it evaluates."""
        if self.condition is not None:
            return (self.condition,)
        return tuple(c.expr for c in self.columns)


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
    def has_filter(self) -> bool:
        """Whether some row may be dropped on the way."""
        return any(s.condition is not None for s in self.steps)


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
    def on(self) -> str:
        """The progressing column of its first input."""
        return self.columns[0]

    @property
    def columns(self) -> tuple[str, ...]:
        """The progressing column of each input."""
        node = self.node
        if isinstance(node, SharedPanes):
            return tuple(r.window.on for _, r in node.readers)
        if isinstance(node, SharedSort):
            return tuple(r.on for _, r in node.readers)
        if isinstance(node, Aggregate):
            return (node.window.on,)
        if isinstance(node, Join):
            return node.on
        assert isinstance(node, (Dedup, Sort))
        return (node.on,)

    @property
    def producers(self) -> tuple[str, ...]:
        """Names under which its results leave: its own, or those of the operators that share its state."""
        if isinstance(self.node, SharedPanes | SharedSort):
            return tuple(n for n, _ in self.node.readers)
        return (self.id,)


@dataclass(frozen=True)
class Output:
    """A named result: the rows of ``node``."""

    name: str
    node: Node


@dataclass(frozen=True)
class Plan:
    """The whole query; see the module's text."""

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


def renumber(outputs: Sequence[Output], inputs: Mapping[int, int]) -> list[Output]:
    """The same outputs with the inputs of their sources renumbered; shared parts stay shared.

    A twin (see `Source.twin`) is named after the first output that reads it, so that it has the same name when
    the query starts again.
    """
    name, taken = "", set[str]()

    def changed(source: Source) -> Source:
        source = replace(source, input=inputs[source.input])
        if not source.twin:
            return source
        label = f"{source.twin}~{name}"
        while label in taken:
            label += "'"
        taken.add(label)
        return replace(source, name=label)

    rewrite, found = Rewrite(changed), []
    for output in outputs:
        name = output.name
        found.append(replace(output, node=rewrite(output.node)))
    return found


def build(
    outputs: Sequence[Output], *, ansi: bool, zone: str, window_plan: dict[str, str] | str = "auto"
) -> Plan:
    """Lay a query out on levels and paths."""
    nodes = topological([o.node for o in outputs])
    check_sources(nodes)
    names: list[str] = []
    by_id: dict[int, str] = {}
    counts: dict[str, int] = {}
    for node in nodes:
        # An operator is named by its meaning, so that its state is found again when other outputs come or go.
        name = (
            node.name
            if isinstance(node, Source)
            else f"{type(node).__name__.lower()}-{digest(node)}"
        )
        counts[name] = counts.get(name, 0) + 1
        if counts[name] > 1 and not isinstance(node, Source):
            name += f"-{counts[name]}"
        names.append(name)
        by_id[id(node)] = name
    sources = tuple(n for n in nodes if isinstance(n, Source))
    _check_names(sources, outputs)

    level: dict[str, int] = {}
    operators: list[Operator] = []
    paths: list[Path] = []

    def routes(consumer: str, node: Node, on: str, input: int = 0) -> int:
        highest = 0
        for found in _collect(node, on):
            name = by_id[id(found.producer)]
            highest = max(highest, level[name])
            fields = _raw_fields(found.producer)
            paths.append(
                Path(
                    len(paths), name, found.steps, consumer, found.time, fields, found.shift, input
                )
            )
        return highest

    for node, name in zip(nodes, names, strict=True):
        if isinstance(node, (Source, Late)):
            level[name] = LOW_LEVEL
        elif isinstance(node, STATEFUL):
            draft = Operator(name, node, 0)
            below = zip(node.children, draft.columns, strict=True)
            level[name] = 1 + max(routes(name, c, on, i) for i, (c, on) in enumerate(below))
            spec = None
            if isinstance(node, Aggregate):
                wanted = (
                    window_plan if isinstance(window_plan, str) else window_plan.get(name, "auto")
                )
                w = node.window
                if keeps_rows(wanted) and (not can_adapt(node) or has_patterns(sources)):
                    wanted = "auto"
                if wanted == "auto" and isinstance(w, TimeWindow):
                    wanted = choose_plan(w).plan
                spec = AggregateSpec(
                    tuple(Field(k.name, k.expr.type) for k in node.keys),
                    w,
                    node.primitives,
                    plan_of(w, wanted),  # type: ignore[arg-type]
                    ansi,
                    hidden(w) if isinstance(w, ByTuple) else (),
                )
            operators.append(replace(draft, level=level[name], spec=spec))
    for output in outputs:
        on = output.node.times[0].name if output.node.times else ""
        routes(f"out:{output.name}", output.node, on)
    plan = Plan(
        nodes, tuple(names), sources, tuple(operators), tuple(outputs), tuple(paths), ansi, zone
    )
    return _by_window(plan)


def _by_window(plan: Plan) -> Plan:
    """The plan with aggregates over strictly judged streams by window, not by pane."""
    operators = tuple(
        replace(op, spec=replace(op.spec, plan="wids"))
        if op.spec is not None
        and isinstance(op.spec.window, TimeWindow)
        and reads_strictly(plan, op)
        else op
        for op in plan.operators
    )
    return replace(plan, operators=operators)


def is_strict(plan: Plan) -> bool:
    """Whether some source's lateness is judged row by row."""
    return any(map(_judged_strictly, plan.sources))


def reads_strictly(plan: Plan, operator: Operator) -> bool:
    """Whether an operator gets rows that say which windows they may enter: a pane could not tell."""
    strict = {s.name for s in plan.sources if _judged_strictly(s)}
    return any(path.producer in strict for path in plan.paths_to(operator.id))


def _judged_strictly(source: Source) -> bool:
    return any(s.strict for s in resolve_source(source))


def has_patterns(sources: Sequence[Source]) -> bool:
    """Whether punctuation may close single groups, for which there must be partials of all of them."""
    return any(s.patterns for source in sources for s in resolve_source(source))


def can_adapt(node: Aggregate) -> bool:
    """Whether an aggregate has groups over windows of time, each of which may be kept in its own way."""
    w = node.window
    return isinstance(w, TimeWindow) and bool(node.keys) and not is_all_time(w)


class _Found(NamedTuple):
    producer: Node
    steps: tuple[Step, ...]
    time: str
    shift: int


def _collect(node: Node, on: str) -> list[_Found]:
    """All producers that lead to ``node``, with the row steps between and where column ``on`` comes from."""
    if isinstance(node, Filter):
        step = Step(condition=node.condition)
        return [f._replace(steps=(*f.steps, step)) for f in _collect(node.child, on)]
    if isinstance(node, Project):
        step = Step(columns=node.columns)
        below, shift = next(((i, s) for o, i, s in node.origins if o == on), ("", 0))
        return [
            f._replace(steps=(*f.steps, step), shift=f.shift + shift)
            for f in _collect(node.child, below)
        ]
    if isinstance(node, Union):
        position = next((i for i, t in enumerate(node.times) if t.name == on), 0)
        found = []
        for child in node.inputs:
            found.extend(_collect(child, child.times[position].name if child.times else ""))
        return found
    if isinstance(node, (Aggregate, Join)):
        return [_Found(node, (finishing(node),), on, 0)]
    return [_Found(node, (), on, 0)]


def finishing(node: Aggregate | Join) -> Step:
    """The projection from what an operator's kernel gives to the user's columns."""
    if isinstance(node, Join):
        return Step(columns=node.outputs)
    fixed = [f for f in node.schema if f.name not in {o.name for o in node.outputs}]
    return Step(columns=(*(Named(f.name, column(f.name, f.type)) for f in fixed), *node.outputs))


def _raw_fields(producer: Node) -> tuple[Field, ...]:
    """Columns of a producer's table before the path's steps."""
    if isinstance(producer, Aggregate):
        fixed = [f for f in producer.schema if f.name not in {o.name for o in producer.outputs}]
        return (*fixed, *(Field(p.column, p.type) for p in producer.primitives))
    if isinstance(producer, Join):
        return producer.raw_fields
    return producer.schema


def _check_names(sources: Sequence[Source], outputs: Sequence[Output]) -> None:
    for kind, names in (
        ("stream", [s.name for s in sources]),
        ("output", [o.name for o in outputs]),
    ):
        twice = {n for n in names if names.count(n) > 1}
        if twice:
            raise AnalysisError(
                "DUPLICATE_NAME",
                f"two {kind}s are called {sorted(twice)[0]!r}",
                hint="give each stream a name= and each output a queryName of its own",
                name=sorted(twice)[0],
            )
