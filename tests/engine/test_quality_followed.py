"""A running query follows the rules of quality targets: a rule's own test knows nothing of who asks it."""

from __future__ import annotations

import shutil
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from slackwater.engine.plan.layout import build
from slackwater.engine.plan.plan import Output, Plan
from slackwater.engine.store import manifest as manifests
from slackwater.model.policy import Quality
from slackwater.model.rewrite import Rewrite
from slackwater.model.window import TimeWindow
from slackwater.testing.transcripts.script import parse
from tests.engine.in_process import Engine, Make
from tests.engine.test_quality import even, quality, run, summed, table
from tests.engine.test_quality_options import steered

WINDOW = TimeWindow(100, 20, 0, "ts")


def arrived(times: Any, delays: Any) -> list[Any]:
    """(number, key, time, value) in order of arrival; values are 1 to 7."""
    order = np.argsort(times + delays, kind="stable")
    return [(i, 0, int(times[at]), 1.0 + int(at) % 7) for i, at in enumerate(order)]


def needed(error: float, rows: float, spread: float) -> float:
    """The least coverage of a sum: what is missing, and 1.96 deviations of what is there, are the error at the most."""

    def off(coverage: float) -> float:
        spread_of_sums = np.sqrt((coverage - coverage**2) * (spread**2 + 1) / rows)
        return float(1 - coverage + 1.959964 * spread_of_sums)

    low, high = 0.5, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if off(middle) <= error else (middle, high)
    return high


