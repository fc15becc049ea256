"""Each rule of the join in little memory, made wrong: the traces must notice.

The wrong rules are the printed ones that the specification corrects (its errata E1 to E12, as far as they have a
counterpart here), and those one might think of oneself.
"""

from __future__ import annotations

import numpy as np
import pytest

from slackwater.kernels.joins.bounded import step as join_spill
from slackwater.kernels.joins.bounded.ledger import Ledger
from slackwater.kernels.joins.bounded.residence import Residence
from slackwater.model.join import Band
from slackwater.semantics import join_memory
from slackwater.semantics.join_memory import BlockRules, JoinPolicy
from slackwater.semantics.limits import END
from tests.kernels.join_traces import make_trace, replay, slow_join


class SkipForgotten(BlockRules):
    """E1: the test for blocks met in memory that is almost always true."""

    def needs(self, debt, block):
        return debt.done <= block.number < debt.upto


class NumberForgotten(BlockRules):
    """All blocks there are count as on disk, whatever was resident in the recent part."""

    def met_upto(self, others):
        return 1 + max((b.number for b in others), default=-1)

    def met_below(self, others, upto):
        return sorted(b.number for b in others if b.place == "productive")


class DoneTooSoon(BlockRules):
    """E2: a pass that was cut short counts as whole."""

    def advanced(self, debt, upto):
        return super().advanced(debt, END)


class DoneForgotten(BlockRules):
    """E2: a pass that was cut short starts again from the first block."""

    def advanced(self, debt, upto):
        return debt


class NowInsteadOfThen(BlockRules):
    """E3, E7: what is resident now, instead of what was on arrival."""

    def needs(self, debt, block):
        return debt.done <= block.number < debt.upto and block.place == "disk"


class NothingResidentMeansAll(BlockRules):
    """E4: with nothing resident, later blocks are taken for owed too."""

    def met_upto(self, others):
        return super().met_upto(others) if self.residents(others) else END


class FirstSpeaksForAll(BlockRules):
    """E5: rows that saw another memory share the debt of the first."""

    def join_debts(self, a, b):
        b = join_memory.replace(b, upto=a.upto, skip=a.skip, floor=a.floor, floor_upto=a.floor_upto)
        return super().join_debts(a, b)


class LastSpeaksForAll(BlockRules):
    """E5: rows that saw another memory share the debt of the last."""

    def join_debts(self, a, b):
        a = join_memory.replace(a, upto=b.upto, skip=b.skip, floor=b.floor, floor_upto=b.floor_upto)
        return super().join_debts(a, b)


class SplitLoses(BlockRules):
    """Of a debt that is split, the block at the cut pays nothing."""

    def split_debt(self, debt, blocks, room):
        parts = super().split_debt(debt, blocks, room)
        if parts is None or parts[0].end - parts[0].first < 2:
            return parts
        return join_memory.replace(parts[0], end=parts[0].end - 1), parts[1]


class SplitRepeats(BlockRules):
    """Of a debt that is split, the block at the cut pays in both passes."""

    def split_debt(self, debt, blocks, room):
        parts = super().split_debt(debt, blocks, room)
        return parts and (parts[0], join_memory.replace(parts[1], first=parts[1].first - 1))


class TwoCopies(BlockRules):
    """E9: a block that is both recent and productive is met twice."""

    def residents(self, blocks):
        found = super().residents(blocks)
        return found + [b for b in found if b.place == "recent" and b.worth > 0][:1]


class NoHold(BlockRules):
    """Rows in debt count as arrived."""

    def held(self, bounds, debts):
        return tuple(bounds)


class HoldOfOneSide(BlockRules):
    """Only the left side's debts hold."""

    def held(self, bounds, debts):
        return super().held(bounds, [debts[0], []])


class OwnBoundPurges(BlockRules):
    """A side purged by its own bound."""

    def dead_below(self, within, side, held):
        return super().dead_below(within, side, tuple(reversed(held)))


class NoFloor(BlockRules):
    """Late rows meet what had been given up but was still on disk."""

    def floor(self, within, side, old):
        return join_memory.START


class UnlikeMerged(BlockRules):
    """Blocks are merged although some were met and some were not."""

    def alike(self, blocks, debts):
        return len({b.place for b in blocks}) <= 1


def purge_first(monkeypatch):
    """E10: the new bounds take effect before the new rows have met the old ones."""
    real = join_spill._Work._take_in

    def wrong(self, inputs):
        self._move_bounds()
        return real(self, inputs)

    monkeypatch.setattr(join_spill._Work, "_take_in", wrong)


def expire_in_debt(monkeypatch):
    """E8: blocks leave although they have yet to meet others."""
    monkeypatch.setattr(Ledger, "owing", lambda self, side, number: False)


def evict_unwritten(monkeypatch):
    """E12: a block loses its place before it is stored."""
    real = Residence.make_room

    def wrong(self, side):
        write, self.write = self.write, lambda s, b: None
        real(self, side)
        self.write = write
        for s in (0, 1):
            blocks = self.ledger.blocks[s]
            self.ledger.blocks[s] = [b for b in blocks if b.run or b.number in self.memory[s]]

    monkeypatch.setattr(Residence, "make_room", wrong)


