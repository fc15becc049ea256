"""Low-level tables in the engine: over batches, restarts, other numbers of tasks and groups, and lulls."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from slackwater.engine.paths.batch import Settings
from slackwater.engine.plan.layout import build
from slackwater.engine.plan.plan import Output, Plan
from slackwater.model.aggregate import Primitive
from slackwater.model.node import Aggregate, Source
from slackwater.model.policy import BoundedDelay
from slackwater.model.schema import Field, Named, column
from slackwater.model.time import TimeColumn
from slackwater.model.window import TimeWindow
from tests.engine.in_process import Engine

FIELDS = (Field("k", "bigint"), Field("ts", "bigint"), Field("v", "bigint"))
WINDOW = TimeColumn("window", "window", None, True)
DELAY = 6


def counted(child: Any, keys: tuple[str, ...], window: TimeWindow, of: str) -> Aggregate:
    """count(*) and the sum of a column, by keys and window."""
    parts = (
        Primitive("_a0", "count", (), "bigint"),
        Primitive("_a1", "sum", (column(of, "bigint"),), "bigint"),
    )
    outputs = (Named("n", column("__sw_a0", "bigint")), Named("total", column("__sw_a1", "bigint")))
    fields = [Field(k, "bigint") for k in keys]
    fields += [Field("wid", "bigint"), Field("window", "struct<start:bigint,end:bigint>")]
    fields += [Field(o.name, "bigint") for o in outputs]
    named = tuple(Named(k, column(k, "bigint")) for k in keys)
    return Aggregate(tuple(fields), (WINDOW,), child, named, window, parts, outputs)


def plan_of(range_: int, slide: int, late: str = "admit", wanted: str = "auto") -> Plan:
    time = TimeColumn("ts", "long", None)
    source = Source(FIELDS, (time,), "s", 0, (BoundedDelay(DELAY),), late)  # type: ignore[arg-type]
    small = counted(source, ("k",), TimeWindow(range_, slide, 0, "ts"), "v")
    large = counted(small, (), TimeWindow(2 * slide, 2 * slide, 0, "window"), "n")
    return build(
        [Output("small", small), Output("large", large)], ansi=True, zone="UTC", window_plan=wanted
    )


def table(rows: list[tuple[int, int, int]]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    names = [f.name for f in FIELDS]
    return pa.table({n: pa.array(list(c), pa.int64()) for n, c in zip(names, columns, strict=True)})


def batches(seed: int, count: int, late: bool = False) -> list[list[tuple[int, int, int]]]:
    """Rows out of order by less than the delay, and some that are late."""
    rng = random.Random(seed)
    made, time = [], 0
    for _ in range(count):
        rows = []
        for _ in range(rng.randrange(40)):
            time += rng.randrange(2)
            behind = rng.randrange(3 * DELAY if late else DELAY)
            rows.append((rng.randrange(30), max(0, time - behind), rng.randrange(100)))
        made.append(rows)
    return made


def shown(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    found = sorted(tuple(v for v in r.values() if not isinstance(v, dict)) for r in rows)
    assert len({f[:2] for f in found}) == len(found)
    return found


def run(engine: Engine, plan: Plan, data: list[Any], changes: dict[int, dict[str, Any]]) -> None:
    """All batches, two files each; before those in ``changes`` the query is started with other settings."""
    for i, rows in enumerate(data):
        if i in changes:
            if i:
                engine.stop()
            engine.start(plan, **changes[i])
        half = len(rows) // 2
        engine.batch(*[table(part) for part in (rows[:half], rows[half:]) if part])
    engine.batch(final=True)
    engine.stop()


LAZY = Settings(low_table=16, smooth_windows=2)
SLOW = Settings(low_table=32, low_flush=2, low_probe=True, smooth_windows=1)


@pytest.mark.spec("WQ-F84", "WQ-F86", "OO-F14", "OO-F15", "OO-F16")
@pytest.mark.parametrize(
    ("range_", "slide", "wanted", "late"),
    [(10, 10, "auto", "drop"), (12, 4, "panes", "admit"), (12, 4, "wids", "admit")],
)
def test_results_and_promises_are_those_of_a_query_without_tables(
    engine: Any, range_: int, slide: int, wanted: str, late: str
) -> None:
    """With restarts that change the number of tasks and groups, the size of the tables, and switch them off and on."""
    plan = plan_of(range_, slide, late, wanted)
    data = batches(3, 12)
    plain = engine()
    run(plain, plan, data, {0: {}})
    low = engine()
    changes = {
        0: {"settings": LAZY},
        3: {"settings": SLOW, "groups": 3},
        6: {"settings": LAZY, "groups": 1, "tasks": 1},
        8: {},
        10: {"settings": replace(SLOW, smooth=5)},
    }  # fmt: skip
    run(low, plan, data, changes)
    for name in ("small", "large"):
        assert shown(low.rows(name)) == shown(plain.rows(name))
    used = [_figures(r) for r in low.records]
    assert sum(f["arrived"] for f in used) > sum(f["sent"] for f in used) > 0
    assert sum(f["drained"] for f in used) > 0
    assert max(f["entries"] for f in used) <= 2 * 32
    assert used[-1]["entries"] == 0
    # Each file that is left is named by a manifest.
    assert not low.loop.last.tables


def _figures(record: dict[str, Any]) -> dict[str, int]:
    nothing = {"arrived": 0, "sent": 0, "drained": 0, "entries": 0}
    return next((o["lowTable"] for o in record["operators"].values() if "lowTable" in o), nothing)


@pytest.mark.spec("OO-F15", "OO-F16", "WQ-F86")
def test_entries_stay_two_windows_and_hold_the_bound_back(engine: Any) -> None:
    plan = plan_of(10, 10)
    (small, _) = plan.operators
    q = engine()
    q.start(plan, settings=replace(LAZY, low_table=100_000))
    q.batch(table([(k, 5, 1) for k in range(20)]))
    # Bounds 11, 21, 29: the first window is over, and its groups do not come again.
    for key, time in ((91, 17), (92, 27), (93, 35)):
        q.batch(table([(key, time, 1)]))
        assert q.rows("small") == []
        # The rows are out of the source's bound, but not yet out of the table.
        assert q.loop.last.bounds["s"]["ts"] == time - DELAY
        assert q.loop.last.bounds[small.id]["window"] == 9
        assert _figures(q.records[-1])["drained"] == 0
    q.batch(table([(94, 36, 1)]))  # bound 30: two windows are over since, it may stay no longer
    assert {r["wid"] for r in q.rows("small")} == {0} and len(q.rows("small")) == 20
    assert _figures(q.records[-1])["drained"] == 20
    assert q.loop.last.bounds[small.id]["window"] == 19
    q.stop()


@pytest.mark.spec("OO-F15", "WQ-F86")
def test_a_lull_gives_finished_windows_away(engine: Any) -> None:
    """Nothing comes any more: entries of finished windows leave, those of open ones stay."""
    plan = plan_of(10, 10)
    q = engine()
    q.start(plan, settings=replace(LAZY, low_table=100_000))
    q.batch(table([(k, 5, 1) for k in range(20)]))
    q.batch(table([(k, 17, 1) for k in range(20, 30)]))
    assert q.rows("small") == []
    q.batch()
    assert len(q.rows("small")) == 20
    assert _figures(q.records[-1]) == {"arrived": 0, "sent": 0, "drained": 20, "entries": 10}
    done = len(q.records)
    q.batch()  # nothing is owed: no batch is run
    assert len(q.records) == done
    assert q.loop.last.tables
    q.stop()
    q.start(plan)  # without tables: what is in them leaves at once
    q.batch(table([(50, 18, 1)]))
    assert not q.loop.last.tables and len(q.rows("small")) == 20
    q.batch(flush=True)
    assert len(q.rows("small")) == 31
    q.stop()


def test_a_slow_flush_sends_an_old_entry_every_few_arrivals(engine: Any) -> None:
    """Two windows may pass before old entries must leave; with ``low_flush`` some leave before that."""
    sent = {}
    for every in (0, 1, 3):
        q = engine()
        q.start(plan_of(10, 10), settings=replace(LAZY, low_table=100_000, low_flush=every))
        q.batch(table([(k, 5, 1) for k in range(40)]))
        q.batch(table([(50, 17, 1)]))  # bound 11: the first window is over
        q.batch(table([(k, 17, 1) for k in range(60, 72)]))  # twelve arrivals
        sent[every] = _figures(q.records[-1])["sent"]
        q.stop()
    assert sent == {0: 0, 1: 12, 3: 4}


def test_a_newcomer_tries_the_neighbouring_slot_only_if_told_to(engine: Any) -> None:
    sent = {}
    for probe in (False, True):
        q = engine()
        q.start(plan_of(10, 10), settings=replace(LAZY, low_table=64, low_probe=probe), tasks=1)
        q.batch(table([(k, 5, 1) for k in range(40)]))
        sent[probe] = _figures(q.records[-1])["sent"]
        q.stop()
    assert 0 < sent[True] < sent[False]


def test_a_batch_that_is_repeated_decides_the_same(engine: Any) -> None:
    """What a dead driver's tasks wrote is found by nobody, and swept away."""
    plan = plan_of(10, 10)
    data = batches(7, 6)
    plain = engine()
    run(plain, plan, data, {0: {"settings": LAZY}})
    broken = engine()
    for i, rows in enumerate(data):
        broken.start(plan, settings=LAZY)
        commit = broken.loop._sync
        broken.loop._sync = lambda: (_ for _ in ()).throw(RuntimeError("killed"))
        if rows:
            with pytest.raises(RuntimeError, match="killed"):
                broken.batch(table(rows[: len(rows) // 2]), table(rows[len(rows) // 2 :]))
            broken.stop()
            broken.start(plan, settings=LAZY)
            broken.loop.run(None, i)
        else:
            broken.loop._sync = commit
            broken.batch()
        broken.stop()
    broken.start(plan, settings=LAZY)
    broken.batch(final=True)
    assert shown(broken.rows("small")) == shown(plain.rows("small"))
    broken.stop()
