"""Nothing has to be searched: a plan is safe as derived exactly if some choice of contracts, one per operator, is consistent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, combinations, product

from hypothesis import example, given

from slackwater.model.join import Anytime
from slackwater.model.node import Node
from slackwater.model.window import all_time
from slackwater.semantics.bounds import topological
from slackwater.semantics.contracts.derive import derive, promises
from slackwater.semantics.contracts.offers import Offer
from slackwater.semantics.operators.registry import RULES
from tests.examples import examples
from tests.semantics.contracts.plans import grouped, joined, plans, punctuated

MOST = 300
"""Choices of a plan; larger plans are left out, since brute force takes each."""


def subsets(items: frozenset[object]) -> Iterator[frozenset[object]]:
    """All subsets of a set."""
    listed = sorted(items, key=str)
    sizes = (combinations(listed, n) for n in range(len(listed) + 1))
    return map(frozenset, chain.from_iterable(sizes))


def contracts(offer: Offer) -> set[Offer]:
    """What an operator may say instead of all that it can: punctuation may be left out."""
    parts = product(subsets(offer.bounds), subsets(offer.templates), subsets(offer.anything))
    return {
        replace(offer, bounds=b, templates=t, anything=a)  # type: ignore[arg-type]
        for b, t, a in parts
    }


def consistent(node: Node, sources: dict[str, Offer]) -> set[Offer]:
    """All that may leave an operator in a choice of contracts below it that frees every state. A shared operator chooses once per reader."""
    rules = RULES[type(node)]
    out: set[Offer] = set()
    for inputs in product(*(consistent(c, sources) for c in node.children)):
        if all(need.freed(inputs[need.input]) for need in rules.needs(node)):
            out |= contracts(rules.offers(node, list(inputs), sources))
    if len(out) > MOST:
        raise OverflowError
    return out


PAIRS = joined(punctuated("s", "[[k:+]]"), punctuated("r", "[[k:#]]"), within=Anytime())
HALF = joined(punctuated("s", "[[k:+]]"), punctuated("r", "[[k:#, ts:+]]"), within=Anytime())


@given(plan=plans())
@example(PAIRS)
@example(grouped(PAIRS, ["k0"], all_time("ts0")))
@example(HALF)  # one input frees the other's rows, and is not freed itself
@examples(40)
def test_what_is_derived_is_what_a_search_finds(plan: Node) -> None:
    nodes = topological([plan])
    sources = {name: p.assumed for name, p in promises(nodes).items()}
    try:
        found = consistent(plan, sources)
    except OverflowError:
        return
    assert bool(found) == (not derive(nodes, sources).unmet)
