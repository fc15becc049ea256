"""Versions of relations on the engine: which one a batch takes, what is read of it, what is kept of it, what is refused."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slackwater.engine.clock import Clock
from slackwater.engine.driver.passes import Written, passed
from slackwater.engine.driver.relations import BATCH, NEVER, RelationUse
from slackwater.engine.paths.relation_files import file_pieces
from slackwater.engine.plan.layout import build
from slackwater.engine.plan.plan import Output
from slackwater.engine.plan.reading import FusedScan
from slackwater.engine.store import failpoints, kept
from slackwater.engine.store.control import request_refresh
from slackwater.errors import AnalysisError, ExecutionError
from slackwater.model.relation import Relation
from slackwater.model.schema import Field
from slackwater.sources.tables import ParquetTable
from slackwater.testing.clock import ManualClock
from slackwater.testing.local.run import LocalInput, LocalRun, failing
from slackwater.testing.transcripts.query import QueryBuilder, build_source

FIELDS = (Field("id", "bigint"), Field("name", "string"))
SOURCE = build_source(
    "s", {"columns": {"k": "bigint", "ts": "bigint"}, "time": "ts", "progress": "ordered"}
)
PAIRS = [{"from": "s"}, {"lookup": "d", "keys": [["k", "id"]]}]
LEFT = [{"from": "s"}, {"lookup": "d", "keys": [["k", "id"]], "how": "left"}]
HELD: list[dict[str, Any]] = [{"from": "s"}, {"lookup": "d", "keys": [["k", "id"]], "hold": 100}]
Rows = list[tuple[Any, ...]]


class Query:
    """A query over a table that a test writes file by file."""

    def __init__(
        self, folder: Path, steps: Any = LEFT, clock: Clock | None = None,
        more: Mapping[str, Any] | None = None, **use: Any,
    ):  # fmt: skip
        self.folder = folder
        self.table = folder / "table"
        self.table.mkdir()
        self.use = RelationUse(ParquetTable("d", str(self.table), FIELDS), **use)
        relation = Relation("d", "table", FIELDS, ("id",), FIELDS)
        named = {"out": steps, **(more or {})}
        builder = QueryBuilder({"s": SOURCE}, named, {"d": relation})
        outputs = [Output(name, builder.named(name)) for name in named]
        plan = passed(build(outputs, ansi=True, zone="UTC"), Written())
        (folder / "run").mkdir()
        self.run = LocalRun(
            folder / "run", plan, [LocalInput(SOURCE.schema, True)], clock=clock,
            relations={"d": self.use},
        )  # fmt: skip

    def write(self, rows: Mapping[int, str], file: str = "a.parquet") -> Path:
        path = self.table / file
        table = pa.table({"id": pa.array(rows, pa.int64()), "name": list(rows.values())})
        pq.write_table(table, self.table / f"_{file}")
        os.replace(self.table / f"_{file}", path)
        return path

    def start(self, **changed: Any) -> None:
        self.run.relations = {"d": replace(self.use, **changed)}
        self.run.start()
        self.run.loop.relations.open(self.run.loop.last)

    def batch(self, *keys: int | None) -> Rows:
        """The names that these keys find in one batch."""
        at = len(self.run.host.batches)
        rows = {"k": pa.array(keys, pa.int64()), "ts": pa.array([at] * len(keys), pa.int64())}
        self.run.give({0: pa.table(rows)})
        return self.again()

    def again(self) -> Rows:
        number = self.run.done
        self.run.step()
        table = self.run.published["out"].get(number)
        rows = [] if table is None else table.to_pylist()
        return sorted(((r["k"], r.get("name")) for r in rows), key=str)

    def idle(self) -> Rows:
        """A trigger without input."""
        self.run.host.batches.append({})
        return self.again()

    @property
    def record(self) -> dict[str, Any]:
        found: dict[str, Any] = self.run.loop.records[-1]["relations"]["d"]
        return found

    @property
    def lists(self) -> list[str]:
        folder = self.run.checkpoint.relations
        return sorted(self.run.checkpoint.storage.list(folder).files)


@pytest.fixture
def query(tmp_path: Path) -> Iterator[Query]:
    made = Query(tmp_path)
    yield made
    made.run.stop()


@pytest.mark.spec("XJ-F57")
def test_a_change_is_seen_by_the_next_batch(query: Query) -> None:
    query.write({1: "a"})
    query.start()
    assert query.batch(1, 2) == [(1, "a"), (2, None)]
    query.write({1: "b", 2: "c"})
    assert query.batch(1, 2) == [(1, "b"), (2, "c")]
    query.write({3: "d"}, "more.parquet")
    assert query.batch(1, 3) == [(1, "b"), (3, "d")]
    assert (query.record["segments"], query.record["changedSegments"]) == (2, 1)


def test_after_a_change_only_what_changed_is_read(
    query: Query, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # An executor of Spark's, whose directory all its workers map.
    monkeypatch.setenv(kept.LOCAL_DIRS, str(tmp_path / "executor"))
    query.write({1: "a"})
    query.write({2: "b"}, "other.parquet")
    query.start()
    query.batch(1)
    assert (query.record["reads"], query.record["misses"]) == (2, 1)
    query.batch(1)
    assert (query.record["reads"], query.record["misses"]) == (0, 0)
    changed = query.write({2: "c"}, "other.parquet")
    assert query.batch(1, 2) == [(1, "a"), (2, "c")]
    assert (query.record["reads"], query.record["readBytes"]) == (1, changed.stat().st_size)


def test_a_start_maps_what_an_executor_has_kept(
    query: Query, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from slackwater.engine.paths import relation_tables

    monkeypatch.setenv(kept.LOCAL_DIRS, str(tmp_path / "executor"))
    query.write({1: "a"})
    query.start()
    query.batch(1)
    relation_tables._tables.clear()  # another worker of the executor
    assert query.batch(1) == [(1, "a")]
    assert (query.record["reads"], query.record["misses"]) == (0, 1)


def test_a_row_with_several_partners_is_one_row_that_came_in(tmp_path: Path) -> None:
    """Rows are joined and reduced in the scan: windows get all pairs, what is told of the source is of its rows."""
    window = {"window": {"range": 10}, "by": ["k", "name"], "agg": {"n": "count(*)"}}
    query = Query(tmp_path, [*PAIRS, window])
    query.write({1: "a", 2: "b"})
    query.write({1: "c", 3: "d"}, "more.parquet")
    query.start()
    assert isinstance(query.run.loop.query.plan.readings[0], FusedScan)
    query.batch(1, 1, 2, 9, None)
    record = query.run.loop.records[-1]
    assert (record["numInputRows"], record["streams"]["s"]["totalRows"]) == (5, 5)
    query.run.step(final=True)
    tables = query.run.published["out"].values()
    counts = {(r["k"], r["name"]): r["n"] for table in tables for r in table.to_pylist()}
    assert counts == {(1, "a"): 2, (1, "c"): 2, (2, "b"): 1}
    query.run.stop()


# --- refresh -----------------------------------------------------------------------------------------


def test_a_table_that_is_never_looked_at_stays_until_somebody_asks(tmp_path: Path) -> None:
    query = Query(tmp_path, refresh=NEVER)
    query.write({1: "a"})
    query.start()
    query.batch(1)
    query.write({1: "b"}, "b.parquet")
    assert query.batch(1) == [(1, "a")]
    request_refresh(query.run.checkpoint, "d")
    query.run.stop()
    query.start()  # the request outlives the process that got it
    assert query.batch(1) == [(1, "a"), (1, "b")]
    assert not query.run.checkpoint.storage.list(query.run.checkpoint.control).files
    query.write({1: "c"}, "c.parquet")
    assert query.batch(1) == [(1, "a"), (1, "b")]


def test_a_table_is_looked_at_when_its_interval_is_over(tmp_path: Path) -> None:
    clock = ManualClock(0)
    clock.script({0: 0, 1: 5_000, 2: 10_000, 3: 12_000})
    query = Query(tmp_path, refresh=10_000, clock=clock)
    query.write({1: "a"})
    query.start()
    query.batch(1)
    query.write({2: "b"}, "b.parquet")
    assert query.batch(2) == [(2, None)]
    assert query.record["ageMs"] == 5  # it grows, though nobody looks
    assert query.batch(2) == [(2, "b")]
    assert query.record["ageMs"] == 0
    query.write({3: "c"}, "c.parquet")
    assert query.batch(3) == [(3, None)]
    assert query.record["ageMs"] == 2


# --- a batch that is tried again ---------------------------------------------------------------------


@pytest.mark.spec("XJ-F57")
@pytest.mark.parametrize("point", ["intent.after", "job.after", "manifest.before"])
def test_a_repeated_batch_takes_the_version_of_its_first_try(query: Query, point: str) -> None:
    query.write({1: "a"})
    query.start()
    query.batch(1)
    with failing(point), pytest.raises(failpoints.InjectedFailure):
        query.batch(1, 2)
    query.run.stop()
    query.write({2: "b"}, "b.parquet")  # the first file stays as it was
    query.start()
    assert query.again() == [(1, "a"), (2, None)]
    assert query.batch(2) == [(2, "b")]


@pytest.mark.parametrize("point", [*failpoints.POINTS, *failpoints.RELATION_POINTS])
def test_a_crash_leaves_one_version_to_each_batch(query: Query, point: str) -> None:
    """The output is as if the batch had run before the change, or wholly after it where no intent had named a version."""
    query.write({1: "a"})
    query.start()
    query.batch(1)
    try:
        with failing(point):
            first = query.batch(1, 2)
    except failpoints.InjectedFailure:
        first = None
    query.run.stop()
    named = query.run.done + (first is None)
    intended = (query.run.checkpoint.intents / f"{named - 1:012d}.json").exists()  # type: ignore[attr-defined]
    query.write({2: "b"}, "b.parquet")
    query.start()
    again = query.again() if first is None else first
    assert again == [(1, "a"), (2, None if intended else "b")]


def test_a_file_that_is_gone_is_named_with_its_version(tmp_path: Path) -> None:
    query = Query(tmp_path, HELD)
    path = query.write({1: "a"})
    query.start()
    query.batch(2, 3)  # two rows wait
    with failing("intent.after"), pytest.raises(failpoints.InjectedFailure):
        query.batch(1)
    version = query.run.loop.last.relations["d"].version  # type: ignore[union-attr]
    query.run.stop()
    before = path.read_bytes(), path.stat()
    query.write({1: "z"})
    query.start()
    with pytest.raises(ExecutionError, match="RELATION_CHANGED") as error:
        query.again()
    assert error.value.parameters == {"path": str(path), "relation": "d", "version": version}
    assert "2 rows wait" in error.value.message
    query.run.stop()
    # Once the file is back, the query goes on.
    path.write_bytes(before[0])
    os.utime(path, ns=(before[1].st_atime_ns, before[1].st_mtime_ns))
    query.start()
    assert query.again() == [(1, "a")]


def test_a_start_may_take_the_newest_version_instead(query: Query) -> None:
    query.write({1: "a"})
    query.start()
    with failing("intent.after"), pytest.raises(failpoints.InjectedFailure):
        query.batch(1)
    query.run.stop()
    query.write({1: "z"})
    query.run.newest_versions = True
    query.start()
    assert query.again() == [(1, "z")]
    assert query.record["replaced"] is True
    query.batch(1)
    assert query.record["replaced"] is False


def test_rows_that_wait_take_the_newest_version_too_and_are_counted(tmp_path: Path) -> None:
    query = Query(tmp_path, HELD)
    query.write({1: "a"})
    query.start()
    query.batch(1, 7, 8)
    with failing("intent.after"), pytest.raises(failpoints.InjectedFailure):
        query.batch(1)
    query.run.stop()
    query.write({1: "z", 7: "b"})
    query.run.newest_versions = True
    query.start()
    assert query.again() == [(1, "z"), (7, "b")]
    assert (query.record["replaced"], query.record["replacedRows"]) == (True, 2)
    query.batch(1)
    assert (query.record["replaced"], query.record["replacedRows"]) == (False, 0)
    query.run.stop()


def test_a_file_that_goes_while_a_batch_runs_is_named(
    query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = query.write({1: "a"})
    query.start()
    write = type(query.run.loop.relations).write

    def lose(relations: Any, taken: Any) -> None:
        write(relations, taken)
        path.unlink()

    monkeypatch.setattr(type(query.run.loop.relations), "write", lose)
    with pytest.raises(ExecutionError, match="is gone"):
        query.batch(1)


def broken_pages(path: Path) -> None:
    bytes_ = bytearray(path.read_bytes())
    bytes_[4:40] = b"\xff" * 36
    path.write_bytes(bytes_)


def broken_text(path: Path) -> None:
    pq.write_table(pa.table({"id": [2], "name": pa.array([b"\xff"], pa.binary())}), path)


@pytest.mark.parametrize("form", ["whole", "segments"])
@pytest.mark.parametrize("spoil", [broken_pages, broken_text])
@pytest.mark.parametrize("mends", [True, False])
def test_a_file_that_cannot_be_decoded_is_told_with_the_way_out_which_leads_out(
    query: Query, spoil: Any, form: Any, mends: bool
) -> None:
    """Its footer is sound, so that a look takes it."""
    query.write({1: "a"})
    query.start(memory=1 << 20, form=form)
    assert query.batch(1, 2) == [(1, "a"), (2, None)]
    path = query.write({2: "b"}, "b.parquet")
    spoil(path)
    for tried in range(2):
        with pytest.raises(ExecutionError, match="BAD_RELATION_FILE") as error:
            query.again() if tried else query.batch(1, 2)
        text = f"{error.value.message} {error.value.hint}"
        assert "relation 'd'" in text and str(path) in text and "relationVersions" in text
        assert "checkpointLocation" not in text and text.isprintable()
        version = error.value.parameters["version"]
        assert f"{version}.json" in " ".join(query.lists), query.lists
        query.run.stop()
        query.start(memory=1 << 20, form=form)
    query.write({2: "b"}, "b.parquet") if mends else path.unlink()
    query.run.stop()
    query.run.newest_versions = True
    query.start(memory=1 << 20, form=form)
    assert query.again() == [(1, "a"), (2, "b" if mends else None)]
    assert query.record["replaced"] is True


# --- what is not used --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda t: (t / "b.parquet").write_bytes(b"PAR1 half"), "cannot be read"),
        (lambda t: pq.write_table(pa.table({"id": [1]}), t / "b.parquet"), "no column 'name'"),
        (
            lambda t: pq.write_table(pa.table({"id": ["x"], "name": ["b"]}), t / "b.parquet"),
            "stored as",
        ),
        (lambda t: (t / "a.parquet").unlink(), "no files"),
    ],
)
def test_a_version_that_cannot_be_used_is_not(query: Query, spoil: Any, why: str) -> None:
    query.write({1: "a"})
    query.start()
    query.batch(1)
    spoil(query.table)
    assert query.batch(1) == [(1, "a")]
    assert why in query.record["problem"]
    for file in query.table.iterdir():
        file.unlink()
    query.write({1: "b"})
    assert query.batch(1) == [(1, "b")]
    assert query.record["problem"] is None


def test_new_columns_and_hidden_files_are_ignored(query: Query) -> None:
    query.write({1: "a"})
    query.start()
    table = pa.table({"id": [2], "name": ["b"], "more": [1.5]})
    pq.write_table(table, query.table / "b.parquet")
    (query.table / "_half.parquet").write_bytes(b"PAR1")
    (query.table / "_SUCCESS").touch()
    assert query.batch(1, 2) == [(1, "a"), (2, "b")]


def test_a_version_that_has_outgrown_its_memory_is_not_adopted(tmp_path: Path) -> None:
    query = Query(tmp_path, memory=200)
    query.write({1: "a"})
    query.start()
    query.batch(1)
    query.write(dict.fromkeys(range(50), "b" * 10))
    # The file of the last version is gone, but what was decoded of it is still there.
    assert query.batch(1) == [(1, "a")]
    assert "memory= allows 200" in query.record["problem"]
    query.run.stop()
    query.use = replace(query.use, memory=10_000)
    query.start()
    assert query.batch(1) == [(1, "b" * 10)]
    query.run.stop()
    with pytest.raises(AnalysisError, match="RELATION_TOO_LARGE"):
        query.start(memory=100)


def test_a_start_with_less_memory_goes_by_the_table_that_is_there(tmp_path: Path) -> None:
    query = Query(tmp_path, memory=10_000)
    query.write(dict.fromkeys(range(50), "b" * 10))
    query.start()
    query.batch(1)
    query.run.stop()
    with pytest.raises(AnalysisError, match="RELATION_TOO_LARGE"):
        query.start(memory=200)
    query.run.stop()
    query.write({1: "a"})
    with pytest.raises(AnalysisError, match="RELATION_TOO_LARGE"):
        query.start(memory=200, refresh=NEVER)  # it would stay with the version that it has
    query.run.stop()
    query.start(memory=200)
    assert query.batch(1) == [(1, "a")]
    query.run.stop()


def test_a_column_that_a_start_reads_first_counts(tmp_path: Path) -> None:
    """Also while the version is the one that the last start has measured, without that column."""
    query = Query(tmp_path, [PAIRS[0], {**PAIRS[1], "how": "left_semi"}], memory=200)
    path = query.write(dict.fromkeys(range(20), "b" * 50))
    query.start()
    query.batch(1)
    assert query.record["bytes"] < 200
    query.run.stop()
    relation = Relation("d", "table", FIELDS, ("id",), FIELDS)
    outputs = {"out": [PAIRS[0], {**PAIRS[1], "how": "left_semi"}], "more": LEFT}
    builder = QueryBuilder({"s": SOURCE}, outputs, {"d": relation})
    made = [Output(n, builder.named(n)) for n in outputs]
    query.run.plan = passed(build(made, ansi=True, zone="UTC"), Written())
    query.run.published["more"] = {}
    with pytest.raises(AnalysisError, match="RELATION_TOO_LARGE"):
        query.start()
    query.run.stop()
    query.start(memory=2000)
    query.batch(1)
    assert 1000 < query.record["bytes"] < 2000
    query.run.stop()
    # Files that are gone are for the next look to say.
    path.unlink()
    query.write({1: "c"}, "other.parquet")
    query.start(memory=2000)
    query.batch(1)
    (added,) = (t for n, t in query.run.published["more"].items() if n == 2)
    assert added["name"].to_pylist() == ["c"]
    query.run.stop()


def looked(table: Path) -> list[str]:
    seen = ParquetTable("d", str(table), FIELDS).look()
    return [os.path.relpath(path, os.path.realpath(table)) for path, _, _ in seen]


def test_files_that_spark_would_not_read_are_not_seen(query: Query) -> None:
    """A folder without a value is passed over, and a file beside folders with values; so versions stay what they are."""
    query.write({1: "a"})
    (query.table / "old").mkdir()
    query.write({1: "old"}, "b.parquet").rename(query.table / "old" / "b.parquet")
    assert looked(query.table) == ["a.parquet"]
    query.start()
    assert query.batch(1) == [(1, "a")]
    for folder in ("day=1", "day=2/sub"):
        (query.table / folder).mkdir(parents=True)
        query.write({1: folder}, "c.parquet").rename(query.table / folder / "c.parquet")
    assert looked(query.table) == ["day=1/c.parquet", "day=2/sub/c.parquet"]
    assert query.batch(1) == [(1, "day=1"), (1, "day=2/sub")]
    query.batch(1)
    assert query.record["changedSegments"] == 0


PARTED = (*FIELDS, Field("p", "int"))


def test_a_folder_whose_value_cannot_be_is_no_matter_to_who_does_not_read_it(query: Query) -> None:
    query.use = replace(query.use, table=ParquetTable("d", str(query.table), PARTED))
    for folder, key in (("p=1", 1), ("p=abc", 2)):
        (query.table / folder).mkdir()
        query.write({key: folder}).rename(query.table / folder / "a.parquet")
        if key == 1:
            query.start()
        assert query.batch(key) == [(key, folder)]
    assert query.record["problem"] is None


def test_a_folder_whose_value_cannot_be_is_refused_where_it_is_read(tmp_path: Path) -> None:
    """Also of a version that was listed when nobody read the column."""
    (tmp_path / "p=abc").mkdir()
    pq.write_table(pa.table({"id": [1], "name": ["a"]}), tmp_path / "p=abc" / "a.parquet")
    table = ParquetTable("d", str(tmp_path), PARTED)
    (file,) = table.described(table.look(), FIELDS, {})
    with pytest.raises(ExecutionError, match=r"BAD_COLUMN_VALUE.*'abc'"):
        list(file_pieces(PARTED, file, "128MB"))
    with pytest.raises(ExecutionError, match=r"relation 'd': folder .*'abc' is no value") as error:
        table.described(table.look(), PARTED, {file.identity: file})
    assert error.value.condition == "BAD_FOLDER_VALUE"
    assert "'.'" in error.value.hint and "stream" not in error.value.hint


def test_links_are_followed_and_those_that_lead_up_are_not(query: Query, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    path = query.write({1: "a"})
    path.rename(tmp_path / "elsewhere" / "a.parquet")
    (query.table / "day=1").symlink_to(tmp_path / "elsewhere")
    (query.table / "day=2").mkdir()
    (query.table / "day=2" / "up").symlink_to(query.table)
    query.start()
    assert looked(query.table) == ["day=1/a.parquet"]
    assert query.batch(1) == [(1, "a")]


def test_what_cannot_be_looked_at_is_a_problem(
    query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of a folder that cannot be listed would be missed in silence."""
    query.write({1: "a"})
    query.start()
    query.batch(1)
    query.write({2: "b"}, "b.parquet")
    endless = query.table / "endless.parquet"
    endless.symlink_to(endless)
    assert query.batch(1, 2) == [(1, "a"), (2, None)]
    assert "endless.parquet' cannot be used" in query.record["problem"]
    endless.unlink()
    (query.table / "day=1").mkdir()
    scandir = os.scandir

    def closed(path: Any) -> Any:
        if str(path).endswith("day=1"):
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    with monkeypatch.context() as patched:
        patched.setattr(os, "scandir", closed)
        assert query.batch(1, 2) == [(1, "a"), (2, None)]
    assert "cannot be listed: Permission denied" in query.record["problem"]
    assert query.batch(1, 2) == [(1, "a"), (2, "b")]


