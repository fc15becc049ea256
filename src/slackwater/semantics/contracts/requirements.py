"""Backward: which punctuation of the sources would meet a need, and what a whole plan requires of them.

A way of meeting a need is taken from an operator's output to its inputs by asking the operator's own forward rule what
becomes of each single tag. So backward and forward never disagree, and an operator has no second rule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product

from slackwater.model.node import Node, Source
from slackwater.semantics.contracts.derive import derive, promises
from slackwater.semantics.contracts.needs import Need, Way
from slackwater.semantics.contracts.offers import ENDED, NOTHING, Offer
from slackwater.semantics.contracts.sources import testable
from slackwater.semantics.contracts.templates import Class, Template
from slackwater.semantics.operators.registry import RULES

MOST_CHOICES = 32
"""How many ways of meeting one need are looked at; operators with several inputs multiply them."""


@dataclass(frozen=True)
class Demand:
    """Punctuation that one source needs; ``way`` names columns of that source."""

    source: str
    way: Way

    @property
    def template(self) -> Template:
        """The least special form that would do: on all columns of the way that go together."""
        if self.way.bounds:
            return Template.of({min(self.way.bounds): "+"})
        tags: dict[str, Class] = dict.fromkeys(sorted(self.way.up_to - self.way.single), "+")
        return Template.of({**tags, **dict.fromkeys(sorted(self.way.single), "#")})

    def met_by(self, offers: Mapping[str, Offer]) -> bool:
        """Whether the source says so."""
        return self.way.met_by(offers.get(self.source, NOTHING))


Choice = frozenset[Demand]
"""Demands that meet a need together."""


def choices(node: Node, way: Way) -> list[Choice]:
    """The ways in which sources can see to it that the output of a node has punctuation in a way; none if none can."""
    if isinstance(node, Source):
        usable = testable(node)
        bounds = way.bounds & {t.name for t in node.times}
        own = Way(bounds, way.up_to & usable, way.single & usable)
        return [frozenset([Demand(node.name, own)])] if own else []
    if not node.children:
        return []
    by_input = []
    for i, child in enumerate(node.children):
        ways = _below(node, i, way)
        by_input.append([c for w in ways for c in choices(child, w)])
    picked = islice(product(*by_input), MOST_CHOICES)
    return list(dict.fromkeys(frozenset[Demand]().union(*p) for p in picked))


def _below(node: Node, i: int, way: Way) -> list[Way]:
    """What input i must have, so that the output has punctuation in a way; other inputs count as ended."""
    rules, child = RULES[type(node)], node.children[i]

    def does(offer: Offer) -> bool:
        inputs = [offer if j == i else ENDED for j in range(len(node.children))]
        out = rules.offers(node, inputs, {})
        return not out.ended and way.met_by(out)

    def tagged(kind: Class) -> frozenset[str]:
        return frozenset(
            f.name
            for f in child.schema
            if does(Offer(templates=frozenset([Template.of({f.name: kind})])))
        )

    times = [t.name for t in child.times]
    bounds = frozenset(t for t in times if does(Offer(frozenset([t]))))
    if not bounds and times and does(Offer(frozenset(times))):
        return [Way(frozenset([t])) for t in times[:1]]  # all of them are needed
    up_to, single = tagged("+"), tagged("#")
    mixed = Way(bounds & up_to, up_to, single)
    alone = [Way(frozenset([t])) for t in sorted(bounds - up_to)]
    return [w for w in (mixed, *alone) if w]


def meeting(node: Node, need: Need) -> list[Choice]:
    """The ways in which sources can meet a need of a node; the growth of groups is no way."""
    found = [c for w in need.ways if w for c in choices(node.children[need.input], w)]
    return list(dict.fromkeys(found))


def missing(choice: Choice, offers: Mapping[str, Offer]) -> Choice:
    """The demands that sources do not meet yet."""
    return frozenset(d for d in choice if not d.met_by(offers))


@dataclass(frozen=True)
class Requirement:
    """What a source must punctuate, and for whose sake; without ``demand`` only another plan helps."""

    node: Node
    need: Need
    demand: Demand | None
    declared: bool = False
    """Whether the source declares it."""


def requirements(nodes: Sequence[Node]) -> tuple[Requirement, ...]:
    """What the sources of a plan must punctuate, if nothing were known of them: enough, and no more than that.

    Of several ways to meet a need the one is taken of which the sources declare most, then the one with the fewest demands.
    A need that state of groups may outlive asks for what makes results come.
    """
    declared = {name: p.declared for name, p in promises(nodes).items()}
    listed: dict[Demand, Requirement] = {}
    hopeless = []
    for node in nodes:
        for need in RULES[type(node)].needs(node):
            able = meeting(node, need)
            if need.growing and not any(not missing(c, declared) for c in able):
                grown = Need(need.input, tuple(w for w in need.growing if "*" not in w.bounds), "")
                if not grown.ways:
                    continue
                able = meeting(node, grown) or able
            if not able:
                hopeless.append(Requirement(node, need, None))
                continue
            best = min(able, key=lambda c: (len(missing(c, declared)), len(c), _key(c)))
            for d in sorted(best, key=lambda d: d.source):
                listed.setdefault(d, Requirement(node, need, d, d.met_by(declared)))
    return (*_least(nodes, list(listed.values())), *hopeless)


def _key(choice: Choice) -> list[tuple[str, list[str]]]:
    return sorted((d.source, sorted(d.way.columns)) for d in choice)


def _least(nodes: Sequence[Node], listed: list[Requirement]) -> list[Requirement]:
    """Without what the others make superfluous, by the forward rules."""
    kept = sorted(listed, key=lambda r: -len(r.demand.way.columns) if r.demand else 0)
    for r in list(kept):
        rest = [x for x in kept if x is not r]
        if _unsafe(nodes, rest) <= _unsafe(nodes, kept):
            kept = rest
    return sorted(kept, key=lambda r: listed.index(r))


def _unsafe(nodes: Sequence[Node], listed: Sequence[Requirement]) -> int:
    return len(derive(nodes, demanded(nodes, [r.demand for r in listed if r.demand])).unsafe)


def demanded(nodes: Sequence[Node], demands: Sequence[Demand]) -> dict[str, Offer]:
    """What sources offer that say just what is demanded of them, and not a tag less special."""
    offers: dict[str, Offer] = {}
    for node in nodes:
        if not isinstance(node, Source):
            continue
        templates = {d.template for d in demands if d.source == node.name}
        times = {t.name for t in node.times}
        linear = {t for t in templates if len(t.tags) == 1 and t.columns <= times and t.tags[0][1] == "+"}  # fmt: skip
        bounds = frozenset(c for t in linear for c in t.columns)
        ended = ENDED if node.end_of_stream else None
        offers[node.name] = ended or Offer(bounds, frozenset(templates - linear))
    return offers
