"""Copies of relations on the engine: how they are made, which batch takes one, what is kept, what goes, what is refused."""

from __future__ import annotations

import os
import random
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slackwater.engine.driver.copies import CopyUse
from slackwater.engine.driver.relation_forms import SEGMENTS
from slackwater.engine.driver.relations import NEVER
from slackwater.engine.paths import segments
from slackwater.engine.store import failpoints, kept
from slackwater.engine.store.control import request_refresh
from slackwater.engine.store.copies import read_index
from slackwater.engine.store.versions import read_version
from slackwater.errors import ExecutionError, SetupError, SlackwaterError
from slackwater.kernels.types import arrow_schema
from slackwater.model.schema import Field
from slackwater.sources.called import FunctionRows
from slackwater.testing.clock import ManualClock
from slackwater.testing.local.run import failing
from tests.engine.test_relation_segments import asked_for
from tests.engine.test_relations import FIELDS, HELD, LEFT, PAIRS, Query

MINUTE = 60_000_000


class Given:
    """A source of rows as a function of a test gives them."""

    def __init__(self, rows: Callable[[], Any]):
        self.rows_of = rows
        self.calls = 0

    def __call__(self) -> Any:
        self.calls += 1
        made = self.rows_of()
        if isinstance(made, dict):
            return pa.table(
                {"id": pa.array(made, pa.int64()), "name": pa.array(made.values(), pa.string())}
            )
        return made


TYPES = {pa.int64(): "bigint", pa.string(): "string", pa.int32(): "int"}


def shown(schema: pa.Schema) -> tuple[Field, ...]:
    return tuple(Field(f.name, TYPES[f.type]) for f in schema)


class Copied(Query):
    """A query over a table that is copied; a batch that asks for a copy waits for it, unless a test says otherwise."""

    def __init__(self, folder: Path, steps: Any = LEFT, given: Given | None = None, **use: Any):
        clock = use.pop("clock", None)
        theta = use.pop("theta", None)
        super().__init__(folder, steps, clock, **use)
        source = self.use.table
        assert source is not None
        if given is not None:
            source = FunctionRows("d", given, FIELDS, "UTC", shown)  # type: ignore[assignment]
        self.store = folder / "store"
        copy = CopyUse(source, str(self.store), theta, waits=True)  # type: ignore[arg-type]
        self.use = replace(self.use, copy=copy, table=None if given else self.use.table)

    def beside(self, **changed: Any) -> None:
        """Start with copies that are made beside the batches."""
        assert self.use.copy is not None
        self.start(copy=replace(self.use.copy, waits=False), **changed)

    def made(self) -> None:
        """Wait for a copy that is in the making."""
        self.run.loop.relations.copies_of("d").wait()

    @property
    def copies(self) -> list[str]:
        return sorted(p.name for p in self.store.iterdir() if p.is_dir())

    def again_started(self, **changed: Any) -> None:
        self.run.stop()
        self.start(**changed)


@pytest.fixture
def query(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Copied]:
    monkeypatch.setenv(kept.LOCAL_DIRS, str(tmp_path / "executor"))
    made = Copied(tmp_path)
    yield made
    made.run.stop()


@contextmanager
def stopped(made: Copied) -> Iterator[Copied]:
    try:
        yield made
    finally:
        made.run.stop()


@pytest.mark.spec("XJ-F57")
def test_a_batch_takes_a_copy_of_what_is_there_and_reads_nothing_else(query: Copied) -> None:
    query.write({2: "b", 1: "a"})
    query.start()
    assert query.batch(1, 2, 3) == [(1, "a"), (2, "b"), (3, None)]
    query.write({1: "z", 3: "c"})
    assert query.batch(1, 2, 3) == [(1, "z"), (2, None), (3, "c")]
    path = query.table / "a.parquet"
    path.unlink()  # nothing reads the table itself
    query.again_started(refresh=NEVER)
    assert query.batch(1) == [(1, "z")]
    assert query.record["copyMs"] >= 0 and query.record["copying"] is False


