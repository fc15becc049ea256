"""Damage, second drivers and changed inputs are refused by name, before anything is overwritten."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from slackwater.engine.driver import host
from slackwater.engine.store import failpoints
from slackwater.engine.store import manifest as manifests
from slackwater.engine.store.checkpoint import Checkpoint
from slackwater.engine.store.local import PRIVATE
from slackwater.engine.store.manifest import Manifest
from slackwater.errors import CheckpointError
from tests.faults.killing import ROOT, environment, finish, has_ended, visible
from tests.faults.scenarios import Scenario, scenarios

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SCENARIO = scenarios()["tumbling"]
STOPPED_IN = 4  # the batch, counted from 1, in which the checkpoints used here were left


@contextmanager
def failing(setting: str) -> Iterator[None]:
    failpoints.reset()
    os.environ[failpoints.ENV] = setting
    try:
        yield
    finally:
        del os.environ[failpoints.ENV]


@dataclass(frozen=True)
class Place:
    """A query's files: read-only input, and a checkpoint and sink of one's own."""

    inputs: Path
    state: Path

    @property
    def checkpoint(self) -> Checkpoint:
        return Checkpoint(str(self.state / "checkpoint"))

    @property
    def last(self) -> Manifest:
        found = manifests.last(self.checkpoint)
        assert found is not None
        return found

    def contents(self) -> dict[str, bytes]:
        """All that a failed start must leave as it is: a run that no manifest names may be swept."""
        slackwater = self.state / "checkpoint" / "slackwater"
        folders = [slackwater / "manifests", slackwater / "runs", self.state / "sink"]
        files = [p for f in folders for p in f.rglob("*") if p.is_file()]
        kept = {str(p): p.read_bytes() for p in files}
        named = b"".join(kept[str(p)] for p in files if p.parent.name == "manifests")
        return {
            path: content for path, content in kept.items()
            if Path(path).parent.name != "runs" or Path(path).name.encode() in named
        }  # fmt: skip

    def copy(self, target: Path) -> Place:
        """Another path: a worker that has a run in its cache knows it by the path of the first."""
        shutil.copytree(self.state, target)
        return Place(self.inputs, target)


def stopped_at(
    spark: SparkSession, root: Path, setting: str, scenario: Scenario = SCENARIO
) -> Place:
    scenario.write_inputs(spark, root / "in")
    place = Place(root / "in", root / "state")
    if not setting:
        finish(scenario, spark, place.inputs, place.state, 2)
        return place
    with failing(setting), pytest.raises(failpoints.InjectedFailure):
        finish(scenario, spark, place.inputs, place.state, 2)
    return place


@pytest.fixture(scope="module")
def before_job(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """Stopped when the intent of a batch was on disk."""
    root = tmp_path_factory.mktemp("before-job")
    return stopped_at(spark, root, f"intent.after=raise@{STOPPED_IN}")


@pytest.fixture(scope="module")
def before_publish(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """Stopped when a batch was committed and not published."""
    root = tmp_path_factory.mktemp("before-publish")
    return stopped_at(spark, root, f"manifest.after=raise@{STOPPED_IN}")


@pytest.fixture(scope="module")
def ended(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """Run to the end of its streams."""
    return stopped_at(spark, tmp_path_factory.mktemp("ended"), "")


def refused(spark: SparkSession, place: Place, condition: str, **options: Any) -> CheckpointError:
    """Start, expect the error, and check that nothing was overwritten, committed or published."""
    before, shown = place.contents(), visible(place.state)
    with pytest.raises(CheckpointError) as error:
        SCENARIO.start(spark, place.inputs, place.state, groups=3, **options).awaitTermination()
    assert error.value.condition == condition, str(error.value)
    assert error.value.hint
    after = place.contents()
    assert {p: after.get(p) for p in before} == before
    assert visible(place.state) == shown
    return error.value


def completes(spark: SparkSession, place: Place) -> None:
    finish(SCENARIO, spark, place.inputs, place.state, groups=1)
    assert SCENARIO.compare(place.state) == (0, 0)


def oldest_run(place: Place) -> Path:
    """The run that the next batch is sure to read: its windows close first."""
    found = [r for groups in place.last.runs.values() for g in groups for r in g]
    assert found
    return place.checkpoint.runs / min(found, key=lambda r: r.low).name


def truncate(path: Path) -> None:
    with open(path, "r+b") as f:
        f.truncate(path.stat().st_size // 2)


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))


@pytest.mark.parametrize("damage", [truncate, flip, Path.unlink], ids=["cut", "flipped", "missing"])
def test_a_damaged_run_is_named(
    damage: Any, before_job: Place, spark: SparkSession, tmp_path: Path
) -> None:
    place = before_job.copy(tmp_path / "state")
    run = oldest_run(place)
    whole = run.read_bytes()
    damage(run)
    error = refused(spark, place, "DAMAGED_FILE")
    assert run.name in str(error)
    if damage is flip:
        run.write_bytes(whole)
        completes(spark, place)


@pytest.mark.parametrize("damage", [truncate, flip], ids=["cut", "flipped"])
def test_a_damaged_manifest_is_named(
    damage: Any, before_job: Place, spark: SparkSession, tmp_path: Path
) -> None:
    place = before_job.copy(tmp_path / "state")
    path = place.checkpoint.manifests / f"{place.last.batch:012d}.json"
    damage(path)
    assert path.name in str(refused(spark, place, "DAMAGED_FILE"))


def test_a_damaged_intent_is_named(before_job: Place, spark: SparkSession, tmp_path: Path) -> None:
    place = before_job.copy(tmp_path / "state")
    (path,) = place.checkpoint.intents.glob(f"{place.last.batch + 1:012d}.json")
    truncate(path)
    assert path.name in str(refused(spark, place, "DAMAGED_FILE"))


def test_a_damaged_description_is_named(
    before_job: Place, spark: SparkSession, tmp_path: Path
) -> None:
    place = before_job.copy(tmp_path / "state")
    truncate(place.checkpoint.root / "query.json")
    assert "query.json" in str(refused(spark, place, "DAMAGED_FILE"))


def test_a_committed_output_that_is_gone_is_named(
    before_publish: Place, spark: SparkSession, tmp_path: Path
) -> None:
    place = before_publish.copy(tmp_path / "state")
    (files,) = place.last.outputs.values()
    assert files, "the batch has results"
    (staged,) = (place.state / "sink").rglob(files[0].name)
    data = staged.read_bytes()
    staged.unlink()
    assert files[0].name in str(refused(spark, place, "OUTPUT_LOST"))
    staged.write_bytes(data)
    completes(spark, place)


def test_two_drivers_in_one_process(before_job: Place, spark: SparkSession, tmp_path: Path) -> None:
    place = before_job.copy(tmp_path / "state")
    first = SCENARIO.start(spark, place.inputs, place.state, groups=2)
    with pytest.raises(CheckpointError) as error:
        SCENARIO.start(spark, place.inputs, place.state, groups=2)
    assert error.value.condition == "CHECKPOINT_IN_USE"
    assert f"process {os.getpid()}" in str(error.value)
    first.awaitTermination()
    assert SCENARIO.compare(place.state) == (0, 0)


def test_two_drivers_in_two_processes(
    before_job: Place, spark: SparkSession, tmp_path: Path
) -> None:
    place = before_job.copy(tmp_path / "state")
    hold = (
        "import sys; from slackwater.engine.store.checkpoint import Checkpoint\n"
        "Checkpoint(sys.argv[1]).acquire(); print('held', flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", hold, str(place.state / "checkpoint")],
        cwd=ROOT,
        env=environment(""),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert holder.stdout is not None and holder.stdin is not None
    try:
        assert holder.stdout.readline() == b"held\n"
        error = refused(spark, place, "CHECKPOINT_IN_USE")
        assert f"process {holder.pid}" in str(error)
    finally:
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        holder.stdin.close()
        holder.stdout.close()
    after = place.checkpoint
    after.acquire()  # a dead holder holds nothing
    after.release()


def test_a_stale_epoch_cannot_commit(tmp_path: Path) -> None:
    checkpoint = Checkpoint(str(tmp_path))
    checkpoint.acquire()
    mine = Manifest(0, checkpoint.epoch, 0, 1, {}, {}, {}, {})
    PRIVATE.write_new(checkpoint.epochs / f"{checkpoint.epoch + 1:08d}", b"")
    with pytest.raises(CheckpointError) as error:
        manifests.commit(checkpoint, mine)
    assert error.value.condition == "STALE_EPOCH"
    assert manifests.committed(checkpoint) == []
    checkpoint.release()


def test_a_driver_overtaken_during_its_job_cannot_commit(
    before_job: Place, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = before_job.copy(tmp_path / "state")
    original = host.run_job

    def overtaken(*arguments: Any) -> Any:
        result = original(*arguments)
        epochs = place.checkpoint.epochs
        newest = max(int(p.name) for p in epochs.iterdir())
        PRIVATE.write_new(epochs / f"{newest + 1:08d}", b"")
        return result

    monkeypatch.setattr(host, "run_job", overtaken)
    refused(spark, place, "STALE_EPOCH")
    monkeypatch.undo()
    completes(spark, place)


def test_a_batch_is_committed_once(tmp_path: Path) -> None:
    checkpoint = Checkpoint(str(tmp_path))
    checkpoint.acquire()
    manifests.commit(checkpoint, Manifest(0, checkpoint.epoch, 0, 1, {}, {}, {}, {}))
    with pytest.raises(CheckpointError) as error:
        manifests.commit(checkpoint, Manifest(0, checkpoint.epoch, 9, 1, {}, {}, {}, {}))
    assert error.value.condition == "BATCH_ALREADY_COMMITTED"
    kept = manifests.read(checkpoint, 0)
    assert kept is not None and kept.ordinal == 0
    checkpoint.release()


def test_another_query_is_shown_the_difference(
    before_job: Place, spark: SparkSession, tmp_path: Path
) -> None:
    place = before_job.copy(tmp_path / "state")

    def other(pipelines: dict[str, Any]) -> dict[str, Any]:
        source, window = pipelines["tumbling"]
        return {"tumbling": [source, {**window, "window": {"range": "20 seconds"}}]}

    text = str(refused(spark, place, "QUERY_CHANGED", change=other))
    removed = [line for line in text.splitlines() if line.startswith("-") and "10" in line]
    added = [line for line in text.splitlines() if line.startswith("+") and "20" in line]
    assert removed and added, text


def test_a_checkpoint_of_spark_is_left_alone(
    before_job: Place, spark: SparkSession, tmp_path: Path
) -> None:
    location = tmp_path / "state" / "checkpoint"
    (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", 1)
        .load()
        .writeStream.format("noop")
        .option("checkpointLocation", str(location))
        .trigger(availableNow=True)
        .start()
        .awaitTermination()
    )
    before = {p: p.read_bytes() for p in location.rglob("*") if p.is_file()}
    assert before
    with pytest.raises(CheckpointError) as error:
        SCENARIO.start(spark, before_job.inputs, tmp_path / "state", groups=2)
    assert error.value.condition == "FOREIGN_CHECKPOINT"
    assert {p: p.read_bytes() for p in before} == before
    assert not (location / "slackwater" / "query.json").exists()


def test_a_file_that_changed_under_a_batch_is_named(
    before_job: Place, spark: SparkSession, tmp_path: Path
) -> None:
    place = before_job.copy(tmp_path / "state")
    (source,) = place.inputs.rglob(f"batch-{STOPPED_IN - 1:08d}.parquet")
    (other,) = place.inputs.rglob("batch-00000000.parquet")
    whole, status = source.read_bytes(), source.stat()
    try:
        source.write_bytes(other.read_bytes())
        os.utime(source, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
        assert str(source) in str(refused(spark, place, "INPUT_CHANGED"))
    finally:
        source.write_bytes(whole)
        os.utime(source, ns=(status.st_atime_ns, status.st_mtime_ns))
    completes(spark, place)


def test_a_lost_commit_of_spark_is_replayed_without_a_job(
    ended: Place, spark: SparkSession, tmp_path: Path
) -> None:
    place = ended.copy(tmp_path / "state")
    commits = place.state / "checkpoint" / "commits"
    newest = max(int(p.name) for p in commits.iterdir() if p.name.isdigit())
    assert manifests.read(place.checkpoint, newest) is not None
    (commits / str(newest)).unlink()
    (commits / f".{newest}.crc").unlink()
    shown = visible(place.state)
    with failing("intent.before=raise,job.after=raise"):
        finish(SCENARIO, spark, place.inputs, place.state, groups=3)
    assert (commits / str(newest)).exists(), "Spark has not run the batch again"
    assert visible(place.state) == shown
    assert SCENARIO.compare(place.state) == (0, 0)


def test_new_input_after_the_end_is_refused(
    ended: Place, spark: SparkSession, tmp_path: Path
) -> None:
    place = ended.copy(tmp_path / "state")
    assert has_ended(place.state)
    row = SCENARIO.transcript.batches[0].rows["s"][0]
    SCENARIO.write_file(spark, place.inputs, "s", 99, [row])
    try:
        refused(spark, place, "STREAM_HAS_ENDED")
    finally:
        (added,) = place.inputs.rglob("batch-00000099.parquet")
        added.unlink()
