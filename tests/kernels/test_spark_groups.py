"""How Spark's fast map of groups takes the panes that the text of `spark_group` gives it."""

from __future__ import annotations

import pytest

from slackwater.kernels.windows.partials_step import spark_group
from tests.kernels.test_aggregate import spec_of

SECOND = 1_000_000
DAY = 86_400 * SECOND


def missed(keys: int, panes: list[int], bits: int = 18) -> float:
    """Which part of the groups (key, pane, 0) has no place in a map of 2 ** bits groups.

    As Spark's generated code does it (`HashMapGenerator`): twice as many places, of which two in a row are tried.
    """
    whole, places = (1 << 64) - 1, 2 << bits
    taken = bytearray(places)
    without = 0
    golden = 0x9E3779B9 | 0xFFFFFFFF_00000000  # an int, which becomes a long
    for key in range(keys):
        for pane in panes:
            h = 0
            for value in (key, pane, 0):
                h = ((h ^ golden) + value + (h << 6) + (h >> 2)) & whole
            first = h % places
            place = next((p % places for p in (first, first + 1) if not taken[p % places]), None)
            if place is None:
                without += 1
            else:
                taken[place] = 1
    return without / (keys * len(panes))


def given(width: int, panes: int) -> list[int]:
    """What Spark groups by, for panes that follow on each other: their text, which Python computes as well."""
    text = spark_group(spec_of(width, width, 0, "panes"), "t")[0]
    made = text.replace("pmod(", "mod(").replace(" div ", "//").replace("L", "")
    first = 1_704_067_200_000_000 // width
    return [
        eval(made, {"t": p * width + 1, "mod": lambda a, b: a % b})
        for p in range(first, first + panes)
    ]


@pytest.mark.parametrize("width", [SECOND, 5 * SECOND, 60 * SECOND, 3600 * SECOND, DAY, 1 << 20])
def test_most_groups_find_a_place(width: int) -> None:
    assert missed(1000, given(width, 80)) < 0.05
    assert missed(20_000, given(width, 4)) < 0.05


def test_few_keys_and_many_panes_find_a_place_too() -> None:
    """The numbers of the panes would not: the hash of two keys differs by less than that of two panes."""
    assert missed(100, given(5 * SECOND, 800)) < 0.05
    assert missed(100, list(range(340_813_440, 340_813_440 + 800))) > 0.5
