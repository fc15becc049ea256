"""Relations that do not fit into memory: which segments tasks read, what stays in an executor, what is refused."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slackwater.engine.driver.passes import Written, passed
from slackwater.engine.driver.relation_forms import SEGMENTS, Form
from slackwater.engine.driver.relations import RelationUse
from slackwater.engine.parquet.row_groups import row_groups
from slackwater.engine.paths import relation_tables, segments
from slackwater.engine.paths.batch import RelationAt, Settings
from slackwater.engine.paths.relation_files import empty_table, file_rows, group_rows, stored_names
from slackwater.engine.paths.reports import Reads, RelationReads
from slackwater.engine.paths.segments import segment_index
from slackwater.engine.plan.layout import build
from slackwater.engine.plan.plan import Output
from slackwater.engine.plan.relations import TableForm
from slackwater.engine.plan.steps import GuardStep, LookupStep
from slackwater.engine.store import failpoints, kept
from slackwater.engine.store.versions import TableFile
from slackwater.errors import AnalysisError, ExecutionError
from slackwater.model.names import ROWS as RAW
from slackwater.model.node import Lookup
from slackwater.model.relation import Relation
from slackwater.model.schema import Expr, Field, Named, column
from slackwater.semantics.segments import Epoch
from slackwater.sources.tables import ParquetTable
from slackwater.testing.clock import ManualClock
from slackwater.testing.local.run import LocalInput, LocalRun, failing
from slackwater.testing.transcripts.query import QueryBuilder
from tests.engine.test_relations import FIELDS, HELD, LEFT, PAIRS, SOURCE, Query

ROWS = 50
"""Rows of a segment."""


class Large(Query):
    """A query over a table of many segments, sorted by its key; one of them takes about a kilobyte."""

    def table_of(self, segments: int = 20, name: str = "n", file: str = "a.parquet") -> None:
        keys = list(range(segments * ROWS))
        table = pa.table({"id": pa.array(keys, pa.int64()), "name": [f"{name}{k}" for k in keys]})
        pq.write_table(table, self.table / f"_{file}", row_group_size=ROWS)
        os.replace(self.table / f"_{file}", self.table / file)


@pytest.fixture
def query(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Large]:
    # As workers of Spark have it.
    monkeypatch.setenv(kept.LOCAL_DIRS, str(tmp_path / "executor"))
    made = Large(tmp_path, memory=6_000)
    made.table_of()
    yield made
    made.run.stop()


def files_kept(query: Query) -> dict[str, int]:
    """What the executor keeps of the table, with the bytes of each."""
    folders = (query.folder / "executor").glob("slackwater-kept/*/segments-d")
    return {
        f.name.removesuffix("@0"): f.stat().st_size
        for folder in folders
        for f in folder.iterdir()
        if "@" in f.name
    }


def name(key: int) -> tuple[int, str]:
    return key, f"n{key}"


@pytest.mark.spec("XJ-F46")
def test_a_table_that_does_not_fit_is_read_where_rows_need_it(query: Large) -> None:
    path = Path(__file__).parents[2] / "docs" / "progress.schema.json"
    schema = json.loads(path.read_text(encoding="utf-8"))
    query.start()
    assert query.batch(3, 4, 70, 10_000, None) == [(10_000, None), name(3), name(4), name(70), (None, None)]  # fmt: skip
    record = query.record
    assert (record["form"], record["segments"]) == ("segments", 20)
    # Two segments have the keys; a key beyond all of them, and none, are in no segment.
    assert (record["reads"], record["misses"], record["hits"]) == (2, 2, 0)
    assert record["readBytes"] < sum(f.stat().st_size for f in query.table.iterdir()) / 5
    assert record["rowsPerRead"] == 2.0  # four rows have a key
    one = {**schema["$defs"]["relation"], "$defs": schema["$defs"]}
    pytest.importorskip("jsonschema").validate(record, one)
    assert query.batch(5, 80) == [name(5), name(80)]
    assert (query.record["reads"], query.record["hits"]) == (0, 2)
    assert query.record["rowsPerRead"] is None


@pytest.mark.spec("XJ-F49")
def test_an_executor_never_keeps_more_than_it_may_and_the_hot_part_stays(
    query: Large, monkeypatch: pytest.MonkeyPatch
) -> None:
    most: list[int] = []
    put = kept.KeptFiles._put

    def watched(self: Any, at: Any, data: Any) -> None:
        put(self, at, data)
        most.append(sum(files_kept(query).values()))

    monkeypatch.setattr(kept.KeptFiles, "_put", watched)
    query.start(epoch=Epoch(10))
    reads = []
    for hot in (100, 700):
        for number in range(8):
            cold = [(hot + ROWS * (3 + number * 2 + i)) % 1000 for i in range(2)]
            keys = [hot, hot + 1, hot + 2, hot + 3, *cold]
            assert query.batch(*keys) == sorted(map(name, keys), key=str)
            reads.append(query.record["reads"])
            assert query.record["residentBytes"] <= 6_000
        file = TableFile(*ParquetTable("d", str(query.table), FIELDS).look()[0])
        assert hot // ROWS * ROWS in {int(n.rpartition("-")[2]) for n in files_kept(query)}, file
    assert most and max(most) <= 6_000
    assert all(r <= 2 for r in reads[3:8] + reads[11:])  # only the cold ones


def big(query: Large, file: str, first: int, width: int = 80) -> None:
    """A file of one segment that takes most of an executor's room."""
    keys = list(range(first, first + ROWS))
    names = [f"n{k}".ljust(width, "x") for k in keys]
    pq.write_table(pa.table({"id": pa.array(keys, pa.int64()), "name": names}), query.table / file)


