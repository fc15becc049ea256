"""Who may read what a query writes: the checkpoint and scratch are for the owner alone, output is as the umask says."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from slackwater.engine.paths import delivery
from slackwater.engine.paths.batch import Settings, Staging
from slackwater.engine.store.checkpoint import Checkpoint
from slackwater.engine.store.local import OWNER, UMASK, LocalStorage, Rights
from slackwater.engine.store.manifest import OutputFile
from slackwater.errors import AnalysisError
from slackwater.kernels import column_engine
from slackwater.sinks.files import ParquetSink
from slackwater.surface.start import _rights
from tests.engine import test_join_engine as joins
from tests.engine import test_low_table as low
from tests.engine.in_process import Engine


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody pulls the plug here: do not wait for the disk."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)


@pytest.fixture(params=[0o000, 0o027], ids=oct)
def umask(request: Any) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def modes(root: Path) -> dict[str, int]:
    """The mode of everything below a folder, and its own."""
    return {str(p.relative_to(root)): stat.S_IMODE(p.stat().st_mode) for p in [root, *root.rglob("*")]}  # fmt: skip


def check(root: Path, rights: Rights, umask: int) -> None:
    for name, mode in modes(root).items():
        wanted = rights.folder if (root / name).is_dir() else rights.file
        assert oct(mode) == oct(wanted & ~umask), name


def run(engine: Engine, settings: Settings) -> None:
    """Aggregates with low-level tables that are merged, then a request."""
    data = low.batches(1, 4)
    engine.start(low.plan_of(10, 10), settings=settings)
    for rows in data:
        engine.batch(low.table(rows))
    engine.stop()


@pytest.mark.parametrize("rights", [OWNER, UMASK], ids=["owner", "umask"])
def test_every_file_of_a_checkpoint(engine: Any, rights: Rights, umask: int):
    found = engine()
    run(found, Settings(low_table=16, compact_runs=1, storage=LocalStorage(rights)))
    kinds = {p.parent.name for p in (found.folder / "ck").rglob("*") if p.is_file()}
    assert {"slackwater", "runs", "manifests", "intents", "published", "epochs"} <= kinds
    check(found.folder / "ck", rights, umask)


@pytest.mark.parametrize("rights", [OWNER, UMASK], ids=["owner", "umask"])
def test_the_spill_of_a_join(engine: Any, rights: Rights, umask: int):
    found = engine()
    data = joins.batches(3, 4)
    found.start(
        joins.plan_of(joins.transcript(data, memory=1)),
        settings=Settings(storage=LocalStorage(rights)),
    )
    for rows in data:
        found.batch(joins.table(rows))
    assert list(found.checkpoint.runs.glob("*.arrow"))
    check(found.folder / "ck", rights, umask)
    found.stop()


def test_folders_that_exist_keep_their_rights(engine: Any):
    found = engine()
    (found.folder / "ck").mkdir()
    (found.folder / "ck").chmod(0o755)
    run(found, Settings())
    after = modes(found.folder / "ck")
    assert after.pop(".") == 0o755
    assert set(after.values()) == {0o700, 0o600}
    # A checkpoint that an earlier version made for all: its folders stay so, new files are for the owner.
    runs = found.checkpoint.runs
    runs.chmod(0o755)
    for p in runs.iterdir():
        p.chmod(0o644)
    old = set(os.listdir(runs))
    found.start(low.plan_of(10, 10))
    found.batch(low.table([(1, 50, 1), (2, 51, 1)]))
    found.stop()
    fresh = [stat.S_IMODE((runs / n).stat().st_mode) for n in set(os.listdir(runs)) - old]
    assert stat.S_IMODE(runs.stat().st_mode) == 0o755 and fresh and set(fresh) == {0o600}


def test_folders_above_a_checkpoint_are_not_part_of_it(tmp_path: Path, umask: int):
    checkpoint = Checkpoint(str(tmp_path / "a" / "ck"))
    checkpoint.acquire()
    checkpoint.release()
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o777 & ~umask
    check(tmp_path / "a" / "ck", OWNER, umask)


def test_output_keeps_the_umask(engine: Any, tmp_path: Path, umask: int):
    found = engine()
    plan = low.plan_of(10, 10)
    sink = ParquetSink("small", plan.outputs[0].node.schema, str(tmp_path / "out"))
    found.start(plan)
    sink.open(None, found.checkpoint, "query")  # type: ignore[arg-type]
    found.loop.query.sinks["small"] = sink
    for rows in low.batches(1, 6):
        found.batch(low.table(rows))
    found.stop()
    assert len(list((tmp_path / "out").glob("part-b*.parquet"))) > 1
    check(tmp_path / "out", UMASK, umask)
    check(found.folder / "ck", OWNER, umask)


def test_what_tasks_stage_has_the_rights_that_its_sink_says(
    tmp_path: Path, umask: int, monkeypatch: pytest.MonkeyPatch
):
    class Told:
        id, epoch, failpoints, settings = 0, 1, "", Settings()
        prefix = staticmethod(lambda what: what)

    task = object.__new__(delivery.Delivery)
    task.batch, task.task = Told(), "t"  # type: ignore[assignment]
    for name, rights in (("a", OWNER), ("b", UMASK)):
        staging = Staging(str(tmp_path / name / "deep"), storage=LocalStorage(rights))
        file = task._write(staging, "", pa.table({"v": [1]}))
        assert isinstance(file, OutputFile)
        check(tmp_path / name, rights, umask)


def test_the_column_engine_spills_where_only_the_owner_may_look(
    tmp_path: Path, umask: int, monkeypatch: pytest.MonkeyPatch
):
    local = tmp_path / "blockmgr"
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{local},{tmp_path / 'second'}")
    monkeypatch.setattr(column_engine, "_spill", None)
    monkeypatch.setattr(column_engine, "_roots", {})
    monkeypatch.setattr(column_engine, "_local", type(column_engine._local)())
    con = column_engine.connect("30MB")
    con.execute("CREATE TEMP TABLE t AS SELECT range AS v, repeat('x', 60) || range AS s FROM range(400000)")  # fmt: skip
    (spilled,) = (local / "slackwater-spill").iterdir()
    assert spilled.name == str(os.getpid()) and list(spilled.iterdir())
    assert stat.S_IMODE((local / "slackwater-spill").stat().st_mode) == 0o700
    con.execute("DROP TABLE t")
    con.close()


def test_without_an_executor_the_column_engine_spills_to_a_temporary_folder(
    tmp_path: Path, umask: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("SPARK_LOCAL_DIRS", raising=False)
    monkeypatch.setattr(column_engine, "_spill", None)
    folder = Path(column_engine._spill_folder())
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert column_engine._spill_folder() == str(folder)
    column_engine._remove(str(folder), os.getpid() + 1)
    assert folder.exists()
    column_engine._remove(str(folder), os.getpid())
    assert not folder.exists()


def test_the_option():
    assert _rights({}) == _rights({"checkpointmode": "Owner"}) == OWNER
    assert _rights({"checkpointmode": "umask"}) == UMASK
    with pytest.raises(AnalysisError) as caught:
        _rights({"checkpointmode": "0700"})
    assert caught.value.condition == "BAD_OPTION" and "checkpointMode='0700'" in str(caught.value)
