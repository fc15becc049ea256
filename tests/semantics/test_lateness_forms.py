"""The forms of lateness for arrays and for SQL, against its definition for one row."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from slackwater.kernels.column_engine import connect, sql_to_arrow
from slackwater.model.node import LateSetting
from slackwater.semantics.lateness import (
    REASONS,
    Verdicts,
    enters,
    enters_sql,
    has_time,
    judge,
    judge_column,
    judged_by,
    late_by,
    late_sql,
    limit_or_end,
    reason,
    usable_sql,
    usable_times,
    verdict_sql,
)
from slackwater.semantics.limits import START
from tests.examples import examples
from tests.semantics.lateness_cases import BOUNDS, CASES, LIMITS, TIMES, Case, answers

MATCHED = st.none() | st.lists(st.none() | BOUNDS, max_size=3)
"""The patterns that a row matches, each by the end of its test of the time; None: no patterns are in force."""


def arrays(times: list[int | None]) -> tuple[np.ndarray, np.ndarray]:
    ticks = np.array([0 if t is None else t for t in times], np.int64)
    return usable_times(ticks, np.array([t is None for t in times], np.bool_))


@examples(200)
@given(
    st.lists(st.tuples(TIMES, BOUNDS, MATCHED), max_size=30),
    LIMITS,
    st.booleans(),
    st.none() | BOUNDS,
    st.booleans(),
)
def test_an_array_is_judged_like_each_of_its_rows(
    rows: list[tuple[int | None, int, list[int | None] | None]],
    limit: int | None,
    side: bool,
    common: int | None,
    punctuated: bool,
) -> None:
    times = [t for t, _, _ in rows]
    each = [b if common is None else common for _, b, _ in rows]
    matched = [list(m or ()) if punctuated else [] for _, _, m in rows]
    ends = [max((v for v in m if v is not None), default=START) for m in matched]
    patterns = (np.array([bool(m) for m in matched], np.bool_), np.array(ends, np.int64))
    found = judge_column(
        *arrays(times),
        np.array(each, np.int64) if common is None else common,
        limit,
        side=side,
        patterns=patterns if punctuated else None,
    )
    expected = [
        judge(t, b, limit, side=side, patterns=m)
        for t, b, m in zip(times, each, matched, strict=True)
    ]
    assert found.null.tolist() == [v.null for v in expected]
    assert found.future.tolist() == [v.future for v in expected]
    assert found.aside.tolist() == [v.aside for v in expected]
    assert found.late.tolist() == [v.late for v in expected]
    assert found.broken.tolist() == [START if v.broken is None else v.broken for v in expected]
    assert found.plausible.tolist() == [not v.null and not v.future for v in expected]
    assert [REASONS[i] for i in found.reasons] == [reason(v) for v in expected]
    for setting in get_args(LateSetting):
        assert found.entering(setting).tolist() == [enters(v, setting) for v in expected]
    ends = found.judged_by(limit).tolist()
    assert ends == [START if (b := judged_by(v, limit)) is None else b for v in expected]
    by = [late_by(t, v, limit) for t, v in zip(times, expected, strict=True)]
    shown = zip(found.late_by(limit).tolist(), ends, strict=True)
    assert [None if end == START else n for n, end in shown] == [
        None if end == START else n for n, end in zip(by, ends, strict=True)
    ]
    places = np.arange(len(rows))[::2]
    assert_equal(found.take(places), judge_rows(found, places))


def judge_rows(found: Verdicts, places: np.ndarray) -> Verdicts:
    return Verdicts(*(getattr(found, name)[places] for name in Verdicts.__dataclass_fields__))


def assert_equal(one: Verdicts, other: Verdicts) -> None:
    for name in Verdicts.__dataclass_fields__:
        assert getattr(one, name).tolist() == getattr(other, name).tolist()


@given(st.lists(TIMES, max_size=20))
def test_which_times_of_an_array_are_none(times: list[int | None]) -> None:
    ticks, null = arrays(times)
    assert null.tolist() == [not has_time(t) for t in times]
    assert [int(v) for v, n in zip(ticks, null, strict=True) if not n] == [
        t for t in times if has_time(t)
    ]


@examples(50)
@given(st.lists(CASES, min_size=1, max_size=60))
def test_sql_judges_like_the_definition(cases: list[Case]) -> None:
    table = pa.table(
        {
            "t": pa.array([c.time for c in cases], pa.int64()),
            "b": pa.array([c.bound for c in cases], pa.int64()),
            "l": pa.array([limit_or_end(c.limit) for c in cases], pa.int64()),
        }
    )
    found = sql_to_arrow(connect(), judging("cases"), {"cases": table})
    assert list(zip(*(c.to_pylist() for c in found.columns), strict=True)) == [
        answers(c) for c in cases
    ]


def judging(table: str, *more: str) -> str:
    """A query that gives `answers` of each row of a table, and then ``more`` of its columns."""
    usable = f"SELECT *, {usable_sql('t')} AS u FROM {table}"
    judged = f"SELECT *, {verdict_sql('u', 'b', 'l')} AS v FROM ({usable}) AS usable"
    items = [
        "v",
        f"{late_sql('u', 'b')} AS late",
        f"{enters_sql('v', 'admit')} AS admitted",
        f"{enters_sql('v', 'drop')} AS kept",
        *more,
    ]
    return f"SELECT {', '.join(items)} FROM ({judged}) AS judged"
