"""What a bounded join keeps in memory, and how it times its pairs, on the operator as it runs.

One group, and blocks of a few rows, each of one key: so a block's worth is the number of pairs of its key, and it can be said of
every batch which blocks must reside. Bands are so wide that nothing leaves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from slackwater.kernels.joins.bounded.ledger import Ledger
from slackwater.semantics.join_memory import INDEX_BYTES, Block, JoinPolicy, areas
from slackwater.testing.clock import ManualClock
from tests.engine.in_process import Engine
from tests.engine.test_join_engine import Rows, plan_of, table, transcript

MEMORY = 20_000
DECAY = 0.4
SECOND = 1_000_000
WIDE = {"before": 100_000, "after": 100_000}


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Engine:
    monkeypatch.setattr("slackwater.kernels.joins.bounded.blocks.os.fsync", lambda fd: None)
    return Engine(tmp_path, monkeypatch)


def lefts(key: int, count: int) -> Rows:
    return [{"k": key, "ta": n, "tb": None, "v": n} for n in range(count)]


def rights(key: int, count: int) -> Rows:
    return [{"k": key, "ta": None, "tb": n, "v": n} for n in range(count)]


@dataclass
class After:
    """What is known after a batch."""

    ledger: Ledger
    figures: dict[str, Any]

    def blocks(self, side: int, place: str) -> list[int]:
        """The numbers of the blocks that are there."""
        return [b.number for b in self.ledger.blocks[side] if b.place == place]


def played(
    engine: Engine,
    data: Sequence[Rows],
    memory: dict[int, int],
    deadline: str,
    apart: int = SECOND,
) -> Iterator[After]:
    """Batch by batch, so far apart. Before those in ``memory`` the query is started with so many bytes."""
    clock = ManualClock(0)
    for number, rows in enumerate(data):
        if number in memory:
            script = transcript(list(data), memory=memory[number], deadline=deadline, band=WIDE)
            script = replace(script, outputs={"pairs": script.outputs["pairs"]})
            if number:
                engine.stop()
            engine.start(plan_of(script), groups=1, clock=clock)
        clock.advance(apart)
        engine.batch(*([table(rows)] if rows else []))
        assert engine.loop.last is not None
        ((document,),) = engine.loop.last.ledgers.values()
        (figures,) = [o["join"] for o in engine.records[-1]["operators"].values()]
        yield After(Ledger.from_json(document), figures)
    engine.batch(final=True)
    engine.stop()
    assert Counter(tuple(r.values()) for r in engine.rows("pairs")) == pairs_of(data)


def pairs_of(data: Sequence[Rows]) -> Counter[tuple[Any, ...]]:
    """All pairs of equal keys: the bands reach over everything."""
    rows = [row for batch in data for row in batch]
    right = [row for row in rows if row["ta"] is None]
    return Counter(
        (a["k"], a["ta"], b["tb"], a["v"])
        for a in rows
        for b in right
        if a["ta"] is not None and a["k"] == b["k"]
    )


def owing(blocks: Sequence[Block]) -> int:
    """What a pass counts of blocks: their rows, and an index over them."""
    return sum(b.bytes + INDEX_BYTES * b.rows for b in blocks)


@pytest.mark.spec("XJ-F13", "XJ-F15")
def test_blocks_are_chosen_anew_whenever_passes_have_paid_for_a_memory_full(engine: Engine) -> None:
    """Small passes in every batch: between two such moments no block changes its place for them, and no worth fades."""
    first = [lefts(1, 6), lefts(2, 6), lefts(3, 6), lefts(99, 160)]
    asking = [*rights(1, 2), *rights(2, 4), *rights(3, 3)]
    fillers = [rights(900 + n, 40) for n in range(12)]
    paid, worth, stages, known = 0, 0.0, 0, 0
    for number, after in enumerate(played(engine, [*first, asking, *fillers], {0: MEMORY}, "0 seconds")):  # fmt: skip
        own = after.ledger.blocks[1]
        if number == len(first):
            worth = 6.0 * (2 + 4 + 3)
            assert not set(after.blocks(0, "recent")) & {0, 1, 2}, "the pairs come of a pass"
        paid += owing([b for b in own if b.number >= known])
        known = after.ledger.numbers[1]
        if paid >= areas(MEMORY).debts:
            paid, worth, stages = 0, worth * DECAY, stages + 1
        assert sum(b.worth for b in after.ledger.blocks[0]) == pytest.approx(worth)
        assert after.figures["worth"][0] == round(worth)
        # Block 1 has given most, and there is room for one.
        assert after.blocks(0, "productive") == ([1] if stages else []), number
    assert stages == 2


@pytest.mark.spec("XJ-F13", "XJ-F14")
@pytest.mark.parametrize(("margin_rows", "kept"), [(0.0, [2, 3]), (20.0, [1, 2])])
def test_the_blocks_that_give_most_stay_and_the_least_productive_one_makes_way(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, margin_rows: float, kept: list[int]
) -> None:
    """There is room for two. A block must give four tenths more than the one that it is to replace, and so many pairs more."""
    policy = partial(JoinPolicy, margin_rows=margin_rows)
    monkeypatch.setattr("slackwater.engine.operators.bounded_join.JoinPolicy", policy)
    given = {1: 3, 2: 9, 3: 6, 4: 5, 5: 8}
    first = [lefts(key, 5) for key in given]
    asking = [row for key, count in given.items() for row in rights(key, count)]
    data = [*first, lefts(99, 160), asking, *[rights(900 + n, 40) for n in range(6)], lefts(98, 1)]
    small = areas(MEMORY).productive // 2
    *rest, last = played(engine, data, {0: MEMORY, len(data) - 1: MEMORY // 2}, "0 seconds")
    places = [after.blocks(0, "productive") for after in rest]
    by_key = {key: number for number, key in enumerate(given)}
    wanted = [by_key[key] for key in kept]
    assert wanted in places and places[0] == []
    assert all(p in ([], wanted) for p in places)
    block = last.ledger.blocks[0][0]
    assert 2 * block.bytes <= small < 3 * block.bytes and block.bytes <= small // 2 < 2 * block.bytes  # fmt: skip
    # With half the memory there is room for one.
    assert last.blocks(0, "productive") == [by_key[2]]


@pytest.mark.spec("XJ-F31", "XJ-F35", "XJ-F86")
def test_how_fast_the_sides_are_is_counted_fades_and_moves_memory(engine: Engine) -> None:
    """The left side is the fast one for six batches, then the right one: the slower one has more memory soon after."""
    fast, slow, turn = 60, 20, 6
    data = [
        [*lefts(2 * n, fast if n < turn else slow), *rights(2 * n + 1, slow if n < turn else fast)]
        for n in range(2 * turn)
    ]
    wanted, known, shares = [0.0, 0.0], [0, 0], []
    for after in played(engine, data, {0: MEMORY}, "1 hour"):
        for side, blocks in enumerate(after.ledger.blocks):
            fresh = sum(b.bytes for b in blocks if b.number >= known[side])
            wanted[side] = (wanted[side] + fresh) * DECAY
        known = after.ledger.numbers
        assert after.figures["frequency"] == [round(f) for f in wanted]
        shares.append([sum(b.bytes for b in bs if b.place == "recent") for bs in after.ledger.blocks])  # fmt: skip
    assert shares[turn - 1][1] > 1.5 * shares[turn - 1][0]
    assert shares[-1][0] > 1.5 * shares[-1][1]


@pytest.mark.spec("XJ-F04")
def test_pairs_of_several_batches_that_one_pass_makes_have_each_waited_since_their_own(engine: Engine) -> None:  # fmt: skip
    """Two batches see the same memory, and are owed the same: still a row of the second has waited a second less."""
    data = [lefts(1, 6), lefts(99, 160), rights(1, 2), rights(1, 3), [], [], []]
    *_, first, second, third, fourth, last = played(engine, data, {0: MEMORY}, "3500 milliseconds")
    assert [a.figures["owedRows"] for a in (first, second, third, fourth)] == [2, 5, 5, 5]
    assert [a.figures["owedAgeMs"] for a in (first, second, third, fourth)] == [0, 1000, 2000, 3000]
    assert last.figures["passes"] == {"deadline": 1} and last.figures["owedRows"] == 0
    assert last.figures["delayMs"]["mean"] == pytest.approx((2 * 4000 + 3 * 3000) / 5, abs=0.001)


@pytest.mark.spec("XJ-F36")
def test_a_batch_that_brings_little_is_used_for_a_pass_but_not_too_often(engine: Engine) -> None:
    """At most every 15 seconds, and in no batch that brings a tenth of what a pass has room for."""
    little, much = rights(1, 2), rights(2, 40)
    data = [lefts(1, 6), lefts(99, 160), little, little, little, much, little, little]
    seen = list(played(engine, data, {0: MEMORY}, "1 hour", apart=5 * SECOND))
    passes = {5 * number: a.figures["passes"] for number, a in enumerate(seen, start=1)}
    brought = sum(b.bytes for b in seen[5].ledger.blocks[1]) - sum(b.bytes for b in seen[4].ledger.blocks[1])  # fmt: skip
    assert brought > areas(MEMORY).debts / 10
    assert passes == {s: {"idle": 1} if s in (15, 35) else {} for s in range(5, 45, 5)}
    assert [a.figures["owedRows"] for a in seen] == [0, 0, 0, 2, 4, 44, 0, 2]