# --- lists of versions -------------------------------------------------------------------------------


def test_lists_go_when_nothing_names_them(query: Query) -> None:
    query.write({1: "a"})
    query.start()
    for number in range(20):
        query.write({1: str(number)})
        assert query.batch(1) == [(1, str(number))]
        assert 1 <= len(query.lists) <= 16
    query.run.stop()
    query.start()
    assert len(query.lists) <= 5


# --- rows that wait ----------------------------------------------------------------------------------


def test_a_new_version_makes_a_batch_run_while_rows_wait(tmp_path: Path) -> None:
    query = Query(tmp_path, HELD)
    query.write({1: "a"})
    query.start()
    assert query.batch(1, 2) == [(1, "a")]
    done = query.run.loop.last
    assert query.idle() == [] and query.run.loop.last is done
    query.write({2: "b"}, "b.parquet")
    assert query.idle() == [(2, "b")]
    assert query.record["heldRows"] == 0
    query.write({3: "c"}, "c.parquet")
    last = query.run.loop.last
    assert query.idle() == [] and query.run.loop.last is last


@pytest.mark.spec("XJ-F57")
def test_in_a_batch_the_try_comes_before_the_bound(tmp_path: Path) -> None:
    """The bound of the batch that brings the partner is above the row's time plus its hold."""
    query = Query(tmp_path, [HELD[0], {**HELD[1], "hold": 1}])
    query.write({1: "a"})
    query.start()
    assert query.batch(2) == []
    assert query.batch(1) == [(1, "a")]
    query.write({2: "b"}, "b.parquet")
    assert query.batch(1) == [(1, "a"), (2, "b")]
    # Without a partner it leaves, and a later version finds nobody.
    assert query.batch(3) == []
    query.batch(1)
    query.batch(1)
    query.write({3: "c"}, "c.parquet")
    assert query.batch(1) == [(1, "a")]
    query.run.stop()


