"""A guard never changes progress: what is told of the streams, batch by batch, is the same with and without feedback."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.engine.lowlevel import fused_scan
from slackwater.engine.lowlevel.apart import Apart
from slackwater.engine.lowlevel.given_up import GivenUp
from slackwater.engine.store.feedback_log import state_of
from slackwater.kernels.types import arrow_type
from slackwater.model.node import LateSetting, Source
from slackwater.model.policy import (
    BoundedDelay,
    BoundedRows,
    MaxDelay,
    Ordered,
    Policy,
    Punctuated,
    Quality,
)
from slackwater.model.schema import Field
from slackwater.semantics.feedback.standing import Request
from slackwater.testing.clock import ManualClock
from slackwater.testing.local.run import scratch_folder
from tests.engine.feedback.viewport import FIELDS, TS, Viewed, plan_of, said, source
from tests.examples import examples

WIDE = (*FIELDS, Field("at", "bigint"), Field("part", "string"), Field("upto", "bigint"))
UNITS = TS.__class__("ts", "long", 1_000_000)
POLICIES: list[Callable[[], Policy]] = [
    Ordered, MaxDelay, lambda: BoundedDelay(delay=3), lambda: BoundedRows(rows=4),
    lambda: Punctuated("upto"), lambda: Punctuated("upto", data=True),
    lambda: Quality(error=0.2), lambda: Quality(coverage=0.9),
]  # fmt: skip
STRICT: list[Callable[[], Policy]] = [
    lambda: Quality(error=0.2, strict=True), lambda: Quality(coverage=0.9, strict=True),
]  # fmt: skip
"""Lateness is judged row by row, in order of arrival."""


def stream(rng: random.Random, policies: list[Callable[[], Policy]]) -> Source:
    late: LateSetting
    policy = rng.choice(policies)()
    rows = isinstance(policy, BoundedRows) or policies is STRICT
    if not isinstance(policy, Quality) and rng.random() < 0.4:
        policy = policy.futureGuard(3) if rng.random() < 0.5 else policy.idleAfter("5 seconds")  # fmt: skip
    late = "admit" if isinstance(policy, Quality) else rng.choice(["admit", "drop"])
    return Source(
        WIDE, (UNITS,), "cars", policies=(policy,), late=late,
        order=("at",) if rows or rng.random() < 0.2 else (),
        partition="part" if rng.random() < 0.3 and policies is not STRICT else None,
    )  # fmt: skip


def given_rows(rng: random.Random) -> list[pa.Table]:
    made, at = [], 0
    for n in range(rng.randint(3, 6)):
        count = rng.randint(0, 9)
        ts = [4 * n + rng.randint(-4, 4) + (20 if rng.random() < 0.05 else 0) for _ in range(count)]
        columns: dict[str, Any] = {
            "segment": sorted(rng.randint(0, 3) for _ in ts),
            "ts": [None if rng.random() < 0.05 else t for t in ts],
            "v": [rng.randint(0, 9) for _ in ts],
            "at": [at + i for i in range(count)],
            "part": [rng.choice("ab") for _ in ts],
            "upto": [4 * n - 3 if rng.random() < 0.15 else None for _ in ts],
        }
        at += count
        kinds = {"part": pa.string()}
        made.append(
            pa.table({c: pa.array(v, kinds.get(c, pa.int64())) for c, v in columns.items()})
        )
    return made


def played(
    seed: int, feedback: bool, policies: list[Callable[[], Policy]] = POLICIES
) -> tuple[list[Any], list[Any], int]:
    rng = random.Random(seed)
    plan = plan_of(stream(rng, policies), late=rng.random() < 0.5)
    tables, splits = given_rows(rng), rng.random() < 0.6
    clock = ManualClock(2_000_000)
    clock.script({n: 4_000_000 * n for n in range(len(tables))})
    with scratch_folder() as folder:
        # Groups of two rows are mostly left unopened, in larger ones rows of all kinds lie together.
        run = Viewed(folder, plan, splits=splits, clock=clock, group=rng.choice([2, 50]))
        run.give(tables)
        run.run.start()
        if feedback:
            text = rng.choice(["~{segment >= 0}", "~{segment < 2}", "~{segment <> 1} ~{wid < 2}"])
            run.run.send(Request("send", "map", "x", said(text, plan)))
        run.all()
        run.run.stop()
        late = run.rows("late") if len(plan.outputs) > 1 else []
        streams = [m.progress["streams"] for m in run.manifests]
        dropped = sum(
            place["rowsDropped"]
            for m in run.manifests
            for name, place in m.progress.get("feedback", {"places": {}})["places"].items()
            if name == "cars"
        )
    return streams, sorted(late, key=repr), dropped


DROPPED: list[int] = []
TAKEN: Counter[str] = Counter()
"""How often rows were kept out of a scan, by the reading and by what told progress of them."""


def watched(monkeypatch: pytest.MonkeyPatch) -> None:
    apart, rows = fused_scan._measures, GivenUp.tell

    def measures(task: Any, parted: Apart, splits: Any, ranges: Any) -> pa.Table:
        known = parted.measures_of_footers(task.batch, splits, ranges) is not None
        TAKEN["fused, footers" if known else "fused, a statement"] += 1
        return apart(task, parted, splits, ranges)

    def tell(given_up: GivenUp, others: int) -> None:
        for spans in given_up.spans:
            TAKEN["rows, footers" if spans else "rows, a statement"] += 1
        rows(given_up, others)

    monkeypatch.setattr(fused_scan, "_measures", measures)
    monkeypatch.setattr(GivenUp, "tell", tell)


@pytest.mark.spec("FC-F19")
def test_progress_and_late_rows_are_the_same_with_and_without_feedback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watched(monkeypatch)

    @examples(25)
    @given(st.integers(0, 2**32 - 1))
    def same(seed: int) -> None:
        without, late, _ = played(seed, False)
        streams, told, dropped = played(seed, True)
        assert streams == without
        assert told == late
        DROPPED.append(dropped)

    same()
    assert sum(DROPPED) > 50, "the guards dropped hardly a row"
    ways = {
        f"{reading}, {by}" for reading in ("fused", "rows") for by in ("footers", "a statement")
    }
    assert ways <= set(TAKEN), f"only {dict(TAKEN)}"


@pytest.mark.spec("FC-F19")
def test_progress_is_the_same_where_lateness_is_judged_row_by_row() -> None:
    dropped: list[int] = []

    @examples(8)
    @given(st.integers(0, 2**32 - 1))
    def same(seed: int) -> None:
        without, late, _ = played(seed, False, STRICT)
        streams, told, gone = played(seed, True, STRICT)
        assert streams == without
        assert told == late
        dropped.append(gone)

    same()
    assert sum(dropped) > 20, "the guards dropped hardly a row"


@pytest.mark.parametrize("kind", ["string", "bigint"])
@pytest.mark.parametrize("late", [False, True], ids=["fused", "rows"])
@pytest.mark.spec("FC-F19")
def test_rows_that_are_not_read_tell_of_their_partitions(late: bool, kind: str) -> None:
    """The partition that is behind holds the others back, also if nobody needs a row of it."""
    fields = (*FIELDS, Field("part", kind))
    plan = plan_of(source(fields=fields, partition="part"), late=late)
    names: list[Any] = ["", "b", "c"] if kind == "string" else [1, 2, 3]
    tables = [
        pa.table(
            {
                "segment": pa.array([1, 1, 4, 1, 4, 1], pa.int64()),
                "ts": pa.array([n + 3, n + far, n + 5, n, n + 2, n + 4], pa.int64()),
                "v": pa.array([1] * 6, pa.int64()),
                "part": pa.array(
                    [names[0], names[0], names[1], None, None, names[2]], arrow_type(kind)
                ),
            }
        )
        for n, far in ((20, 3), (30, 9), (40, 4))
    ]
    found = []
    for feedback in (False, True):
        with scratch_folder() as folder:
            run = Viewed(folder, plan, group=None)
            run.give(tables)
            run.run.start()
            if feedback:
                run.run.send(Request("send", "map", "x", said("~{segment = 1}", plan)))
            run.all(end=False)
            run.run.stop()
        found.append([m.progress["streams"] for m in run.manifests])
    assert found[0] == found[1]
    bounds = [one["cars"]["bounds"]["ts"]["ticks"] for one in found[0]]
    assert bounds == sorted(set(bounds)) and bounds[-1] < 41
    assert [one["cars"]["bounds"]["ts"]["partitions"] for one in found[0]] == [4, 4, 4]
    assert sum(state_of(run.manifests[-1]).dropped.values()) == 12