def reads(query: Large, key: int, rows: int) -> int:
    """How many segments a batch reads in which so many rows ask for a key."""
    query.batch(*[key] * rows)
    count: int = query.record["reads"]
    return count


@pytest.mark.spec("XJ-F50")
def test_a_segment_must_be_asked_for_more_often_for_its_size_to_take_the_place_of_another(
    query: Large,
) -> None:
    big(query, "b.parquet", 5_000)
    query.start(epoch=Epoch(10_000))
    assert reads(query, 5_000, 6) == 1
    size = query.record["residentBytes"]
    # The small one is asked for by fewer rows, but it is less than half of the size.
    assert reads(query, 100, 4) == 1
    small = query.record["residentBytes"]
    assert small < size / 2 and size <= 6_000 < size + small
    # Of equal size all, and asked for by as many rows: who is there stays, until another is asked for a quarter more.
    count = 6_000 // small
    reads(query, 100, 4)
    for n in range(1, count):
        assert reads(query, 100 + ROWS * n, 8) == 1
    assert query.record["resident"] == count
    newcomer = 100 + ROWS * count
    assert [reads(query, newcomer, n) for n in (8, 1, 1, 1, 1)] == [1, 1, 1, 1, 0]


@pytest.mark.spec("XJ-F51")
@pytest.mark.parametrize(
    ("epoch", "seconds", "fades"),
    [
        (Epoch(10), 0, True),
        (Epoch(11), 0, False),
        (Epoch(10_000_000, by_time=True), 10, True),
        (Epoch(10_000_000, by_time=True), 9, False),
    ],
)
def test_what_was_asked_for_counts_less_after_so_many_rows_or_so_much_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, epoch: Epoch, seconds: int, fades: bool
) -> None:
    """Ten rows ask for one of two segments that do not both fit, then four for the other: three tenths of ten are less."""
    monkeypatch.setenv(kept.LOCAL_DIRS, str(tmp_path / "executor"))
    clock = ManualClock(1_000_000)
    query = Large(tmp_path, memory=6_000, clock=clock)
    for number, file in enumerate("ab"):
        big(query, f"{file}.parquet", 1_000 * number, width=80 - number)
    query.start(epoch=epoch)
    query.batch(*[0] * 10)
    first = query.record["residentBytes"]
    clock.advance(seconds * 1_000_000)
    query.batch(*[1_000] * 4)
    assert (query.record["residentBytes"] < first) == fades
    assert query.record["resident"] == 1
    query.run.stop()