@pytest.mark.parametrize("memory", [3_000, 6_000])
def test_a_task_reads_each_segment_of_a_copy_once_for_all_its_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, memory: int
) -> None:
    """With `memory` alone, of which the copy takes many times as much: two tasks of each batch, whose rows are in any order."""
    monkeypatch.setenv(kept.LOCAL_DIRS, str(tmp_path / "executor"))
    read, log = segments._Reader._read, list[int]()

    def noted(self: Any, segment: segments.Segment) -> pa.Table:
        log.append(segment.first)
        return read(self, segment)

    monkeypatch.setattr(segments._Reader, "_read", noted)
    with stopped(Copied(tmp_path, memory=memory, form=SEGMENTS, theta=500)) as query:
        draw = random.Random(3)
        keys = list(range(1000))
        query.write({n: f"name {n}" for n in draw.sample(keys, len(keys))})
        query.start()
        query.batch()
        count = query.record["segments"]
        assert count > 20
        for batch in range(7, 11):
            draw.shuffle(keys)
            hits = set()
            for task in (keys[:500], keys[500:]):
                log.clear()
                reads = asked_for(query, batch, task)
                assert len(log) == len(set(log)) == reads.files == reads.misses
                assert reads.hits + reads.misses <= count
                # A key is in one segment, so that a row asks for one.
                assert sum(rows for rows, _ in reads.asked.values()) == len(task)
                hits.add(reads.hits)
            assert max(hits) < count / 2  # what is kept is a part of it
            # The same rows but one segment's: no other is read.
            log.clear()
            assert asked_for(query, batch, [1, 2, 3]).files <= 2


def test_copies_that_nothing_needs_are_removed(query: Copied) -> None:
    query.write({1: "a"})
    query.start()
    for n in range(12):
        query.write({1: f"a{n}"})
        assert query.batch(1) == [(1, f"a{n}")]
    assert len(query.copies) <= 6  # those of the manifests that are kept
    named = {
        Path(read_version(query.run.checkpoint.storage, query.run.checkpoint.root, "d", n.split("@")[1][:-5]).files[0].path).parent.name
        for n in query.lists
    }  # fmt: skip
    assert set(query.copies) == named


def test_files_of_a_copy_have_the_rights_of_the_checkpoint(query: Copied) -> None:
    query.write({1: "a"})
    query.start()
    query.batch(1)
    for path in [query.store, *query.store.rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_a_batch_goes_on_with_the_last_copy_while_one_is_made(tmp_path: Path) -> None:
    with stopped(Copied(tmp_path)) as query:
        query.write({1: "a"})
        query.beside()
        assert query.batch(1) == [(1, "a")]
        query.write({1: "b"})
        first = query.batch(1)
        query.made()
        assert first in ([(1, "a")], [(1, "b")])
        assert query.batch(1) == [(1, "b")]
        assert query.record["problem"] is None
        # The copy is of what was there when it began: nothing is copied again.
        assert query.batch(1) == [(1, "b")] and query.record["copying"] is False


def test_a_version_wakes_rows_that_wait(tmp_path: Path) -> None:
    with stopped(Copied(tmp_path, HELD)) as query:
        query.write({1: "a"})
        query.start()
        assert query.batch(1, 2) == [(1, "a")]
        query.write({2: "b"}, "other.parquet")
        assert query.idle() == [(2, "b")]


@pytest.mark.parametrize(("theta", "memory"), [(1, 300), (40, 600), (200, 1_000), (None, 2_000)])
@pytest.mark.spec("XJ-F47")
def test_rows_do_not_depend_on_where_a_copy_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, theta: int | None, memory: int
) -> None:
    monkeypatch.setenv(kept.LOCAL_DIRS, str(tmp_path / "executor"))
    with stopped(Copied(tmp_path, PAIRS, theta=theta, memory=memory)) as query:
        rows = {n * 7 % 211: f"n{n}" for n in range(200)}
        table = pa.table(
            {"id": pa.array([*rows, 5, 5], pa.int64()), "name": [*rows.values(), "x", "y"]}
        )
        pq.write_table(table, query.table / "a.parquet")
        query.start()
        wanted = sorted([(k, rows[k]) for k in rows if k % 3 == 0] + [(5, rows[5]), (5, "x"), (5, "y")], key=str)  # fmt: skip
        assert query.batch(*[k for k in rows if k % 3 == 0], 5, 9_999) == wanted
        assert query.record["form"] == "segments" and query.record["segments"] > 2


