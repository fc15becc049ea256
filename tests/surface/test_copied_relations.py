"""Relations that are copied, as users write them: DataFrames and functions, `store=`, what explain says, what no record tells."""

from __future__ import annotations

import datetime as dt
import random
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import slackwater as sw
from slackwater.errors import ExecutionError, SlackwaterError
from slackwater.model.schema import Field
from slackwater.sources.called import FrameRows, FunctionRows
from slackwater.surface.explain import explain_streams
from slackwater.surface.relation_source import shown_fields
from slackwater.testing import local_job
from tests.surface.helpers import UTC, run, small_tables
from tests.surface.test_relations import readings, refused, write
from tests.surface.test_settings import settings
from tests.test_docs import ROOT, python_blocks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SECRET = "hunter2-7781"
ON = [("device", "id")]


def sqlite_rows(path: Path) -> Callable[[], Any]:
    """A function that reads a table of SQLite some rows at a time, as docs/relations.md has it."""

    def rows() -> pa.RecordBatchReader:
        schema = pa.schema([("id", pa.int64()), ("name", pa.string())])

        def batches() -> Iterator[pa.RecordBatch]:
            with sqlite3.connect(path) as db:
                cursor = db.execute("SELECT id, name FROM devices")
                while some := cursor.fetchmany(2):
                    columns = zip(*some, strict=True)
                    yield pa.record_batch(
                        [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema
                    )

        return pa.RecordBatchReader.from_batches(schema, batches())

    return rows


def given_as(kind: str, spark: SparkSession, folder: Path) -> Any:
    """Devices 1 to 3, a and b and c."""
    made = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "name": ["a", "b", "c"]})
    if kind == "DataFrame":
        return spark.createDataFrame([(1, "a"), (2, "b"), (3, "c")], "id bigint, name string")
    if kind == "function: DataFrame":
        return lambda: spark.createDataFrame(
            [(1, "a"), (2, "b"), (3, "c")], "id bigint, name string"
        )
    if kind == "function: sqlite":
        with sqlite3.connect(folder / "db") as db:
            db.execute("CREATE TABLE devices (id INTEGER, name TEXT)")
            db.executemany("INSERT INTO devices VALUES (?, ?)", [(1, "a"), (2, "b"), (3, "c")])
        return sqlite_rows(folder / "db")
    if kind == "function: duckdb":
        return lambda: duckdb.connect().sql(
            "SELECT i AS id, chr((96 + i)::INT) AS name FROM range(1, 4) t(i)"
        )
    if kind == "function: pandas":
        return lambda: made.to_pandas()
    if kind == "store=":
        write(folder / "d", {1: "a", 2: "b", 3: "c"})
        return str(folder / "d")
    made_of = {"table": made, "batch": made.to_batches()[0]}
    return lambda: made_of.get(kind.removeprefix("function: ")) or made.to_reader()


@pytest.mark.parametrize(
    "kind",
    [
        "DataFrame", "function: DataFrame", "function: table", "function: batch", "function: reader", "function: sqlite",
        "function: duckdb", "function: pandas", "store=",
    ],
)  # fmt: skip
@pytest.mark.spec("FC-F37")
def test_rows_meet_what_was_copied_on_spark(kind: str, spark: SparkSession, tmp_path: Path) -> None:
    given = given_as(kind, spark, tmp_path)
    store = str(tmp_path / "copies") if kind == "store=" else None
    d = sw.relation(given, "id", "d", store=store)
    s = readings(spark, kind == "store=", [(1, 1, 1.0), (2, 2, 2.0), (9, 3, 3.0)], [(1, 11, 4.0)])
    done = run(
        {"full": s.join(d.where("name <> 'b'"), ON, how="left"), "lost": s.join(d, ON).unmatched},
        tmp_path / "q",
    )
    pairs = Counter((r["device"], r["name"]) for r in done.rows("full"))
    assert pairs == Counter([(1, "a"), (2, None), (9, None), (1, "a")])
    assert [r["device"] for r in done.rows("lost")] == [9]
    place = tmp_path / "copies" if store else tmp_path / "q" / "slackwater" / "copies" / "d"
    assert [p.name[:5] for p in place.iterdir() if p.is_dir()] == ["copy-"]
    for path in [place, *place.rglob("*")]:
        assert path.stat().st_mode & 0o077 == 0, path


