"""What a running query leaves on disk and in its manifests is bounded, for every operator."""

from __future__ import annotations

import os
import random
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from slackwater.engine.driver import cleaning
from slackwater.engine.paths.batch import Settings
from slackwater.engine.plan.layout import build
from slackwater.engine.plan.plan import Output, Plan
from slackwater.engine.plan.sharing import share
from slackwater.engine.store import manifest as manifests
from slackwater.engine.store.storage import Folder
from slackwater.sinks.files import TextSink
from slackwater.testing.transcripts.script import parse
from tests.engine.in_process import Engine, Make

COLUMNS = {"id": "bigint", "k": "bigint", "ts": "bigint", "v": "bigint"}
SUMS = {"n": "count(*)", "t": "sum(v)"}
BAND = {"before": 4, "after": 4}
SELF = [{"as": "a", "from": "s"}, {"as": "b", "from": "s"}]


def over(window: dict[str, Any], *by: str, **agg: str) -> list[Any]:
    return [{"from": "s"}, {"window": window, "by": list(by), "agg": agg or SUMS}]


TUMBLING = over({"range": 10}, "k")
SLIDING = over({"range": 20, "slide": 5}, "k", **SUMS, most="max(v)", mean="avg(v)")
PAIRS = {"join": SELF, "keys": ["k"], "band": BAND}
MERGING = Settings(compact_runs=2)

STREAM = [{"from": "s"}]

# Each batch pays what it owes, for the clock of these tests stands still.
LITTLE = {**PAIRS, "memory": 12_000, "deadline": "0 seconds"}
MOST = {
    "sliding": SLIDING,
    "large": [*TUMBLING, {"window": {"range": 20}, "agg": {"n": "sum(n)"}}],
    "whole": over({"range": 10, "slide": 5}, "k", m="median(v)", d="count(DISTINCT v)"),
    "rows": over({"rows": 8, "slide": 4}, "k"),
    "per": over({"rows": 6, "slide": 2, "per": "k"}),
    "operator": over({"rows": 5, "at": "operator"}),
    "landmark": over({"landmark": 10, "origin": 0}, "k"),
    "arrival": over({"by_tuple": 10, "every": 3}),
    "rank": over({"by_tuple": 10, "every": 3, "over": "rank"}),
    "session": over({"session": 3}, "k"),
    "dedup": [*STREAM, {"dedup": {"subset": ["v"], "within": 12}}],
    "sort": [*STREAM, {"sort": "ts"}],
    "some": [*STREAM, {"where": "v > 3"}],
    "late": [{"late": "s"}],
    "inner": [PAIRS],
    "outer": [{**PAIRS, "how": "full"}],
    "three": [{"join": [*SELF, {"as": "c", "from": "s"}], "keys": ["k"], "reach": [3, 3, 3]}],
    "little": [LITTLE],
    "outer in little memory": [{**LITTLE, "how": "full"}],
}
TWINS = ("sliding", "rows", "arrival", "some", "inner", "little")
"""Outputs whose operators run the same program as another's: only at length."""

SHARED = {
    "a": SLIDING,
    "b": over({"range": 10, "slide": 5}, "k"),
    "c": [*STREAM, {"where": "v > 30"}, {"sort": "ts"}],
    "d": [*STREAM, {"where": "v < 70"}, {"sort": "ts"}],
}
CASES: dict[str, tuple[dict[str, Any], dict[str, Any], Settings]] = {
    "most operators": (MOST, {"window_plan": "panes"}, MERGING),
    "window ids": ({"q": SLIDING}, {"window_plan": "wids"}, MERGING),
    "adaptive": ({"q": over({"range": 20, "slide": 5}, "k")}, {"window_plan": "adaptive"}, MERGING),
    "smooth": ({"q": TUMBLING}, {}, Settings(smooth=3)),
    "low tables": ({"q": TUMBLING}, {}, Settings(low_table=8, smooth_windows=1, smooth=20)),
    "shared state": (SHARED, {"sharing": True}, MERGING),
}


def plan_of(query: dict[str, Any], window_plan: str = "auto", sharing: bool = False) -> Plan:
    stream = {"columns": COLUMNS, "time": "ts", "progress": {"bounded_delay": 4}, "order": "id"}
    script = parse({"name": "piles", "streams": {"s": stream}, "query": query,
                    "script": [{"end": True}]})  # fmt: skip
    outputs = [Output(name, o.node) for name, o in script.outputs.items()]
    plan = build(outputs, ansi=True, zone="UTC", window_plan=window_plan)
    return share(plan, {}, None, wanted=True) if sharing else plan


