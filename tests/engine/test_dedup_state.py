"""What `dropDuplicates` keeps as it runs: no more than a row that may still come could repeat."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from slackwater.engine.plan.layout import build
from slackwater.engine.plan.plan import Output
from slackwater.testing.transcripts.script import parse
from tests.engine.in_process import Make

DELAY, ROWS = 3, 5


def stored(engine: Make, dedup: dict[str, Any], batches: int) -> list[int]:
    """Rows of state after each batch; batch n has a row at each time from 5 n on, of keys that never come again."""
    columns = {"k": "bigint", "ts": "bigint"}
    stream = {"columns": columns, "time": "ts", "progress": {"bounded_delay": DELAY}}
    query = [{"from": "s"}, {"dedup": dedup}]
    script = parse({"name": "d", "streams": {"s": stream}, "query": query, "script": []})
    outputs = [Output(name, o.node) for name, o in script.outputs.items()]
    q = engine()
    q.start(build(outputs, ansi=True, zone="UTC"), groups=1)
    for n in range(batches):
        times = pa.array(range(n * ROWS, (n + 1) * ROWS))
        q.batch(pa.table({"k": times, "ts": times}))
    q.stop()
    (operator,) = {name for r in q.records for name in r["operators"]}
    states = [r["operators"][operator]["state"]["rows"] for r in q.records]
    assert len(q.rows(*script.outputs)) == batches * ROWS
    return states


@pytest.mark.spec("WQ-F70")
@pytest.mark.parametrize(
    ("dedup", "back"),
    [
        ({"subset": ["k", "ts"]}, 0),
        # A row that is late by 4 may still come, and repeat one that is 4 older than itself.
        ({"subset": ["k"], "within": 4}, 8),
    ],
)
def test_rows_that_nothing_can_repeat_any_more_are_freed(
    engine: Make, dedup: dict[str, Any], back: int
) -> None:
    """Files go as a whole, and each batch writes one: it goes with the newest of its rows."""
    batches = 8
    for number, rows in enumerate(stored(engine, dedup, batches)):
        bound = (number + 1) * ROWS - 1 - DELAY
        needed = [n for n in range(number + 1) if (n + 1) * ROWS - 1 >= bound - back]
        assert rows == ROWS * len(needed) < ROWS * 4
