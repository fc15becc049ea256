"""State files under a number of groups that changes: each bucket is read once, and their list does not grow."""

from __future__ import annotations

import random
from collections import Counter

from slackwater.engine.store.manifest import Run
from slackwater.engine.store.runs import regroup
from slackwater.kernels.buckets import BUCKETS, bucket_range


def owners(groups: list[list[Run]]) -> Counter[tuple[str, int, int]]:
    """Which group reads which bucket of which file."""
    return Counter(
        (run.name, bucket, group)
        for group, runs in enumerate(groups)
        for run in runs
        for bucket in range(*run.buckets)
    )


def run(name: str, buckets: tuple[int, int]) -> Run:
    return Run(name, 10, 100, 1, 0, 9, buckets)


def test_pieces_of_a_file_that_meet_again_are_one() -> None:
    chosen = random.Random(1)
    spans = {"whole": (0, BUCKETS), "few": (3, 9), "last": (200, BUCKETS)}
    groups = [[run(name, span) for name, span in spans.items()]]
    for _ in range(300):
        count = chosen.choice([1, 2, 3, 5, 7])
        groups = regroup(groups, count)
        ranges = [range(*bucket_range(g, count)) for g in range(count)]
        assert owners(groups) == Counter(
            (name, bucket, group)
            for name, span in spans.items()
            for bucket in range(*span)
            for group, mine in enumerate(ranges)
            if bucket in mine
        )
        assert all(len({r.name for r in g}) == len(g) for g in groups), (
            "a file stands once in a group"
        )
    assert regroup(groups, 1) == [[run(name, span) for name, span in spans.items()]]


def test_pieces_with_a_gap_between_them_stay_apart() -> None:
    """What lies between was rewritten by the group that owned it, and would be read twice."""
    first, between, last = (bucket_range(g, 3) for g in range(3))
    groups = [[run("old", first)], [run("new", between)], [run("old", last)]]
    (whole,) = regroup(groups, 1)
    assert [(r.name, r.buckets) for r in whole if r.name == "old"] == [
        ("old", first),
        ("old", last),
    ]
    assert owners([whole]) == owners([[r for g in groups for r in g]])