@pytest.mark.spec("XJ-F47")
def test_a_key_is_in_one_segment_and_only_that_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(kept.LOCAL_DIRS, str(tmp_path / "executor"))
    with stopped(Copied(tmp_path, PAIRS, theta=1_000, memory=4_000)) as query:
        for file in range(4):  # each file has keys from everywhere
            query.write({n * 4 + file: f"n{n}" for n in range(500)}, f"{file}.parquet")
        query.start()
        assert query.batch(700) == [(700, "n175")]
        assert query.record["reads"] == 1
        version = query.run.loop.relations._version("d", query.record["version"])
        index = read_index(version.files[0].index)  # type: ignore[arg-type]
        sizes = index.numbers("bytes").tolist()
        assert len(sizes) > 10 and all(1_000 <= s <= 2_000 for s in sizes[:-1])
        (line,) = query.run.loop.relations.described(query.run.loop.last)
        assert f"a key is in 1.0 of {len(sizes)} segments" in line


@pytest.mark.spec("XJ-F47")
def test_a_hot_key_is_a_segment_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(kept.LOCAL_DIRS, str(tmp_path / "executor"))
    use: dict[str, Any] = {"theta": 200, "memory": 20_000, "form": SEGMENTS}
    with stopped(Copied(tmp_path, PAIRS, **use)) as query:
        ids = [*range(60), *([30] * 500)]
        names = [f"n{n}" for n in range(len(ids))]
        pq.write_table(pa.table({"id": ids, "name": names}), query.table / "a.parquet")
        query.start()
        found = query.batch(30)
        assert found == sorted([(30, n) for i, n in zip(ids, names, strict=True) if i == 30])
        assert query.record["reads"] == 1
        version = query.run.loop.relations._version("d", query.record["version"])
        index = read_index(version.files[0].index)  # type: ignore[arg-type]
        large = [n for n, size in enumerate(index.numbers("bytes").tolist()) if size > 400]
        (hot,) = large
        assert index.keys("first")[0][hot].as_py() == index.keys("last")[0][hot].as_py() == 30


def test_a_key_with_more_rows_than_fit_is_refused_by_name(tmp_path: Path) -> None:
    with stopped(Copied(tmp_path, PAIRS, theta=100, memory=1_000)) as query:
        table = pa.table({"id": [1, 2] + [3] * 500, "name": ["n"] * 502})
        pq.write_table(table, query.table / "a.parquet")
        with pytest.raises(SlackwaterError, match="key 3 take more than") as caught:
            query.start()
        assert "relationForm" in str(caught.value)


# ---- functions ----


@pytest.mark.spec("XJ-F57")
def test_a_function_is_called_once_unless_somebody_asks(tmp_path: Path) -> None:
    given = Given(lambda: {1: f"call{given.calls}"})
    with stopped(Copied(tmp_path, given=given, refresh=NEVER)) as query:
        query.start()
        assert query.batch(1) == query.batch(1) == [(1, "call1")]
        request_refresh(query.run.checkpoint, "d")
        assert query.batch(1) == [(1, "call2")]
        assert query.batch(1) == [(1, "call2")] and given.calls == 2
        query.again_started()
        assert query.batch(1) == [(1, "call2")] and given.calls == 2


def test_a_function_is_called_again_when_its_time_is_over(tmp_path: Path) -> None:
    clock = ManualClock(0)
    given = Given(lambda: {1: f"call{given.calls}"})
    with stopped(Copied(tmp_path, given=given, refresh=10 * MINUTE, clock=clock)) as query:
        query.start()
        assert query.batch(1) == [(1, "call1")]
        clock.advance(9 * MINUTE)
        assert query.batch(1) == [(1, "call1")]
        assert query.record["ageMs"] == 9 * 60_000
        clock.advance(MINUTE)
        assert query.batch(1) == [(1, "call2")]
        assert query.record["ageMs"] == 0
        clock.advance(MINUTE)
        assert query.batch(1) == [(1, "call2")]


SECRET = "hunter2"


def broken() -> Any:
    raise ValueError(f"no connection to jdbc:postgresql://app:{SECRET}@db/devices")


def late() -> Any:
    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"id": [1], "name": ["a"]})
        raise OSError(f"connection of app:{SECRET} was cut")

    return pa.RecordBatchReader.from_batches(arrow_schema(FIELDS), batches())


