"""A whole tree of stages with its chains of buffers, run row by row: what each consumer gets, and when.

This is the meaning of a placement. It is for comparing, counting and measuring.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from benchmarks.simulations.slack_chain import Chain, Deliveries, Ints, Reuse
from slackwater.semantics.limits import START
from slackwater.semantics.slack.placement import Placement, applied
from slackwater.semantics.slack.tree import Consumer, Stage, stages

Passes = Callable[[str, Ints], npt.NDArray[np.bool_]]
"""Which of the rows (numbers) a filter, by its name, lets through."""


class Subplan:
    """The tree of one stream. Rows are numbered as they arrive, from 0."""

    def __init__(self, tree: Stage, placement: Placement, passes: Passes):
        self.tree = tree
        self.passes = passes
        self.clock = START
        self.times = np.empty(0, np.int64)
        slack = applied(tree, placement)
        self.chains = {
            s.name: Chain({c.name: slack[c.name] for c in s.children}, slack[s.name])
            for s, _ in stages(tree)
        }
        self.private = _private(tree, placement)

    def arrive(self, time: int) -> Deliveries:
        """One row; what it makes reach the consumers, each in order of time and arrival."""
        row = np.array([len(self.times)])
        self.times = np.append(self.times, time)
        found: dict[str, list[Ints]] = {}
        if time > self.clock:
            self.clock = time
            self._down(self.tree, row, found, advance=True)
        else:
            self._down(self.tree, row, found, advance=False)
        return self._sorted(found)

    def change(
        self, tree: Stage, placement: Placement, reuse: Reuse | None = None
    ) -> tuple[Deliveries, int]:
        """Other slacks and another placement; what reaches consumers at once, and rows that were moved."""
        slack = applied(tree, placement)
        found: dict[str, list[Ints]] = {}
        moved = 0
        down: dict[str, Ints] = {}
        for stage, _ in stages(tree):
            chain = self.chains[stage.name]
            wanted = {c.name: slack[c.name] for c in stage.children}
            done = chain.change(wanted, slack[stage.name], self.clock, reuse)
            moved += done.moved
            into = [done.deliveries]
            if stage.name in down:
                rows = self._let_through(stage, down[stage.name])
                into += [chain.insert(self.times[rows], rows), chain.advance(self.clock)]
            for c in stage.children:
                rows = np.concatenate([np.empty(0, np.int64), *(d.get(c.name, []) for d in into)])
                if not len(rows):
                    continue
                if isinstance(c, Stage):
                    down[c.name] = rows.astype(np.int64)
                    moved += len(rows)
                else:
                    found.setdefault(c.name, []).append(rows.astype(np.int64))
        self.tree, self.private = tree, _private(tree, placement)
        return self._sorted(found), moved

    @property
    def held(self) -> int:
        """Rows in all buffers; what one row owes to several buffers of their own counts as often."""
        total = 0
        for stage, _ in stages(self.tree):
            chain = self.chains[stage.name]
            own = [c for c in self.private if c in chain.served]
            total += sum(int(np.count_nonzero(~chain.served[c])) for c in own)
            rest = [~mask for c, mask in chain.served.items() if c not in own]
            total += int(np.count_nonzero(np.logical_or.reduce(rest))) if rest else 0
        return total

    def _down(
        self, stage: Stage, rows: Ints, found: dict[str, list[Ints]], *, advance: bool
    ) -> None:
        rows = self._let_through(stage, rows)
        chain = self.chains[stage.name]
        given = [chain.insert(self.times[rows], rows)]
        if advance:
            given.append(chain.advance(self.clock))
        for c in stage.children:
            mine = np.concatenate([np.empty(0, np.int64), *(d.get(c.name, []) for d in given)])
            mine = mine.astype(np.int64)
            if isinstance(c, Consumer):
                if len(mine):
                    found.setdefault(c.name, []).append(mine)
            elif advance or len(mine):
                self._down(c, mine, found, advance=advance)

    def _let_through(self, stage: Stage, rows: Ints) -> Ints:
        if stage.selectivity is None or not len(rows):
            return rows
        return rows[self.passes(stage.name, rows)]

    def _sorted(self, found: dict[str, list[Ints]]) -> Deliveries:
        merged = {c: np.concatenate(parts) for c, parts in found.items()}
        return {c: r[np.lexsort((r, self.times[r]))] for c, r in merged.items()}


def _private(tree: Stage, placement: Placement) -> frozenset[str]:
    """Consumers with a buffer of their own."""
    return frozenset(c.name for c in tree.consumers if c.name in placement.chains)
