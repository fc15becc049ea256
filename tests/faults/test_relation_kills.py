"""Kill a process at every durable step of a query that joins a table, and replace the table before it starts again.

A batch whose intent was written gives what it would have given before the change. One without an intent takes the new table. Rows that wait
for a partner are neither lost nor joined twice.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import slackwater as sw
from slackwater.engine.driver.copies import CopyUse
from slackwater.engine.driver.passes import Written, passed
from slackwater.engine.driver.relation_forms import SEGMENTS, WHOLE, Form
from slackwater.engine.driver.relations import RelationUse
from slackwater.engine.paths.batch import Settings
from slackwater.engine.plan.layout import build
from slackwater.engine.store import failpoints, kept
from slackwater.engine.store import manifest as manifests
from slackwater.engine.store.checkpoint import Checkpoint
from slackwater.engine.store.versions import read_version
from slackwater.model.schema import Field
from slackwater.sinks.base import Sink
from slackwater.sinks.files import ParquetSink
from slackwater.sources.tables import ParquetTable
from slackwater.testing.executors.local import numbered
from slackwater.testing.executors.observing import table_of
from slackwater.testing.local.run import LocalInput, LocalRun, scratch_folder
from slackwater.testing.transcripts.script import Transcript, oracle, parse
from tests.faults.child import failed_tasks, session
from tests.faults.killing import HITS, run_child

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

processes = multiprocessing.get_context("forkserver")
processes.set_forkserver_preload(["tests.faults.test_relation_kills"])

BATCHES = 7
STARTS = ("lock.taken", "epoch.written", "query.written")
"""Steps of a start; the last one only of the first."""
POINTS = [
    p
    for p in (*failpoints.POINTS, *failpoints.RELATION_POINTS)
    if p not in (*STARTS, "compact.before")
]
"""Steps of batches; this query merges no runs, since what waits is written anew."""

STEP = {"lookup": "d", "keys": [["k", "id"]]}
QUERY: dict[str, Any] = {
    "held": [{"from": "s"}, {**STEP, "hold": 12, "as": "j"}],
    "lost": [{"unmatched": "j"}],
    "counts": [
        {"from": "s"},
        {**STEP, "how": "left"},
        {"window": {"range": 6}, "by": ["name"], "agg": {"n": "count(*)"}},
    ],
}


def version(number: int) -> list[list[Any]]:
    """A table for each batch, and one more that comes while the query is down."""
    draw = random.Random(number)
    return [[draw.randrange(8), f"{number}-{i}"] for i in range(4)]


def transcript(versions: list[int], idle: Sequence[int] = ()) -> Transcript:
    """Batches with rows, but for those that are ``idle``, and the table that each finds."""
    script: list[dict[str, Any]] = []
    number = 0
    for at, shown in enumerate(versions):
        rows: list[list[Any]] = []
        if at not in idle:
            draw = random.Random(100 + number)
            rows = [[draw.randrange(8), 5 * number + draw.randrange(5)] for _ in range(6)]
            number += 1
        script.append({"rows": {"s": rows}, "relations": {"d": version(shown)}})
    script[-1]["end"] = True
    return parse(
        {
            "name": "kills",
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


MEMORY, DISK = 1_500, 2_600
"""Room for two or three segments, and for five more. A version has four, which two joins have each in a form of their own."""


def planned(form: Form | None) -> list[int]:
    """The table that each batch finds. In segments every other one finds the table of the batch before, with what was kept of it."""
    return [n - n % 2 if form == SEGMENTS else n for n in range(BATCHES)]


def show(state: Path, number: int) -> None:
    """Switch the link to another table; what it was before stays where it is."""
    folder = state / f"table-{number}"
    if not folder.exists():
        folder.mkdir()
        ids, names = zip(*version(number), strict=True)
        rows = pa.table({"id": pa.array(ids), "name": names})
        pq.write_table(rows, folder / "part.parquet", row_group_size=1)
    link = state / "next"
    link.unlink(missing_ok=True)
    link.symlink_to(folder, target_is_directory=True)
    os.replace(link, state / "table")


def finish(
    state: Path,
    groups: int,
    first: int | None = None,
    form: Form | None = None,
    copied: str = "",
    disk: int = DISK,
) -> int:
    """Run to the end from where the checkpoint is; the first batch of a restart finds table ``first``.

    ``copied``: the table is, and a batch waits for the copy (``wait``) or goes on ``beside`` it.

    In segments, what an executor keeps outlives the process: rows that were kept are met again by others. How often that was.
    """
    os.environ[kept.LOCAL_DIRS] = str(state / "executor") if form == SEGMENTS else ""
    versions = planned(None if copied else form)
    made = transcript(versions)
    sources, outputs = numbered(made)
    fields = made.relations["d"].fields

    def sink(name: str, fields: tuple[Field, ...]) -> Sink:
        return ParquetSink(name, fields, str(state / "sink" / name))

    table = ParquetTable("d", str(state / "table"), fields)
    use = RelationUse(table)
    if form == SEGMENTS:
        use = RelationUse(table, memory=MEMORY, form=form, disk=disk)
    plan = passed(build(outputs, ansi=True, zone="UTC", window_plan="auto"), Written())
    if copied:
        copy = CopyUse(table, str(state / "copies"), 40, waits=copied == "wait")
        use = RelationUse(table, memory=4_000, form=form, copy=copy)
    run = LocalRun(
        state, plan, [LocalInput(sources[0].schema, True)], settings=Settings(compact_runs=2),
        sink=sink, relations={"d": use},
    )  # fmt: skip
    for number, step in enumerate(made.batches):
        path = Path(run.inputs[0].path) / f"{number}.parquet"
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            pq.write_table(table_of(sources[0], step.rows["s"]), path)
        run.host.batches.append({0: [str(path)]})
    last = manifests.last(Checkpoint(str(state / "checkpoint")))
    run.done = 0 if last is None else last.batch
    if copied:
        note(state)
    run.start(groups)
    try:
        while run.done < BATCHES:
            again = last is not None and run.done == last.batch
            if not again:
                show(state, versions[run.done] if first is None else first)
                first = None
            run.step(final=run.done == BATCHES - 1)
            if copied:
                note(state)
        assert run.loop.last is not None
        assert run.loop.last.relations["d"].form == (form or WHOLE)
        if form == SEGMENTS:
            assert bytes_kept(state) <= MEMORY + disk
        return sum(record["relations"]["d"]["hits"] for record in run.loop.records)
    finally:
        run.stop()


def bytes_kept(state: Path) -> int:
    """What the executor keeps of the table, with what was left half written."""
    files = (state / "executor").glob("slackwater-kept/*/segments-d/*")
    return sum(f.stat().st_size for f in files if "@" in f.name or f.name.startswith(".new-"))


def killed(
    state: Path,
    point: str,
    hit: int,
    first: int | None,
    form: Form | None = None,
    copied: str = "",
    disk: int = DISK,
) -> bool:
    return _killed(state, f"{point}=kill@{hit}", None, first, form, copied, disk)


def killed_after(
    state: Path, seconds: float, first: int | None, form: Form | None, disk: int
) -> bool:
    """Killed from outside, wherever it is then."""
    return _killed(state, "", seconds, first, form, "", disk)


def _killed(state: Path, setting: str, seconds: float | None, *how: Any) -> bool:
    child = processes.Process(target=_run, args=(state, setting, *how))
    child.start()
    child.join(seconds)
    child.kill()
    child.join()
    assert child.exitcode in (0, -signal.SIGKILL)
    return child.exitcode != 0


def _run(
    state: Path, setting: str, first: int | None, form: Form | None, copied: str, disk: int
) -> None:
    os.environ[failpoints.ENV] = setting
    finish(state, 2, first, form, copied, disk)


def taken(state: Path) -> dict[int, str]:
    """The table that each batch read, by what manifests and intents name."""
    checkpoint = Checkpoint(str(state / "checkpoint"))
    known = {}
    for number in range(BATCHES):
        one = manifests.read(checkpoint, number) or manifests.read_intent(checkpoint, number)
        if one is not None:
            known[number] = one.relations["d"].version
    return known


def note(state: Path) -> None:
    """Write down which table each batch has read a copy of: its rows say it, and the copy goes some batches later."""
    checkpoint = Checkpoint(str(state / "checkpoint"))
    known = noted(state)
    for batch, version in taken(state).items():
        if batch not in known:
            files = read_version(checkpoint.storage, checkpoint.root, "d", version).files
            (number,) = {n.partition("-")[0] for f in files for n in pq.read_table(f.path)["name"].to_pylist()}  # fmt: skip
            known[batch] = int(number)
    (state / "noted.json").write_text(json.dumps(known))


def noted(state: Path) -> dict[int, int]:
    path = state / "noted.json"
    return {int(k): v for k, v in json.loads(path.read_text()).items()} if path.exists() else {}


def compare(state: Path, versions: list[int]) -> None:
    assert difference(state, versions) == (0, 0)


def difference(state: Path, versions: list[int], idle: Sequence[int] = ()) -> tuple[int, int]:
    """How many rows the output lacks, and how many it has that it should not have, or not so often."""
    seen = oracle(transcript(versions, idle))
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


Line = Callable[[int, int, int], None]
SCENARIO = "relation and rows held, {kind}"
"""Of the lines in the table of faults: those of kills that `make faults` alone makes."""
KINDS: dict[str, tuple[Form | None, int]] = {
    "whole": (None, DISK), "segments": (SEGMENTS, DISK), "segments, memory alone": (SEGMENTS, 0),
}  # fmt: skip
IN_TASKS = ("task.run.after", "task.output.after", "relation.listed")


def _is_quick(point: str, kind: str) -> bool:
    """Whether `make test` kills there."""
    return kind == "whole" or (kind == "segments" and point in (*IN_TASKS, *STARTS))


@pytest.mark.spec("XJ-F57")
@pytest.mark.parametrize(
    ("point", "kind"),
    [
        pytest.param(p, kind, marks=() if _is_quick(p, kind) else (pytest.mark.faults, pytest.mark.line(SCENARIO, "{point}", kills=2 if p in STARTS[:2] else 1)))
        for kind in KINDS
        for p in (*STARTS, *POINTS)
    ],
)  # fmt: skip
def test_a_table_that_is_replaced_between_kill_and_restart_changes_no_batch_that_had_begun(
    point: str, kind: str, state: Path, line: Line
) -> None:
    form, disk = KINDS[kind]
    once = point in ("gc.before", "query.written")
    where, hit = ("job.after", 4) if point in STARTS[:2] else (point, 1 if once else 4)
    assert killed(state, where, hit, None, form, disk=disk)
    if where != point:  # the start after it dies, too, when the table is another one already
        assert killed(state, point, 1, 50, form, disk=disk)
    before = taken(state)
    last = manifests.last(Checkpoint(str(state / "checkpoint")))
    at = 0 if last is None else last.batch + 1
    hits = finish(state, 3, 50, form, disk=disk)
    assert taken(state).items() >= {n: v for n, v in before.items() if n in taken(state)}.items()
    versions = planned(form)
    if at < BATCHES and at not in before:
        versions[at] = 50  # its intent was not written, so it saw the new table
    found = difference(state, versions)
    line(1 if where == point else 2, *found)
    assert found == (0, 0)
    # What is killed there was in its last batch but one.
    assert hits or form is None or point == "gc.before", "what was kept was met again"


@pytest.mark.spec("XJ-F57")
@pytest.mark.parametrize(
    ("point", "form"),
    [
        (p, SEGMENTS if number % 2 else None)
        for number, p in enumerate([*failpoints.COPY_POINTS, "intent.after", "job.after", "publish.begun"])
    ],
)  # fmt: skip
def test_a_copy_that_is_killed_in_the_making_is_taken_by_nobody(
    point: str, form: Form | None, state: Path
) -> None:
    """The table is another one when the query starts again; what the batch had begun with is a copy of the one before."""
    assert killed(state, point, 1 if point == "copy.swept" else 4, None, form, "wait")
    before = taken(state)
    last = manifests.last(Checkpoint(str(state / "checkpoint")))
    at = 0 if last is None else last.batch + 1
    finish(state, 3, 50, form, "wait")
    assert taken(state).items() >= {n: v for n, v in before.items() if n in taken(state)}.items()
    versions = list(range(BATCHES))
    if at < BATCHES and at not in before:
        versions[at] = 50
    compare(state, versions)
    names = [p.name for p in (state / "copies").iterdir() if p.is_dir()]
    assert len(names) <= 6 and all(n.startswith("copy-") for n in names)


@pytest.mark.spec("XJ-F57")
@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(n, marks=[pytest.mark.faults, pytest.mark.line("relation that is copied", "random steps, seed {seed}")] if n > 1 else [])
        for n in range(12)
    ],
)  # fmt: skip
def test_kills_at_random_with_copies_in_the_making(seed: int, state: Path, line: Line) -> None:
    """A copy is taken by whichever batch begins when it is complete. What is put out is that of the tables that batches are known to have read."""
    draw = random.Random(seed)
    form = SEGMENTS if seed % 2 else None
    for life in range(40):
        # The first is at a step that every run comes to.
        point = draw.choice([*failpoints.COPY_POINTS, *POINTS] if life else POINTS)
        hit = draw.randrange(1, 5) if life else 1
        shown = 60 + life if life else None
        before = taken(state) if life else {}
        ended = not killed(state, point, hit, shown, form, "beside")
        now = taken(state)
        assert all(now[n] == version for n, version in before.items() if n in now)
        if ended:
            break
    else:
        finish(state, 2, None, form, "beside")
    known = noted(state)
    assert sorted(known) == list(range(BATCHES))
    found = difference(state, [known[n] for n in range(BATCHES)])
    line(life, *found)
    assert found == (0, 0)
    names = [p.name for p in (state / "copies").iterdir() if p.is_dir()]
    assert all(n.startswith("copy-") for n in names if "_making" not in n) and len(names) <= 8


@pytest.mark.faults
@pytest.mark.line(SCENARIO, "random moments, seed {seed}")
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("kind", KINDS)
def test_kills_at_random_with_rows_that_wait(seed: int, kind: str, state: Path, line: Line) -> None:
    """Half of them at a step, the others at any moment."""
    form, disk = KINDS[kind]
    draw = random.Random(seed)
    versions = planned(form)
    shown: int | None = None
    for life in range(40):
        if draw.random() < 0.5 and life:
            ended = not killed_after(state, draw.uniform(0.1, 0.9), shown, form, disk)
        else:
            # The first is at a step that every run comes to.
            point, hit = draw.choice([*STARTS[:2], *POINTS]), draw.randrange(1, 5) if life else 1
            ended = not killed(state, point, hit, shown, form, disk=disk)
        if ended:
            break
        # What a batch has begun with stays; the next one finds another table.
        last = manifests.last(Checkpoint(str(state / "checkpoint")))
        at = 0 if last is None else last.batch + 1
        shown = 60 + life
        if at < BATCHES and at not in taken(state):
            versions[at] = shown
    else:
        finish(state, 2, shown, form, disk=disk)
    found = difference(state, versions)
    line(life, *found)
    assert found == (0, 0)


def on_spark(
    spark: SparkSession,
    state: Path,
    memory: int | None = None,
    options: Mapping[str, Any] | None = None,
) -> sw.StreamingQuery:
    """The query over one table as a user writes it, on splits."""
    state.mkdir(exist_ok=True)
    show(state, 0)
    batches = [
        [tuple(row.values()) for row in step.rows["s"]]
        for step in transcript([0] * BATCHES).batches
    ]
    rows = sw.replay(spark, batches, "k bigint, ts bigint", splits=True)
    s = sw.stream(rows, time="ts", name="s", progress=sw.BoundedDelay(5))
    d = sw.relation(str(state / "table"), "id", "d", memory=memory or "1m", spark=spark)
    held = s.join(d, [("k", "id")], hold=12)
    counts = s.join(d, [("k", "id")], how="left").groupBy("name", sw.window(6)).agg("count(*) AS n")
    return sw.start(
        [
            made.writeStream.queryName(name).format("parquet").option("path", str(state / "sink" / f"out_{name}"))
            for name, made in {"held": held, "lost": held.unmatched, "counts": counts}.items()
        ],
        checkpointLocation=str(state / "checkpoint"),
        trigger={"availableNow": True},
        options={"endOfStream": True, "partitionGroups": 2, **(options or {})},
    )  # fmt: skip


@pytest.mark.faults
@pytest.mark.line(SCENARIO, "{point}, worker only")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("point", ["task.run.after", "task.output.after"])
def test_a_worker_dies_with_the_tables_it_has_read(
    point: str, kind: str, tmp_path: Path, line: Line
) -> None:
    """Spark tries its task again, elsewhere: the rows are the same."""
    form, room = KINDS[kind]
    disk = None if form is None else room
    arguments = [
        sys.executable,
        "-m",
        __name__,
        str(tmp_path),
        *([] if disk is None else [str(disk)]),
    ]
    code, text = run_child(arguments, f"{point}=kill@{HITS[point]}", tmp_path)
    assert code == 0, text[-3000:]
    failed = int(text.rpartition("failed tasks: ")[2])
    assert f"form: {WHOLE if disk is None else SEGMENTS}" in text
    found = difference(tmp_path, [0] * BATCHES)
    line(int(failed > 0), *found)
    assert failed and found == (0, 0)


if __name__ == "__main__":
    started = session("local[2,4]")
    if len(sys.argv) > 2:
        more = {"relationForm": SEGMENTS, "relationDisk": sys.argv[2]}
        query = on_spark(started, Path(sys.argv[1]), MEMORY, more)
    else:
        query = on_spark(started, Path(sys.argv[1]))
    query.awaitTermination()
    print(f"form: {query.recentProgress[-1]['relations']['d']['form']}")
    print(f"failed tasks: {failed_tasks(started)}", flush=True)
    started.stop()
