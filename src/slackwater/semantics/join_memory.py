"""A join in little memory: who has met whom, what stays in memory, when the disk is probed.

Rows live in numbered **blocks**. A block that arrives meets every resident block of the other side at
once; for the others it gets a **debt**, which a later *pass* over the disk pays off. So a pair belongs to
the block that came later, and is made either on arrival or in a pass, never in both:

    a debt needs block n  <=>  done <= n < upto and n not in skip

``upto`` and ``skip`` say what was resident *on arrival* and never change afterwards; only ``done`` moves.
What has no debt has met all there is, so the disks of the two sides never meet each other.

Rows with a debt count as not yet arrived (`held`). Sides are 0 (left) and 1 (right). Sizes are bytes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

from slackwater.errors import AnalysisError
from slackwater.model.join import Within
from slackwater.semantics.join import effective, needed_from, partners
from slackwater.semantics.limits import START

Place = Literal["recent", "productive", "disk"]
Reason = Literal["backlog", "deadline", "idle", "end"]


@dataclass(frozen=True)
class JoinPolicy:
    """What a user may set.

    Parameters
    ----------
    memory
        Bytes that one partition-group may hold.
    backlog
        A pass starts when the rows in debt fill this share of the memory set aside for passes. 0: at once.
    deadline
        A pass starts when a debt is older than this many microseconds. None: no deadline.
    idle_share
        A batch that brought less than this share of a pass's memory is idle: time for a pass.
    idle_pause
        Microseconds between a pass and the next one for want of other work.
    read_limit
        Bytes that the passes of one batch may read; what is left waits for the next. None: no limit.
    decay
        What is left of productivity and of arrival frequency from one stage to the next.
    margin, margin_rows
        A block replaces another if it is more productive by this share and by so many results.
    least_share
        The share of recent memory that each side keeps however slow the other is.
    stage_share
        Productive blocks are chosen anew when passes have paid for this share of a pass's memory.
    merge_runs
        Files per side from which small ones are merged.
    """

    memory: int
    backlog: float = 1.0
    deadline: int | None = None
    idle_share: float = 0.1
    idle_pause: int = 15_000_000
    read_limit: int | None = None
    decay: float = 0.4
    margin: float = 0.4
    margin_rows: float = 0.0
    least_share: float = 0.3
    stage_share: float = 1.0
    merge_runs: int = 16

    def __post_init__(self) -> None:
        if self.memory < 1:
            raise AnalysisError(
                "JOIN_MEMORY",
                f"a join needs some memory, got {self.memory} bytes",
                hint="give memory= at least a few megabytes per partition-group",
                memory=self.memory,
            )
        if not 0 <= self.least_share <= 0.5 or not 0 <= self.decay <= 1 or self.margin < 0:
            raise AnalysisError(
                "JOIN_MEMORY",
                f"out of range: least_share={self.least_share}, decay={self.decay}, margin={self.margin}",
                hint="least_share is in [0, 0.5], decay in [0, 1], margin at least 0",
            )


@dataclass(frozen=True)
class Areas:
    """How a budget is divided. What is not given away here is room for indexes and results.

    ``recent`` and ``productive`` blocks are resident, both sides together. A pass pays for ``debts`` at a time, in the
    place of the residents, and reads a ``cluster`` of blocks at a time. New rows come in by the ``chunk`` and are cut
    into ``block``s.
    """

    recent: int
    productive: int
    debts: int
    cluster: int
    chunk: int
    block: int


INDEX_BYTES = 16
"""What an indexed row takes beside its own bytes."""


def areas(memory: int) -> Areas:
    """The division of a budget.

    >>> areas(100 << 20) == Areas(25 << 20, 5 << 20, 62 << 20, 9 << 20, 4 << 20, 2 << 20)
    True
    """
    shares = [25, 5, 62, 9, 4, 2]
    return Areas(*(max(1, memory * share // 100) for share in shares))


def kept_room(memory: int) -> int:
    """Bytes that an executor may keep of a group's resident blocks between batches, as files.

    Their rows fill `Areas.recent` and `Areas.productive` at most; a file needs some bytes besides.
    """
    return memory // 2


class Marked(NamedTuple):
    """Where marks of matched rows are stored: of a block's rows in the buckets [first, end)."""

    run: str
    offset: int
    length: int
    crc: int
    first: int
    end: int

    @property
    def buckets(self) -> tuple[int, int]:
        """The buckets whose rows it speaks of."""
        return self.first, self.end

    def same_place(self, other: Marked) -> bool:
        """Whether both are the same bytes."""
        return self[:4] == other[:4]


