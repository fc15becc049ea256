"""The window plan that was asked for is the one that runs: what is stored differs, the results do not."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from slackwater.engine.plan.layout import build
from slackwater.engine.plan.plan import Output
from slackwater.engine.store.local import PRIVATE
from slackwater.engine.store.runs import read_run
from slackwater.engine.store.storage import Folder
from slackwater.kernels.buckets import BUCKETS
from slackwater.kernels.windows import adaptive
from slackwater.model.node import Source
from slackwater.model.policy import BoundedDelay
from slackwater.model.time import TimeColumn
from slackwater.model.window import TimeWindow
from tests.engine.test_low_table import DELAY, FIELDS, counted, plan_of, shown, table

DATA = [[(k % 3, 10 * b + k % 10, k) for k in range(60)] for b in range(5)]


def stored(q: Any, operator: str) -> set[str]:
    """Columns that tell what is in the state: rows by time, partials by pane or window."""
    runs = [r for g in q.loop.last.runs[operator] for r in g]
    return {
        c
        for r in runs
        for c in read_run(
            Folder(PRIVATE, q.checkpoint.runs), r, (0, BUCKETS), pa.schema([])
        ).column_names
    } & {
        "_time",
        "_pane",
    }


@pytest.mark.parametrize("wanted", ["panes", "wids", "buffered", "adaptive"])
def test_the_plan_that_was_asked_for_is_the_one_that_runs(engine: Any, wanted: str) -> None:
    """Three groups of many rows: as partials they are small, so only "buffered" keeps their rows."""
    results = {}
    for plan in dict.fromkeys(("panes", wanted)):
        q = engine()
        layout = plan_of(12, 4, wanted=plan)
        operator = layout.operators[0].id
        q.start(layout)
        for rows in DATA:
            q.batch(table(rows))
        state = stored(q, operator)
        record = q.records[-1]["operators"][operator]
        q.batch(final=True)
        q.stop()
        results[plan] = shown(q.rows("small"))
    assert results[wanted] == results["panes"] != []
    assert record["plan"] == wanted
    if wanted == "buffered":
        assert state == {"_time"} and record["groups"]["eager"] == 0 < record["groups"]["lazy"]
    elif wanted == "adaptive":
        assert "_pane" in state and record["groups"]["eager"] == 3
    else:
        assert state == {"_pane"} and "groups" not in record


@pytest.mark.spec("WQ-F53")
def test_a_group_stays_as_it_is_where_rows_and_partials_cost_about_the_same(engine: Any) -> None:
    """Two groups with the same rows in the windows that are open, nine tenths of what their partials would take. One of them had
    many rows before, and is kept as partials since.
    """
    source = Source(FIELDS, (TimeColumn("ts", "long", None),), "s", 0, (BoundedDelay(DELAY),))
    panes, length = 20, 100
    node = counted(source, ("k",), TimeWindow(panes * length, length, 0, "ts"), "v")
    plan = build([Output("out", node)], ansi=True, zone="UTC", window_plan="adaptive")
    sizes = adaptive.sizes_of(plan.operators[0].aggregation)
    count = int(0.9 * panes * sizes.item / sizes.row)
    # One row in each pane, so that the last ones alone are far less than their partials; the others in the first.
    times = [*range(length, (panes + 1) * length, length), *range(length + 1, length + 1 + count - panes)]  # fmt: skip
    assert max(times[panes:]) < 2 * length
    both = [(k, t, 1) for k in (1, 2) for t in times]
    q = engine()
    q.start(plan, groups=1)
    ways = []
    for rows in (
        [(1, t, 1) for t in range(50)],
        [*both, (3, (panes + 1) * length, 1)],  # closes the window of those many rows
        [(3, 2 * panes * length, 1)],
    ):
        q.batch(table(rows))
        (record,) = q.records[-1]["operators"].values()
        ways.append(record["groups"])
    q.stop()
    assert ways[0] == {"eager": 1, "lazy": 0, "transition": 0}
    assert ways[1] == {"eager": 1, "lazy": 2, "transition": 0}
    # Hardly any row is left in an open window.
    assert ways[2] == {"eager": 0, "lazy": 2, "transition": 1}
