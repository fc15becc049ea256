"""From a query's tree to its plan: levels, paths, and what each operator computes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from slackwater.engine.plan.known import NOTHING, Known, operator_names
from slackwater.engine.plan.operators import aggregate
from slackwater.engine.plan.operators.registry import ROW_OPERATORS, producer
from slackwater.engine.plan.plan import Operator, Output, Path, Plan
from slackwater.engine.plan.reserved import check_sources
from slackwater.engine.plan.sources import has_patterns, judged_strictly
from slackwater.engine.plan.steps import Step
from slackwater.engine.plan.unify import unified
from slackwater.errors import AnalysisError
from slackwater.model.meaning import Meaning
from slackwater.model.node import Aggregate, Late, Node, Source
from slackwater.semantics.bounds import topological

LOW_LEVEL = 0


def build(
    outputs: Sequence[Output],
    *,
    ansi: bool,
    zone: str,
    window_plan: dict[str, str] | str = "auto",
    meaning: Meaning | None = None,
    known: Known = NOTHING,
) -> Plan:
    """Lay a query out on levels and paths.

    ``window_plan`` is what the user asks for, of all aggregates or of each by its name. ``known`` is the query as its checkpoint
    knows it, by whose names operators are called.
    """
    for node in topological([o.node for o in outputs]):
        if type(node) not in ROW_OPERATORS:
            producer(node)  # a node that nobody knows is refused: it is not a source
    outputs = unified(outputs)
    nodes = topological([o.node for o in outputs])
    check_sources(nodes)
    by_id = {id(n): n.name for n in nodes if isinstance(n, Source)}
    by_id.update(operator_names(outputs, known))
    names = [by_id[id(node)] for node in nodes]
    sources = tuple(n for n in nodes if isinstance(n, Source))
    _check_names(sources, outputs)

    level: dict[str, int] = {}
    operators: list[Operator] = []
    paths: list[Path] = []

    def routes(consumer: str, node: Node, on: str, input: int = 0) -> list[Path]:
        added: list[Path] = []
        for way in _ways(node, on):
            name, fields = by_id[id(way.producer)], producer(way.producer).raw_fields(way.producer)
            at = len(paths) + len(added)
            added.append(Path(at, name, way.steps, consumer, way.time, fields, way.shift, input))
        paths.extend(added)
        return added

    for node, name in zip(nodes, names, strict=True):
        if type(node) in ROW_OPERATORS:
            continue
        if isinstance(node, Source | Late):
            level[name] = LOW_LEVEL
            continue
        # All others hold state: one without an entry is refused, not taken for a source.
        draft = Operator(name, node, LOW_LEVEL)
        below = zip(node.children, draft.columns, strict=True)
        mine = [path for i, (c, on) in enumerate(below) for path in routes(name, c, on, i)]
        level[name] = 1 + max((level[path.producer] for path in mine), default=LOW_LEVEL)
        spec = None
        if isinstance(node, Aggregate):
            wanted = window_plan if isinstance(window_plan, str) else window_plan.get(name, "auto")
            feeding = {path.producer for path in mine}
            spec = aggregate.spec(
                node, wanted, ansi=ansi, patterns=has_patterns(sources),
                strict=any(judged_strictly(s) for s in sources if s.name in feeding),
            )  # fmt: skip
        operators.append(replace(draft, level=level[name], spec=spec))
    for output in outputs:
        on = output.node.times[0].name if output.node.times else ""
        routes(f"out:{output.name}", output.node, on)
    return Plan(
        nodes, tuple(names), sources, tuple(operators), tuple(outputs), tuple(paths), ansi, zone,
        meaning=meaning,
    )  # fmt: skip


class _Way(NamedTuple):
    """A way to a node: where it starts, the steps on it, and the producer's column of the wanted time."""

    producer: Node
    steps: tuple[Step, ...]
    time: str
    shift: int


def _ways(node: Node, on: str) -> list[_Way]:
    """All ways that lead to ``node``, with where column ``on`` comes from."""
    entry = ROW_OPERATORS.get(type(node))
    if entry is None:
        return [_Way(node, producer(node).finishing(node), on, 0)]
    return [
        way._replace(steps=(*way.steps, *below.steps), shift=way.shift + below.shift)
        for below in entry.below(node, on)
        for way in _ways(below.child, below.on)
    ]


def _check_names(sources: Sequence[Source], outputs: Sequence[Output]) -> None:
    for kind, names in (
        # Also of twins: an input has its number by the name that the user gave.
        ("stream", [n for n, _ in {(s.given_name, s.input) for s in sources}]),
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