def test_what_may_not_stay_goes_as_the_next_batch_begins(query: Large) -> None:
    query.start()
    query.batch(*range(0, 1000, ROWS))
    assert len(files_kept(query)) == query.record["resident"] < 20
    stay = query.run.loop.relations._residents["d"].names
    query.batch(1)
    assert set(files_kept(query)) <= stay | {n for n in files_kept(query) if n.endswith("-0")}


def asked_for(query: Query, batch: int, keys: Sequence[int]) -> Reads:
    """What one task of a batch does for rows with these keys; there are all of them."""
    loop = query.run.loop
    assert loop.last is not None
    told = loop.relations.at(loop.last.relations, loop.last)
    at = SimpleNamespace(
        id=batch, epoch=0, root=str(query.run.checkpoint.root), plan=loop.query.plan, relations=told, settings=Settings()
    )  # fmt: skip
    (form,) = loop.relations._forms
    reads = Reads()
    wanted = pa.table({"k": pa.array(keys, pa.int64())})
    found = segments.segment_rows(at, form, wanted, np.ones(len(keys), np.int64), reads)  # type: ignore[arg-type]
    assert sorted(found[0].to_pylist()) == sorted(keys)
    return reads


def test_tasks_of_an_executor_share_what_they_decode(
    query: Large, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two tasks that need all segments begin far from each other, and each maps what the other one has decoded."""
    query.start(disk=1_000_000)
    query.batch()
    step, read = threading.Barrier(2), segments._Reader._read

    def at_once(self: Any, segment: Any) -> pa.Table:
        rows = read(self, segment)
        with contextlib.suppress(threading.BrokenBarrierError):
            step.wait()  # both decode at the same pace
        return rows

    def task() -> Reads:
        try:
            return asked_for(query, 7, range(0, 1000, 10))
        finally:
            step.abort()

    monkeypatch.setattr(segments._Reader, "_read", at_once)
    with ThreadPoolExecutor(2) as tasks:
        both = [tasks.submit(task) for _ in range(2)]
        done = [one.result() for one in both]
    assert sum(r.files for r in done) <= 20 + 2
    assert all(r.hits + r.misses == 20 and r.files <= 11 for r in done)
    assert asked_for(query, 7, range(0, 1000, 10)).files == 0


@pytest.mark.spec("XJ-F49")
def test_what_fits_on_the_disk_is_decoded_once_by_an_executor(query: Large) -> None:
    """More than memory, but one segment at a time is mapped."""
    query.start(disk=30_000)
    everywhere = list(range(0, 1000, ROWS))
    assert query.batch(*everywhere) == sorted(map(name, everywhere), key=str)
    assert (query.record["reads"], query.record["resident"]) == (20, 17)
    assert 6_000 < query.record["residentBytes"] == sum(files_kept(query).values()) <= 36_000
    for last in (False, True):
        assert query.batch(*everywhere) == sorted(map(name, everywhere), key=str)
        reads, hits = query.record["reads"], query.record["hits"]
        # Those that may stay take the place of those that were kept because there was room.
        assert (reads, hits) == (3, 17) if last else reads <= 6
    query.run.stop()
    query.start(disk=0)
    query.batch(*everywhere)
    assert query.record["residentBytes"] <= 6_000
    query.batch(1)
    assert sum(files_kept(query).values()) <= 6_000


def test_nothing_depends_on_what_is_kept(query: Large, tmp_path: Path) -> None:
    query.start()
    query.batch(1, 70)
    for path in tmp_path.glob("executor/slackwater-kept/*/segments-d/*@0"):
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
    assert query.batch(1, 70) == [name(1), name(70)]
    assert (query.record["hits"], query.record["misses"]) == (0, 2)


@pytest.mark.spec("XJ-F57")
def test_after_a_change_segments_of_other_files_stay(query: Large) -> None:
    query.start()
    query.batch(1)
    old = pa.table({"id": [1], "name": ["old"]})
    pq.write_table(old, query.table / "b.parquet")
    assert query.batch(1) == [(1, "n1"), (1, "old")]
    assert (query.record["hits"], query.record["reads"]) == (1, 1)
    query.table_of(name="m")
    assert query.batch(1) == [(1, "m1"), (1, "old")]
    assert (query.record["hits"], query.record["reads"]) == (1, 1)


@pytest.mark.spec("XJ-F49", "XJ-F57")
def test_segments_of_files_that_are_gone_leave_their_room_at_once(query: Large) -> None:
    """Nobody asks for them any more, however often it was."""
    query.start()
    everywhere = list(range(0, 1000, ROWS))
    for _ in range(3):
        query.batch(*everywhere)
    assert query.record["resident"] == 3
    query.table_of(name="m")
    query.batch(1, 60, 120)
    # The first batch of a version fills free room, and the next one finds there what it asks for.
    assert query.record["reads"] == query.record["resident"] == len(files_kept(query)) == 3
    assert query.batch(1, 60, 120) == [(1, "m1"), (120, "m120"), (60, "m60")]
    assert (query.record["hits"], query.record["reads"]) == (3, 0)


@pytest.mark.spec("XJ-F57")
def test_a_repeated_batch_reads_the_segments_of_its_first_try(query: Large) -> None:
    query.start()
    query.batch(1)
    with failing("job.after"), pytest.raises(failpoints.InjectedFailure):
        query.batch(1, 2)
    query.run.stop()
    pq.write_table(pa.table({"id": [2], "name": ["b"]}), query.table / "b.parquet")
    query.start()
    assert query.again() == [(1, "n1"), (2, "n2")]
    assert query.batch(2) == [(2, "b"), (2, "n2")]


def test_rows_that_wait_find_partners_in_segments(tmp_path: Path) -> None:
    query = Large(tmp_path, HELD, memory=6_000)
    query.table_of()
    query.start()
    assert query.batch(2000, 1) == [(1, "n1")]
    query.table_of(50, file="b.parquet")
    assert query.idle() == [(2000, "n2000")]
    assert query.record["form"] == "segments"
    # What is read for rows that wait counts as well: they were asked for once to join them, once to see who stays.
    assert (query.record["misses"], query.record["reads"]) == (2, 2)
    query.run.stop()


def test_two_joins_with_one_table_see_the_rows_of_both(tmp_path: Path) -> None:
    """By the device first, then by the time: both join the same part of the table."""
    semi = {**PAIRS[1], "how": "left_semi"}
    query = Large(tmp_path, [PAIRS[0], semi, {**semi, "keys": [["ts", "id"]]}], memory=6_000)
    query.table_of()
    query.start()
    assert query.batch(900, 10_000) == [(900, None)]
    assert query.record["reads"] == 3  # the first join's segment once more with those of the second
    query.run.stop()


def test_the_keys_of_rows_that_a_guard_may_spare_are_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A soft guard lets rows of implausible times pass, and only the statement itself knows which these are."""
    asked: list[int] = []

    def part(batch: Any, form: TableForm, keys: list[pa.Table], *rest: Any) -> pa.Table:
        asked.extend(keys[0][0].to_pylist())
        return empty_table(form)

    monkeypatch.setattr(relation_tables, "_part", part)
    relation = Relation("d", "table", FIELDS, ("id",), FIELDS)
    join = QueryBuilder({"s": SOURCE}, {"out": LEFT}, {"d": relation}).named("out")
    assert isinstance(join, Lookup)
    never = Expr("FALSE", "boolean", "FALSE")
    batch = SimpleNamespace(relations={"d": RelationAt("v", segments=True)}, settings=Settings())
    rows = pa.table({"k": [1, 2], "ts": [1, 2]})
    relation_tables.relation_tables(
        batch, (GuardStep(never, never), LookupStep.of(join)), {RAW: rows}, RelationReads()  # type: ignore[arg-type]
    )  # fmt: skip
    assert sorted(asked) == [1, 2]


# --- the form ----------------------------------------------------------------------------------------


def explained(query: Query) -> str:
    (line,) = query.run.loop.relations.described(query.run.loop.last)
    return line


def test_the_form_is_chosen_at_the_first_start_and_stays(tmp_path: Path) -> None:
    query = Large(tmp_path, memory=6_000)
    query.table_of(2)
    query.start()
    query.batch(1)
    assert query.record["form"] == "whole"
    assert "whole (the columns in use fitted into memory=6000 bytes" in explained(query)
    query.table_of(20)
    assert query.batch(1) == [(1, "n1")]
    assert 'option("relationForm", "segments")' in query.record["problem"]
    query.run.stop()
    query.start(form="segments")  # somebody says so
    assert query.batch(1, 900) == [name(1), name(900)]
    query.run.stop()
    query.table_of(2)
    query.start()
    query.batch(1)
    assert query.record["form"] == "segments"
    assert "segments (the columns in use did not fit into memory=6000 bytes" in explained(query)
    assert "a key may be in 1.0 of 2 segments on average" in explained(query)
    query.run.stop()
    query.start(memory=None)  # somebody says "whole"
    query.batch(1)
    assert query.record["form"] == "whole"
    query.run.stop()


def test_explain_says_when_files_should_be_sorted(tmp_path: Path) -> None:
    query = Large(tmp_path, memory=6_000)
    for number in range(5):
        query.table_of(4, file=f"{number}.parquet")
    query.start()
    query.batch(1)
    assert "in 5.0 of 20 segments on average: files that are sorted by the key would be read less" in explained(query)  # fmt: skip
    query.run.stop()


def test_memory_below_the_largest_segment_is_refused_with_its_size(tmp_path: Path) -> None:
    query = Large(tmp_path)
    query.table_of()
    with pytest.raises(AnalysisError, match="RELATION_TOO_LARGE") as error:
        query.start(memory=500)
    size = int(error.value.parameters["size"])
    assert 50 * 8 < size < 50 * 40
    query.run.stop()
    query.start(memory=size)
    assert query.batch(1) == [name(1)]
    # A version with a larger one is not adopted.
    pq.write_table(pa.table({"id": [5] * 90, "name": ["x"] * 90}), query.table / "b.parquet")
    assert query.batch(5) == [name(5)]
    assert "largest segment" in query.record["problem"]
    query.run.stop()


def started(folder: Path, relation: Relation, memory: int, form: Form | None = None) -> LocalRun:
    steps = [{"from": "s"}, {"lookup": "d", "keys": [["k", "id"]], "how": "left"}]
    node = QueryBuilder({"s": SOURCE}, {"out": steps}, {"d": relation}).named("out")
    plan = passed(build([Output("out", node)], ansi=True, zone="UTC"), Written())
    use = RelationUse(ParquetTable("d", relation.path, relation.fields), memory=memory, form=form)
    run = LocalRun(folder / "run", plan, [LocalInput(SOURCE.schema, True)], relations={"d": use})
    run.start()
    return run


@pytest.mark.parametrize("how", ["float", "computed"])
def test_a_key_of_which_footers_say_nothing_is_refused(tmp_path: Path, how: str) -> None:
    kind = "double" if how == "float" else "bigint"
    fields = (Field("id", kind), Field("name", "string"))
    (tmp_path / "table").mkdir()
    (tmp_path / "run").mkdir()
    values = pa.array(range(100), pa.float64() if how == "float" else pa.int64())
    pq.write_table(pa.table({"id": values, "name": ["x"] * 100}), tmp_path / "table" / "a.parquet")
    doubled = Expr("(`id` * 2)", "bigint", '("id" * 2)')
    changes = () if how == "float" else ((Named("id", doubled), Named("name", column("name", "string"))),)  # fmt: skip
    relation = Relation("d", str(tmp_path / "table"), fields, ("id",), fields, changes)
    for memory, form in ((1_000, None), (1_000, SEGMENTS), (100_000, SEGMENTS)):
        run = started(tmp_path, relation, memory, form)
        with pytest.raises(AnalysisError, match="RELATION_NO_SEGMENTS") as error:
            run.loop.relations.open(None)
        run.stop()
        fits = memory == 100_000
        assert ("does not fit into memory" in error.value.message) is not fits
        assert ('because of option("relationForm", "segments")' in error.value.message) is fits
        assert ("leave the option out" in error.value.hint) is fits and "store=" in error.value.hint


# --- what footers say --------------------------------------------------------------------------------

INSTANT = dt.datetime(2020, 5, 17, 12, tzinfo=dt.timezone.utc)


@pytest.mark.parametrize(
    ("kind", "values", "known"),
    [
        ("int", pa.array([3, 1, None, 2], pa.int32()), (1, 3)),
        ("bigint", pa.array([3, 1, None, 2], pa.int32()), (1, 3)),
        ("string", pa.array(["b", "a", None, "ä"]), ("a", "ä")),
        ("date", pa.array([dt.date(2020, 1, 1), dt.date(1950, 1, 1)]), (dt.date(1950, 1, 1), dt.date(2020, 1, 1))),
        ("timestamp", pa.array([INSTANT, None], pa.timestamp("us", "UTC")), (INSTANT, INSTANT)),
        ("timestamp", pa.array([INSTANT, None], pa.timestamp("ms", "UTC")), (INSTANT, INSTANT)),
        ("timestamp", pa.array([INSTANT, None], pa.timestamp("ns", "UTC")), (None, None)),
        ("timestamp", pa.array([INSTANT.replace(tzinfo=None)], pa.timestamp("us")), (None, None)),
        ("decimal(9,2)", pa.array([Decimal("-1.50"), Decimal("2.25")], pa.decimal128(9, 2)), (Decimal("-1.50"), Decimal("2.25"))),
        ("double", pa.array([1.0, 2.0]), (None, None)),
        ("boolean", pa.array([True, None]), (True, True)),
        ("binary", pa.array([b"\xff", b"a"]), (b"a", b"\xff")),
        ("int", pa.array([None, None], pa.int32()), (None, None)),
    ],
)  # fmt: skip
def test_footers_bound_keys_of_all_types_but_floats(
    tmp_path: Path, kind: str, values: pa.Array, known: tuple[Any, Any]
) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"id": values}), path)
    fields = (Field("id", kind),)
    relation = Relation("d", str(tmp_path), fields, ("id",), fields)
    index = segment_index(relation, [TableFile(str(path), 1, 1)])
    (bounds,) = index.ranges
    assert (bounds.least[0].as_py(), bounds.greatest[0].as_py()) == known
    assert index.segments[0].is_empty == (values.null_count == len(values))


