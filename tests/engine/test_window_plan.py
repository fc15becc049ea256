"""The window plan that was asked for is the one that runs: what is stored differs, the results do not."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from slackwater.engine.store.local import PRIVATE
from slackwater.engine.store.runs import read_run
from slackwater.engine.store.storage import Folder
from slackwater.kernels.buckets import BUCKETS
from tests.engine.test_low_table import plan_of, shown, table

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
