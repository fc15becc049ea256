"""One batch of a bounded join, which works in little memory: rows in, results out, blocks on disk.

A batch is taken in chunks, the side with the older rows first. A chunk meets the resident blocks of the other side
at once and gets a debt for the rest (``semantics.join_memory``); passes pay debts by reading the other side's blocks in
order, one at a time. Then the bounds move: unmatched rows leave, dead blocks are dropped, new blocks are written.

At most the policy's memory is held, and a constant: the indexes of a few chunks, one chunk of results.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.kernels.joins.bounded.blocks import BlockStore, RunFile
from slackwater.kernels.joins.bounded.chunks import Chunks, cut, plain
from slackwater.kernels.joins.bounded.group import DebtGroup
from slackwater.kernels.joins.bounded.leaving import Leaving
from slackwater.kernels.joins.bounded.ledger import Ledger
from slackwater.kernels.joins.bounded.marks import Marks
from slackwater.kernels.joins.bounded.merge import merge_runs
from slackwater.kernels.joins.bounded.probe import (
    Joiner,
    Loaded,
    ints,
    no_key,
    present_in,
    with_codes,
)
from slackwater.kernels.joins.bounded.reading import Reading, clusters
from slackwater.kernels.joins.bounded.residence import Residence
from slackwater.kernels.joins.bounded.results import Emit, Results
from slackwater.kernels.joins.bounded.stats import Stats, sum_up
from slackwater.kernels.joins.step import TIME, JoinSpec, Predicate
from slackwater.model.names import CODE
from slackwater.semantics.join import met_from, needed_from, outer_inputs
from slackwater.semantics.join_memory import (
    Block,
    BlockRules,
    Debt,
    JoinPolicy,
    Reason,
    areas,
    faded,
    in_reach,
    pass_group,
    pass_reason,
    reach,
    weight,
)
from slackwater.semantics.lateness import is_late
from slackwater.semantics.limits import START

__all__ = ["BatchBounds", "BoundedJoin", "Done", "Emit", "Stats", "bounded_step"]

_LEAST_RESULTS = 1 << 20
"""Bytes of results that leave together, however little memory there is: each chunk has its cost."""


@dataclass(frozen=True)
class BatchBounds:
    """What a batch brings: bounds (left, right) before and after, the clock, whether the streams end here."""

    old: tuple[int, int]
    new: tuple[int, int]
    now: int = 0
    final: bool = False


@dataclass(frozen=True)
class Done:
    """The state after a batch, the files that were written, and the bounds with the hold applied."""

    ledger: Ledger
    held: tuple[int, ...]
    files: list[RunFile]
    stats: Stats


@dataclass(frozen=True)
class BoundedJoin:
    """A bounded join, as it is in every batch; ``schemas`` are those of the new rows of each side."""

    spec: JoinSpec
    schemas: Sequence[pa.Schema]
    policy: JoinPolicy
    predicate: Predicate | None = None
    rules: BlockRules = BlockRules()  # noqa: RUF009


def bounded_step(
    join: BoundedJoin,
    ledger: Ledger,
    store: BlockStore,
    inputs: Sequence[Iterable[pa.Table]],
    batch: BatchBounds,
    emit: Emit,
) -> Done:
    """Join one batch of one partition-group.

    Parameters
    ----------
    ledger
        The state; it is changed.
    inputs
        New rows of each side, as tables of any size, with `TIME`, `BUCKET` and the keys; they are taken one by one.
    emit
        Takes each chunk of results.
    """
    work = _Work(join, ledger, store, batch, emit)
    try:
        return work.run(inputs)
    except BaseException:
        store.close()
        raise


class _Work:
    def __init__(
        self, join: BoundedJoin, ledger: Ledger, store: BlockStore, batch: BatchBounds, emit: Emit
    ) -> None:
        spec, policy = join.spec, join.policy
        self.spec, self.ledger, self.store = spec, ledger, store
        self.batch, self.policy, self.rules = batch, policy, join.rules
        rows = [plain(s) for s in join.schemas]
        self.joiner = Joiner(spec, rows, join.predicate, areas(policy.memory).cluster)
        stored = [s.append(pa.field(CODE, pa.int64())) for s in rows]
        self.house = Residence(ledger, store, stored, policy)
        self.areas = self.house.areas
        outer = outer_inputs(spec.how)
        self.marks = [
            Marks(store, side, self.areas.block) if side in outer else None for side in (0, 1)
        ]
        self.first_new = tuple(ledger.numbers)
        self.results = Results(emit, spec.max_pairs, max(self.areas.chunk, _LEAST_RESULTS))
        self.stats = Stats()
        self.delays: Counter[int] = Counter()
        self.before = replace(store.counts)
        self.reading = Reading(self.house, None if batch.final else policy.read_limit)

    # --- the batch ---------------------------------------------------------------------------------

    def run(self, inputs: Sequence[Iterable[pa.Table]]) -> Done:
        self.house.make_room(0)  # the budget may be smaller than it was
        arrived = self._take_in(inputs)
        for side in (0, 1):
            while (reason := self._reason(side, arrived)) and self._pay(side, reason):
                pass
        if self.stats.passes:
            self.ledger.last_pass = self.batch.now
        held = self._move_bounds()
        self.results.hand_on()
        for side in (0, 1):
            dead = self.rules.dead_below(self.spec.within, side, held)
            marks = self.marks[side]
            self.stats.merged_blocks += merge_runs(self.house, side, self.rules, dead, marks)
            if marks is not None:
                marks.write()
            self.ledger.frequency[side] = faded(self.ledger.frequency[side], self.policy.decay)
        files = self.store.finish()
        self.stats.promoted, self.stats.evicted = self.house.promoted, self.house.evicted
        self.stats.results, self.stats.delayed_results = self.results.rows, self.results.delayed
        self.delays[0] += self.results.rows - self.results.delayed - self.results.alone
        self.stats.delays = [[delay, count] for delay, count in self.delays.items() if count]
        sum_up(self.stats, self.ledger, self.store.counts, self.before, self.batch.now)
        return Done(self.ledger, held, files, self.stats)

    def _move_bounds(self) -> tuple[int, ...]:
        """Let unmatched rows leave, drop what is dead, write what is new. Returns the bounds as held."""
        held = self.rules.held(self.batch.new, self.ledger.debts)
        leaving = Leaving(self.house, self.joiner, self.marks, self.results)
        for side in (0, 1):
            leaving.leave(side, self.rules.dead_below(self.spec.within, side, held))
        self.stats.expired_blocks += leaving.expired
        return held

    def _take_in(self, inputs: Sequence[Iterable[pa.Table]]) -> int:
        queues = [Chunks(tables, self.areas.chunk) for tables in inputs]
        arrived = 0
        while any(q.waiting for q in queues):
            side = min((q.oldest, s) for s, q in enumerate(queues) if q.waiting)[1]
            chunk = queues[side].take()
            arrived += chunk.nbytes
            self._arrive(side, chunk)
            while self._reason(side, None) and self._pay(side, "backlog"):
                pass
        return arrived

    def _arrive(self, side: int, rows: pa.Table) -> None:
        """New rows become blocks, meet the residents of the other side, and owe the rest."""
        self.stats.arrived_rows[side] += rows.num_rows
        null = no_key(self.spec, side, rows)
        if null.any():
            if self.marks[side] is not None:
                self.results.add_alone(self.joiner.padded(side, rows.filter(pa.array(null))))
            rows = rows.filter(pa.array(~null))
        # Rows in a place that is not kept owe other things than those that are kept.
        fleeting = ints(rows, TIME) < self.rules.floor(self.spec.within, side, self.batch.old)
        for part in (~fleeting, fleeting):
            if part.any():
                kept = rows if part.all() else rows.filter(pa.array(part))
                self._meet_others(side, kept, part is fleeting)
        self.house.make_room(side)

    def _meet_others(self, side: int, rows: pa.Table, fleeting: bool) -> None:
        tables = cut(with_codes(self.spec, side, rows), self.areas.block)
        blocks = [self._numbered(side, table) for table in tables]
        others = self.ledger.blocks[1 - side]
        upto = self.rules.met_upto(others)
        debt = self._debt(side, blocks, upto, self.rules.met_below(others, upto), fleeting)
        span = self._reach(side, debt)
        residents = [b for b in self.rules.residents(others) if in_reach(span, b)]
        if residents:
            loaded = [Loaded(t) for t in tables]
            debts = [debt] * len(tables)
            group = DebtGroup(self.joiner, side, blocks, loaded, debts, self.marks)
            self._meet(group, residents, self._residents(1 - side), self.results.add)
            group.finish()
        for block, table in zip(blocks, tables):
            self.house.add(side, block, table)
            self._mark_unsure(side, block, table)
        if any(self.rules.needs(debt, b) and in_reach(span, b) for b in others):
            self._owe(side, debt)
        self.ledger.frequency[side] += sum(b.bytes for b in blocks)

    def _mark_unsure(self, side: int, block: Block, rows: pa.Table) -> None:
        """Rows of which nobody can know whether they had a partner look like those that have met one."""
        marks = self.marks[side]
        first = met_from(self.spec.within, side, self.batch.old)
        if marks is not None and block.low < first:
            marks.add(block, ints(rows, TIME) < first)

    def _numbered(self, side: int, table: pa.Table) -> Block:
        times = pc.min_max(table.column(TIME))
        number = self.ledger.numbers[side]
        self.ledger.numbers[side] += 1
        low, high = times["min"].as_py(), times["max"].as_py()
        return Block(number, low, high, table.num_rows, table.nbytes, present=present_in(table))

    def _debt(
        self, side: int, blocks: Sequence[Block], upto: int, skip: list[int], fleeting: bool
    ) -> Debt:
        low, other = min(b.low for b in blocks), 1 - side
        late = is_late(low, self.batch.old[side])
        upto_floor = self.ledger.numbers[other] if fleeting else self.first_new[other]
        return Debt(
            first=blocks[0].number,
            end=blocks[-1].number + 1,
            low=low,
            high=max(b.high for b in blocks),
            rows=sum(b.rows for b in blocks),
            bytes=sum(b.bytes for b in blocks),
            upto=upto,
            skip=skip,
            # Rows on time cannot pair with rows that were given up; only late ones need the test.
            floor=self.rules.floor(self.spec.within, other, self.batch.old) if late else START,
            # Rows that are kept meet all new ones, rows that are not only those that are.
            floor_upto=upto_floor if late else 0,
            since=self.batch.now,
        )

    def _owe(self, side: int, debt: Debt) -> None:
        debts = self.ledger.debts[side]
        joined = self.rules.join_debts(debts[-1], debt) if debts else None
        if joined is not None and weight(joined) <= self.areas.debts:
            debts[-1] = joined
        else:
            debts.append(debt)

    def _reach(self, side: int, debt: Debt) -> tuple[int, int]:
        return reach(self.spec.within, side, debt.low, debt.high)

    # --- passes ------------------------------------------------------------------------------------

    def _reason(self, side: int, arrived: int | None) -> Reason | None:
        """Why a pass should run now; ``arrived`` is None while rows are still coming in."""
        if self.reading.limited:
            return None
        return pass_reason(
            self.policy,
            self.ledger.debts[side],
            now=self.batch.now,
            last_pass=self.ledger.last_pass,
            arrived=arrived,
            final=self.batch.final and arrived is not None,
        )

    def _pay(self, side: int, reason: Reason) -> bool:
        """One pass for the oldest debts of a side; whether it went through."""
        self.stats.passes[reason] = self.stats.passes.get(reason, 0) + 1
        before = self.store.counts.read_bytes
        through = self._pass(side)
        self.stats.pass_read_bytes += self.store.counts.read_bytes - before
        return through

    def _pass(self, side: int) -> bool:
        ledger, other = self.ledger, 1 - side
        debts = self._chosen(side)
        mine = [(b, d) for d in debts for b in ledger.blocks[side] if d.first <= b.number < d.end]
        blocks, by_block = [b for b, _ in mine], [d for _, d in mine]
        group = DebtGroup(
            self.joiner,
            side,
            blocks,
            # No name for the loaded rows: the group makes one piece of them, and they should go then.
            self.house.clear_out(side, blocks),
            by_block,
            self.marks,
        )
        size = sum(weight(d) for d in debts)
        stage = ledger.paid[side] + size >= self.policy.stage_share * self.areas.debts
        productive = self.house.productive(other)
        spans = [(d, self._reach(side, d)) for d in debts]
        tasks = [(b, who) for b in ledger.blocks[other] if any(who := self._who(spans, b))]
        others, needed = [b for b, _ in tasks], self._by_block(debts, by_block, tasks)
        count = self._meet(
            group, others, self.reading.blocks_of(other), self.results.add_delayed, needed
        )
        # Only now, when all have met it: a block must not become resident in the midst of a pass.
        for block in others[:count]:
            if stage and block.place == "disk":
                self.house.offer(other, block, productive)
        if count < len(others):
            self._finish(group, by_block)
            rest = [self.rules.advanced(d, others[count].number) for d in debts]
            ledger.debts[side][: len(debts)] = rest
            return False
        self._finish(group, by_block)
        self._count_paid(side, mine)
        del ledger.debts[side][: len(debts)]
        ledger.paid[side] = 0 if stage else ledger.paid[side] + size
        if stage:
            for block in ledger.blocks[other]:
                block.worth = faded(block.worth, self.policy.decay)
        return True

    def _meet(
        self,
        group: DebtGroup,
        others: Sequence[Block],
        load: Callable[[Sequence[Block]], list[Loaded]],
        emit: Callable[[pa.Table], None],
        needed: Sequence[Sequence[bool]] | None = None,
    ) -> int:
        """Make all pairs of a group with other blocks; returns with how many of these, if not all could be read.

        ``needed[j][i]`` says whether block i of the group takes part in meeting block j.
        """
        count = 0
        for cluster in clusters(others, self.areas.cluster):
            rows = load(cluster)
            flags = [None] * len(rows) if needed is None else needed[count : count + len(rows)]
            group.look_up(cluster, rows, flags)
            count += len(rows)
            if len(rows) < len(cluster):
                break
            # The pairs take the place of the rows.
            del rows
            if group.waiting >= self.areas.cluster:
                group.pair(emit)
        group.pair(emit)
        return count

    def _chosen(self, side: int) -> list[Debt]:
        """The debts that a pass pays; the one with which its memory is full is split, so that it is full."""
        debts, room = self.ledger.debts[side], self.areas.debts
        chosen = pass_group(debts, room)
        left = room - sum(weight(d) for d in chosen)
        # If not even the first one fits, it is alone.
        at, room = (len(chosen), left) if left >= 0 else (0, room)
        if at < len(debts):
            debt = debts[at]
            own = [b for b in self.ledger.blocks[side] if debt.first <= b.number < debt.end]
            parts = self.rules.split_debt(debt, own, room)
            if parts is not None:
                debts[at : at + 1] = parts
        return pass_group(debts, self.areas.debts)

    def _finish(self, group: DebtGroup, debts: Sequence[Debt]) -> None:
        """End a pass; ``debts[i]`` is that of the group's block i."""
        group.finish()
        for debt, count in zip(debts, group.made.tolist()):
            if count:
                self.delays[self.batch.now - debt.since] += count

    def _who(self, debts: Sequence[tuple[Debt, tuple[int, int]]], other: Block) -> tuple[bool, ...]:
        """Which of the debts, given with their reach, are owed to a block of the other side."""
        return tuple(in_reach(span, other) and self.rules.needs(d, other) for d, span in debts)

    def _by_block(
        self,
        debts: Sequence[Debt],
        by_block: Sequence[Debt],
        tasks: Sequence[tuple[Block, tuple[bool, ...]]],
    ) -> list[list[bool]]:
        """For each task which of the blocks take part, where the task says it by debt and ``by_block[i]`` is that of block i."""
        known: dict[tuple[bool, ...], list[bool]] = {}
        for _, who in tasks:
            if who not in known:
                takes_part = dict(zip(map(id, debts), who))
                known[who] = [takes_part[id(d)] for d in by_block]
        return [known[who] for _, who in tasks]

    def _residents(self, side: int) -> Callable[[Sequence[Block]], list[Loaded]]:
        """Gives the rows of blocks, which stay in memory if they are resident."""
        return lambda blocks: [self.house.load(side, b) for b in blocks]

    def _count_paid(self, side: int, mine: Sequence[tuple[Block, Debt]]) -> None:
        """Count the rows, and those that would be gone by now had they not been in debt."""
        dead = needed_from(self.spec.within, side, self.batch.new)
        for block, _ in mine:
            self.stats.paid_rows += block.rows
            if block.high < dead:
                self.stats.overdue_rows += block.rows
