"""Windows that end at rows, by bins: the published algorithm, as printed and as corrected.

A bin holds the aggregate of the window that ends at its id. A row makes a start bin at its time (to be
reported) and an end bin where windows no longer hold it (never reported), and adds itself to all bins
between. The printed version has three mistakes; each must show.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.window import ByTuple
from slackwater.semantics.limits import END
from slackwater.testing.oracle.window_types.by_tuple import completed
from slackwater.testing.oracle.window_types.came import Came
from tests.examples import examples

Mistake = Literal["ends are reported", "strictly below", "purged bins are forgotten"]


@dataclass
class Bins:
    """Counts and sums of values per window."""

    range: int
    mistake: Mistake | None = None
    starts: dict[float, tuple[int, int]] = field(default_factory=dict)
    ends: dict[float, tuple[int, int]] = field(default_factory=lambda: {-inf: (0, 0)})

    def before(self, at: float, *, purge: bool = False) -> tuple[int, int]:
        """The value of the greatest bin up to ``at``."""
        strict = purge or self.mistake == "strictly below"
        found = [b for b in (*self.starts, *self.ends) if b < at or (b == at and not strict)]
        if not found:
            return (0, 0)
        best = max(found)
        return self.starts.get(best, self.ends.get(best, (0, 0)))

    def row(self, time: int, value: int) -> None:
        """All bins in [time, time + range) get the row."""
        start, end = self.before(time), self.before(time + self.range)
        self.starts.setdefault(time, start)
        into = self.starts if self.mistake == "ends are reported" else self.ends
        into.setdefault(time + self.range, end)
        for bins in (self.starts, self.ends):
            for b, (n, total) in bins.items():
                if time <= b < time + self.range:
                    bins[b] = (n + 1, total + value)

    def bound(self, v: int) -> list[tuple[int, int, int]]:
        """Report and drop what is below the bound, but remember the last value."""
        out = [(int(b), *self.starts[b]) for b in sorted(self.starts) if b < v]
        base = self.before(v, purge=True)
        self.starts = {b: p for b, p in self.starts.items() if b >= v}
        self.ends = {b: p for b, p in self.ends.items() if b >= v}
        self.ends[-inf] = (0, 0) if self.mistake == "purged bins are forgotten" else base
        return out


Script = list[tuple[Literal["row", "bound"], int]]


def by_bins(
    script: Script, size: int, mistake: Mistake | None = None
) -> list[tuple[int, int, int]]:
    bins = Bins(size, mistake)
    out = []
    for what, at in script:
        if what == "row":
            bins.row(at, at * 3)
        else:
            out += bins.bound(at)
    return out + bins.bound(1 << 60)


def by_definition(script: Script, size: int) -> list[tuple[int, int, int]]:
    rows = [Came({"v": at * 3}, at, (), 0, -(1 << 62)) for what, at in script if what == "row"]
    found = completed(ByTuple(size, 1, "rank", "ts"), rows, [END], [])
    return [(int(f.wid or 0), len(f.rows), sum(r["v"] for r in f.rows)) for f in found]


@st.composite
def scripts(draw: st.DrawFn) -> Script:
    """Rows that keep to the bounds between them."""
    script: Script = []
    low = 0
    for _ in range(draw(st.integers(1, 14))):
        if draw(st.booleans()):
            script.append(("row", low + draw(st.integers(0, 12))))
        else:
            low += draw(st.integers(0, 6))
            script.append(("bound", low))
    return script


@examples(75)
@given(script=scripts(), size=st.integers(1, 12))
def test_corrected_bins_are_the_windows_of_the_definition(script: Script, size: int) -> None:
    assert by_bins(script, size) == by_definition(script, size)


EXAMPLES: dict[Mistake, Script] = {
    "ends are reported": [("row", 5)],
    "strictly below": [("row", 0), ("row", 10)],
    "purged bins are forgotten": [("row", 0), ("bound", 4), ("row", 6)],
}


@pytest.mark.parametrize("mistake", EXAMPLES)
def test_each_printed_mistake_gives_a_wrong_answer(mistake: Mistake) -> None:
    script = EXAMPLES[mistake]
    if mistake == "strictly below":
        # An end bin that is also a start: the row that leaves there must not be counted again.
        script = [("row", 0), ("row", 5), ("row", 10)]
    assert by_bins(script, 10) == by_definition(script, 10)
    assert by_bins(script, 10, mistake) != by_definition(script, 10)


def test_the_trace_of_five_rows() -> None:
    bins = Bins(10)
    for time in (1, 4, 6, 13):
        bins.row(time, 0)
    assert bins.starts[13][0] == 3  # two are left in the end bin at 11
    bins.row(2, 0)
    assert {b: n for b, (n, _) in bins.starts.items()} == {1: 1, 2: 2, 4: 3, 6: 4, 13: 3}
    ends: dict[Any, int] = {-inf: 0, 11: 3, 12: 2, 14: 2, 16: 1, 23: 0}
    assert {b: n for b, (n, _) in bins.ends.items()} == ends
    assert [(b, n) for b, n, _ in bins.bound(5)] == [(1, 1), (2, 2), (4, 3)]
    assert bins.ends[-inf][0] == 3