@pytest.mark.spec("QD-C3", "QD-D3", "QD-D5")
def test_what_a_window_needs_follows_the_rate_of_late(engine: Make) -> None:
    """Eight times as many rows come from half-way on, and later, by which the change is noticed."""
    rng = np.random.default_rng(2)
    times = np.concatenate([np.arange(1_000) * 2, 2_000 + np.arange(3_000) // 4])
    rows = arrived(times, rng.exponential(np.repeat((5, 60), (1_000, 3_000))))
    cuts = [*range(100, 1_000, 100), *range(1_000, 4_000, 300)]
    target = Quality(error=0.05, granularity=2)
    made = quality(run(engine, summed(target, WINDOW), rows, cuts, groups=1))
    values = np.arange(1.0, 8.0)
    for rate, q in ((0.5, made[9]), (4.0, made[-2])):
        (judged,) = q["consumers"].values()
        assert q["rate"] == pytest.approx(rate, rel=0.15)
        wanted = needed(0.05, rate * WINDOW.range, values.std() / values.mean())
        assert judged["needed"] == pytest.approx(wanted, abs=1e-3)
    assert made[-2]["delays"]["changes"]


@pytest.mark.spec("QD-B11")
def test_until_it_is_warm_a_query_waits_for_the_largest_delay_ever_seen(engine: Make) -> None:
    """Also for one that was long ago: delays since then tell of a few windows only."""
    rng = np.random.default_rng(2)
    delays = rng.uniform(0, np.repeat((300, 120, 5), (300, 300, 1_000)))
    rows = arrived(np.arange(1_600), delays)
    plan = summed(Quality(error=0.05, granularity=2, warmup=10**6), WINDOW)
    records = quality(run(engine, plan, rows, even(len(rows), 20), groups=1))[2:-1]
    assert all(q["slack"] >= q["delays"]["largest"] and not q["warm"] for q in records)
    assert records[-1]["delays"]["max"] < 200 < 250 < records[-1]["delays"]["largest"]


@pytest.mark.spec("QD-C7", "QD-D12")
def test_a_controller_takes_its_share_of_the_largest_delay_ever_seen(engine: Make) -> None:
    rng = np.random.default_rng(2)
    delays = rng.uniform(0, np.repeat((300, 120, 5), (300, 300, 1_000)))
    policy = Quality(coverage=0.98, method="pd", granularity=2)
    rows = arrived(np.arange(1_600), delays)
    records = quality(run(engine, summed(policy, WINDOW), rows, even(1_600, 20), groups=1))[:-1]
    assert [q["slack"] for q, _ in steered(records)] == [slack for _, slack in steered(records)]
    shrunk = [q for q, _ in steered(records) if q["delays"]["max"] < 200 < q["delays"]["largest"]]
    assert any(q["slack"] > 0 for q in shrunk)


def begun(make: Make, plan: Plan, batches: list[Any]) -> Engine:
    """A query that has run some batches and was stopped."""
    engine = make()
    engine.start(plan, groups=1)
    for rows in batches:
        engine.batch(table(rows))
    engine.stop()
    return engine


def continued(make: Make, before: Engine, plan: Plan, rows: list[Any]) -> Engine:
    """One batch more, on a copy of the checkpoint, by another query."""
    engine = make()
    shutil.copytree(before.folder, engine.folder, dirs_exist_ok=True)
    engine.host.batches.extend(before.batches)
    engine.start(plan, groups=1)
    engine.batch(table(rows))
    engine.stop()
    return engine


@pytest.mark.spec("QD-D1")
def test_right_after_a_change_a_promise_of_more_confidence_waits_longer(engine: Make) -> None:
    """From one state, in the batch that follows: what past windows needed counts with the confidence asked for now."""
    rng = np.random.default_rng(1)
    rows = arrived(np.arange(6_000) // 4, rng.exponential(np.repeat((5, 60), 3_000)))
    plans = [
        summed(Quality(error=0.03, granularity=2, confidence=c), TimeWindow(20, 20, 0, "ts"))
        for c in (0.95, 0.5)
    ]
    batches = [rows[a:b] for a, b in pairwise(range(0, 5_281, 240))]
    slacks = []
    for at in (20, 21):
        before = begun(engine, plans[0], batches[:at])
        ends = [continued(engine, before, plan, batches[at]) for plan in plans]
        slacks.append([quality(end)[-1]["slack"] for end in ends])
    assert all(high >= low > 150 for high, low in slacks)
    assert any(high > low for high, low in slacks)


def in_two(make: Make, how: str, lead: int = 0) -> list[dict[str, Any]]:
    """Records of an ordered join under a target for recall: stream ``calm`` is hardly late, ``rough`` by up to 300 ticks.

    ``lead`` is by how much the first is ahead of the other.
    """
    fields = {"columns": {"k": "bigint", "t": "bigint"}, "time": "t", "progress": "max_delay"}
    join = {
        "join": [{"as": "a", "from": "calm"}, {"as": "b", "from": "rough"}],
        "how": how,
        "keys": ["k"],
        "band": {"before": 20, "after": 20},
    }
    script = parse(
        {
            "name": "two",
            "streams": {"calm": fields, "rough": fields},
            "query": [join, {"sort": "max"}],
            "script": [{"end": True}],
        }
    )
    policy = Quality(recall=0.9, over=600, granularity=2)
    inputs = {"calm": 0, "rough": 1}
    change = Rewrite(
        lambda source: replace(source, policies=(policy,), input=inputs[source.given_name])
    )
    plan = build([Output("out", change(script.outputs["out"].node))], ansi=True, zone="UTC")
    made = make()
    both = [made.split_input(i, s.schema) for i, s in enumerate(plan.sources)]
    made.start(plan, groups=1, inputs=both)
    rng = np.random.default_rng(4)
    streams = []
    for most, ahead in ((4, lead), (300, 0)):
        times = np.arange(1_500)
        late = np.where(rng.random(1_500) < 0.2, rng.uniform(0, most, 1_500), 0)
        streams.append(times[np.argsort(times + late, kind="stable")] + ahead)
    for at in range(0, 1_500, 150):
        calm, rough = (
            pa.table({"k": pa.array(part % 4, pa.int64()), "t": pa.array(part, pa.int64())})
            for part in (s[at : at + 150] for s in streams)
        )
        made.batch(calm, others={1: [rough]})
    return made.records


def slack_of(record: dict[str, Any]) -> list[int]:
    return [s["quality"]["t"]["slack"] for s in record["streams"].values()]


@pytest.mark.spec("QD-E11")
@pytest.mark.parametrize("how", ["inner", "left"])
def test_all_streams_of_a_recall_wait_equally_long(engine: Make, how: str) -> None:
    """Results of an inner join are measured, others reckoned from delays."""
    records = in_two(engine, how)
    found = [slack_of(r)[0] for r in records[1:]]
    assert max(found) > 2 * min(found[3:]) > 0
    for before, record in pairwise(records[1:]):
        slacks = slack_of(before)
        behind = [s["bounds"]["t"]["behind"] for s in record["streams"].values()]
        assert slacks[0] == slacks[1]
        # A bound does not go back when slack grows.
        known = record["batchId"] > 3
        assert all(b == slacks[0] or (b < slacks[0] and not known) for b in behind)
        assert slacks[0] > 10 * before["streams"]["calm"]["quality"]["t"]["delays"]["largest"]


def test_a_stream_that_is_ahead_needs_less_slack_where_results_are_measured(engine: Make) -> None:
    """Elsewhere nothing counts on it: slack is as for streams that go side by side."""
    last = {
        (how, lead): slack_of(in_two(engine, how, lead)[-1])[0]
        for how in ("inner", "left")
        for lead in (0, -150)
    }
    assert last["inner", -150] < 0.5 * last["inner", 0]
    assert 0 < last["left", -150] == last["left", 0] < 250


@pytest.mark.spec("QD-A2", "QD-A3", "QD-A4", "QD-C8", "QD-D7", "QD-D8", "QD-D9")
def test_what_is_measured_is_counted_from_the_rows(engine: Make) -> None:
    """Delays are behind the newest times of earlier batches; a window is measured when 99 of 100 late rows must be there."""
    rng = np.random.default_rng(7)
    late = np.where(rng.random(4_000) < 0.3, rng.exponential(40, 4_000), 0)
    rows = arrived(np.arange(4_000) // 2, late)
    cuts = even(len(rows), 40)
    plan = summed(Quality(coverage=0.97, granularity=2), WINDOW)
    made = run(engine, plan, rows, cuts, groups=1)
    counts: dict[int, list[int]] = {}
    closed, edges, behind, count, measured, window = [-(10**9)], [], [], 0, 0, None

    def last(end: float) -> int:
        return int(end) // WINDOW.slide - 1

    for record, (a, b) in zip(made.records, pairwise([0, *cuts, len(rows)]), strict=False):
        for _, _, t, _ in rows[a:b]:
            behind += [edge - t for edge in edges if edge > t]
            count += any(edge > t for edge in edges)
            for wid in range(t // 20, (t + 100) // 20):
                counts.setdefault(wid, [0, 0])[wid <= closed[-1]] += 1
        edges.append(max([*edges, *(t for _, _, t, _ in rows[a:b])]))
        stream = record["streams"]["s"]
        q = stream["quality"]["ts"]
        assert stream["bounds"]["ts"]["newest"] == edges[-1]
        assert q["delays"]["lateShare"] == pytest.approx(count / b)
        closed.append(last(stream["bounds"]["ts"]["ticks"] or -(10**9)))
        (judged,) = q["consumers"].values()
        if judged["window"] != window:
            window = judged["window"]
            received, missed = counts[window]
            assert judged["measured"] == received / (received + missed)
            measured += missed > 0
        # By now no delay is longer than any before; a window is judged when it is closed.
        if len(edges) > 12 and window is not None:
            wait = np.quantile(behind, 0.99, method="inverted_cdf")
            most = [last(edges[-1] - wait * f) for f in (1.05, 0.95)]
            # Of the windows that a batch closes the last one is the worst.
            assert judged["window"] in {max(w for w in closed if w <= m) for m in most}
    assert measured > 10
    kept = manifests.last(made.checkpoint)
    assert kept is not None
    (source,) = kept.sources.values()
    adaptation = source.quality["ts"].adaptation
    assert adaptation is not None
    ((coverage, _),) = (s["coverage"] for s in adaptation.states.values())
    assert len(coverage) < 30 < len(counts)


@pytest.mark.spec("QD-C5", "QD-C6")
@pytest.mark.parametrize(("size", "limit"), [(100, 4), (100, 40), (30, 20)])
def test_the_model_says_how_complete_windows_become(engine: Make, size: int, limit: int) -> None:
    """Under a slack that may not grow. Windows end up to one slide before the edge that the model is about, and miss less."""
    rng = np.random.default_rng(9)
    late = np.where(rng.random(4_000) < 0.5, rng.exponential(40, 4_000), 0)
    rows = arrived(np.arange(4_000) // 4, late)
    policy = Quality(coverage=0.999, granularity=2, limit=limit)
    plan = summed(policy, TimeWindow(size, 10, 0, "ts"))
    records = quality(run(engine, plan, rows, even(len(rows), 26), groups=1))[8:-1]
    assert {q["slack"] for q in records} == {limit}
    judged = [c for q in records for c in q["consumers"].values()]
    found = np.mean([c["measured"] for c in judged])
    assert -0.005 < found - np.mean([c["estimated"] for c in judged]) < 0.035 and found < 0.96