class Arriving:
    """A stream of files that a test writes, one row each."""

    def __init__(self, spark: SparkSession, folder: Path):
        self.folder, self.count = folder / "in", 0
        self.folder.mkdir()
        source = sw.readStream(spark).schema("device bigint, ts timestamp")
        given = source.option("maxFilesPerTrigger", 1).parquet(str(self.folder))
        self.stream = sw.stream(given, time="ts", name="s", progress=sw.Ordered())

    def rows(self, count: int = 1) -> None:
        for _ in range(count):
            self.count += 1
            time = dt.datetime(2026, 1, 1, tzinfo=UTC) + dt.timedelta(seconds=self.count)
            times = pa.array([time], pa.timestamp("us", "UTC"))
            made = self.folder / f"{self.count}.parquet"
            pq.write_table(pa.table({"device": [1], "ts": times}), made)


@pytest.mark.spec("XJ-F57")
def test_a_function_is_called_again_when_somebody_asks(spark: SparkSession, tmp_path: Path) -> None:
    names, arriving = ["first"], Arriving(spark, tmp_path)

    def rows() -> pa.Table:
        return pa.table({"id": pa.array([1], pa.int64()), "name": [names[-1]]})

    def go(**options: Any) -> Any:
        arriving.rows(2)
        joined = arriving.stream.join(sw.relation(rows, "id", "d"), ON)
        return run(joined, tmp_path / "q", end=False, options=options)

    names.append("second")
    done = go()
    assert {r["name"] for r in done.rows()} == {"second"}
    names.append("third")
    assert {r["name"] for r in go().rows()} == {"second"}  # once, unless somebody asks
    done.query.refresh("d")
    assert {r["name"] for r in go(relationCopies="wait").rows()} == {"third"}


FRAMES: dict[str, Callable[[SparkSession, str], Any]] = {
    "DataFrame": lambda spark, path: spark.read.parquet(path).where("id > 0"),
    "function: table": lambda spark, path: lambda: spark.table("written_by_others"),
    "subquery": lambda spark, path: spark.sql(
        "SELECT 1L AS id, (SELECT max(name) FROM written_by_others) AS name"
    ),
}


@pytest.mark.parametrize("kind", FRAMES)
def test_a_copy_of_a_dataframe_is_of_the_files_that_are_there_then(
    kind: str, spark: SparkSession, tmp_path: Path
) -> None:
    """Another process has written over them: Spark's own DataFrames fail then, also those of a table that is asked for anew."""
    arriving, table = Arriving(spark, tmp_path), write(tmp_path / "d", {1: "first"})
    spark.sql(
        f"CREATE TABLE written_by_others (id BIGINT, name STRING) USING parquet LOCATION '{table}'"
    )
    try:
        given = FRAMES[kind](spark, table)
        d = sw.relation(given, "id", "d", refresh="365 days")

        def go() -> Any:
            arriving.rows(2)
            done = run(
                arriving.stream.join(d, ON), tmp_path / "q", end=False,
                options={"relationCopies": "wait"},
            )  # fmt: skip
            done.query.refresh("d")
            return done

        def names(done: Any) -> set[str]:
            return {r["name"] for r in done.rows()}

        assert names(go()) == {"first"}
        write(tmp_path / "d", {1: "second", 2: "more"})
        assert names(go()) == {"second"}
        (tmp_path / "d").rename(tmp_path / "elsewhere")  # Spark finds no rows then
        done = go()
        assert names(done) == {"second"}
        problem = done.query.lastProgress["relations"]["d"]["problem"]
        assert "could not be copied" in problem and str(tmp_path) not in problem
    finally:
        spark.sql("DROP TABLE written_by_others")


