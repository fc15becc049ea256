"""Joins: which rows may meet, how long a row is needed, what the result promises.

A result has one row of each input. It comes out in the batch in which the last of them arrived, so
every later result holds a row that has not arrived yet; all rules here follow from that. A row of
input i is needed as long as a row of *another* input may come that pairs with it: its own input's
bound says nothing about that. An unmatched row of an outer input leaves when it is no longer needed.

A row that breaks its input's bound is late, and some of its partners may have come and gone. A new row meets the rows whose *place* is
kept (`needed_from`, by the bounds in force when the batch began): stored ones, and new ones alike. So of the new rows of a
result at most one may be in a place that is not kept (`is_met`). A late row whose partners may have been in such a place (`met_from`)
leaves with the partners that it meets, and never as one that had none: nobody can know that.

A semi and an anti join have results of one row, of the left input: with the first partner that arrives it leaves the one
and is of no more use to the other; when it is no longer needed, and none has come, it leaves the anti join.

Times of a pair are restricted by closed spans of integers, whatever ends a query leaves open. ``bounds``
has one bound per input and never goes back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from slackwater.errors import AnalysisError
from slackwater.model.join import Anytime, Band, How, Reach, Tumbling, Within, is_existence
from slackwater.semantics.limits import END, LATEST, START
from slackwater.semantics.patterns import Span, Test, Value
from slackwater.semantics.window_ids import Ints

__all__ = [
    "corners", "effective", "is_empty", "is_met", "least_met", "marked_inputs", "max_bound", "met_from", "met_with", "min_bound", "needed_from", "outer_inputs", "partners", "reaches", "rows_within",
    "time_bounds",
]  # fmt: skip


@lru_cache(maxsize=256)
def reaches(within: Band | Reach) -> tuple[int, ...]:
    """For each input, by how much another row may be later than its own, that much included.

    >>> reaches(Band(before=2, after=3)), reaches(Band(before=2, after=3, closed="left"))
    ((3, 2), (2, 2))
    """
    if isinstance(within, Reach):
        ticks = within.ticks
    else:
        ticks = (
            within.after - (within.closed != "both"),
            within.before - (within.closed == "neither"),
        )
    # Beyond this a reach holds all times there are, and sums with times must stay in 64 bits.
    return tuple(max(-LATEST, min(LATEST, r)) for r in ticks)


def partners(within: Within, i: int, j: int, t: Ints) -> tuple[Ints, Ints]:
    """First and last time (both included) of input j that pairs with time ``t`` of input i.

    >>> partners(Band(before=2, after=3), 0, 1, 10), partners(Band(before=2, after=3), 1, 0, 10)
    ((8, 13), (7, 12))
    """
    if isinstance(within, Tumbling):
        w = within.window
        start = t - (t - w.origin) % w.slide
        return start, start + (w.slide - 1)
    if isinstance(within, Anytime):
        return t * 0 + START, t * 0 + END
    reach = reaches(within)
    return t - reach[j], t + reach[i]


Reading = Literal["greatest", "least", "hull"]


def rows_within(
    within: Within, i: int, times: Iterable[int], test: Test, reading: Reading = "hull"
) -> Test:
    """The times of rows of input i for which a time of all their results passes.

    That time is made of the times of the inputs ``times``: it is the greatest or the least of them, or any of them (hull).
    A row of input i has its own time, and each partner's may be any that `partners` allows.

    >>> band = Band(before=2, after=3)
    >>> rows_within(band, 1, [0], Test.below(10)).spans, rows_within(band, 1, [0], Test(((10, None),))).spans
    (((None, 8),), ((13, None),))
    >>> rows_within(band, 0, [0, 1], Test.below(10), "greatest").spans
    ((None, 7),)
    """
    ends = [_ends(within, i, j) for j in times]
    # A result's time lies between two numbers that grow with the row's. The greatest of several is at or above a limit once
    # one of them is, and below it while all are; the least the other way round.
    first = min if reading == "greatest" else max
    last = max if reading == "least" else min

    def span(low: Value | None, high: Value | None) -> Span:
        return (
            first(e[0](low) for e in ends) if isinstance(low, int) else None,
            last(e[1](high) for e in ends) if isinstance(high, int) else None,
        )

    return Test.of(span(low, high) for low, high in test.spans)


def _ends(within: Within, i: int, j: int) -> tuple[Callable[[int], int], Callable[[int], int]]:
    """For a limit on the times of input j, the first time of input i whose partners are all at or above it, and the
    first of which some partner is.
    """
    if i == j:
        return (lambda v: v), (lambda v: v)
    if isinstance(within, Tumbling):
        w = within.window
        return (lambda v: v + (w.origin - v) % w.slide), (lambda v: v - (v - w.origin) % w.slide)
    if isinstance(within, Anytime):
        return (lambda _: END), (lambda _: START)
    reach = reaches(within)
    return (lambda v: v + reach[j]), (lambda v: v - reach[i])


def last_partner(within: Within, i: int, j: int, t: int) -> int:
    """The last time of input j that pairs with time ``t`` of input i; no time at all pairs with none.

    >>> last_partner(Band(before=2, after=3), 0, 1, 10), last_partner(Band(2, 3), 0, 1, START) == START
    (13, True)
    """
    if t <= START or t >= END:
        return t
    return min(partners(within, i, j, t)[1], END - 1)


def is_empty(within: Within) -> bool:
    """Whether no two times pair at all."""
    if isinstance(within, (Tumbling, Anytime)):
        return False
    reach = sorted(reaches(within))
    return len(reach) > 1 and reach[0] + reach[1] < 0


def outer_inputs(how: How) -> tuple[int, ...]:
    """The inputs whose unmatched rows come out.

    >>> outer_inputs("left"), outer_inputs("full"), outer_inputs("left_semi")
    ((0,), (0, 1), ())
    """
    if is_existence(how):
        return (0,) if how == "left_anti" else ()
    return {"inner": (), "left": (0,), "right": (1,), "full": (0, 1)}[how]


def marked_inputs(how: How) -> tuple[int, ...]:
    """The inputs of whose stored rows it must be known whether a partner has come.

    >>> marked_inputs("left_semi"), marked_inputs("right"), marked_inputs("inner")
    ((0,), (1,), ())
    """
    return (0,) if is_existence(how) else outer_inputs(how)


def effective(bounds: Sequence[int], owed: Sequence[int | None]) -> tuple[int, ...]:
    """The bounds to use while rows wait to be joined with a part of the other side.

    Such rows count as not yet arrived; ``owed`` is the oldest time of them per input, or None.
    Without this the join would promise that no more results come, and then deliver some.

    >>> effective((20, 30), (None, 12))
    (20, 12)
    """
    return tuple(
        bound if oldest is None else min(bound, oldest)
        for bound, oldest in zip(bounds, owed, strict=True)
    )


def needed_from(within: Within, i: int, bounds: Sequence[int]) -> int:
    """The first time of input i that a later row of another input may pair with.

    Rows of input i that are older are of no more use: stored ones can go, new ones are not stored.

    >>> needed_from(Band(before=2, after=3), 0, (100, 20)), needed_from(Band(2, 3), 1, (100, 20))
    (17, 98)
    """
    _check(within, bounds)
    if is_empty(within):
        return END
    return _reached_from(within, i, min(b for j, b in enumerate(bounds) if j != i))


def is_met(gone: Sequence[NDArray[np.bool_]]) -> NDArray[np.bool_]:
    """Which combinations of rows, with a new one in each, come out.

    ``gone[i]`` says of the rows of input i which are new in a place that is not kept. Of those one may meet what is kept,
    as the last that came; two never meet, as neither could have waited for the other. Of rows on time no two are such.

    >>> is_met([np.array([False, True, True]), np.array([False, False, True])]).tolist()
    [True, True, False]
    """
    return np.asarray(sum(g.astype(np.int8) for g in gone) <= 1)


def met_from(within: Within, i: int, bounds: Sequence[int]) -> int:
    """The first time of input i whose rows find all partners that have come before them.

    Some partner of an older row may have been in a place that is not kept, since no row on time could have met it. For two
    inputs and a band these are the rows below their own input's bound, whatever the other one's is; in windows they are those
    whose window this bound has closed. If no two times pair, no row misses any.

    >>> met_from(Band(before=2, after=3), 0, (15, 100)), met_from(Band(2, 3), 1, (15, 100))
    (15, 100)
    """
    _check(within, bounds)
    if is_empty(within):
        return START
    inputs = range(len(bounds))
    bound = max(min(bounds[k] for k in inputs if k != j) for j in inputs if j != i)
    if isinstance(within, (Tumbling, Anytime)):
        return _reached_from(within, i, bound)
    return bound


def met_with(within: Within, i: int, t: Ints) -> tuple[Ints, Ints]:
    """Times of input i, both included, that every partner of a row with time ``t`` could meet too.

    >>> from slackwater.model.window import TimeWindow
    >>> met_with(Tumbling(TimeWindow(10, 10, 0, "ts")), 0, 17), met_with(Band(before=2, after=3), 0, 17)
    ((10, 19), (17, 17))
    """
    if isinstance(within, (Anytime, Tumbling)):
        return partners(within, i, i, t)
    return t, t


def least_met(within: Within, i: int) -> int:
    """How many times of input i in a row a partner of one of its rows could meet, at the least; 1 if it is all of `met_with`.

    >>> least_met(Band(before=2, after=3), 0), least_met(Band(2, 3, closed="neither"), 1)
    (6, 4)
    """
    if isinstance(within, (Anytime, Tumbling)):
        return 1
    reach = reaches(within)
    return reach[i] + min(r for j, r in enumerate(reach) if j != i) + 1


def time_bounds(within: Within, bounds: Sequence[int]) -> tuple[int, ...]:
    """The bound of each input's time in later results; it holds for every kind of join.

    Either the row of input i itself is still to come, or it is stored and still needed. The latter
    is true of the unmatched rows of outer joins too. Nulls, on the other side, break no bound.

    >>> time_bounds(Band(before=2, after=3), (13, 14))
    (11, 11)
    """
    return tuple(min(b, needed_from(within, i, bounds)) for i, b in enumerate(bounds))


def min_bound(within: Within, bounds: Sequence[int]) -> int:
    """The bound of the smallest time in later results."""
    return min(time_bounds(within, bounds))


def max_bound(within: Within, bounds: Sequence[int], how: How = "inner") -> int:
    """The bound of the largest time in later results: of the result's own time.

    An unmatched row has only its own time, and leaves when that is old. A row that leaves for its partner's sake has only
    its own time, too.

    >>> max_bound(Band(2, 3), (13, 14)), max_bound(Band(2, 3), (13, 14), "left")
    (13, 11)
    """
    if is_existence(how):
        return time_bounds(within, bounds)[0]
    reached = min(max(corner) for corner in _matched_corners(within, bounds))
    single = time_bounds(within, bounds)
    return min(reached, *(single[i] for i in outer_inputs(how)), END)


def corners(
    within: Within, bounds: Sequence[int], how: How = "inner"
) -> tuple[tuple[int, ...], ...]:
    """Points such that each later result is at or above one of them in all of its times.

    After an inner join there is one for each input: that of results whose row of that input is yet to come.
    After an outer join there is only the point of the individual bounds, after a semi or anti join that of the left one.

    >>> corners(Band(2, 2), (2, 1))
    ((2, 0), (-1, 1))
    """
    if is_existence(how):
        return (time_bounds(within, bounds)[:1],)
    if outer_inputs(how):
        return (time_bounds(within, bounds),)
    return _matched_corners(within, bounds)


def _matched_corners(within: Within, bounds: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """For each input i, the least times of a result whose row of i is yet to come."""
    _check(within, bounds)
    if is_empty(within):
        return (tuple(END for _ in bounds),)
    return tuple(
        tuple(b if k == i else _reached_from(within, k, b) for k in range(len(bounds)))
        for i, b in enumerate(bounds)
    )


def _reached_from(within: Within, k: int, bound: int) -> int:
    """The first time of input k that pairs with any time at or after ``bound`` of another input."""
    if bound <= START or bound >= END:
        return START if bound <= START else END
    if isinstance(within, Tumbling):
        w = within.window
        return max(START, bound - (bound - w.origin) % w.slide)
    if isinstance(within, Anytime):
        return START
    # A finite bound must not become an end: saturate below it.
    return max(START, min(END - 1, bound - reaches(within)[k]))


def _check(within: Within, bounds: Sequence[int]) -> None:
    inputs = len(bounds)
    expected = (
        2
        if isinstance(within, Band)
        else len(within.ticks)
        if isinstance(within, Reach)
        else max(inputs, 2)
    )
    if inputs != expected:
        raise AnalysisError(
            "JOIN_INPUTS",
            f"{within} is for {expected} inputs, there are {inputs}",
            hint="give Reach one span per input; Band joins two inputs",
            inputs=inputs,
        )
