"""Ledgers of a join over changes of the number of groups: nothing is lost, nothing doubled, nothing piles up."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from slackwater.engine.operators.bounded_join import regroup
from slackwater.kernels.buckets import BUCKETS, bucket_range
from slackwater.kernels.joins.bounded.ledger import VERSION, Ledger
from slackwater.semantics.join_memory import Block, BlockRules, Debt, Marked, bucket_bits
from slackwater.semantics.limits import START

RULES = BlockRules()


class Groups:
    """Ledgers as the manifest has them, and changes as batches make them."""

    def __init__(self, seed: int, count: int = 1) -> None:
        self.random = Random(seed)
        self.now = 0
        self.ledgers = [Ledger() for _ in range(count)]

    def change(self, count: int) -> None:
        if count == len(self.ledgers):
            return
        stored = json.loads(json.dumps([ledger.to_json() for ledger in self.ledgers]))
        self.ledgers = [Ledger.from_json(document) for document in regroup(stored, count)]

    def insert(self, group: int, side: int, *, owing: bool = True) -> None:
        """A new block, maybe in debt with some of the other side."""
        ledger, random = self.ledgers[group], self.random
        first, end = bucket_range(group, len(self.ledgers))
        # Few buckets, so that blocks have something in common.
        rows = random.sample(range(-(-first // 16) * 16, end, 16), random.randint(1, 3))
        number = ledger.numbers[side]
        ledger.numbers[side] += 1
        place = random.choice(["recent", "disk"])
        block = Block(
            number, self.now, self.now + 5, len(rows), 100, place, present=bucket_bits(rows)
        )
        block.run = f"{self.now}-{group}-{side}-{number}-{random.random()}"
        ledger.blocks[side].append(block)
        others = ledger.blocks[1 - side]
        upto = RULES.met_upto(others)
        if owing and upto and random.random() < 0.5:
            floor = random.choice([START, self.now - 3])
            skip = RULES.met_below(others, upto)
            low, high = block.low, block.high
            debt = Debt(number, number + 1, low, high, len(rows), 100, upto, skip, since=self.now)
            debt.floor = floor
            debt.floor_upto = random.choice([0, upto // 2, upto]) if floor > START else 0
            before = ledger.debts[side]
            joined = RULES.join_debts(before[-1], debt) if before else None
            ledger.debts[side] = [*before[:-1], joined] if joined else [*before, debt]

    def work(self, group: int) -> None:
        """What a batch does to what is there: pay, mark, let leave, forget."""
        ledger, random = self.ledgers[group], self.random
        for side in (0, 1):
            if ledger.debts[side] and random.random() < 0.3:
                del ledger.debts[side][0]
            if ledger.debts[side] and random.random() < 0.3:
                debt = ledger.debts[side][0]
                ledger.debts[side][0] = replace(debt, done=random.randint(debt.done, debt.upto))
            for block in ledger.blocks[side]:
                if random.random() < 0.1:
                    place = f"marks-{self.now}-{group}-{random.random()}"
                    span = block.buckets or (0, BUCKETS)
                    block.marks = (Marked(place, 0, 1, 1, *span),)
            dead = self.now - random.choice([8, 12])
            for block in ledger.blocks[side]:
                if block.low < dead and not ledger.owing(side, block.number):
                    block.closed = max(block.closed, dead)
            ledger.blocks[side] = [
                b for b in ledger.blocks[side] if b.high >= dead or ledger.owing(side, b.number)
            ]

    # ---- what the ledgers mean, bucket by bucket ----
    def rows(self) -> Counter:
        """Where there are rows: of which block, of which times, in which bucket, with which marks, and what has left."""
        found: Counter = Counter()
        for group, ledger in enumerate(self.ledgers):
            for side in (0, 1):
                for block in ledger.blocks[side]:
                    for bucket in self.buckets(group, block):
                        marks = {m.run for m in block.marks if m.first <= bucket < m.end}
                        times = block.low, block.high, block.closed
                        found[(side, block.run, bucket, times, frozenset(marks))] += 1
        return found

    def owed(self) -> Counter:
        """Who has yet to meet whom, in which bucket, above which time, since when."""
        found: Counter = Counter()
        for group, ledger in enumerate(self.ledgers):
            for side in (0, 1):
                for debt in ledger.debts[side]:
                    for own in ledger.blocks[side]:
                        if not debt.first <= own.number < debt.end:
                            continue
                        assert debt.low <= own.low and own.high <= debt.high
                        for other in ledger.blocks[1 - side]:
                            if not RULES.needs(debt, other):
                                continue
                            floor = debt.floor if other.number < debt.floor_upto else START
                            common = self.buckets(group, own) & self.buckets(group, other)
                            for bucket in common:
                                found[(side, own.run, other.run, bucket, floor, debt.since)] += 1
        return found

    def buckets(self, group: int, block: Block) -> set[int]:
        first, end = block.buckets or bucket_range(group, len(self.ledgers))
        bits = int(block.present, 16)
        return {b for b in range(first, end) if bits >> b & 1}

    def blocks(self) -> int:
        return sum(len(bs) for ledger in self.ledgers for bs in ledger.blocks)

    def size(self) -> int:
        return len(json.dumps([ledger.to_json() for ledger in self.ledgers]))


def test_the_ledgers_do_not_grow_over_changes() -> None:
    """10 blocks a side in two groups, then 3, 2, 3, 2, 3, 2, 3 groups, again and again."""
    groups = Groups(0, 2)
    for group in (0, 1):
        for _ in range(10):
            for side in (0, 1):
                groups.insert(group, side, owing=False)
    rows = groups.rows()
    for number, count in enumerate((3, 2) * 500):
        groups.change(count)
        assert number % 100 > 1 or groups.rows() == rows
        for ledger in groups.ledgers:
            for blocks in ledger.blocks:
                assert len({b.run for b in blocks}) == len(blocks) <= 20
    assert groups.blocks() == 40, "in the groups that wrote them each block is one again"


def test_what_is_owed_is_the_same_in_other_groups() -> None:
    """A thousand changes, with new blocks, payments, marks and expiry between them."""
    groups = Groups(1)
    largest, kept = [0, 0], 0
    for step in range(1_000):
        groups.now += 1
        for group in range(len(groups.ledgers)):
            if groups.random.random() < 0.7:
                groups.insert(group, groups.random.randrange(2))
            groups.work(group)
        rows, owed = groups.rows(), groups.owed()
        groups.change(groups.random.choice([1, 2, 3, 5]))
        assert groups.rows() == rows, step
        # Where blocks became one, the older of their debts gives the time.
        assert unaged(groups.owed()) == unaged(owed), step
        for ledger in groups.ledgers:
            for blocks in ledger.blocks:
                numbers = [b.number for b in blocks]
                assert numbers == sorted(set(numbers))
                assert all(b.has_rows_in(b.buckets) for b in blocks if b.buckets)
        stored = len({key[:2] for key in rows})
        assert groups.blocks() <= stored * len(groups.ledgers) + apart(groups)
        half = step >= 500
        largest[half] = max(largest[half], groups.size())
        kept += len(owed)
    assert kept > 1_000, "there was something to lose"
    assert largest[1] < 1.5 * largest[0]


def unaged(owed: Counter) -> Counter:
    found: Counter = Counter()
    for (*what, _), count in owed.items():
        found[tuple(what)] += count
    return found


def apart(groups: Groups) -> int:
    """Pieces of one block in one group that could not become one: debts, rows that left, or gaps."""
    count = 0
    for ledger in groups.ledgers:
        for blocks in ledger.blocks:
            count += len(blocks) - len({b.run for b in blocks})
    return count


def test_pieces_stay_apart_only_while_they_must() -> None:
    groups = Groups(2)
    for side in (0, 1):
        groups.insert(0, side, owing=False)
        groups.ledgers[0].blocks[side][0].present = bucket_bits([3, 200])
    groups.ledgers[0].debts[1] = [Debt(0, 1, 0, 9, 2, 100, upto=1)]
    groups.change(2)
    assert [len(ledger.debts[1]) for ledger in groups.ledgers] == [1, 1]
    groups.ledgers[0].debts[1].clear()  # one group pays
    owed = groups.owed()
    groups.change(1)
    assert groups.owed() == owed and len(groups.ledgers[0].blocks[1]) == 2
    groups.ledgers[0].debts[1].clear()  # the other pays, too
    groups.change(3)
    groups.change(1)
    assert [len(blocks) for blocks in groups.ledgers[0].blocks] == [1, 1]


def test_a_group_keeps_no_block_and_no_debt_without_rows_of_its_own() -> None:
    groups = Groups(3)
    for side in (0, 1):
        groups.insert(0, side, owing=False)
        groups.ledgers[0].blocks[side][0].present = bucket_bits([3, 200][: side + 1])
    groups.ledgers[0].debts[1] = [Debt(0, 1, 0, 9, 2, 100, upto=1)]
    groups.change(2)
    assert [[len(blocks) for blocks in ledger.blocks] for ledger in groups.ledgers] == [
        [1, 1],
        [0, 1],
    ]
    # In the second group there is nothing left that its row could meet.
    assert [len(ledger.debts[1]) for ledger in groups.ledgers] == [1, 0]


def test_rows_that_one_group_let_go_do_not_come_back() -> None:
    groups = Groups(4)
    groups.insert(0, 0, owing=False)
    groups.ledgers[0].blocks[0][0].present = bucket_bits([3, 130, 255])
    groups.change(3)
    groups.ledgers[1].blocks[0].clear()
    rows = groups.rows()
    groups.change(1)
    assert groups.rows() == rows and len(rows) == 2


def test_frequency_is_shared_by_buckets() -> None:
    groups = Groups(5)
    groups.ledgers[0].frequency = [256.0, 0.0]
    groups.ledgers[0].paid = [1_000, 0]
    for count in (2, 4, 3, 1) * 20:
        groups.change(count)
        assert sum(ledger.frequency[0] for ledger in groups.ledgers) == pytest.approx(256)
        assert sum(ledger.paid[0] for ledger in groups.ledgers) <= 1_000


def test_a_ledger_of_an_older_version_is_read() -> None:
    """Version 2 has one place of marks per block, or null, and no buckets of rows."""
    block = [0, 1, 2, 3, 4, "disk", 0.5, 7, "run", 8, 9, 10]
    document = {
        "version": 2,
        "blocks": [[[*block, ["m", 1, 2, 3], [0, 100]], [1, *block[1:], None, None]], []],
        "debts": [[], []], "numbers": [2, 0], "frequency": [0.0, 0.0], "paid": [0, 0], "last_pass": 0,
    }  # fmt: skip
    ledger = Ledger.from_json(json.loads(json.dumps(document)))
    first, second = ledger.blocks[0]
    assert first.marks == (Marked("m", 1, 2, 3, 0, 100),) and first.buckets == (0, 100)
    assert second.marks == () and second.has_rows_in((200, 201))
    assert ledger.runs() == {"run", "m"}
    assert Ledger.from_json(json.loads(json.dumps(ledger.to_json()))) == ledger
    assert ledger.to_json()["version"] == VERSION == 3