@dataclass
class Block:
    """Rows of one side that arrived together: where they are, and what is known of them.

    Times lie in [low, high]. ``run``, ``offset``, ``length``, ``crc`` say where the block is stored; with no run it is
    in memory only. ``marks`` is where the marks of matched rows are stored, if any row is: a row is marked if one of these
    places says so. Unmatched rows with time < ``closed`` have left. With ``buckets`` [first, end) only these of its rows
    count; others belong to another group. ``present`` tells in which buckets it has rows at all (`bucket_bits`), "" if that
    is not known.
    """

    number: int
    low: int
    high: int
    rows: int
    bytes: int
    place: Place = "recent"
    worth: float = 0.0
    closed: int = START
    run: str = ""
    offset: int = 0
    length: int = 0
    crc: int = 0
    marks: tuple[Marked, ...] = ()
    buckets: tuple[int, int] | None = None
    present: str = ""

    @property
    def is_piece(self) -> bool:
        """Whether other groups may have rows of the same stored block."""
        return self.buckets is not None

    def has_rows_in(self, buckets: tuple[int, int]) -> bool:
        """Whether it has rows in the buckets [first, end), as far as is known.

        >>> block = Block(0, 0, 0, 2, 1, present=bucket_bits([3, 7]))
        >>> block.has_rows_in((0, 3)), block.has_rows_in((3, 4)), Block(0, 0, 0, 2, 1).has_rows_in((0, 3))
        (False, True, True)
        """
        first, end = buckets
        if not self.present or first >= end:
            return first < end
        return bool((int(self.present, 16) >> first) & ((1 << (end - first)) - 1))


def resides(block: Block) -> bool:
    """Whether a block has a place in memory."""
    return block.place != "disk"


def bucket_bits(buckets: Iterable[int]) -> str:
    """A set of buckets as short text: a hexadecimal number with a bit for each.

    >>> bucket_bits([0, 4, 4])
    '11'
    """
    return f"{sum(1 << b for b in set(buckets)):x}"


@dataclass
class Debt:
    """Blocks [first, end) of one side have yet to meet blocks of the other side.

    ``floor``: of the other side's blocks below ``floor_upto``, rows older than this were in a place that was not kept
    when the batch of these rows began, so a late row must not meet them. Those are the blocks that had come before
    the batch, and for rows that are not kept either all that have come.
    """

    first: int
    end: int
    low: int
    high: int
    rows: int
    bytes: int
    upto: int
    skip: list[int] = field(default_factory=list)
    done: int = 0
    floor: int = START
    floor_upto: int = 0
    since: int = 0


class BlockRules:
    """The decisions that make the result exact: each can be tested alone, and replaced by a wrong one in a test."""

    def met_upto(self, others: Iterable[Block]) -> int:
        """All blocks from this number on were resident, so a new block met them on arrival.

        Nothing is owed to blocks that come later, even if none was resident: they will meet this one.
        """
        return 1 + max((b.number for b in others if b.place == "disk"), default=-1)

    def met_below(self, others: Iterable[Block], upto: int) -> list[int]:
        """The blocks below ``upto`` that were resident on arrival."""
        return sorted(b.number for b in others if resides(b) and b.number < upto)

    def needs(self, debt: Debt, block: Block) -> bool:
        """Whether the rows in debt have yet to meet this block of the other side."""
        return debt.done <= block.number < debt.upto and block.number not in debt.skip

    def residents(self, blocks: Iterable[Block]) -> list[Block]:
        """The blocks that arriving rows meet at once, each once."""
        return [b for b in blocks if resides(b)]

    def advanced(self, debt: Debt, upto: int) -> Debt:
        """The debt after a pass has met all blocks below ``upto``."""
        return replace(debt, done=max(debt.done, upto))

    def held(self, bounds: Sequence[int], debts: Sequence[Sequence[Debt]]) -> tuple[int, ...]:
        """The bounds as if rows in debt had not arrived."""
        return effective(bounds, [min((d.low for d in ds), default=None) for ds in debts])

    def dead_below(self, within: Within, side: int, held: Sequence[int]) -> int:
        """Rows of a side with time < this, and without a debt, are of no more use."""
        return needed_from(within, side, held)

    def floor(self, within: Within, side: int, old: Sequence[int]) -> int:
        """Rows of the side with time < this were given up when a batch with these bounds began."""
        return needed_from(within, side, old)

    def join_debts(self, a: Debt, b: Debt) -> Debt | None:
        """Two debts as one, if they need the same; rows that saw another memory stay apart."""
        same = (a.upto, a.skip, a.done, a.floor, a.floor_upto, a.since)
        if a.end != b.first or same != (b.upto, b.skip, b.done, b.floor, b.floor_upto, b.since):
            return None
        return replace(
            a,
            end=b.end,
            low=min(a.low, b.low),
            high=max(a.high, b.high),
            rows=a.rows + b.rows,
            bytes=a.bytes + b.bytes,
        )

    def split_debt(
        self, debt: Debt, blocks: Sequence[Block], room: int
    ) -> tuple[Debt, Debt] | None:
        """A debt as two that need the same: of the first of its blocks, as many as fit, and of the rest.

        ``blocks`` are its own, in order. None if no block fits, or all do.
        """
        parts = [self._part(debt, [b]) for b in blocks]
        fitting, used = 0, 0
        while fitting < len(parts) and used + weight(parts[fitting]) <= room:
            used += weight(parts[fitting])
            fitting += 1
        if fitting in (0, len(parts)):
            return None
        return self._part(debt, blocks[:fitting]), self._part(debt, blocks[fitting:])

    def _part(self, debt: Debt, blocks: Sequence[Block]) -> Debt:
        return replace(
            debt,
            first=blocks[0].number,
            end=blocks[-1].number + 1,
            low=min(b.low for b in blocks),
            high=max(b.high for b in blocks),
            rows=sum(b.rows for b in blocks),
            bytes=sum(b.bytes for b in blocks),
        )

    def alike(self, blocks: Sequence[Block], debts: Iterable[Debt]) -> bool:
        """Whether blocks may be merged under one number: all debts to them need all of them, or none."""
        return len({b.place for b in blocks}) <= 1 and all(
            len({self.needs(d, b) for b in blocks}) <= 1 for d in debts
        )


