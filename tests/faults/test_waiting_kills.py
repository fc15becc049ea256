"""Kill a process while rows wait for segments of a table, and others for a partner, and replace the table before it starts again.

Each row joins the version of the batch in which it came, whenever it is served; none is lost, and none is joined twice.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

import slackwater as sw
from slackwater.engine.driver.passes import Written, passed
from slackwater.engine.driver.relation_forms import SEGMENTS
from slackwater.engine.driver.relations import RelationUse
from slackwater.engine.operators.held import held_rows
from slackwater.engine.paths.batch import Settings
from slackwater.engine.plan.layout import build
from slackwater.engine.store import failpoints, kept
from slackwater.engine.store import manifest as manifests
from slackwater.engine.store.checkpoint import Checkpoint
from slackwater.model.schema import Field
from slackwater.sinks.base import Sink
from slackwater.sinks.files import ParquetSink
from slackwater.sources.tables import ParquetTable
from slackwater.testing.executors.local import numbered
from slackwater.testing.executors.observing import clock_of, table_of
from slackwater.testing.local.run import LocalInput, LocalRun, scratch_folder
from slackwater.testing.transcripts.script import Transcript, oracle, parse
from tests.faults.child import failed_tasks, session
from tests.faults.killing import HITS, run_child
from tests.faults.test_relation_kills import POINTS, STARTS, Line, show, taken, version

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

processes = multiprocessing.get_context("forkserver")
processes.set_forkserver_preload(["tests.faults.test_waiting_kills"])

BATCHES = 7
DEADLINE = 3
"""Seconds, and one passes from batch to batch."""
MEMORY, ROOM = 1_500, 4_000
"""One or two segments may stay, so that rows wait on from batch to batch; and some twenty may, over two joins and two groups."""

OFTEN = ("intent.after", "task.run.after", "job.after", "manifest.after", "relation.listed")
"""Where a run is killed in each run of the tests; `make faults` kills it everywhere."""

STEP = {"lookup": "d", "keys": [["k", "id"]]}
WAITS = {**STEP, "deadline": f"{DEADLINE} seconds"}
WINDOW = {"window": {"range": 6}, "by": ["name"], "agg": {"n": "count(*)"}}
QUERY: dict[str, Any] = {
    "pairs": [{"from": "s"}, {**WAITS, "as": "j"}],
    "missed": [{"unmatched": "j"}],
    "counts": [{"from": "s"}, {**WAITS, "how": "left"}, WINDOW],
    "held": [{"from": "s"}, {**STEP, "hold": 12}],
}


def transcript(versions: Sequence[int]) -> Transcript:
    """Batches with rows, a second apart, and the table that each finds."""
    script: list[dict[str, Any]] = []
    for number, shown in enumerate(versions):
        draw = random.Random(100 + number)
        rows = [[draw.randrange(8), 5 * number + draw.randrange(5)] for _ in range(6)]
        script.append({"rows": {"s": rows}, "relations": {"d": version(shown)}, "tick": 1})
    script[-1]["end"] = True
    return parse(
        {
            "name": "kills",
            "clock": 0,
            "streams": {
                "s": {
                    "columns": {"k": "bigint", "ts": "bigint"},
                    "time": "ts",
                    "progress": {"bounded_delay": 5},
                }
            },
            "relations": {"d": {"columns": {"id": "bigint", "name": "string"}, "key": "id"}},
            "query": QUERY,
            "script": script,
        }
    )


def planned() -> list[int]:
    """The table that each batch finds: a new one with every other batch."""
    return [n - n % 2 for n in range(BATCHES)]


def finish(state: Path, groups: int, first: int | None = None) -> int:
    """Run to the end from where the checkpoint is; the first batch of a restart finds table ``first``. How many rows waited, added up."""
    os.environ[kept.LOCAL_DIRS] = str(state / "executor")
    versions = planned()
    made = transcript(versions)
    sources, outputs = numbered(made)
    fields = made.relations["d"].fields

    def sink(name: str, fields: tuple[Field, ...]) -> Sink:
        return ParquetSink(name, fields, str(state / "sink" / name))

    table = ParquetTable("d", str(state / "table"), fields)
    plan = passed(build(outputs, ansi=True, zone="UTC", window_plan="auto"), Written())
    run = LocalRun(
        state, plan, [LocalInput(sources[0].schema, True)], settings=Settings(compact_runs=2),
        sink=sink, relations={"d": RelationUse(table, memory=MEMORY, form=SEGMENTS, backlog=4, always=True, room=ROOM)},
        clock=clock_of(made),
    )  # fmt: skip
    for number, step in enumerate(made.batches):
        path = Path(run.inputs[0].path) / f"{number}.parquet"
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            pq.write_table(table_of(sources[0], step.rows["s"]), path)
        run.host.batches.append({0: [str(path)]})
    last = manifests.last(Checkpoint(str(state / "checkpoint")))
    run.done = 0 if last is None else last.batch
    run.start(groups)
    try:
        while run.done < BATCHES:
            again = last is not None and run.done == last.batch
            if not again:
                show(state, versions[run.done] if first is None else first)
                first = None
            run.step(final=run.done == BATCHES - 1)
        return sum(record["relations"]["d"]["waitingRows"] for record in run.loop.records)
    finally:
        run.stop()


def killed(state: Path, setting: str, seconds: float | None, first: int | None) -> bool:
    """Whether a run was killed: at a failpoint, or from outside after some time, wherever it is then."""
    child = processes.Process(target=_run, args=(state, setting, first))
    child.start()
    child.join(seconds)
    child.kill()
    child.join()
    assert child.exitcode in (0, -signal.SIGKILL)
    return child.exitcode != 0


def _run(state: Path, setting: str, first: int | None) -> None:
    os.environ[failpoints.ENV] = setting
    finish(state, 2, first)


def difference(state: Path, versions: Sequence[int]) -> tuple[int, int]:
    """How many rows the output lacks, and how many it has that it should not have, or not so often."""
    seen = oracle(transcript(versions))
    lost = twice = 0
    for name in QUERY:
        wanted = Counter(_row(r) for step in seen for r in step.outputs[name])
        files = sorted((state / "sink" / f"out_{name}").glob("*.parquet"))
        given = Counter(_row(r) for f in files for r in pq.read_table(f).to_pylist())
        lost += (wanted - given).total()
        twice += (given - wanted).total()
    return lost, twice


def _row(row: Any) -> str:
    return str([v for k, v in row.items() if k != "window"])


@pytest.fixture
def state(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv(kept.LOCAL_DIRS, "")
    with scratch_folder() as folder:
        yield folder


def next_batch(state: Path) -> int:
    last = manifests.last(Checkpoint(str(state / "checkpoint")))
    return 0 if last is None else last.batch + 1


def rows_kept(state: Path) -> tuple[int, int]:
    """How many rows wait for segments, and how many are held, after the last batch that is committed."""
    last = manifests.last(Checkpoint(str(state / "checkpoint")))
    if last is None:
        return 0, 0
    held = [led for op, of in last.ledgers.items() if op.startswith("held") for led in of]
    return sum(last.relations["d"].waiting.values()), held_rows(held)


HIT = {"query.written": 1, "gc.before": 1, "compact.before": 1, "task.run.before": 12, "task.run.after": 12}  # fmt: skip
"""Which one kills, when some batches are committed; the fourth of all others."""
TOO_EARLY_OR_LATE = ("query.written", "gc.before")
"""No row waits yet, or all have left."""
STEPS = (*POINTS, "compact.before")

SCENARIO = "rows that wait for segments"
"""Of the lines in the table of faults."""


def stopped(state: Path, point: str) -> tuple[int, tuple[int, int]]:
    """Kill a run at a step, and go on with another table: how often it was killed, and what is lost and twice in the end."""
    where = "job.after" if point in STARTS[:2] else point
    kills = int(killed(state, f"{where}=kill@{HIT.get(where, 4)}", None, None))
    assert all(rows_kept(state)) or point in TOO_EARLY_OR_LATE, "rows waited and were held"
    if where != point:  # the start after it dies, too, when the table is another one already
        kills += killed(state, f"{point}=kill@1", None, 50)
    before, at = taken(state), next_batch(state)
    finish(state, 3, 50)
    versions = planned()
    if at < BATCHES and at not in before:
        versions[at] = 50  # its intent was not written, so it saw the new table
    return kills, difference(state, versions)


@pytest.mark.spec("XJ-F55", "XJ-F57")
@pytest.mark.parametrize("point", OFTEN)
def test_rows_that_wait_keep_the_version_of_their_batch_over_a_kill(
    point: str, state: Path
) -> None:
    assert stopped(state, point) == (1, (0, 0))


@pytest.mark.faults
@pytest.mark.spec("XJ-F55", "XJ-F57")
@pytest.mark.parametrize(
    ("point", "wanted"),
    [
        pytest.param(p, kills, marks=pytest.mark.line(SCENARIO, "{point}", kills=kills), id=p)
        for p, kills in ((p, 2 if p in STARTS[:2] else 1) for p in (*STARTS, *STEPS))
    ],
)
def test_rows_that_wait_keep_the_version_of_their_batch_over_a_kill_at_any_step(
    point: str, wanted: int, state: Path, line: Line
) -> None:
    kills, found = stopped(state, point)
    line(kills, *found)
    assert (kills, found) == (wanted, (0, 0))


@pytest.mark.spec("XJ-F55")
@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(n, marks=[pytest.mark.faults, pytest.mark.line(SCENARIO, "random moments, seed {seed}")] if n > 1 else [])
        for n in range(22)
    ],
)  # fmt: skip
def test_kills_at_random_with_rows_waiting_and_held(seed: int, state: Path, line: Line) -> None:
    """The first at a step that every run comes to when rows wait; of the others half at a step, half at any moment."""
    draw = random.Random(seed)
    versions = planned()
    shown: int | None = None
    kills, most = 0, (0, 0)
    for life in range(40):
        if life == 0:
            point = draw.choice([p for p in STEPS if p not in TOO_EARLY_OR_LATE])
            ended = not killed(state, f"{point}=kill@{HIT.get(point, 4)}", None, shown)
            most = rows_kept(state)
        elif draw.random() < 0.5:
            ended = not killed(state, "", draw.uniform(0.1, 0.9), shown)
        else:
            point, hit = draw.choice(STEPS), draw.randrange(1, 5)
            ended = not killed(state, f"{point}=kill@{hit}", None, shown)
        if ended:
            break
        kills += 1
        # What a batch has begun with stays; the next one finds another table.
        at, shown = next_batch(state), 60 + life
        if at < BATCHES and at not in taken(state):
            versions[at] = shown
    else:
        finish(state, 2, shown)
    found = difference(state, versions)
    line(kills, *found)
    assert kills and all(most), "it was killed when rows waited and others were held"
    assert found == (0, 0)


# --- on Spark ----------------------------------------------------------------------------------------


def on_spark(spark: SparkSession, state: Path) -> sw.StreamingQuery:
    """The query over one table as a user writes it, on splits."""
    state.mkdir(exist_ok=True)
    show(state, 0)
    made = transcript([0] * BATCHES)
    clock = clock_of(made)
    batches = [[tuple(row.values()) for row in step.rows["s"]] for step in made.batches]
    rows = sw.replay(spark, batches, "k bigint, ts bigint", splits=True)
    s = sw.stream(rows, time="ts", name="s", progress=sw.BoundedDelay(5))
    d = sw.relation(str(state / "table"), "id", "d", memory=MEMORY, spark=spark)
    on, wait = [("k", "id")], f"{DEADLINE} seconds"
    pairs = s.join(d, on, deadline=wait)
    left = s.join(d, on, how="left", deadline=wait)
    results = {
        "pairs": pairs,
        "missed": pairs.unmatched,
        "counts": left.groupBy("name", sw.window(6)).agg("count(*) AS n"),
        "held": s.join(d, on, hold=12),
    }
    return sw.start(
        [
            made.writeStream.queryName(name).format("parquet").option("path", str(state / "sink" / f"out_{name}")).clock(clock)
            for name, made in results.items()
        ],
        checkpointLocation=str(state / "checkpoint"),
        trigger={"availableNow": True},
        options={"endOfStream": True, "partitionGroups": 2, "relationForm": SEGMENTS, "relationDisk": "0", "relationWaiting": ROOM},
    )  # fmt: skip


@pytest.mark.faults
@pytest.mark.line(SCENARIO, "{point}, worker only")
@pytest.mark.parametrize("point", ["task.run.after", "task.output.after"])
def test_a_worker_dies_while_rows_wait(point: str, tmp_path: Path, line: Line) -> None:
    """Spark tries its task again, which lets the same rows wait."""
    setting = f"{point}=kill@{HITS[point]}"
    code, text = run_child([sys.executable, "-m", __name__, str(tmp_path)], setting, tmp_path)
    assert code == 0, text[-3000:]
    assert int(text.rpartition("waited: ")[2].split()[0]) > 0
    failed = int(text.rpartition("failed tasks: ")[2])
    found = difference(tmp_path, [0] * BATCHES)
    line(int(failed > 0), *found)
    assert failed and found == (0, 0)


if __name__ == "__main__":
    started = session("local[2,4]")
    query = on_spark(started, Path(sys.argv[1]))
    query.awaitTermination()
    waited = sum(record["relations"]["d"]["waitingRows"] for record in query.recentProgress)
    print(f"waited: {waited}")
    print(f"failed tasks: {failed_tasks(started)}", flush=True)
    started.stop()
