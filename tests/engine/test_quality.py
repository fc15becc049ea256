"""Quality targets on the engine: the promise is kept, restarts change nothing, strictness ignores cuts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from slackwater.engine.lowlevel.quality_rows import UsableRows
from slackwater.engine.plan.layout import build
from slackwater.engine.plan.plan import Output, Plan
from slackwater.engine.store import manifest as manifests
from slackwater.errors import AnalysisError
from slackwater.model.aggregate import Primitive
from slackwater.model.names import PASS
from slackwater.model.node import LATE_FIELDS, Aggregate, Filter, Late, Source
from slackwater.model.policy import MaxDelay, Policy, Quality
from slackwater.model.schema import Expr, Field, Named, column
from slackwater.model.time import TimeColumn
from slackwater.model.window import TimeWindow
from slackwater.semantics.quality.statistics import StreamStatistics
from slackwater.testing.oracle.quality import simulate
from tests.engine.in_process import Engine, Make, run_whole

FIELDS = (Field("n", "bigint"), Field("k", "bigint"), Field("ts", "bigint"), Field("v", "double"))
TIME = TimeColumn("ts", "long", None)
WINDOW = TimeColumn("window", "window", None, True)


def summed(
    policy: Policy,
    window: TimeWindow,
    *,
    keys: tuple[str, ...] = (),
    order: bool = False,
    least: int = 0,
    count: bool = True,
) -> Plan:
    """sum(v) and count(*) by window; rows with v < ``least`` are left out."""
    source = Source(FIELDS, (TIME,), "s", 0, (policy,), order=("n",) if order else ())
    child: Any = source
    if least:
        test = Expr(f"v >= {least}", "boolean", f'("v" >= {least})')
        child = Filter(FIELDS, (TIME,), source, test)
    parts = (
        Primitive("_a0", "sum", (column("v", "double"),), "double"),
        Primitive("_a1", "count", (), "bigint"),
    )
    outputs = (
        Named("total", column("__sw_a0", "double")),
        Named("rows", column("__sw_a1", "bigint")),
    )
    if not count:
        parts, outputs = parts[:1], outputs[:1]
    fields = [Field(k, "bigint") for k in keys]
    fields += [Field("wid", "bigint"), Field("window", "struct<start:bigint,end:bigint>")]
    fields += [Field("total", "double"), Field("rows", "bigint")][: len(outputs)]
    named = tuple(Named(k, column(k, "bigint")) for k in keys)
    node = Aggregate(tuple(fields), (WINDOW,), child, named, window, parts, outputs)
    late = Late((*FIELDS, *_late_fields()), (TIME,), source)
    return build([Output("out", node), Output("late", late)], ansi=True, zone="UTC")


def _late_fields() -> list[Field]:
    return [Field(f.name, "bigint") if f.name == "_late_bound" else f for f in LATE_FIELDS]


def stream(seed: int, rows: int, rate: float = 0.5) -> list[tuple[int, int, int, float]]:
    """(number, key, time, value) in order of arrival: 30 % late by some 10 ticks, 1 % by up to 400."""
    rng = np.random.default_rng(seed)
    times = np.cumsum(rng.exponential(1 / rate, rows)).astype(np.int64)
    delays = np.where(rng.random(rows) < 0.3, rng.exponential(10, rows), 0)
    delays += np.where(rng.random(rows) < 0.01, rng.integers(50, 400, rows), 0)
    order = np.argsort(times + delays, kind="stable")
    return [
        (i, int(rng.integers(5)), int(times[at]), float(rng.integers(1, 9)))
        for i, at in enumerate(order)
    ]


def table(rows: list[tuple[int, int, int, float]]) -> pa.Table:
    columns = list(zip(*rows, strict=True))
    return pa.table(
        {
            f.name: pa.array(list(c), pa.float64() if f.type == "double" else pa.int64())
            for f, c in zip(FIELDS, columns, strict=True)
        }
    )


def run(
    make: Make,
    plan: Plan,
    rows: list[Any],
    cuts: list[int],
    restarts: Sequence[int] = (),
    groups: int = 2,
) -> Engine:
    edges = pairwise([0, *cuts, len(rows)])
    # Two files, so that two tasks would share the batch; the second holds the earlier rows.
    files = [(table(rows[(a + b) // 2 : b]), table(rows[a : (a + b) // 2])) for a, b in edges]
    return run_whole(make, plan, files, {i: {} for i in restarts}, groups)


def even(rows: int, count: int) -> list[int]:
    return [rows * (i + 1) // count for i in range(count - 1)]


def quality(engine: Engine) -> list[dict[str, Any]]:
    return [r["streams"]["s"]["quality"]["ts"] for r in engine.records]


def _behind(engine: Engine) -> float:
    """How far the bound is behind the newest time on average, once warm."""
    columns = [r["streams"]["s"]["bounds"]["ts"] for r in engine.records[6:-1]]
    return float(np.mean([c["behind"] for c in columns]))


ERROR = 0.05


@pytest.mark.spec("QD-B9", "QD-B10", "QD-D1", "QD-D6", "QD-D13")
@pytest.mark.parametrize("keys", [(), ("k",)])
def test_an_error_target_is_kept_with_less_waiting_than_for_the_largest_delay(
    engine: Make, keys: tuple[str, ...]
) -> None:
    window = TimeWindow(100, 20, 0, "ts")
    rows = stream(3, 8_000, rate=2.0)
    cuts = even(len(rows), 16)
    target = Quality(error=ERROR, per="group" if keys else "total", granularity=2)
    ours = run(engine, summed(target, window, keys=keys), rows, cuts)
    largest = run(engine, summed(MaxDelay(), window, keys=keys), rows, cuts, groups=1)

    true: dict[Any, float] = {}
    for _, k, t, v in rows:
        for wid in range(t // 20, (t + 100) // 20):
            key = (wid, k) if keys else wid
            true[key] = true.get(key, 0.0) + v
    found = {((r["wid"], r["k"]) if keys else r["wid"]): r["total"] for r in ours.rows("out")}
    kept = [abs(found.get(w, 0.0) - total) <= ERROR * total for w, total in true.items()]
    assert np.mean(kept) >= 0.95
    assert _behind(ours) < 0.5 * _behind(largest)
    last = quality(ours)[-2]
    assert last["warm"] and last["slack"] < last["delays"]["largest"]
    assert last["slack"] > 0 or not keys  # the rows of one group are few
    assert all(q["slack"] is None or q["slack"] >= 0 for q in quality(ours))
    (judged,) = last["consumers"].values()
    assert judged["estimated"] >= judged["needed"] - 0.02 and judged["measured"] > 0.9


@pytest.mark.spec("QD-B3")
def test_a_restart_changes_neither_slacks_nor_results(engine: Make) -> None:
    window = TimeWindow(100, 20, 0, "ts")
    rows = stream(5, 2_400)
    cuts = even(len(rows), 10)
    for policy in (
        Quality(error=0.05, granularity=2),
        Quality(coverage=0.98, method="pd", granularity=2),
        Quality(error=0.05, granularity=2, strict=True),
    ):
        plan = summed(policy, window, order=policy.strict)
        whole = run(engine, plan, rows, cuts)
        parts = run(engine, plan, rows, cuts, restarts=[3, 7])
        assert quality(whole) == quality(parts)
        assert len({q["slack"] for q in quality(whole)}) > 3
        assert _shown(whole) == _shown(parts)


def _shown(engine: Engine) -> list[tuple[Any, ...]]:
    return sorted((r["wid"], r["total"], r["rows"]) for r in engine.rows("out"))


@pytest.mark.spec("QD-A1", "QD-D2")
def test_strict_results_do_not_depend_on_how_arrivals_were_cut(engine: Make) -> None:
    rows = stream(7, 3_000)
    for window, least in ((TimeWindow(60, 20, 5, "ts"), 0), (TimeWindow(40, 40, 0, "ts"), 4)):
        plan = summed(
            Quality(error=0.05, granularity=2, strict=True), window, order=True, least=least
        )
        fine = run(engine, plan, rows, even(len(rows), 11))
        coarse = run(engine, plan, rows, [50, 2_000])
        assert _shown(fine) == _shown(coarse)
        assert quality(fine)[-1]["slack"] == quality(coarse)[-1]["slack"] > 0
        late = sorted((r["n"], r["_late_by"], r["_late_windows"]) for r in fine.rows("late"))
        assert late and late == sorted(
            (r["n"], r["_late_by"], r["_late_windows"]) for r in coarse.rows("late")
        )


@pytest.mark.spec("QD-A2", "QD-A3", "QD-C1", "QD-D1", "QD-D3", "QD-D10", "QD-D11")
def test_strict_results_are_those_of_the_simulation(engine: Make) -> None:
    rows = stream(11, 1_500)
    window = TimeWindow(60, 20, 0, "ts")
    plan = summed(Quality(error=0.1, granularity=2, strict=True), window, order=True, count=False)
    made = run(engine, plan, rows, [100, 700, 1_100])
    wanted = simulate([(t, v) for _, _, t, v in rows], width=60, slide=20, error=0.1, granule=2)
    assert {r["wid"]: r["total"] for r in made.rows("out")} == wanted.sums
    assert wanted.sums != wanted.true  # some rows came too late


def test_what_a_target_cannot_mean_is_refused() -> None:
    window = TimeWindow(60, 20, 0, "ts")
    with pytest.raises(AnalysisError, match="order of arrival"):
        summed(Quality(error=0.1, strict=True), window)
    with pytest.raises(AnalysisError, match="does not go with"):
        build_late("drop")
    for bad, text in (
        ({"error": 0}, "above 0 and below 1"),
        ({"error": 1.0}, "above 0 and below 1"),
        ({"coverage": 1.2}, "above 0 and at most 1"),
        ({"error": 0.1, "confidence": 1}, "above 0 and below 1"),
        ({"recall": 0.9}, "go together"),
        ({}, "exactly one"),
        ({"error": 0.1, "coverage": 0.9}, "exactly one"),
        ({"error": 0.1, "method": "guess"}, "not known"),
    ):
        with pytest.raises(AnalysisError, match=text):
            Quality(**bad)


def build_late(late: str) -> None:
    from slackwater.semantics.settings import resolve_source

    source = Source(FIELDS, (TIME,), "s", 0, (Quality(error=0.1),), late)  # type: ignore[arg-type]
    resolve_source(source)


@pytest.mark.parametrize("strict", [False, True])
def test_a_row_that_is_ages_late_takes_no_memory_and_a_limit_stays_within_reach(
    engine: Make, strict: bool
) -> None:
    rows = stream(3, 1200)
    rows[900] = (*rows[900][:2], -(10**13), 1.0)
    policy = Quality(error=0.05, limit=50, strict=strict)
    plan = summed(policy, TimeWindow(40, 20, 0, "ts"), order=strict)
    made = run(engine, plan, rows, even(1200, 6))
    assert quality(made)[-1]["slack"] == 50
    assert any(r["ts"] == -(10**13) for r in made.rows("late"))


def test_600_windows_after_an_extreme_delay_batches_are_judged_as_without_it(engine: Make) -> None:
    """No limit is given."""
    window, slacks = TimeWindow(20, 2, 0, "ts"), []
    for extreme in (False, True):
        rows = stream(8, 8_000, rate=5.0)
        if extreme:
            rows[300] = (*rows[300][:2], -(10**13), 1.0)
        policy = Quality(error=0.05, granularity=2)
        made = run(engine, summed(policy, window), rows, even(8_000, 16), groups=1)
        slacks.append([q["slack"] for q in quality(made)])
        last = manifests.last(made.checkpoint)
        assert last is not None
        (source,) = last.sources.values()
        adaptation = source.quality["ts"].adaptation
        assert adaptation is not None
        assert StreamStatistics.granularity_in(adaptation.statistics) == 2
    assert slacks[0][13:] == slacks[1][13:] and slacks[0][-1] > 0


@pytest.mark.spec("QD-C2", "QD-D1", "QD-D2")
@pytest.mark.parametrize("means", [(5, 60), (60, 5)])
def test_batches_follow_a_change_of_delays(engine: Make, means: tuple[int, int]) -> None:
    rng = np.random.default_rng(1)
    made = np.arange(12_000) // 4
    order = np.argsort(made + rng.exponential(np.repeat(means, 6_000)), kind="stable")
    rows = [(i, 0, int(made[at]), 1.0 + at % 7) for i, at in enumerate(order.tolist())]
    plan = summed(Quality(error=0.03, granularity=2), TimeWindow(100, 20, 0, "ts"))
    ours = run(engine, plan, rows, even(len(rows), 50), groups=1)
    true: dict[int, float] = {}
    for _, _, t, v in rows:
        for wid in range(t // 20, (t + 100) // 20):
            true[wid] = true.get(wid, 0.0) + v
    found = {r["wid"]: r["total"] for r in ours.rows("out")}
    # Three ranges after the change; the end of the stream closes the last windows.
    late = [w for w in true if 1_800 < 20 * w < 2_700]
    assert np.mean([abs(found[w] - true[w]) <= 0.03 * true[w] for w in late]) >= 0.95
    slacks = [q["slack"] for q in quality(ours)]
    if means[0] < means[1]:
        # In the beginning it is the largest delay.
        assert max(slacks[18:25]) < 20 and min(slacks[32:]) > 120
    else:
        assert min(slacks[5:25]) > 120 and slacks[-1] < 20


def test_where_spark_has_done_the_steps_rows_that_it_let_pass_go_along() -> None:
    plan = summed(MaxDelay(), TimeWindow(10, 10, 0, "ts"), least=3)
    (path,) = plan.paths_from("s")
    table, usable = pa.table({"v": [1.0, 3.0, 5.0]}), np.array([True, True, False])
    itself = UsableRows(table, usable, {})
    assert itself.along(path)[:2] == (table, path.steps) and path.steps
    assert itself.along(path)[2].tolist() == [True, True, False]
    done = table.append_column(PASS, pa.array([False, True, True]))
    rows, left, kept = UsableRows(table, usable, {path.id: done}).along(path)
    assert rows is done and left == () and kept.tolist() == [False, True, False]
