"""The state of a bounded join for another division of the buckets into groups, without touching a file.

A stored block falls into **pieces**, one per group: its rows in the buckets of that group. A piece without rows is left
out, and pieces that meet again in one group become one block again, so that however often the division changes there is at
most one piece of a block per bucket, and mostly one per group.

Rows of different buckets never pair. So what a piece owes matters only between pieces that share buckets, and blocks may be
numbered anew: each debt is written down by what it still needs. Pieces stay apart for now if one block could not say what
they owe (one has met a block of which the other has not met its part), or which of their rows have left.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from slackwater.kernels.joins.bounded.ledger import Ledger
from slackwater.semantics.join_memory import Block, BlockRules, Debt, Marked
from slackwater.semantics.limits import START

Span = tuple[int, int]
"""Buckets [first, end)."""

_RULES = BlockRules()
_PLACES = ("disk", "productive", "recent")


@dataclass(eq=False)
class _Piece:
    """Rows of a block that the new group owns. ``source`` is the old group, ``debts`` are those that it is in."""

    source: int
    block: Block
    span: Span
    debts: list[Debt] = field(default_factory=list)


_Whole = list[_Piece]
"""Pieces that become one block, by rising buckets."""


@dataclass(frozen=True)
class _Owed:
    """By debt and by piece of the other side that it needs: below which time its rows do not count."""

    floors: dict[int, dict[int, int]]

    def floor(self, piece: _Piece, other: _Piece) -> int | None:
        """None: they have met, or need not."""
        known = (self.floors[id(d)].get(id(other)) for d in piece.debts)
        return next((floor for floor in known if floor is not None), None)

    def clash(self, whole: _Whole, other: _Whole) -> bool:
        """Whether some of the pieces owe what others that share buckets in the same way do not."""
        if len(whole) == len(other) == 1:
            return False
        return len({self.floor(a, b) for a in whole for b in other if _meet(a, b)}) > 1

    def needed(self, whole: _Whole, others: Sequence[_Whole]) -> dict[int, int]:
        """The numbers of the blocks that a block needs, and the floor of each."""
        floors = {}
        for number, other in enumerate(others):
            for floor in (self.floor(a, b) for a in whole for b in other if _meet(a, b)):
                if floor is not None:
                    floors[number] = floor
        return floors


def regrouped(parts: Sequence[tuple[Span, Ledger]], buckets: Span) -> Ledger:
    """The ledger of the group that owns ``buckets``, from those of the groups that owned them, each with its buckets."""
    parts = [(span, ledger) for span, ledger in parts if _common(span, buckets)]
    pieces = [_pieces(parts, side, buckets) for side in (0, 1)]
    owed = [_owed(pieces[side], pieces[1 - side]) for side in (0, 1)]
    wholes = [_wholes(p) for p in pieces]
    _keep_apart(wholes, owed)
    ordered = [_ordered(pieces[side], wholes[side]) for side in (0, 1)]
    shares = [_share(buckets, span) for span, _ in parts]
    return Ledger(
        blocks=[[_block(w, number) for number, w in enumerate(side)] for side in ordered],
        debts=[_debts(ordered[s], ordered[1 - s], owed[s]) for s in (0, 1)],
        numbers=[len(side) for side in ordered],
        frequency=[sum(p[1].frequency[s] * x for p, x in zip(parts, shares)) for s in (0, 1)],
        paid=[int(sum(p[1].paid[s] * x for p, x in zip(parts, shares))) for s in (0, 1)],
        last_pass=min((ledger.last_pass for _, ledger in parts), default=0),
    )


# --- pieces ----------------------------------------------------------------------------------------


def _pieces(parts: Sequence[tuple[Span, Ledger]], side: int, buckets: Span) -> list[_Piece]:
    """The pieces of one side, old group by old group, in order of their numbers."""
    pieces = []
    for source, (owner, ledger) in enumerate(parts):
        for block in ledger.blocks[side]:
            span = _common(block.buckets or owner, buckets)
            if span and block.has_rows_in(span):
                piece = _Piece(source, block, span)
                piece.debts = [d for d in ledger.debts[side] if d.first <= block.number < d.end]
                pieces.append(piece)
    return pieces


def _owed(pieces: Sequence[_Piece], others: Sequence[_Piece]) -> _Owed:
    by_source = defaultdict(list)
    for other in others:
        by_source[other.source].append(other)
    floors: dict[int, dict[int, int]] = {}
    for piece in pieces:
        for d in piece.debts:
            if id(d) not in floors:
                floors[id(d)] = {
                    id(o): d.floor if o.block.number < d.floor_upto else START
                    for o in by_source[piece.source]
                    if _RULES.needs(d, o.block)
                }
    return _Owed(floors)


def _wholes(pieces: Sequence[_Piece]) -> list[_Whole]:
    """Pieces that could be one block: of the same stored rows, side by side, with the same rows gone."""
    by_block = defaultdict(list)
    for piece in pieces:
        b = piece.block
        by_block[(b.run, b.offset, b.closed)].append(piece)
    wholes: list[_Whole] = []
    for same in by_block.values():
        end: int | None = None
        for piece in sorted(same, key=lambda p: p.span):
            # Rows between two pieces are gone; they must not come back.
            if end is None or not piece.block.run or piece.block.has_rows_in((end, piece.span[0])):
                wholes.append([])
            wholes[-1].append(piece)
            end = piece.span[1]
    return wholes


def _keep_apart(wholes: list[list[_Whole]], owed: Sequence[_Owed]) -> None:
    """Take apart again what one debt could not speak of."""
    for side in (0, 1):
        queue, done = wholes[side], []
        while queue:
            whole = queue.pop()
            others = wholes[1 - side] if any(p.debts for p in whole) else []
            clashing = [o for o in others if owed[side].clash(whole, o)]
            if clashing and len(whole) > 1:
                queue += [[p] for p in whole]
                continue
            gone = {id(o) for o in clashing}
            if gone:
                rest = [o for o in others if id(o) not in gone]
                wholes[1 - side] = rest + [[p] for o in clashing for p in o]
            done.append(whole)
        wholes[side] = done


def _ordered(pieces: Sequence[_Piece], wholes: Sequence[_Whole]) -> list[_Whole]:
    """The blocks in the order of each old group, as far as they agree, so that a debt needs blocks in a row."""
    home = {id(p): whole for whole in wholes for p in whole}
    order: list[_Whole] = []
    for _, group in groupby(pieces, key=lambda p: p.source):
        position = {id(whole): i for i, whole in enumerate(order)}
        behind: dict[int, list[_Whole]] = defaultdict(list)
        at = -1
        placed = set()
        for piece in group:
            whole = home[id(piece)]
            if id(whole) in position:
                at = max(at, position[id(whole)])
            elif id(whole) not in placed:
                placed.add(id(whole))
                behind[at].append(whole)
        merged = list(behind[-1])
        for i, whole in enumerate(order):
            merged += [whole, *behind[i]]
        order = merged
    return order


# --- blocks and debts ------------------------------------------------------------------------------


def _block(whole: _Whole, number: int) -> Block:
    blocks = [p.block for p in whole]
    return replace(
        blocks[0],
        number=number,
        place=max((b.place for b in blocks), key=_PLACES.index),
        worth=max(b.worth for b in blocks),
        marks=tuple(_marks(whole)),
        buckets=(whole[0].span[0], whole[-1].span[1]),
    )


def _marks(whole: _Whole) -> Iterator[Marked]:
    """Where the marks of the pieces are: each for the buckets of its piece, and one place once."""
    last: Marked | None = None
    for piece in whole:
        for mark in sorted(piece.block.marks, key=lambda m: m.buckets):
            span = _common(mark.buckets, piece.span)
            if not span:
                continue
            if last is not None and last.same_place(mark) and last.end == span[0]:
                last = last._replace(end=span[1])
                continue
            if last is not None:
                yield last
            last = mark._replace(first=span[0], end=span[1])
    if last is not None:
        yield last


def _debts(order: Sequence[_Whole], others: Sequence[_Whole], owed: _Owed) -> list[Debt]:
    """What the blocks of a side owe, in order of arrival."""
    made = []
    claims = ((number, whole, _claim(whole, others, owed)) for number, whole in enumerate(order))
    for claim, group in groupby(claims, key=lambda c: c[2]):
        if claim is not None:
            blocks = [(number, whole[0].block) for number, whole, _ in group]
            made += [_debt(blocks, part, claim.since) for part in _by_floor(dict(claim.needed))]
    return sorted(made, key=lambda d: (d.since, d.first))


@dataclass(frozen=True)
class _Claim:
    """What a block owes: blocks in a row that owe the same since the same time share a debt.

    ``debts`` are those it had before: together with others it might be more than a pass has room for.
    """

    since: int
    debts: frozenset[int]
    needed: tuple[tuple[int, int], ...]


def _claim(whole: _Whole, others: Sequence[_Whole], owed: _Owed) -> _Claim | None:
    debts = [d for p in whole for d in p.debts]
    if not debts:
        return None
    needed = tuple(owed.needed(whole, others).items())
    return _Claim(min(d.since for d in debts), frozenset(map(id, debts)), needed)


def _by_floor(needed: dict[int, int]) -> list[dict[int, int]]:
    """One debt knows one floor, and blocks below a number have it: mostly one part, else one part per floor."""
    floors = sorted({*needed.values()} - {START})
    high = [n for n, floor in needed.items() if floor == START]
    low = [n for n, floor in needed.items() if floor != START]
    if not floors or (len(floors) == 1 and (not high or max(low) < min(high))):
        return [needed] if needed else []
    return [{n: f for n, f in needed.items() if f == floor} for floor in {*needed.values()}]


def _debt(numbered: Sequence[tuple[int, Block]], needed: dict[int, int], since: int) -> Debt:
    blocks = [block for _, block in numbered]
    upto = max(needed) + 1
    floor = max(needed.values())
    return Debt(
        first=numbered[0][0],
        end=numbered[-1][0] + 1,
        low=min(b.low for b in blocks),
        high=max(b.high for b in blocks),
        rows=sum(b.rows for b in blocks),
        bytes=sum(b.bytes for b in blocks),
        upto=upto,
        skip=[n for n in range(min(needed), upto) if n not in needed],
        done=min(needed),
        floor=floor,
        floor_upto=1 + max(n for n, f in needed.items() if f == floor) if floor > START else 0,
        since=since,
    )


# --- buckets ---------------------------------------------------------------------------------------


def _common(a: Span, b: Span) -> Span | None:
    first, end = max(a[0], b[0]), min(a[1], b[1])
    return (first, end) if first < end else None


def _share(part: Span, whole: Span) -> float:
    """How much of the buckets of ``whole`` lies in ``part``."""
    common = _common(part, whole)
    return (common[1] - common[0]) / (whole[1] - whole[0]) if common else 0.0


def _meet(a: _Piece, b: _Piece) -> bool:
    return _common(a.span, b.span) is not None
