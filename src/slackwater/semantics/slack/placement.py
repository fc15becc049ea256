"""Where slack buffers stand: every consumer gets exactly its slack, and as few rows as possible are held.

Below a stage stands a chain of buffers, one per **level**: the slack that has been applied, in all, where it
ends. A child reads the chain where its own slack is reached, or at the chain's end if it needs more. A level
can also be left to the children; it then costs the sum of what they let through instead of one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from slackwater.semantics.slack.tree import Consumer, Stage, stages

Levels = Mapping[str, tuple[int, ...]]
"""Which levels a stage keeps, ascending, by its name; the others are left to its children."""


@dataclass(frozen=True)
class Buffer:
    """``size`` ticks of slack; ``targets`` are the children that read it, besides the next buffer."""

    size: int
    targets: tuple[str, ...] = ()


@dataclass(frozen=True)
class Placement:
    """Chains of buffers by the stage they stand below; one in front of a consumer has the consumer's name."""

    chains: Mapping[str, tuple[Buffer, ...]]

    def size(self, name: str) -> int:
        """The slack of the chain at a stage or consumer."""
        return sum(b.size for b in self.chains.get(name, ()))


def kept_levels(children: Sequence[tuple[int, float]]) -> tuple[tuple[int, ...], float]:
    """The levels that a stage keeps, given (sharable slack, share of rows) of its children.

    The largest is left to the children as long as those that need it let through less than one row per
    row, all together; neither rates nor sizes matter. Also the share at which that ended.

    >>> kept_levels([(2, 0.25), (4, 0.5), (1, 0.5)])
    ((1,), 1.25)
    """
    levels = sorted({k for k, _ in children})
    total = 0.0
    while levels:
        total += sum(share for k, share in children if k == levels[-1])
        if total >= 1:
            break
        levels.pop()
    return tuple(levels), total


def optimal(tree: Stage) -> Placement:
    """The placement that holds the fewest rows, in one pass up and one down.

    What is pushed through a filter may land behind its children: the filter then counts with the rows that
    come out of all of these, its coalesced selectivity.
    """
    levels: dict[str, tuple[int, ...]] = {}

    def visit(stage: Stage) -> float:
        """The share of its input that is buffered if slack is pushed through ``stage``."""
        shares = [1.0 if isinstance(c, Consumer) else visit(c) for c in stage.children]
        pairs = [(c.sharable, s) for c, s in zip(stage.children, shares, strict=True)]
        levels[stage.name], total = kept_levels(pairs)
        return stage.share if levels[stage.name] else stage.share * total

    visit(tree)
    return sized(tree, levels)


def unshared(tree: Stage) -> Placement:
    """A buffer of its own in front of every consumer."""
    chains = {c.name: (Buffer(c.slack, (c.name,)),) for c in tree.consumers if c.slack > 0}
    return Placement(chains)


def sized(tree: Stage, levels: Levels) -> Placement:
    """Sizes and targets, from the stream down, when each stage keeps ``levels``."""
    chains: dict[str, tuple[Buffer, ...]] = {}

    def visit(stage: Stage, above: int) -> None:
        here = [k for k in levels.get(stage.name, ()) if k > above]
        reached = {
            c.name: max([above, *(k for k in here if k <= c.sharable)]) for c in stage.children
        }
        before = above
        buffers = []
        for k in here:
            buffers.append(Buffer(k - before, tuple(n for n, r in reached.items() if r == k)))
            before = k
        if buffers:
            chains[stage.name] = tuple(buffers)
        for c in stage.children:
            if isinstance(c, Stage):
                visit(c, reached[c.name])
            elif c.slack > reached[c.name]:
                chains[c.name] = (Buffer(c.slack - reached[c.name], (c.name,)),)

    visit(tree, 0)
    return Placement(chains)


def applied(tree: Stage, placement: Placement) -> dict[str, int]:
    """The slack on the way from the stream to the input of every stage and to every consumer."""
    slack = {tree.name: 0}
    for stage, _ in stages(tree):
        total = slack[stage.name]
        slack.update({c.name: total for c in stage.children})
        for buffer in placement.chains.get(stage.name, ()):
            total += buffer.size
            slack.update(dict.fromkeys(buffer.targets, total))
        for c in stage.children:
            if isinstance(c, Consumer):
                slack[c.name] += placement.size(c.name)
    return slack


def memory(
    tree: Stage, placement: Placement, rate: float = 1.0, delays: Sequence[int] | None = None
) -> float:
    """Rows held when the stream has ``rate`` rows a tick: the rate at each chain times its size.

    A row that is late spends its delay on the way instead of in a buffer; with a sample of ``delays`` that is
    taken off.

    >>> tree = Stage("s", (Consumer("a", 4),))
    >>> memory(tree, optimal(tree), 2.0), memory(tree, optimal(tree), 2.0, [0, 0, 2, 9])
    (8.0, 5.0)
    """
    reached = applied(tree, placement)
    total = 0.0
    for stage, out in stages(tree, rate):
        total += out * _length(reached[stage.name], placement.size(stage.name), delays)
        for c in stage.children:
            if isinstance(c, Consumer) and c.name in placement.chains:
                size = placement.size(c.name)
                total += out * _length(reached[c.name] - size, size, delays)
    return total


def _length(above: int, size: int, delays: Sequence[int] | None) -> float:
    """How long a row stays in a chain, on the average."""
    if delays is None:
        return float(size)
    waits = [max(0, above + size - d) - max(0, above - d) for d in delays]
    return sum(waits) / len(waits)
