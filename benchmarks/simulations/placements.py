"""Other ways to place slack buffers than the optimum that queries use, to compare it with."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from slackwater.semantics.slack.placement import Placement, kept_levels, memory, sized
from slackwater.semantics.slack.tree import Consumer, Stage, stages


def greedy(tree: Stage) -> Placement:
    """Each stage decides by its own children alone; seldom worse than `optimal`, never better."""
    levels = {}
    for stage, _ in stages(tree):
        shares = [1.0 if isinstance(c, Consumer) else c.share for c in stage.children]
        pairs = [(c.sharable, s) for c, s in zip(stage.children, shares, strict=True)]
        levels[stage.name], _ = kept_levels(pairs)
    return sized(tree, levels)


def naive(tree: Stage) -> Placement:
    """The best of all `candidates`, by trying them."""
    return min(candidates(tree), key=lambda p: memory(tree, p))


def candidates(tree: Stage) -> Iterator[Placement]:
    """Every choice of levels, stage by stage; different choices may come to the same placement."""
    every = [s for s, _ in stages(tree)]
    choices = [list(_choices(s)) for s in every]
    for chosen in product(*choices):
        yield sized(tree, {s.name: levels for s, levels in zip(every, chosen, strict=True)})


def count_candidates(tree: Stage) -> int:
    """How many `candidates` there are."""
    total = 1
    for stage, _ in stages(tree):
        total *= sum(1 for _ in _choices(stage))
    return total


def _choices(stage: Stage) -> Iterator[tuple[int, ...]]:
    """All levels, or without some of the largest: down to those that a consumer right below needs here."""
    levels = sorted({c.sharable for c in stage.children})
    least = max((c.slack for c in stage.children if isinstance(c, Consumer)), default=0)
    for end in range(len(levels), -1, -1):
        if end < len(levels) and levels[end] <= least:
            return
        yield tuple(levels[:end])