def test_a_column_is_not_taken_for_the_part_of_a_struct_with_its_path(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": [{"b": 1}, {"b": 2}], "a.b": [100, 200]}), path)
    (group,) = row_groups(str(path), (), [Field("a.b", "bigint")])
    assert group.bounds == ((100, 200),)


def test_files_as_they_are_stored_give_what_the_column_engine_reads(tmp_path: Path) -> None:
    """The quick way of reading a row group agrees with the way in which whole files are read."""
    fields = tuple(
        Field(n, t)
        for n, t in {"id": "bigint", "f": "float", "s": "string", "t": "timestamp", "d": "date", "b": "boolean", "m": "decimal(5,1)"}.items()
    )  # fmt: skip
    columns = {
        "id": pa.array([1, None, 3]), "f": pa.array([1.5, None, float("nan")], pa.float32()),
        "s": pa.array(["a", None, "ä"]), "t": pa.array([INSTANT, None, INSTANT], pa.timestamp("us", "UTC")),
        "d": pa.array([dt.date(1900, 1, 1), None, dt.date(2020, 1, 1)]), "b": pa.array([True, None, False]),
        "m": pa.array([Decimal("1.5"), None, Decimal("-2.5")], pa.decimal128(5, 1)),
    }  # fmt: skip
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table(columns), path, row_group_size=2)
    relation = Relation("d", str(tmp_path), fields, ("id",), fields)
    form = TableForm(relation, tuple(f.name for f in fields))
    file = TableFile(str(path), path.stat().st_size, path.stat().st_mtime_ns)
    with pq.ParquetFile(path) as opened:
        assert stored_names(form, file, opened.schema_arrow) == [f.name for f in fields]
        quick = group_rows(form, opened.read_row_group(0), "1GB")
    assert quick.equals(file_rows(form, file, "1GB", (0, 2)))


