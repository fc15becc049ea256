"""What a join answers, by brute force from its definition.

It keeps every row for ever and looks at every combination. A result comes out in the step in which the
last of its rows arrives, an unmatched row of an outer input in the first step whose bounds prove that no
partner can come. A semi join has each left row that is in a pair, in the step of its first one; an anti join
each that is in none, when it is proven that none comes; both without the right row. A row from an earlier step takes part as long as, by the bounds in force when the step
began, a row that is on time could still pair with it. So does a row of this step: but one row of a result may be
needed by nobody, as the last that came. So a late row finds just the partners that had to be kept for others, and the
answer does not depend on what happens to lie around. If one of its partners might have been a row that nobody needed
(a row with its key, at any time that pairs with its own), nobody can know that it had none: it never leaves as unmatched.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, TypeAlias

from slackwater.errors import AnalysisError
from slackwater.model.join import Anytime, Band, How, Reach, Within
from slackwater.semantics.limits import END, START

MOST_TICKS = 5000


@dataclass(frozen=True, eq=False)
class JoinRow:
    """A row of an input; two rows are never the same, whatever they hold."""

    time: int
    key: tuple[Any, ...] = ()
    value: Any = None


Result: TypeAlias = tuple["JoinRow | None", ...]
"""A row of each input, or of the left one alone."""
Condition: TypeAlias = Callable[[Sequence[JoinRow]], bool]
Closed: TypeAlias = Callable[[int, tuple[Any, ...], "int | None"], bool]
"""Whether punctuation says that no row of an input comes with that key at that time; None is any time."""


def nothing_closed(i: int, key: tuple[Any, ...], time: int | None) -> bool:
    """Of streams without patterns."""
    return False


def pairs(within: Within, i: int, j: int, a: int, b: int) -> bool:
    """Whether time ``a`` of input i and time ``b`` of input j may stand in one result."""
    if isinstance(within, Anytime):
        return True
    if isinstance(within, Reach):
        return a - b <= within.ticks[j] and b - a <= within.ticks[i]
    if isinstance(within, Band):
        left, right = (a, b) if i == 0 else (b, a)
        low, high = left - within.before, left + within.after
        if within.closed == "both":
            return low <= right <= high
        if within.closed == "left":
            return low <= right < high
        return low < right < high
    w = within.window
    return (a - w.origin) // w.range == (b - w.origin) // w.range


def last_partner(within: Within, i: int, j: int, a: int) -> int | None:
    """The latest time of input j that pairs with time ``a`` of input i."""
    if isinstance(within, Anytime):
        return END - 1
    if isinstance(within, Reach):
        latest = a + within.ticks[i]
    elif isinstance(within, Band):
        latest = a + (within.after if i == 0 else within.before)
        # An open end leaves its last tick out.
        if not pairs(within, i, j, a, latest):
            latest -= 1
    else:
        w = within.window
        latest = w.origin + ((a - w.origin) // w.range + 1) * w.range - 1
    return latest if pairs(within, i, j, a, latest) else None


def first_partner(within: Within, i: int, j: int, a: int) -> int | None:
    """The earliest time of input j that pairs with time ``a`` of input i."""
    if isinstance(within, Anytime):
        return START
    if isinstance(within, Reach):
        earliest = a - within.ticks[j]
    elif isinstance(within, Band):
        earliest = a - (within.before if i == 0 else within.after)
        if not pairs(within, i, j, a, earliest):
            earliest += 1
    else:
        w = within.window
        earliest = w.origin + (a - w.origin) // w.range * w.range
    return earliest if pairs(within, i, j, a, earliest) else None


def equal(a: tuple[Any, ...], b: tuple[Any, ...]) -> bool:
    """Whether keys are equal: null equals nothing, NaN equals NaN."""
    if any(v is None for v in (*a, *b)):
        return False
    return all(_value(x) == _value(y) for x, y in zip(a, b, strict=True))


@dataclass
class JoinOracle:
    """Runs a join step by step; a step is one micro-batch.

    Examples
    --------
    >>> oracle = JoinOracle(Band(2, 3), how="left")
    >>> [(a.time, b and b.time) for a, b in oracle.step([[JoinRow(10)], [JoinRow(13)]], (0, 0))]
    [(10, 13)]
    >>> [(a.time, b and b.time) for a, b in oracle.step([[JoinRow(20)], []], (20, 24))]
    [(20, None)]
    """

    within: Within
    how: How = "inner"
    condition: Condition | None = None
    inputs: int = 2
    history: list[list[JoinRow]] = field(default_factory=list)
    bounds: tuple[int, ...] = ()
    closed: Closed = nothing_closed
    _gone: set[Hashable] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.history = [[] for _ in range(self.inputs)]
        self.bounds = (START,) * self.inputs

    def step(
        self,
        rows: Sequence[Sequence[JoinRow]],
        bounds: Sequence[int],
        closed: Closed = nothing_closed,
    ) -> list[Result]:
        """Take rows of each input, then raise the bounds and close what is closed; the results of this step."""
        kept = [self.stored(i) for i in range(self.inputs)]
        new = {id(r) for side in rows for r in side}
        found: list[Result] = []
        fleeting = {id(r) for i, side in enumerate(rows) for r in side if self.is_fleeting(i, r)}
        # With a null in its key no row at all pairs, and all know that.
        unsure = {
            id(r)
            for i in self._outer()
            for r in rows[i]
            if None not in r.key and self.may_miss(i, r)
        }
        for result in self._matches([[*old, *side] for old, side in zip(kept, rows, strict=True)]):
            if not any(
                id(last) in new and all(r is last or id(r) not in fleeting for r in result)
                for last in result
            ):
                continue
            if not self._exists:
                found.append(result)
            elif self.how == "left_semi" and id(result[0]) not in self._gone:
                found.append(result[:1])
            self._gone.update(id(r) for r in (result[:1] if self._exists else result))
        self._gone |= unsure
        for side, more in zip(self.history, rows, strict=True):
            side.extend(more)
        self.bounds, self.closed = tuple(bounds), closed
        for i in self._outer():
            for row in self.history[i]:
                hopeless = None in row.key or not self.needed(i, row)
                if hopeless and id(row) not in self._gone:
                    self._gone.add(id(row))
                    alone = (row if j == i else None for j in range(self.inputs))
                    found.append((row,) if self._exists else tuple(alone))
        return found

    def needed(self, i: int, row: JoinRow) -> bool:
        """Whether a row of another input that is on time could pair with a row of input i."""
        inputs = range(self.inputs)
        if any(
            last_partner(self.within, k, j, 0) is None for k in inputs for j in inputs if k != j
        ):
            return False  # no two times pair at all, so there are no results
        for j, bound in enumerate(self.bounds):
            if i != j and bound < END:
                last = last_partner(self.within, i, j, row.time)
                if last is None or last < bound:
                    continue
                if self.closed is nothing_closed or not self._all_closed(i, j, row, bound, last):
                    return True
        return False

    def is_fleeting(self, i: int, row: JoinRow) -> bool:
        """Whether a new row of input i can only be the last one of a result: nobody needs it."""
        return not self.needed(i, row)

    def may_miss(self, i: int, row: JoinRow) -> bool:
        """Whether a row that pairs with this one of input i may have come that was not kept: nobody needed it."""
        for j in range(self.inputs):
            first = None if i == j else first_partner(self.within, i, j, row.time)
            last = last_partner(self.within, i, j, row.time)
            if first is None or last is None:
                continue
            if self.closed is nothing_closed or isinstance(self.within, Anytime):
                last = first  # by bounds alone, the oldest go first
            if not all(self.needed(j, JoinRow(t, row.key)) for t in range(first, last + 1)):
                return True
        return False

    def _all_closed(self, i: int, j: int, row: JoinRow, bound: int, last: int) -> bool:
        """Whether patterns close all times of input j, from its bound on, that pair with a row of input i."""
        if isinstance(self.within, Anytime):
            return self.closed(j, row.key, None)
        first = first_partner(self.within, i, j, row.time)
        assert first is not None
        times = range(max(first, bound), last + 1)
        if len(times) > MOST_TICKS:
            raise AnalysisError(
                "NOT_IN_ORACLE",
                f"the oracle tries every tick that pairs with a row, and {len(times)} are too many",
                hint="use integer times in transcripts with patterns",
            )
        return all(self.closed(j, row.key, t) for t in times)

    def stored(self, i: int) -> list[JoinRow]:
        """The rows of input i that must be kept by the bounds in force."""
        done = self._gone if self._exists and i == 0 else set()
        return [
            r
            for r in self.history[i]
            if None not in r.key and self.needed(i, r) and id(r) not in done
        ]

    def _matches(self, sides: Sequence[Sequence[JoinRow]]) -> Iterator[tuple[JoinRow, ...]]:
        for result in product(*sides):
            if _fits(self.within, result) and (self.condition is None or self.condition(result)):
                yield result

    @property
    def _exists(self) -> bool:
        """Whether results are left rows, for the sake of whether a partner exists."""
        return self.how in ("left_semi", "left_anti")

    def _outer(self) -> list[int]:
        hows = (("left", "full", "left_anti"), ("right", "full"))
        return [i for i, mine in enumerate(hows) if self.how in mine]


def whole_join(
    within: Within,
    sides: Sequence[Sequence[JoinRow]],
    how: How = "inner",
    condition: Condition | None = None,
) -> list[Result]:
    """The join of whole streams, however they arrive: what a stream on time must give in the end."""
    oracle = JoinOracle(within, how, condition, len(sides))
    return oracle.step(sides, (END,) * len(sides))


def _fits(within: Within, rows: Sequence[JoinRow]) -> bool:
    return all(
        equal(a.key, b.key) and pairs(within, i, j, a.time, b.time)
        for i, a in enumerate(rows)
        for j, b in enumerate(rows)
        if i < j
    )


def _value(v: Any) -> Any:
    return "NaN" if isinstance(v, float) and v != v else v
