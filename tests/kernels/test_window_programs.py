"""State of the types of windows: what is no longer needed is freed, what is counted is kept."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from slackwater.engine.operators.program import Arrival
from slackwater.engine.plan.plan import Operator
from slackwater.kernels.column_engine import connect, sql_to_arrow
from slackwater.kernels.windows import partials_step as aggregate
from slackwater.kernels.windows.by_tuple import hidden
from slackwater.kernels.windows.counting import counted_rows, counted_select
from slackwater.kernels.windows.partials_step import AggregateSpec
from slackwater.model.aggregate import Primitive
from slackwater.model.node import Aggregate
from slackwater.model.schema import Field, Named, column
from slackwater.model.time import TimeColumn
from slackwater.model.window import ByTuple, Landmark, RowWindow, SessionWindow, Window
from slackwater.semantics.limits import START
from slackwater.semantics.windows import needs_rows, plan_of
from slackwater.testing.custom_windows import shifts
from slackwater.testing.executors.program_machine import ProgramMachine

KEY = Named("k", column("k", "string"))
COUNT = Primitive("_a0", "count", (), "bigint")
SUM = Primitive("_a1", "sum", (column("v", "bigint"),), "bigint")


class Feed:
    """A program fed with rows (key, time, value), numbered as they come."""

    def __init__(self, window: Window):
        extra = hidden(window) if isinstance(window, ByTuple) else ()
        keys = (Field("k", "string"),)
        self.spec = AggregateSpec(keys, window, (COUNT, SUM), plan_of(window), True, extra)
        ids = () if isinstance(window, SessionWindow) else (Field("wid", "bigint"),)
        struct = Field("window", "struct<start:bigint,end:bigint>")
        outputs = (Named("n", column("__sw_a0", "bigint")), Named("s", column("__sw_a1", "bigint")))
        fields = (*keys, *ids, struct, Field("n", "bigint"), Field("s", "bigint"))
        time = TimeColumn("window", "window", None, True)
        node = Aggregate(fields, (time,), None, (KEY,), window, (COUNT, SUM), outputs)  # type: ignore[arg-type]
        self.machine = ProgramMachine(Operator("w", node, 1, self.spec))
        self.bound, self.count = START, 0

    def batch(self, rows: list[tuple[str, int, int]], bound: int) -> list[dict[str, Any]]:
        numbers = range(self.count, self.count + len(rows))
        self.count += len(rows)
        table = pa.table(
            {
                "k": pa.array([r[0] for r in rows], pa.string()),
                "ts": pa.array([r[1] for r in rows], pa.int64()),
                "v": pa.array([r[2] for r in rows], pa.int64()),
                "i": pa.array(numbers, pa.int64()),
            }
        )
        select = counted_select if needs_rows(self.spec.window) else aggregate.partial_select
        raw = sql_to_arrow(connect(), select(self.spec, ["k"], "ts", "t"), {"t": table})
        read = counted_rows if needs_rows(self.spec.window) else aggregate.partials
        old, self.bound = self.bound, bound
        found: list[dict[str, Any]] = self.machine.step(
            [Arrival([read(raw, self.spec)], old, bound)]
        ).to_pylist()
        return found


@pytest.mark.parametrize(
    ("window", "most"),
    [
        # At most 2 keys; runs are merged when there are more than two of them.
        (ByTuple(10, 1, "rank", "ts"), 2 * 10 + 30),
        (ByTuple(10, 3, "rank", "ts"), 2 * 10 + 40),
        (ByTuple(10, 3, "arrival", "ts", ("i",)), 2 * 10 + 40),
        (SessionWindow(4, "ts"), 2 * 3),
        (Landmark(5, 0, "ts"), 2 * 12),
        (RowWindow(8, 4, "ts", ("k",), ("i",)), 2 * 3 * 4 + 2 * 3),
        (RowWindow(8, 4, "ts", (), ("i",)), 2 * 3 * 6 + 3),
        (shifts("ts"), 2 * 8),
    ],
    ids=["by_tuple", "by_rank", "by_arrival", "session", "landmark", "per", "rows", "custom"],
)
@pytest.mark.spec("WQ-F33")
def test_state_does_not_grow_with_the_stream(window: Window, most: int) -> None:
    feed, sizes = Feed(window), []
    for t in range(0, 300, 10):
        rows = [("ab"[u % 2], u, 1) for u in range(t, t + 10) if u % 7]
        feed.batch(rows, t + 5)
        sizes.append(feed.machine.rows)
    assert max(sizes) <= most
    assert max(sizes[-10:]) <= max(sizes[:20])


def test_late_rows_join_open_sessions_only() -> None:
    feed = Feed(SessionWindow(4, "ts"))
    assert feed.batch([("a", 0, 1), ("a", 10, 1), ("a", 13, 1)], 5) == [
        {"k": "a", "window": {"start": 0, "end": 4}, "__sw_a0": 1, "__sw_a1": 1}
    ]
    assert feed.batch([("a", 1, 100), ("a", 8, 1)], 14) == []  # 1 is over, 8 joins 10
    assert feed.batch([("a", 5, 1), ("a", 16, 1)], 17) == []  # 5 touches 8, which is long past
    assert feed.batch([], 20) == [
        {"k": "a", "window": {"start": 5, "end": 20}, "__sw_a0": 5, "__sw_a1": 5}
    ]
    assert feed.machine.rows == 0


@pytest.mark.spec("WQ-F25")
@pytest.mark.parametrize("every", [2, 3])
def test_rows_of_equal_time_give_one_window(every: int) -> None:
    feed = Feed(ByTuple(10, every, "rank", "ts"))
    found = feed.batch([("a", t, 1) for t in (1, 2, 2, 2, 2, 5)], 3)
    # Ranks 2 to 5 are at time 2: several windows by the count, one by the time.
    assert [(r["wid"], r["__sw_a0"]) for r in found] == [(2, 5)]
    # The sixth row keeps its rank although the five before it are no longer looked at.
    assert [(r["wid"], r["__sw_a0"]) for r in feed.batch([("a", 30, 1)], 20)] == [(5, 6)]


def test_a_landmark_reports_slides_without_rows_and_leaves_out_rows_before_the_origin() -> None:
    feed = Feed(Landmark(5, 10, "ts"))
    found = feed.batch([("a", 3, 50), ("a", 12, 1), ("b", 21, 2)], 30)
    shown = [
        (r["k"], r["wid"], r["window"]["start"], r["window"]["end"], r["__sw_a1"]) for r in found
    ]
    assert sorted(shown) == [
        ("a", 0, 10, 15, 1), ("a", 1, 10, 20, 1), ("a", 2, 10, 25, 1), ("a", 3, 10, 30, 1),
        ("b", 2, 10, 25, 2), ("b", 3, 10, 30, 2),
    ]  # fmt: skip
    # A late row enters what is still open.
    found = feed.batch([("b", 11, 5)], 35)
    assert sorted((r["k"], r["__sw_a1"]) for r in found) == [("a", 1), ("b", 7)]