@pytest.mark.parametrize(
    ("bad", "shown_as"),
    [
        (broken, "ValueError"),
        (late, "could not be read"),
        (lambda: pa.table({"id": [1]}), "no column 'name'"),
        (lambda: pa.table({"id": pa.array([1], pa.int32()), "name": ["a"]}), "as int, and it was bigint"),
        (lambda: pa.table({"id": [1], "name": ["b"], "NAME": ["c"]}), "two columns 'name'"),
        (lambda: 5, "returned a int"),
        (lambda: SimpleNamespace(isStreaming=True), "returned a stream"),
    ],
)  # fmt: skip
def test_what_a_function_gives_in_place_of_rows_is_told_without_its_secrets(
    tmp_path: Path, bad: Callable[[], Any], shown_as: str
) -> None:
    given = Given(lambda: {1: "a"})
    with stopped(Copied(tmp_path, given=given, refresh=NEVER)) as query:
        query.start()
        query.batch(1)
        given.rows_of = bad
        for _ in range(2):
            request_refresh(query.run.checkpoint, "d")
            assert query.batch(1) == [(1, "a")]
            assert shown_as in query.record["problem"] and SECRET not in str(query.run.loop.records)
            assert query.batch(1) == [(1, "a")] and shown_as in query.record["problem"]
        request_refresh(query.run.checkpoint, "d")
        with pytest.raises(SlackwaterError, match="relation 'd'") as caught:
            query.batch(1)
        error: BaseException | None = caught.value
        while error is not None:
            assert SECRET not in str(error)
            error = error.__context__ or error.__cause__
        for path in (tmp_path / "run").rglob("*"):
            assert not path.is_file() or SECRET.encode() not in path.read_bytes()


def test_a_function_that_recovers_starts_its_count_anew(tmp_path: Path) -> None:
    given = Given(lambda: {1: "a"})
    with stopped(Copied(tmp_path, given=given, refresh=NEVER)) as query:
        query.start()
        for _ in range(2):
            for bad in (True, True, False):
                given.rows_of = broken if bad else lambda: {1: "b"}
                request_refresh(query.run.checkpoint, "d")
                query.batch(1)
        assert query.record["problem"] is None


def test_a_function_that_fails_at_the_first_start_is_an_error_at_once(tmp_path: Path) -> None:
    with stopped(Copied(tmp_path, given=Given(broken), refresh=NEVER)) as query:
        with pytest.raises(ExecutionError, match="ValueError") as caught:
            query.start()
        assert SECRET not in str(caught.value) and caught.value.__context__ is None
        assert query.copies == []


def test_more_columns_than_before_are_passed_over(tmp_path: Path) -> None:
    given = Given(lambda: pa.table({"x": [5], "name": ["a"], "id": [1]}))
    with stopped(Copied(tmp_path, given=given, refresh=NEVER)) as query:
        given.rows_of = lambda: pa.table(
            {"name": ["a"], "id": [1], "id2": pa.array([1], pa.int32())}
        )
        query.start()
        assert query.batch(1) == [(1, "a")]


def test_columns_whose_names_differ_in_case_alone_are_the_same(tmp_path: Path) -> None:
    """As those of files are."""
    given = Given(lambda: {1: "a"})
    with stopped(Copied(tmp_path, given=given, refresh=NEVER)) as query:
        query.start()
        assert query.batch(1) == [(1, "a")]
        given.rows_of = lambda: pa.table({"NAME": ["b"], "ID": [1]})
        request_refresh(query.run.checkpoint, "d")
        assert query.batch(1) == [(1, "b")] and query.record["problem"] is None


def test_a_table_without_rows_has_no_partners(tmp_path: Path) -> None:
    with stopped(Copied(tmp_path, given=Given(dict), refresh=NEVER)) as query:
        query.start()
        assert query.batch(1) == [(1, None)]


# ---- problems of directories ----


def test_a_half_written_file_is_not_copied_and_the_last_copy_stays(query: Copied) -> None:
    path = query.write({1: "a"})
    query.start()
    query.batch(1)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    for _ in range(4):  # a directory may be half written for as long as it likes
        assert query.batch(1) == [(1, "a")]
        assert "a.parquet" in query.record["problem"]
    query.write({1: "b"})
    assert query.batch(1) == [(1, "b")] and query.record["problem"] is None
    assert len([n for n in query.copies if n.startswith("_making")]) == 0


# ---- stores ----


