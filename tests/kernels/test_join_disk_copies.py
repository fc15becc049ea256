"""A join in little memory: blocks that rows met in memory are not met again on disk, by the product's own rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from slackwater.kernels.joins.bounded import step as join_spill
from slackwater.model.join import Band
from slackwater.semantics.join_memory import Block, JoinPolicy
from tests.kernels.join_traces import make_trace, quick_files, replay, slow_join

__all__ = ["quick_files"]

# Few blocks are in memory, some of them for what they yield, and passes come often. No blocks are merged, so that a
# number names one block for ever.
POLICY = JoinPolicy(2_000, backlog=3.0, idle_share=0.0, stage_share=0.0, merge_runs=1_000)


class Meetings:
    """Counts who meets whom: (side, number of the block, number of the other side's block)."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch):
        self.made: Counter[tuple[int, int, int]] = Counter()
        self.skipped = 0
        """Blocks that a pass left out for debts that had met them, though later and earlier ones were met."""
        meet = join_spill._Work._meet

        def counted(
            work: Any,
            group: Any,
            others: Sequence[Block],
            load: Any,
            emit: Any,
            needed: Sequence[Sequence[bool]] | None = None,
        ) -> int:
            count: int = meet(work, group, others, load, emit, needed)
            for i, (own, debt) in enumerate(zip(group._blocks, group._debts, strict=True)):
                met = [
                    o.number for j, o in enumerate(others[:count]) if needed is None or needed[j][i]
                ]
                pairs = [
                    (0, own.number, n) if group._side == 0 else (0, n, own.number) for n in met
                ]
                self.made.update(pairs)
                self.skipped += sum(s > min(met) for s in debt.skip) if met else 0
            return count

        monkeypatch.setattr(join_spill._Work, "_meet", counted)


@pytest.mark.spec("XJ-F18")
@pytest.mark.parametrize("how", ["inner", "full"])
def test_a_scan_leaves_out_what_was_met_in_memory(
    monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """No two blocks meet twice, whatever moved between memory and disk meanwhile, and no pair is missing or twice."""
    skipped = passes = 0
    for seed in range(6):
        meetings = Meetings(monkeypatch)
        rng = np.random.default_rng(seed)
        trace = make_trace(rng, 7, 90, 4, 10, 0, [1.0, 1.0], 0.01)
        band = Band([10, 40][seed % 2], 60)
        run = replay(trace, band, POLICY, how=how, max_pairs=1_000)
        assert run.out == slow_join(trace, band, how)
        twice = {pair: n for pair, n in meetings.made.items() if n > 1}
        assert not twice
        skipped += meetings.skipped
        passes += sum(sum(s.passes.values()) for s in run.stats)
        monkeypatch.undo()
    assert passes > 10 and skipped > 10
