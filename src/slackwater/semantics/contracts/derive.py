"""The verdict on a plan: forward over its operators, children first, each shared one once.

Each operator's rule makes the scheme of its output of those of its inputs, and says what must be there for its state.
The cost is one call of each rule per operator. Sets of templates multiply at unions, and are cut down there to those that
no other covers (`offers.MOST_TEMPLATES`); nothing is unfolded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from slackwater.model.node import Node, Source
from slackwater.semantics.contracts.needs import ALWAYS, Need
from slackwater.semantics.contracts.offers import Offer
from slackwater.semantics.contracts.sources import Promise, promise
from slackwater.semantics.operators.registry import RULES

Verdict = Literal["safe", "grows with the number of groups", "unsafe"]
SAFE: Verdict = "safe"
GROUPS: Verdict = "grows with the number of groups"
UNSAFE: Verdict = "unsafe"


@dataclass(frozen=True)
class Unmet:
    """A need that an operator's input does not meet, and what its state does then."""

    node: Node
    need: Need
    verdict: Verdict


@dataclass(frozen=True)
class Derived:
    """The offers of all outputs in the order of ``nodes``, and the needs that are not met."""

    nodes: tuple[Node, ...]
    offers: tuple[Offer, ...]
    unmet: tuple[Unmet, ...]

    @property
    def unsafe(self) -> tuple[Unmet, ...]:
        """The needs without which state stays for ever."""
        return tuple(u for u in self.unmet if u.verdict == UNSAFE)

    @property
    def growing(self) -> tuple[Unmet, ...]:
        """The needs without which state of each group stays."""
        return tuple(u for u in self.unmet if u.verdict == GROUPS)

    def offer(self, node: Node) -> Offer:
        """What comes out of an operator."""
        return next(o for n, o in zip(self.nodes, self.offers, strict=True) if n is node)


def promises(nodes: Sequence[Node]) -> dict[str, Promise]:
    """What each source of a plan promises, by its name."""
    return {n.name: promise(n) for n in nodes if isinstance(n, Source)}


def derive(nodes: Sequence[Node], sources: Mapping[str, Offer]) -> Derived:
    """What comes out of every operator, and what is missing. ``nodes`` are children first, as `bounds.topological` gives."""
    offered: dict[int, Offer] = {}
    unmet: list[Unmet] = []
    for node in nodes:
        rules = RULES[type(node)]
        inputs = [offered[id(c)] for c in node.children]
        offered[id(node)] = rules.offers(node, inputs, sources)
        for need in rules.needs(node):
            offer = inputs[need.input]
            if need.freed(offer):
                continue
            grows = ALWAYS in need.growing or need.grows(offer)
            unmet.append(Unmet(node, need, GROUPS if grows else UNSAFE))
    return Derived(tuple(nodes), tuple(offered[id(n)] for n in nodes), tuple(unmet))
