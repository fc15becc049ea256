"""What it means: bounds lag behind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slackwater.semantics.contracts.needs import Need, by_bound
from slackwater.semantics.limits import END, START, Bounds, shift
from slackwater.semantics.operators import common, sort
from tests.toy.model import Delay

wants = common.no_wants
patterns = common.no_patterns  # the rows it holds back would break them
frontier = common.bounds_alone
offers = sort.offers  # a bound on its own time, and no patterns
trace = common.same_trace
copies = common.same_copies
feedback = common.same_feedback  # each row waits for itself alone
newest = common.same_newest
heard = common.same_newest


def entering(node: Delay) -> tuple[str, ...]:
    return (node.on,)


def bounds(node: Delay, inputs: Sequence[Bounds], sources: Mapping[str, Bounds]) -> dict[str, int]:
    known = {t.name: inputs[0][t.name] for t in node.times}
    others = {n: v if v >= END else START for n, v in known.items()}
    return others | {node.on: shift(known[node.on], -node.by)}


def needs(node: Delay) -> tuple[Need, ...]:
    return (Need(0, (by_bound(node.on),), "rows that are delayed"),)


def keeps(node: Delay) -> str:
    return f"rows less than {node.by} behind the bound on {node.on}"