def test_rows_wait_through_a_restart_with_a_shorter_hold(tmp_path: Path) -> None:
    """Rows whose time is over by the new length come out: none is lost."""
    lost = [{"from": "s"}, {"lookup": "d", "keys": [["k", "id"]], "hold": 100, "how": "left"}]
    query = Query(tmp_path, lost)
    query.write({1: "a"})
    query.start()
    for _ in range(6):
        query.batch(1)
    assert query.batch(7) == []
    query.batch(1)
    query.run.stop()
    relation = Relation("d", "table", FIELDS, ("id",), FIELDS)
    steps = [lost[0], {**lost[1], "hold": 0}]
    node = QueryBuilder({"s": SOURCE}, {"out": steps}, {"d": relation}).named("out")
    query.run.plan = passed(build([Output("out", node)], ansi=True, zone="UTC"), Written())
    query.start()
    assert query.batch(1) == [(1, "a"), (7, None)]
    query.run.stop()


def test_an_output_that_is_added_may_bring_another_relation(query: Query, tmp_path: Path) -> None:
    query.write({1: "a"})
    query.start()
    assert query.batch(1) == [(1, "a")]
    query.run.stop()
    other = tmp_path / "other"
    other.mkdir()
    pq.write_table(pa.table({"id": [1], "name": ["z"]}), other / "part.parquet")
    places = {"d": "table", "e": "other"}
    relations = {n: Relation(n, p, FIELDS, ("id",), FIELDS) for n, p in places.items()}
    more = [{"from": "s"}, {"lookup": "e", "keys": [["k", "id"]]}]
    builder = QueryBuilder({"s": SOURCE}, {"out": LEFT, "more": more}, relations)
    outputs = [Output(n, builder.named(n)) for n in ("out", "more")]
    query.run.plan = passed(build(outputs, ansi=True, zone="UTC"), Written())
    query.run.published["more"] = {}
    uses = {"d": query.use, "e": RelationUse(ParquetTable("e", str(other), FIELDS))}
    query.run.relations = uses
    query.run.start()
    assert query.batch(1) == [(1, "a")]
    (added,) = query.run.published["more"].values()
    assert added["name"].to_pylist() == ["z"]
    assert set(query.run.loop.records[-1]["relations"]) == {"d", "e"}


