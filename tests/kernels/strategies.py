"""Random values of the test columns, extremes included."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from decimal import Decimal
from functools import cache

from hypothesis import strategies as st

UTC = dt.timezone.utc
FIRST, LAST = dt.datetime(1900, 1, 1), dt.datetime(2100, 1, 1)  # noqa: DTZ001 (hypothesis wants them naive)


def _ints(bits: int) -> st.SearchStrategy:
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    return st.one_of(st.integers(-3, 3), st.sampled_from([low, high]), st.integers(low, high))


def _decimals(precision: int, scale: int) -> st.SearchStrategy:
    top = 10**precision - 1
    units = st.one_of(st.integers(-5, 5), st.sampled_from([top, -top]), st.integers(-top, top))
    return units.map(lambda n: Decimal((int(n < 0), tuple(map(int, str(abs(n)))), -scale)))


FLOATS = st.one_of(
    st.sampled_from([0.0, -0.0, 1.5, -2.25, 0.1, 1e16, -1e16, float("nan")]),
    st.sampled_from([float("inf"), float("-inf"), 1e100]),
    st.floats(-1e6, 1e6),
)
VALUES = {
    "b": st.booleans(),
    "i1": _ints(8),
    "i2": _ints(16),
    "i4": _ints(32),
    "i8": _ints(64),
    "f4": st.one_of(
        st.sampled_from([0.0, -0.0, 0.5, float("nan"), float("inf"), float("-inf")]),
        st.floats(-1000, 1000, width=32),
    ),
    "f8": FLOATS,
    "d5": _decimals(5, 2),
    "d18": _decimals(18, 4),
    "d28": _decimals(28, 6),
    "d38": _decimals(38, 10),
    "w38": _decimals(38, 0),
    "s": st.sampled_from(["", "a", "b", "ab", "é", "zz", "𝄞", "\uffff"]),
    "y": st.sampled_from([b"", b"\x00", b"\xff", b"ab"]),
    "dt": st.dates(dt.date(1900, 1, 1), dt.date(2100, 1, 1)),
    "ts": st.datetimes(FIRST, LAST, timezones=st.just(UTC)),
    "tn": st.datetimes(FIRST, LAST),
}


def rows(columns: Iterable[str], times: st.SearchStrategy, most: int = 25) -> st.SearchStrategy:
    """Lists of rows with key ``k``, time ``t`` and the named columns, each maybe null."""
    return _rows(tuple(columns), times, most)


@cache
def _rows(columns: tuple[str, ...], times: st.SearchStrategy, most: int) -> st.SearchStrategy:
    """Kept, since a new strategy is looked through in every example."""
    fields = {c: st.one_of(st.none(), VALUES[c]) for c in columns}
    fields["k"] = st.sampled_from([None, "a", "b"])
    fields["t"] = times
    return st.lists(st.fixed_dictionaries(fields), max_size=most)
