"""A full disk is an error that names the directory; with room again the query goes on, nothing lost or twice."""

from __future__ import annotations

import errno
import os
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path, PurePath
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slackwater.engine.paths.delivery import Delivery
from slackwater.engine.paths.task_errors import _column_engine_error, _no_room, written_by_spark
from slackwater.engine.plan.plan import Plan
from slackwater.engine.store import failpoints
from slackwater.engine.store.local import PRIVATE, LocalStorage, LocalWriter
from slackwater.engine.store.runs import write_run
from slackwater.engine.store.storage import Folder
from slackwater.errors import ExecutionError
from slackwater.kernels import column_engine
from slackwater.kernels.joins.bounded.blocks import FileBlockStore
from slackwater.sinks.files import ParquetSink
from tests.engine import test_join_engine as joins
from tests.engine import test_low_table as low
from tests.engine.in_process import Engine


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody pulls the plug here: do not wait for the disk."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)


class Query:
    """A query whose first output is a directory, started as often as need be."""

    def __init__(self, engine: Engine, plan: Plan):
        self.engine, self.plan = engine, plan
        self.first = plan.outputs[0]
        self.out = engine.folder / "out"

    def start(self) -> None:
        self.engine.start(self.plan)
        sink = ParquetSink(self.first.name, self.first.node.schema, str(self.out))
        sink.open(None, self.engine.checkpoint, "query")  # type: ignore[arg-type]
        self.engine.loop.query.sinks[self.first.name] = sink

    def again(self, final: bool) -> None:
        """Start anew, and repeat the batch that failed, as Spark does."""
        self.engine.stop()
        self.start()
        self.engine.loop.final = final
        self.engine.loop.run(None, len(self.engine.batches) - 1)  # type: ignore[arg-type]

    def rows(self) -> list[Counter[Any]]:
        files = list(self.out.glob("part-b*.parquet"))
        first = [r for f in files for r in pq.read_table(f).to_pylist()]
        others = [self.engine.rows(o.name) for o in self.plan.outputs[1:]]
        return [Counter(map(repr, rows)) for rows in (first, *others)]


def run(query: Query, tables: list[pa.Table], failed: Callable[[ExecutionError], None]) -> None:
    query.start()
    for number in range(len(tables) + 1):
        final = number == len(tables)
        try:
            query.engine.batch(*tables[number : number + 1], final=final)
        except ExecutionError as error:
            failed(error)
            query.again(final)
    query.engine.stop()


DATA = [low.table(rows) for rows in low.batches(1, 4)]
JOINED = joins.batches(3, 4)


def plan_of(kind: str) -> Plan:
    if kind == "windows":
        return low.plan_of(10, 10)
    return joins.plan_of(joins.transcript(JOINED, memory=1))


@pytest.mark.parametrize(
    ("kind", "point", "hits", "where"),
    [
        ("windows", "disk.checkpoint", (2, 5), "ck/slackwater/(intents|manifests|epochs)"),
        ("windows", "disk.run", (1, 4), "ck/slackwater/runs"),
        ("windows", "disk.output", (1, 3), "(out/_slackwater/.*|ck/slackwater/outputs/.*)"),
        ("windows", "disk.publish", (1, 2), "out"),
        ("join", "disk.spill", (1, 9), "ck/slackwater/runs"),
    ],
)
def test_the_query_goes_on_when_there_is_room(
    engine: Any, kind: str, point: str, hits: tuple[int, ...], where: str,
    monkeypatch: pytest.MonkeyPatch,
):  # fmt: skip
    plan = plan_of(kind)
    tables = DATA if kind == "windows" else [joins.table(rows) for rows in JOINED]
    plain = Query(engine(), plan)
    run(plain, tables, lambda error: pytest.fail(str(error)))
    for hit in hits:
        query = Query(engine(), plan)
        errors: list[ExecutionError] = []

        def failed(error: ExecutionError, errors: list[ExecutionError] = errors) -> None:
            errors.append(error)
            monkeypatch.delenv(failpoints.ENV)

        failpoints.reset()
        monkeypatch.setenv(failpoints.ENV, f"{point}=full@{hit}")
        run(query, tables, failed)
        (error,) = errors
        assert error.condition == "DISK_FULL" and "make room" in error.hint
        folder = re.escape(str(query.engine.folder))
        assert re.fullmatch(f"{folder}/{where}", error.parameters["directory"])
        assert error.parameters["directory"] in error.message
        assert re.search(r"\(\d+ bytes\)", error.message), error.message
        assert query.rows() == plain.rows()
        # Nothing half written is left in the way of what needs the room.
        assert not list((query.engine.folder / "ck").rglob("*.tmp"))