def test_a_batch_looks_as_it_begins_by_default() -> None:
    assert RelationUse(ParquetTable("d", "", ())).refresh == BATCH


# --- rows without a partner are counted ----------------------------------------------------------------


@pytest.mark.parametrize("how", ["inner", "left", "semi", "anti"])
@pytest.mark.parametrize("reader", ["rows", "window", "both", "where", "behind"])
@pytest.mark.parametrize("segments", [False, True])
@pytest.mark.spec("XJ-F59")
def test_rows_without_a_partner_are_counted_once(
    how: str, reader: str, segments: bool, tmp_path: Path
) -> None:
    """Of each join once, whoever reads it: keys with two partners, a null, a condition that one of two partners satisfies."""
    join: dict[str, Any] = {"lookup": "d", "keys": [["k", "id"]], "how": how, "as": "j"}
    if reader == "where":
        join["where"] = "name > 'a'"
    window = {"window": {"range": 10}, "by": ["k"], "agg": {"n": "count(*)"}}
    behind: list[Any] = [{"where": "k > 1"}] if reader == "behind" else []
    steps = [*behind, join] if reader in ("rows", "both") else [*behind, join, window]
    more: dict[str, Any] = {}
    if reader == "both":
        more = {"counts": [{"from": "out"}, window], "few": [{"from": "out"}, {"where": "k > 1"}]}
        if how in ("inner", "semi"):
            more["lost"] = [{"unmatched": "j"}]
    form = {"memory": 1_000_000, "form": "segments"} if segments else {}
    query = Query(tmp_path, [{"from": "s"}, *steps], more=more, **form)
    query.write({1: "a", 2: "b"})
    query.write({1: "c", 3: "a"}, "more.parquet")
    query.start()
    query.batch(1, 1, 2, 3, 9, 9, None)
    # 9, 9 and the null, which is not above 1; of 1 one partner satisfies the condition, of 3 none.
    assert query.record["unmatched"] == {"where": 4, "behind": 2}.get(reader, 3)
    query.batch(1)
    assert query.record["unmatched"] == 0
    query.run.stop()


def test_rows_that_are_held_count_when_they_leave_without_a_partner(tmp_path: Path) -> None:
    query = Query(tmp_path, HELD)
    query.write({1: "a"})
    query.start()
    query.batch(1, 7, 8)
    assert (query.record["heldRows"], query.record["unmatched"]) == (2, 0)
    query.write({7: "b"})
    query.idle()
    assert (query.record["heldRows"], query.record["unmatched"]) == (1, 0)
    query.run.step(final=True)
    assert (query.record["heldRows"], query.record["unmatched"]) == (0, 1)
    query.run.stop()