def test_a_store_is_of_one_relation_of_one_query(query: Copied, tmp_path: Path) -> None:
    query.write({1: "a"})
    query.start()
    query.batch(1)
    folder = tmp_path / "other"
    folder.mkdir()
    other = Copied(folder)
    other.write({1: "a"})
    assert other.use.copy is not None
    with pytest.raises(SetupError, match="is that of another query"), stopped(other):
        other.start(copy=replace(other.use.copy, store=str(query.store)))


def test_a_directory_with_files_of_others_is_no_store(query: Copied) -> None:
    query.write({1: "a"})
    query.store.mkdir()
    (query.store / "precious.txt").write_text("x")
    with pytest.raises(SetupError, match="files of others"):
        query.start()
    assert (query.store / "precious.txt").exists()


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_a_store_that_cannot_be_written_is_refused(query: Copied) -> None:
    query.write({1: "a"})
    query.store.mkdir(mode=0o500)
    with pytest.raises(SetupError, match="cannot be written"):
        query.start()


def test_memory_refresh_and_store_may_change_between_starts(query: Copied, tmp_path: Path) -> None:
    query.write({n: f"n{n}" for n in range(50)})
    query.start(memory=1 << 20)
    assert query.batch(7) == [(7, "n7")]
    assert query.use.copy is not None
    query.again_started(copy=replace(query.use.copy, store=str(tmp_path / "second")), refresh=NEVER)
    assert query.batch(8) == [(8, "n8")]
    query.again_started(copy=None, memory=1 << 21)  # the directory itself
    assert query.batch(9) == [(9, "n9")] and query.record["segments"] == 1
    query.again_started()
    assert query.batch(9) == [(9, "n9")]


# ---- crashes ----


@pytest.mark.parametrize(
    ("point", "hit"),
    [
        *((p, 2) for p in (*failpoints.POINTS, *failpoints.RELATION_POINTS)),
        *((p, hit) for p in failpoints.COPY_POINTS for hit in (1, 3)),
    ],
)
def test_a_crash_anywhere_gives_what_no_crash_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str, hit: int
) -> None:
    """The table is another one after each crash; a batch that has an intent gives what it would have given."""
    monkeypatch.setenv(kept.LOCAL_DIRS, str(tmp_path / "executor"))
    with stopped(Copied(tmp_path, memory=2_000)) as query:
        query.write(dict.fromkeys(range(100), "v0"))
        batches = 8 if hit > 1 else 7
        between: set[int] = (
            set()
        )  # batches that found another table after the crash, and had no intent
        keys = pa.table({"k": pa.array([1], pa.int64()), "ts": pa.array([1], pa.int64())})
        for _ in range(batches):
            query.run.give({0: keys})
        crashed: int | None = None
        while query.run.done < batches:
            try:
                with failing(f"{point}@{hit}") if crashed is None else contextless():
                    query.start()
                    while query.run.done < batches:
                        number = query.run.done
                        if number != crashed:
                            query.write(dict.fromkeys(range(100), f"v{number}"))
                        query.run.step()
            except failpoints.InjectedFailure:
                assert crashed is None
                crashed = number = query.run.done
                made = query.run.loop.checkpoint if hasattr(query.run, "loop") else None
                path = None if made is None else Path(made.intents) / f"{number:012d}.json"
                if path is None or not path.exists():
                    between.add(number)
                query.write(dict.fromkeys(range(100), "between"))
            finally:
                query.run.stop()
            assert crashed is not None or query.run.done == batches
        assert sorted(query.run.published["out"]) == list(range(batches))
        for number, table in query.run.published["out"].items():
            (row,) = table.to_pylist()
            assert row["name"] == ("between" if number in between else f"v{number}"), point
        assert not [n for n in query.copies if n.startswith("_making")]
        assert len(query.copies) <= 7


@contextmanager
def contextless() -> Iterator[None]:
    yield


def test_what_a_driver_leaves_that_died_in_the_middle_is_swept_and_never_taken(
    query: Copied,
) -> None:
    query.write({1: "a"})
    left: list[str] = []
    for point in ("copy.begun", "copy.written", "copy.finished"):
        with failing(point), pytest.raises(failpoints.InjectedFailure):
            query.start()
        query.run.stop()
        left += query.copies
    assert len(left) == 3 and left[2].startswith("copy-")
    query.write({1: "b"})
    query.start()
    assert query.batch(1) == [(1, "b")]
    assert not set(left) & set(query.copies) and len(query.copies) == 1
