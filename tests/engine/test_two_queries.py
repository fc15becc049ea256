"""Queries that share a process: each spreads its work as it was told, and knows nothing of the other."""

from __future__ import annotations

from collections import Counter

import pytest

from slackwater.model.policy import BoundedDelay
from slackwater.model.window import TimeWindow
from tests.engine.in_process import Engine, Make
from tests.engine.test_quality import stream, summed, table


@pytest.mark.spec("XJ-F78")
def test_each_query_has_its_own_number_of_groups(engine: Make) -> None:
    """Their batches take turns; one of them goes on with another number."""
    plan = summed(BoundedDelay(delay=400), TimeWindow(40, 20, 0, "ts"), keys=("k",))
    data = {"first": stream(1, 600), "second": stream(2, 600)}
    queries: dict[str, Engine] = {name: engine(name) for name in data}
    groups = {"first": 2, "second": 5}
    for name, query in queries.items():
        query.start(plan, groups=groups[name])
    for n in range(6):
        if n == 3:
            groups["second"] = 3
            queries["second"].stop()
            queries["second"].start(plan, groups=3)
        for name, query in queries.items():
            query.batch(table(data[name][100 * n : 100 * n + 100]))
            assert query.records[-1]["partitionGroups"] == groups[name]
    for query in queries.values():
        query.batch(final=True)
        query.stop()
    for name, rows in data.items():
        wanted: Counter[tuple[int, int]] = Counter()
        for _, k, t, v in rows:
            wanted.update({(wid, k): int(v) for wid in range(t // 20, (t + 40) // 20)})
        assert {(r["wid"], r["k"]): r["total"] for r in queries[name].rows("out")} == wanted
