"""A query as its checkpoint knows it: which number each stream's input has, and what the operators of each output are called.

State is found by name. A name that depends on an operator's meaning alone is found again whatever else the query has. But
an operator whose settings may change is told from others of the same text by the outputs that read it alone (two joins that hold
rows for a minute and for an hour), and so is a stream that is there for a slack of its own (see `Source.twin`). So the
checkpoint keeps, with each output, the names that its text does not give.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from slackwater.engine.plan.operators.registry import ROW_OPERATORS
from slackwater.engine.plan.plan import Output, Plan
from slackwater.model.node import Node, Pace, Source
from slackwater.model.render import digest
from slackwater.model.rewrite import Rewrite
from slackwater.semantics.bounds import topological

Names = Mapping[str, Mapping[str, Sequence[str]]]
"""By output: the names of operators of one text, or of twins of one stream, in the order of the output's tree."""


@dataclass(frozen=True)
class Known:
    """What matters of the query's description: ``sources`` are the streams with the numbers of their inputs, ``outputs`` the
    texts of outputs, ``names`` those that their texts do not give.
    """

    sources: Mapping[str, int] = field(default_factory=dict)
    outputs: Mapping[str, Sequence[str]] = field(default_factory=dict)
    names: Names = field(default_factory=dict)

    @classmethod
    def from_json(cls, description: Mapping[str, Any]) -> Known:
        """From a query's description; of a new query there is none."""
        d = description
        return cls(dict(d.get("sources", ())), d.get("outputs", {}), d.get("names", {}))

    @property
    def lines(self) -> list[str]:
        """The lines of all outputs."""
        return [line for tree in self.outputs.values() for line in tree]


NOTHING = Known()
"""What a new checkpoint knows."""


def input_order(outputs: Sequence[Output], known: Known = NOTHING) -> list[int]:
    """The inputs that outputs read, in the order of their numbers: those that are known keep them, whoever reads them first."""
    order: dict[int, int] = {}
    for node in topological([o.node for o in outputs]):
        if isinstance(node, Source):
            number = known.sources.get(node.given_name, len(known.sources))
            order[node.input] = min(number, order.get(node.input, number))
    return sorted(order, key=lambda key: order[key])


def renumber(
    outputs: Sequence[Output], inputs: Mapping[int, int], known: Known = NOTHING
) -> list[Output]:
    """The same outputs with the inputs of their sources renumbered; shared parts stay shared.

    A twin (see `Source.twin`) is called as it is known, or else after the first output that reads it.
    """
    names = _called(outputs, known, _twins, _twin_name)
    rewrite = Rewrite(
        lambda s: replace(s, input=inputs[s.input], name=names.get(id(s), s.name))
    )  # fmt: skip
    return [replace(output, node=rewrite(output.node)) for output in outputs]


def operator_names(outputs: Sequence[Output], known: Known = NOTHING) -> dict[int, str]:
    """The names of all operators, by identity: those that they are known by, or new ones."""
    return _called(outputs, known, _operators, _operator_name)


def names_of(plan: Plan) -> dict[str, dict[str, list[str]]]:
    """The names that the texts of a plan's outputs do not give, for the query's description."""
    plan = plan.unshared
    called = {id(n): name for n, name in zip(plan.nodes, plan.names, strict=True)}
    by_output: dict[str, dict[str, list[str]]] = {}
    for alike, usual in ((_twins, _twin_name), (_operators, _operator_name)):
        for output, by_base in _families(plan.outputs, alike):
            for base, nodes in by_base.items():
                names = [called[id(n)] for n in nodes]
                lasting = type(nodes[0]) not in ROW_OPERATORS or isinstance(nodes[0], Pace)
                if lasting and names != [usual(base, output, 0)]:
                    by_output.setdefault(output, {})[base] = names
    return by_output


def _called(
    outputs: Sequence[Output],
    known: Known,
    alike: Callable[[Node], str | None],
    usual: Callable[[str, str, int], str],
) -> dict[int, str]:
    """The names of nodes that ``alike`` gives a text for, by identity. ``usual`` makes them of the text, an output and a number."""
    names: dict[int, str] = {}
    taken: set[str] = set()
    families = _families(outputs, alike)
    for output, by_base in families:
        for base, nodes in by_base.items() if output in known.outputs else ():
            before = known.names.get(output, {}).get(base)
            told = before or [usual(base, output, i) for i in range(len(nodes))]
            for node, name in zip(nodes, told, strict=False):
                if id(node) not in names and name not in taken:
                    names[id(node)] = name
                    taken.add(name)
    for output, by_base in families:
        for base, nodes in by_base.items():
            free = (n for n in (usual(base, output, i) for i in count()) if n not in taken)
            for node in nodes:
                if id(node) not in names:
                    names[id(node)] = name = next(free)
                    taken.add(name)
    return names


def _families(
    outputs: Sequence[Output], alike: Callable[[Node], str | None]
) -> list[tuple[str, dict[str, list[Node]]]]:
    """Of each output the nodes that it reads, by what they have in common, in the order of its tree."""
    bases = {id(n): alike(n) for n in topological([o.node for o in outputs])}
    families = []
    for output in outputs:
        by_base: dict[str, list[Node]] = {}
        for node in topological([output.node]):
            base = bases[id(node)]
            if base is not None:
                by_base.setdefault(base, []).append(node)
        families.append((output.name, by_base))
    return families


def _twins(node: Node) -> str | None:
    return f"{node.twin}~" if isinstance(node, Source) and node.twin else None


def _twin_name(base: str, output: str, number: int) -> str:
    return base + output + "'" * number


def _operators(node: Node) -> str | None:
    return None if isinstance(node, Source) else f"{type(node).__name__.lower()}-{digest(node)}"


def _operator_name(base: str, _: str, number: int) -> str:
    return f"{base}-{number + 1}" if number else base