@pytest.mark.parametrize("form", ["whole", "segments"])
@pytest.mark.parametrize("damaged", ["id", "name"])
def test_a_text_that_is_none_is_refused_in_both_forms(
    tmp_path: Path, form: Any, damaged: str
) -> None:
    data = pa.array([b"a", b"\xff\xfe", b"c"])
    texts = pa.Array.from_buffers(pa.string(), 3, data.buffers())
    columns = {"id": pa.array([1, 2, 3]), "name": texts, "other": pa.array(["x"] * 3)}
    if damaged == "id":
        columns |= {"id": texts, "name": columns["other"]}
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table(columns), path)
    fields = (Field("id", "string" if damaged == "id" else "bigint"), Field("name", "string"))
    relation = Relation("d", str(tmp_path), fields, ("id",), fields)
    table = TableForm(relation, ("name",))
    file = TableFile(str(path), path.stat().st_size, path.stat().st_mtime_ns)
    batch = SimpleNamespace(relations={"d": RelationAt("v", segments=True)}, settings=Settings(), root="r")  # fmt: skip
    (segment,) = segment_index(relation, [file]).segments
    use = segments._Use("v", segment, 0, 1, None)  # type: ignore[arg-type]
    with segments._Reader(batch, table, None, Reads()) as reader:  # type: ignore[arg-type]
        if form == "whole":
            with pytest.raises(ExecutionError, match="BAD_FILE"):
                file_rows(table, file, "1GB")
            return
        with pytest.raises(ExecutionError, match=r"BAD_RELATION_FILE.*relation 'd'.*version v"):
            reader.decoded([use])


# --- memory ------------------------------------------------------------------------------------------

MOST = 64 << 20
"""What the engine takes beside ``memory`` for batches of a few rows: a segment of 2 MB as stored, as a file, and as the bytes that it is written from."""


def grown(kind: str, folder: Path) -> dict[str, Any]:
    """By how much a process grew that joins with a table of 400 MB, mapped files included."""
    folder.mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "tests.engine.relation_memory_child", kind, str(folder)],
        env={**os.environ, kept.LOCAL_DIRS: str(folder / "executor")},
        capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(done.stdout)
    assert (found["form"], found["bytes"] > 400_000_000) == ("segments", True)
    return found


@pytest.mark.slow
@pytest.mark.spec("XJ-F46")
def test_the_join_needs_no_more_than_its_memory_and_a_segment(tmp_path: Path) -> None:
    made = grown("segments", tmp_path / "a")
    assert made["misses"] > 190
    assert made["grown"] < 8_000_000 + MOST
    # A join that loads the table is seen to.
    assert grown("whole", tmp_path / "b")["grown"] > 400_000_000