def no_room(*_: Any, **__: Any) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_what_could_not_be_written_whole_is_removed(tmp_path: Path, monkeypatch: Any):
    monkeypatch.setattr("slackwater.engine.store.local.os.fsync", no_room)
    rows = pa.table({"_bucket": pa.array([1], pa.int16()), "t": [1]})
    writes: list[Callable[[], object]] = [
        lambda: PRIVATE.write(tmp_path / "a", b"12345"),
        lambda: PRIVATE.write_new(tmp_path / "a", b"12345"),
        lambda: write_run(Folder(PRIVATE, tmp_path), "b", rows, "t"),
    ]
    for write in writes:
        with pytest.raises(ExecutionError) as caught:
            write()
        assert caught.value.condition == "DISK_FULL"
        assert os.listdir(tmp_path) == []


def test_other_errors_of_a_disk_stay_what_they_are(tmp_path: Path):
    with pytest.raises(FileNotFoundError):
        PRIVATE.write(tmp_path / "no" / "a", b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is full")
def test_what_writers_say_of_a_device_that_is_full(tmp_path: Path):
    table = pa.table({"v": range(100_000)})
    store = FileBlockStore(Folder(FullDevice(), tmp_path))
    with pytest.raises(ExecutionError) as caught:
        store.append("a", table)
    store.close()
    assert os.listdir(tmp_path) == []
    assert caught.value.condition == "DISK_FULL" and str(tmp_path) in caught.value.message
    with pytest.raises(ExecutionError) as caught:
        FullDevice().write(tmp_path / "full", b"x" * 100_000)
    assert "100000 bytes" in caught.value.message
    assert os.listdir(tmp_path) == []


class FullDevice(LocalStorage):
    """A storage in which nothing has room."""

    def writer(self, path: PurePath) -> LocalWriter:
        made = super().writer(path)
        made._file.close()
        made._file = open("/dev/full", "wb")  # noqa: SIM115
        return made


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is full")
def test_parquet_on_a_full_device_is_told(tmp_path: Path):
    class Told:
        failpoints = ""
        settings = type("S", (), {"compression": "zstd"})
        prefix = staticmethod(lambda what: what)

    from slackwater.engine.paths.batch import Staging

    task = object.__new__(Delivery)
    task.batch, task.task = Told(), "t"  # type: ignore[assignment]
    with pytest.raises(ExecutionError) as caught:
        task._write(Staging(str(tmp_path), storage=FullDevice()), "", pa.table({"v": [1, 2]}))
    assert caught.value.condition == "DISK_FULL" and "(16 bytes)" in caught.value.message
    assert os.listdir(tmp_path) == []


def test_no_room_to_spill_is_no_lack_of_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    monkeypatch.setattr(column_engine, "_spill", None)
    monkeypatch.setattr(column_engine, "_roots", {})
    monkeypatch.setattr(column_engine, "_local", type(column_engine._local)())
    con = column_engine.connect("30MB")
    con.execute("SET max_temp_directory_size = '1MB'")
    big = "SELECT r, count(*) AS n FROM (SELECT repeat('x', 90) || range AS r FROM range(500000)) GROUP BY r ORDER BY r DESC"  # fmt: skip
    with pytest.raises(ExecutionError) as caught:
        column_engine.sql_to_arrow(con, big, {})
    assert caught.value.condition == "DISK_FULL", str(caught.value)
    assert str(tmp_path) in caught.value.message
    assert re.search(r"\([\d.]+ \w+\)", caught.value.message), caught.value.message
    con.close()


def test_spark_s_words_for_it():
    text = 'duckdb.IOException: IO Error: Could not write file "x": No space left on device'
    found = _column_engine_error(text)
    assert found is not None and found.condition == "DISK_FULL"
    found = _no_room("java.io.IOException: No space left on device\n at java.io.FileOutputStream")
    assert found is not None and "spark.local.dir" in found.message
    assert _no_room("something else") is None
    from pyspark.errors import PySparkException

    for text, kind in (("x No space left on device", ExecutionError), ("other", PySparkException)):
        with pytest.raises(kind) as caught, written_by_spark(Path("/out"), 12):
            raise PySparkException(text)
        assert kind is not ExecutionError or "12 bytes" in str(caught.value)
