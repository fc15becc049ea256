"""Times, bounds and limits to judge, and what the definition says of them: every form is held against it."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import strategies as st

from slackwater.semantics.lateness import FUTURE, LATE, enters, is_late, judge
from slackwater.semantics.limits import EARLIEST, END, LATEST, START

INT64 = (-(1 << 63), (1 << 63) - 1)
EDGES = [*INT64, START, END, EARLIEST - 1, EARLIEST, LATEST, LATEST + 1, -1, 0, 1]

# Small numbers meet often, so that equal times and bounds are among them.
TIMES = st.none() | st.integers(-4, 4) | st.sampled_from(EDGES) | st.integers(*INT64)
BOUNDS = (
    st.integers(-4, 4) | st.sampled_from([START, EARLIEST, LATEST, END]) | st.integers(START, END)
)
LIMITS = st.none() | BOUNDS


class Case(NamedTuple):
    """One row: its time, the bound in force, the greatest plausible time."""

    time: int | None
    bound: int
    limit: int | None


CASES = st.builds(Case, TIMES, BOUNDS, LIMITS)


def verdict_number(case: Case) -> int | None:
    """What `verdict_sql` must give: the definition, where no row is sent aside."""
    verdict = judge(*case)
    return None if verdict.null else LATE * verdict.late + FUTURE * verdict.future


def answers(case: Case) -> tuple[int | None, bool | None, bool, bool]:
    """What SQL must say of a case: its verdict, whether it is late, and whether it enters under admit and drop."""
    verdict = judge(*case)
    late = None if case.time is None or verdict.null else is_late(case.time, case.bound)
    return verdict_number(case), late, enters(verdict, "admit"), enters(verdict, "drop")