def owes(debts: Iterable[Debt], number: int) -> bool:
    """Whether the block of this number is itself in debt."""
    return any(d.first <= number < d.end for d in debts)


def reach(within: Within, side: int, low: int, high: int) -> tuple[int, int]:
    """The times of the other side, ends included, with which rows of a side with times in [low, high] can pair."""
    first: Any = partners(within, side, 1 - side, low)[0]
    last: Any = partners(within, side, 1 - side, high)[1]
    return int(first), int(last)


def in_reach(span: tuple[int, int], other: Block) -> bool:
    """Whether a block has rows, as far as is known, with times in a span, ends included."""
    return span[0] <= other.high and other.low <= span[1]


# --- when the disk is probed -----------------------------------------------------------------------


def pass_reason(
    policy: JoinPolicy,
    debts: Sequence[Debt],
    *,
    now: int,
    last_pass: int,
    arrived: int | None,
    final: bool,
) -> Reason | None:
    """Why a pass should run for the debts of one side, or None.

    ``arrived`` is how many bytes the batch brought, None while it still runs. A pass at the end of the stream
    is for all.
    """
    if not debts:
        return None
    if final:
        return "end"
    room = areas(policy.memory).debts
    owed = sum(weight(d) for d in debts)
    if policy.backlog > 0 and owed >= policy.backlog * room:
        return "backlog"
    if arrived is None:
        return None
    if policy.backlog <= 0:
        return "backlog"
    if policy.deadline is not None and now - min(d.since for d in debts) >= policy.deadline:
        return "deadline"
    if arrived < policy.idle_share * room and now - last_pass >= policy.idle_pause:
        return "idle"
    return None


def weight(debt: Debt) -> int:
    """What rows in debt take in memory when they are indexed for a pass."""
    return debt.bytes + INDEX_BYTES * debt.rows


def pass_group(debts: Sequence[Debt], room: int) -> list[Debt]:
    """The debts that one pass pays: the oldest ones that fit, at least one.

    The debt that does not fit can be split first (`BlockRules.split_debt`): passes cost the same however full they are.
    """
    chosen: list[Debt] = []
    for debt in debts:
        if chosen and sum(weight(d) for d in chosen) + weight(debt) > room:
            break
        chosen.append(debt)
    return chosen


# --- what stays in memory --------------------------------------------------------------------------


def giver(
    side: int, frequency: Sequence[float], recent: Sequence[int], least: int, margin: float
) -> int:
    """Which side gives up its oldest recent block when ``side`` needs room.

    The faster side gives to the slower one, since each row of the fast side meets all recent rows of the slow one.
    No side goes below ``least`` bytes for the other's sake.

    >>> giver(0, (1.0, 5.0), (10, 90), 30, 0.4), giver(0, (1.0, 5.0), (70, 30), 30, 0.4)
    (1, 0)
    """
    other = 1 - side
    if frequency[other] >= (1 + margin) * frequency[side] and recent[other] > least:
        return other
    return side if recent[side] > 0 else other


def displaced(
    block: Block, productive: Collection[Block], room: int, margin: float, margin_rows: float
) -> list[Block] | None:
    """The blocks that make way for ``block`` among the productive ones; None if it stays out.

    Blocks differ in size, so worth is compared per byte. To be let in, a block must beat each that goes.

    >>> displaced(Block(1, 0, 0, 1, 10, worth=5.0), [], 10, 0.4, 0.0)
    []
    """
    free = room - sum(b.bytes for b in productive)
    if block.bytes > room or block.worth <= 0:
        return None
    going: list[Block] = []
    for old in sorted(productive, key=lambda b: (b.worth / max(1, b.bytes), b.number)):
        if free >= block.bytes:
            break
        share = block.bytes / max(1, old.bytes)
        if block.worth <= (1 + margin) * old.worth * share + margin_rows:
            return None
        going.append(old)
        free += old.bytes
    return going if free >= block.bytes else None


def faded(value: float, decay: float) -> float:
    """A measure after a stage without news; what is too small to tell apart from 0 is 0.

    >>> faded(8.0, 0.5)
    4.0
    """
    left = value * decay
    return left if left > 1e-6 else 0.0