def test_a_dataframe_without_files_is_one_without_rows_if_it_stays_so(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Whoever writes over a table may have removed its files a moment ago; a directory that is gone never is a table."""
    path = write(tmp_path / "d", {1: "a"})
    frame = spark.read.parquet(path)
    source = FrameRows("d", frame, shown_fields(frame.schema), "UTC")
    looks = iter(range(9))

    def look() -> list[Any]:
        scratch = tmp_path / f"{next(looks)}"
        scratch.mkdir()
        with source.rows(shown_fields(frame.schema), scratch, 0) as reader:
            return reader.read_all().to_pylist()

    assert look() == [{"id": 1, "name": "a"}]
    for file in Path(path).iterdir():
        file.unlink()
    with pytest.raises(ExecutionError, match="FileNotFoundError"):
        look()
    assert look() == []
    Path(path).rmdir()
    for _ in range(2):
        with pytest.raises(ExecutionError, match="FileNotFoundError"):
            look()
    write(tmp_path / "d", {2: "b"})
    assert look() == [{"id": 2, "name": "b"}]


@pytest.mark.parametrize("case_sensitive", ["false", "true"])
def test_a_function_may_give_a_dataframe_whose_names_differ_in_case_and_no_stream(
    spark: SparkSession, tmp_path: Path, case_sensitive: str
) -> None:
    made: list[Any] = [spark.range(1, 3).toDF("ID").selectExpr("ID", "'a' AS Name")]
    fields = (Field("id", "bigint"), Field("name", "string"))
    source = FunctionRows("d", lambda: made[-1], fields, "UTC", shown_fields)
    with settings(spark, caseSensitive=case_sensitive), source.rows(fields, tmp_path, 0) as reader:
        assert reader.read_all().to_pylist() == [{"id": n, "name": "a"} for n in (1, 2)]
    made.append(spark.readStream.format("rate").load())
    with (
        pytest.raises(SlackwaterError, match="returned a stream"),
        source.rows(fields, tmp_path, 0),
    ):
        pass


def told(*things: Any) -> str:
    """All that an error says, and what led to it."""
    texts = []
    for thing in things:
        error = thing
        while isinstance(error, BaseException):
            texts += [str(error), repr(error), str(getattr(error, "hint", ""))]
            error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        texts.append(str(thing))
    return "\n".join(texts)


def check_secret(folder: Path, *things: Any) -> None:
    assert SECRET not in told(*things)
    for path in folder.rglob("*"):
        assert not path.is_file() or SECRET.encode() not in path.read_bytes(), path


def test_options_and_addresses_of_a_dataframe_are_told_nowhere(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / SECRET
    write(source, {1: "a"})
    frame = spark.read.option("password", SECRET).parquet(str(source))
    d = sw.relation(frame, "id", "d")
    arriving = Arriving(spark, tmp_path)
    arriving.rows(2)
    joined = arriving.stream.join(d, ON)
    done = run(joined, tmp_path / "q", end=False)
    assert [r["name"] for r in done.rows()] == ["a", "a"]
    done.query.explain(extended=True)
    texts = capsys.readouterr().out, explain_streams({"x": joined}), repr(d)
    assert "relation d" in texts[0]
    check_secret(tmp_path / "q", done.records, *texts)
    # What Spark says of a file that is half written has its path.
    for file in source.iterdir():
        file.write_bytes(b"PAR1")
    done.query.refresh("d")
    arriving.rows(2)
    done = run(joined, tmp_path / "q", end=False, options={"relationCopies": "wait"})
    problem = done.last["relations"]["d"]["problem"]
    assert "relation 'd' could not be copied: Spark could not read it" in problem
    assert [r["name"] for r in done.rows()] == ["a", "a"]
    check_secret(tmp_path / "q", done.records)
    # At a first start there is no copy before.
    with pytest.raises(SlackwaterError, match="could not be copied") as caught:
        run(joined, tmp_path / "q2")
    check_secret(tmp_path / "q2", caught.value)


def test_a_function_that_fails_where_it_is_given_says_nothing_of_its_own(
    spark: SparkSession, tmp_path: Path
) -> None:
    def rows() -> Any:
        raise sqlite3.OperationalError(f"cannot reach postgres://app:{SECRET}@db/devices")

    with pytest.raises(SlackwaterError, match="OperationalError") as caught:
        sw.relation(rows, "id", "d")
    check_secret(tmp_path, caught.value)


def test_a_function_that_fails_three_times_in_a_row_ends_the_query(
    spark: SparkSession, tmp_path: Path
) -> None:
    fails = [False]

    def rows() -> Any:
        if fails[0]:
            raise ValueError(SECRET)
        return pa.table({"id": pa.array([1], pa.int64()), "name": ["a"]})

    arriving = Arriving(spark, tmp_path)
    joined = arriving.stream.join(sw.relation(rows, "id", "d"), ON)
    arriving.rows()
    q = sw.start(
        [joined.writeStream.format("parquet").option("path", str(tmp_path / "out"))],
        checkpointLocation=str(tmp_path / "q"), trigger={"processingTime": "100 milliseconds"},
        options={"relationCopies": "wait"},
    )  # fmt: skip
    q.processAllAvailable()
    fails[0] = True
    for _ in range(2):
        q.refresh("d")
        arriving.rows()
        q.processAllAvailable()
        assert "ValueError" in q.lastProgress["relations"]["d"]["problem"]
    q.refresh("d")
    arriving.rows()
    with pytest.raises(sw.SlackwaterError, match="its function raised an error") as caught:
        q.processAllAvailable()
    check_secret(tmp_path, caught.value, q.recentProgress)
    assert pq.read_table(tmp_path / "out").num_rows == 3


# ---- the same rows as Spark's own join, at random ----

KINDS = ("inner", "left", "left_semi", "left_anti")
WHEN = dt.datetime(2026, 1, 1, tzinfo=UTC)
VALUES: dict[str, list[Any]] = {
    "int": [0, 1, -5, 2**31 - 1], "bigint": [0, 1, 2, 3, 4, 2**62, -(2**63)], "string": ["", "a", "ä", "b"],
    "double": [0.0, -0.0, float("nan"), 1.5, float("-inf")], "float": [0.0, -0.0, float("nan"), 1.5],
    "timestamp": [WHEN + dt.timedelta(hours=n) for n in range(5)], "date": [dt.date(2026, 1, n) for n in (1, 2, 3)],
    "boolean": [True, False], "binary": [b"", b"a", b"\x00"],
}  # fmt: skip


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.spec("XJ-F47", "XJ-F58")
def test_joins_over_a_copy_give_the_rows_of_sparks_join_and_of_the_table_whole(
    seed: int, spark: SparkSession, tmp_path: Path
) -> None:
    """Several key columns, duplicates, nulls, NaN and both zeros, a key with most of the rows; cut anywhere."""
    draw = random.Random(seed)
    kinds = [draw.choice(sorted(VALUES)) for _ in range(draw.choice([1, 2, 2, 3]))]
    keys = [f"k{n}" for n in range(len(kinds))]
    hot = tuple(draw.choice(VALUES[k]) for k in kinds)

    def key() -> tuple[Any, ...]:
        return hot if draw.random() < 0.3 else tuple(draw.choice([*VALUES[k], None]) for k in kinds)

    table_rows = [(*key(), n, draw.randrange(4)) for n in range(60)]
    stream_rows = [(*key(), n, draw.randrange(4)) for n in range(40)]
    types = ", ".join(f"{n} {k}" for n, k in zip(keys, kinds, strict=True))
    left, right = f"{types}, ts bigint, v bigint", f"{types}, id bigint, w bigint"
    table = spark.createDataFrame(table_rows, right)
    table.coalesce(3).write.parquet(str(tmp_path / "d"))

    def job(given: Any, store: str | None) -> Callable[[Any], dict[str, Any]]:
        def made(df: Any) -> dict[str, Any]:
            s = sw.stream(df, time="ts", name="s", progress=sw.Ordered())
            d = sw.relation(given, keys, "d", spark=spark, store=store)
            on = [(k, k) for k in keys]
            return {how: s.join(d, on, how=how, where="v <= w") for how in KINDS}

        return made

    def observed(given: Any, store: str | None, **options: Any) -> Counter[Any]:
        third = len(stream_rows) // 3
        batches = [stream_rows[:third], stream_rows[third : 2 * third], stream_rows[2 * third :]]
        made = job(given, store)
        seen = local_job(made, left, spark=spark, splits=True, options=options).run(batches)
        return Counter((n, r["ts"], r.asDict().get("id")) for n, rows in seen.items() for r in rows)

    spark.createDataFrame(stream_rows, left).createOrReplaceTempView("s")
    table.createOrReplaceTempView("d")
    same = " AND ".join(f"s.{k} = d.{k}" for k in keys)
    with small_tables(spark):
        sql = " UNION ALL ".join(
            f"SELECT '{how}' AS q, ts, {'id' if how in KINDS[:2] else 'CAST(NULL AS BIGINT)'} AS id "
            f"FROM s {how.replace('_', ' ')} JOIN d ON {same} AND v <= w"
            for how in KINDS
        )
        wanted = Counter(tuple(r) for r in spark.sql(sql).collect())
    path = str(tmp_path / "d")
    assert observed(path, None, relationForm="whole") == wanted
    assert observed(path, str(tmp_path / "c1"), relationForm="whole") == wanted
    for number, size in enumerate(draw.sample([1, 30, 200, 2_000, 100_000], 2)):
        given, store = draw.choice(
            [(path, str(tmp_path / f"c-{number}")), (table, None), (table.toArrow, None)]
        )
        assert observed(given, store, relationForm="segments", relationSegment=size) == wanted, size


# ---- what is said and refused ----


def test_explain_says_how_a_relation_is_copied_and_when_a_copy_would_pay(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = {n: f"n{n}" for n in range(200)}
    (tmp_path / "d").mkdir()
    table = pa.table(
        {
            "id": pa.array(sorted(rows, key=lambda n: n * 37 % 200), pa.int64()),
            "name": [*rows.values()],
        }
    )
    pq.write_table(table, tmp_path / "d" / "a.parquet", row_group_size=10)
    s = readings(spark)
    options = {"relationForm": "segments", "relationSegment": "200"}
    spread = s.join(sw.relation(str(tmp_path / "d"), "id", "d"), ON)
    run(spread, tmp_path / "q1", options=options).query.explain()
    text = capsys.readouterr().out
    assert (
        "of 20 segments on average: files that are sorted by the key would be read less, and store= makes a copy"
        in text
    )
    copied = s.join(sw.relation(str(tmp_path / "d"), "id", "d", store=tmp_path / "c"), ON)
    assert f"copies of it lie in '{tmp_path / 'c'}', sorted by its key" in explain_streams(
        {"x": copied}
    )
    done = run(copied, tmp_path / "q2", options=options)
    done.query.explain()
    assert "a key is in 1.0 of " in capsys.readouterr().out
    assert done.records[0]["relations"]["d"]["reads"] == 1  # both keys are in the first segment
    below = s.join(sw.relation(lambda: table, "id", "d"), ON)
    assert "copies of it lie below the checkpoint" in explain_streams({"x": below})


def test_stores_and_options_that_cannot_be_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    path, other = write(tmp_path / "d", {1: "a"}), write(tmp_path / "e", {1: "a"})
    s = readings(spark)

    def start(made: Any, name: str = "q", **options: Any) -> None:
        run(made, tmp_path / name, options=options)

    refused("BAD_OPTION", lambda: sw.relation(path, "id", store=7), "copies/devices")
    (tmp_path / "file").write_text("")
    refused("BAD_OPTION", lambda: sw.relation(path, "id", store=tmp_path / "file"), "directory")
    refused("STORE_IS_TABLE", lambda: sw.relation(path, "id", store=f"{path}/copies"), "beside")
    refused("NOT_LOCAL", lambda: sw.relation(path, "id", store="s3://b/c"))
    rows = spark.range(3)
    refused("BAD_OPTION", lambda: sw.relation(rows, "id", "d", refresh="batch"), "10 minutes")
    refused("RELATION_SOURCE", lambda: sw.relation(lambda: 1 / 0, "id", "d"), "ZeroDivisionError")
    refused("NOT_A_RELATION", lambda: sw.relation(lambda: 7, "id", "d"), "int", "pa.table")
    rate = spark.readStream.format("rate").load()
    refused("NOT_A_RELATION", lambda: sw.relation(lambda: rate, "value", "d"), "stream")
    twice = pa.table([[1], [2]], ["id", "ID"])
    refused("AMBIGUOUS_COLUMN", lambda: sw.relation(lambda: twice, "id", "d"), "case")
    odd = pa.table({"id": pa.array([1], pa.uint64())})
    refused("UNSUPPORTED_TYPE", lambda: sw.relation(lambda: odd, "id", "d"), "bigint")
    odd = pa.table({"id": [1], "x": pa.array([1], pa.decimal256(50))})
    refused("UNSUPPORTED_TYPE", lambda: sw.relation(lambda: odd, "id", "d"), "'x'")
    d = sw.relation(path, "id", "d", store=tmp_path / "c")
    e = sw.relation(other, "id", "e", store=tmp_path / "c" / "inner")
    both = s.join(d, ON, how="left_semi").join(e, ON, how="left_semi")
    refused("STORE_TAKEN", lambda: start(both, "both"), "of its own")
    joined = s.join(d, ON)
    refused("BAD_OPTION", lambda: start(joined, relationCopies="later"), "beside")
    for size in ("much", "0", "-4", 0):
        refused(
            "BAD_OPTION",
            lambda size=size: start(joined, relationSegment=size),
            f"relationSegment={size!r}",
            '"4m"',
        )
    rows = pa.table({"id": range(100), "name": ["a" * 50] * 100})
    small = s.join(sw.relation(lambda: rows, "id", "d", memory=1_000), ON)
    refused(
        "RELATION_TOO_LARGE", lambda: start(small, "coarse", relationSegment="1m"),
        "of a copy", "relationSegment", "memory= allows 1000",
    )  # fmt: skip
    writer = joined.writeStream.option("checkpointLocation", str(tmp_path / "own")).format(
        "parquet"
    )
    refused("SINK_IS_RELATION", lambda: writer.start(str(tmp_path / "c" / "out")), "store")
    start(joined)
    refused("STORE_TAKEN", lambda: start(joined, "q2"), "another query")


def test_an_input_that_would_read_copies_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in" / "copies").mkdir(parents=True)
    source = sw.readStream(spark).schema("device bigint, ts bigint").parquet(str(tmp_path / "in"))
    s = sw.stream(source, time="ts", name="s", progress=sw.Ordered())
    d = sw.relation(write(tmp_path / "d", {1: "a"}), "id", "d", store=tmp_path / "in" / "copies")
    with pytest.raises(SlackwaterError, match="store"):
        run(s.join(d, ON), tmp_path / "q")


def test_the_recipes_of_the_documents_read_their_tables(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    made = (
        "CREATE TABLE devices (id BIGINT, name TEXT)",
        "INSERT INTO devices VALUES (1, 'a'), (2, 'b')",
    )
    with sqlite3.connect("devices.db") as db, duckdb.connect("devices.duckdb") as other:
        for sql in made:
            db.execute(sql)
            other.execute(sql)
    blocks = [code for _, code in python_blocks((ROOT / "docs/relations.md").read_text("utf-8"))]
    for name in ("from_sqlite", "from_duckdb"):
        (code,) = (c for c in blocks if f"def {name}(" in c)
        known: dict[str, Any] = {"sw": sw}
        exec(compile(code, "docs/relations.md", "exec"), known)
        assert known["devices"].dtypes == [("id", "bigint"), ("name", "string")]
        read = known[name]()
        table = read.read_all() if isinstance(read, pa.RecordBatchReader) else read
        assert table.to_pylist() == [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]
    (code,) = (c for c in blocks if "def publish(" in c)
    exec(compile(code, "docs/relations.md", "exec"), known)
    known["publish"]("1")
    assert pq.read_table("tables/devices").num_rows == 2