def rows(number: int, rng: random.Random) -> pa.Table:
    """Eight rows of a steady stream, in order of their ids, some of them late."""
    made = []
    for i in range(8):
        late = 9 if rng.random() < 0.05 else 0
        time = max(0, 4 * number + i // 2 - rng.randrange(4) - late)
        made.append((8 * number + i, rng.randrange(6), time, rng.randrange(100)))
    columns = zip(*made, strict=True)
    return pa.table({c: pa.array(v, pa.int64()) for c, v in zip(COLUMNS, columns, strict=True)})


def files(root: Path) -> Counter[str]:
    """Files below a checkpoint by folder and by the operator that wrote them; the progress log has a limit of its own."""
    found: Counter[str] = Counter()
    for path in root.rglob("*"):
        if path.is_file() and not path.name.startswith("progress."):
            folder, writer = str(path.parent.relative_to(root)), re.match(r"(.+?)-b\d+-", path.name)
            found[f"{folder}/{writer[1]}" if writer else folder] += 1
    return found


def unnamed(engine: Engine) -> list[int]:
    """How many batches ago each state file was written that no manifest names."""
    checkpoint = engine.checkpoint
    kept = [manifests.read(checkpoint, b) for b in manifests.committed(checkpoint)]
    live = {r.name for m in kept if m for g in m.runs.values() for rs in g for r in rs}
    live |= {r.name for m in kept if m for rs in m.tables.values() for r in rs}
    there = {p.name for p in checkpoint.runs.iterdir()}
    assert live <= there, "a file that a kept manifest names is gone"
    left = there - live
    newest = max(manifests.committed(checkpoint))
    return [newest - int(re.findall(r"-b(\d+)-", name)[-1]) for name in left]


def run(engine: Engine, name: str, count: int, without: tuple[str, ...] = ()) -> None:
    """Batches of a steady stream with a flush and an idle batch now and then."""
    query, how, settings = CASES[name]
    query = {n: steps for n, steps in query.items() if n not in without}
    plan, rng = plan_of(query, **how), random.Random(7)
    engine.start(plan, groups=1, tasks=1, settings=settings)
    root, half = engine.checkpoint.root, count // 2
    most: list[Counter[str]] = [Counter(), Counter()]
    rows_kept: list[Counter[str]] = [Counter(), Counter()]
    sizes = [0, 0]
    for number in range(count):
        if number % 10 == 9:
            engine.batch(flush=number % 20 == 9)  # else an idle batch
        else:
            engine.batch(rows(number, rng))
        late = number >= half
        operators = engine.records[-1]["operators"]
        rows_kept[late] |= Counter({id: o["state"]["rows"] for id, o in operators.items()})
        newest = max(root.glob("manifests/*.json"))
        sizes[late] = max(sizes[late], newest.stat().st_size)
        if number % 5 == 3:
            most[late] |= files(root)
            assert max(unnamed(engine), default=0) <= cleaning.SWEEP_EVERY
    engine.stop()
    for folder, found in most[1].items():
        assert found <= 1.2 * most[0][folder] + 4, (folder, most)
    for operator, kept in rows_kept[1].items():
        assert kept <= 1.2 * rows_kept[0][operator] + 8, (operator, rows_kept)
    assert most[1]["manifests"] <= cleaning.KEEP_MANIFESTS
    assert most[1]["control"] == 0
    assert sizes[1] <= 1.2 * sizes[0], sizes


@pytest.fixture(autouse=True)
def quick_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test here pulls the plug."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)


@pytest.mark.parametrize("name", CASES)
def test_a_running_query_leaves_no_more_after_40_batches(engine: Make, name: str) -> None:
    run(engine(), name, 40, TWINS)


@pytest.mark.faults
@pytest.mark.parametrize("name", CASES)
def test_a_running_query_leaves_no_more_after_1000_batches(engine: Make, name: str) -> None:
    run(engine(), name, 1_000)


def test_what_no_manifest_ever_named_goes_with_a_later_sweep(engine: Make) -> None:
    """What a late attempt of a lost task writes, and what a batch without a manifest left."""
    q = engine()
    query, how, settings = CASES["window ids"]
    q.start(plan_of(query, **how), groups=1, tasks=1, settings=settings)
    rng, checkpoint = random.Random(1), q.checkpoint
    for number in range(10):
        q.batch(rows(number, rng))
    over, ahead = "agg-b00000003-e1-g0-ab.arrow", "agg-b00000099-e1-g0-ab.arrow"
    staged = checkpoint.outputs / "q" / "staged"
    gone = [checkpoint.runs / over, staged / over.replace("arrow", "parquet")]
    gone += [checkpoint.intents / "000000000002.json", checkpoint.published / "000000000002.begun"]
    stays = [checkpoint.runs / ahead, checkpoint.runs / "note.txt", checkpoint.intents / "README"]
    for path in [*gone, *stays]:
        path.touch()
    for number in range(10, 10 + cleaning.SWEEP_EVERY):
        q.batch(rows(number, rng))
    assert [p.name for p in gone if p.exists()] == []
    assert all(p.exists() for p in stays)
    q.stop()


def test_a_start_removes_what_drivers_that_died_left(engine: Make) -> None:
    q = engine()
    query, how, settings = CASES["window ids"]
    plan = plan_of(query, **how)
    for _ in range(3):
        q.start(plan, groups=1, tasks=1, settings=settings)
        q.stop()
    q.start(plan, groups=1, tasks=1, settings=settings)
    q.batch(rows(0, random.Random(1)))
    live = set(q.checkpoint.runs.iterdir())
    q.stop()
    c = q.checkpoint
    names = ["agg-b00000007-e1-g0-ab.arrow", "agg-b00000007-e1-g1-cd.arrow"]
    old, young = (c.runs / n for n in names)
    forgotten = c.outputs / "removed" / "staged" / "part-b00000000-e1-t0-ab.parquet"
    temporary = [f / ".x.1.ab.tmp" for f in (c.root, c.manifests, c.intents, c.epochs, c.control)]
    forgotten.parent.mkdir(parents=True)
    for path in (old, young, forgotten, *temporary):
        path.touch()
    for path in (old, forgotten, *temporary):
        os.utime(path, (1, 1))
    q.start(plan, groups=1, tasks=1, settings=settings)
    assert not any(p.exists() for p in (old, forgotten, *temporary))
    assert young.exists() and live <= set(c.runs.iterdir())
    q.batch(rows(1, random.Random(1)))
    q.stop()


def test_starts_leave_few_epochs(engine: Make) -> None:
    q = engine()
    plan = plan_of(CASES["window ids"][0])
    for number in range(20):
        q.start(plan, groups=1, tasks=1)
        assert q.checkpoint.epoch == number + 1
        q.checkpoint.check_epoch()
        q.stop()
    assert len(list(q.checkpoint.epochs.iterdir())) <= 5


def test_a_text_sink_forgets_marks_of_batches_that_are_over(tmp_path: Path) -> None:
    sink = TextSink("a.b", (), str(tmp_path), "json", {})
    sink.query_id = "12345678-9"
    hidden = tmp_path / "_slackwater"
    for batch in (1, 2, 3):
        stem = f"part-b{batch:08d}-12345678"
        (hidden / f"{stem}-a.b").mkdir(parents=True)
        (hidden / f"{stem}-a.b" / "part-0").touch()
        (hidden / f"{stem}-a.b.done").touch()
        (hidden / f"{stem}-axb.done").touch()  # of another output
    sink.forget(3)
    assert sorted(p.name for p in hidden.iterdir()) == [
        "part-b00000001-12345678-axb.done", "part-b00000002-12345678-axb.done",
        "part-b00000003-12345678-a.b", "part-b00000003-12345678-a.b.done",
        "part-b00000003-12345678-axb.done",
    ]  # fmt: skip


def test_cleaning_up_costs_little_however_much_state_there_is(engine: Make) -> None:
    """No manifest is read again, and folders are listed once in a few batches."""
    q = engine()
    query, how, settings = CASES["window ids"]
    q.start(plan_of(query, **how), groups=1, tasks=1, settings=settings)
    rng = random.Random(1)
    for number in range(8):
        q.batch(rows(number, rng))
    listed: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(manifests, "read", lambda *a: pytest.fail("a manifest was read"))
        patch.setattr(Folder, "files", lambda folder: listed.append(folder.path.name) or [])
        assert q.loop.last is not None
        for ahead in range(1, 4 * cleaning.SWEEP_EVERY + 1):
            done = replace(q.loop.last, batch=q.loop.last.batch + ahead)
            q.loop._cleaner.committed(done)
    assert Counter(listed) == dict.fromkeys(("runs", "staged", "intents", "published"), 4)
    q.stop()