def open_ends(monkeypatch):
    """Blocks at the very ends of the band are not looked at."""

    def wrong(span, other):
        return span[0] < other.high and other.low < span[1]

    monkeypatch.setattr(join_spill, "in_reach", wrong)


TIGHT = JoinPolicy(2_000, backlog=3.0, idle_share=0.0, stage_share=0.0, merge_runs=16)
LIMITED = JoinPolicy(2_500, backlog=0.3, idle_share=0.0, read_limit=700, stage_share=0.0)
MERGING = JoinPolicy(4_000, backlog=6.0, idle_share=0.0, merge_runs=2)
NOTHING = JoinPolicy(1, backlog=1e9, idle_share=0.0)
TELLING = (2, 3, 8)
"""Seeds of traces that notice every one of the wrong rules: so they do if one of them becomes the product's own."""


def case(seed: int, late: bool = False):
    rng = np.random.default_rng(seed)
    rates = [[1.0, 1.0], [1.0, 0.3], [0.3, 1.0]][seed % 3]
    trace = make_trace(rng, 7, 90, 4, 10, 0, rates, 0.01, late)
    return trace, Band([10, 40][seed % 2], 60)


def noticed(policy, *, rules=None, late=False, how="inner", seeds=range(12)) -> bool:
    """Whether any of the traces shows a wrong result, or a result below a promised bound."""
    for seed in seeds:
        trace, band = case(seed, late)
        try:
            run = replay(trace, band, policy, rules=rules, how=how, max_pairs=1_000)
        except ValueError:  # no rows where there must be some
            return True
        if run.out != slow_join(trace, band, how) or (run.broken and not late):
            return True
    return False


WRONG_RULES = [
    pytest.param(
        SkipForgotten, TIGHT, {}, id="E1-skip-forgotten", marks=pytest.mark.spec("XJ-F18")
    ),
    pytest.param(
        NumberForgotten, TIGHT, {}, id="number-forgotten", marks=pytest.mark.spec("XJ-F11")
    ),
    pytest.param(DoneTooSoon, LIMITED, {}, id="E2-done-too-soon", marks=pytest.mark.spec("XJ-F12")),
    pytest.param(
        DoneForgotten, LIMITED, {}, id="E2-done-forgotten", marks=pytest.mark.spec("XJ-F12")
    ),
    pytest.param(
        NowInsteadOfThen, TIGHT, {}, id="E7-now-instead-of-then", marks=pytest.mark.spec("XJ-F12")
    ),
    pytest.param(NothingResidentMeansAll, NOTHING, {}, id="E4-nothing-resident"),
    pytest.param(FirstSpeaksForAll, TIGHT, {}, id="E5-first-speaks"),
    pytest.param(LastSpeaksForAll, TIGHT, {}, id="E5-last-speaks"),
    pytest.param(SplitLoses, TIGHT, {}, id="split-loses"),
    pytest.param(SplitRepeats, TIGHT, {}, id="split-repeats"),
    pytest.param(TwoCopies, TIGHT, {}, id="E9-two-copies"),
    pytest.param(NoHold, TIGHT, {}, id="no-hold"),
    pytest.param(NoHold, TIGHT, {"how": "full"}, id="no-hold-outer"),
    pytest.param(HoldOfOneSide, TIGHT, {}, id="hold-of-one-side"),
    pytest.param(OwnBoundPurges, TIGHT, {}, id="own-bound-purges"),
    pytest.param(NoFloor, TIGHT, {"late": True}, id="no-floor"),
    pytest.param(UnlikeMerged, MERGING, {}, id="unlike-merged"),
]


@pytest.fixture(autouse=True)
def _quick_files(monkeypatch):
    monkeypatch.setattr("slackwater.kernels.joins.bounded.blocks.os.fsync", lambda fd: None)


@pytest.mark.parametrize(("wrong", "policy", "more"), WRONG_RULES)
def test_a_wrong_rule_is_noticed(wrong, policy, more):
    assert noticed(policy, rules=wrong(), seeds=TELLING, **more)


@pytest.mark.parametrize(
    "mutate",
    [purge_first, expire_in_debt, evict_unwritten, open_ends],
)
def test_a_wrong_step_is_noticed(mutate, monkeypatch):
    mutate(monkeypatch)
    assert noticed(TIGHT, rules=BlockRules())


@pytest.mark.spec("XJ-F11", "XJ-F12", "XJ-F18")
@pytest.mark.parametrize(
    ("policy", "more"),
    [
        (TIGHT, {}),
        (LIMITED, {}),
        (NOTHING, {}),
        (MERGING, {}),
        (TIGHT, {"how": "full"}),
        (TIGHT, {"late": True}),
    ],
)
def test_the_right_rules_pass_where_the_wrong_ones_fail(policy, more):
    assert not noticed(policy, rules=BlockRules(), seeds=TELLING, **more)
