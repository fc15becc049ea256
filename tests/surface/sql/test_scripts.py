"""Scripts: what statements define, what is refused, and what a restart lets change while windows are open."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import slackwater as sw
from slackwater.model.render import render
from tests.surface.helpers import at, write

pytestmark = pytest.mark.spark

HEAD = """
SET checkpointLocation = '${work}/ck';
SET trigger = 'available now';
"""
PACKETS = """
CREATE STREAM packets (srcIP STRING, len INT, ts TIMESTAMP)
  USING parquet OPTIONS (path '${work}/packets')
  TIME ts PROGRESS DELAY 2 SECONDS LATE ADMIT;
"""
OTHER = """
CREATE STREAM other (srcIP STRING, len INT, ts TIMESTAMP)
  USING parquet OPTIONS (path '${work}/other') TIME ts PROGRESS DELAY 2 SECONDS;
"""
TALKERS = """
CREATE STREAMING TABLE talkers USING parquet OPTIONS (path '${work}/talkers') AS
  SELECT srcIP, window_end, count(*) AS n FROM packets [RANGE 10 SECONDS] GROUP BY srcIP;
"""
OTHERS = """
CREATE STREAMING TABLE others USING parquet OPTIONS (path '${work}/others') AS
  SELECT srcIP, window_end, count(*) AS n FROM other [RANGE 10 SECONDS] GROUP BY srcIP;
"""


@pytest.fixture
def work(tmp_path: Path) -> Path:
    for name in ("packets", "other"):
        feed(tmp_path / name, "a", 0, 15)
    return tmp_path


def feed(folder: Path, name: str, first: int, last: int) -> None:
    count = last - first
    write(
        folder, f"{name}.parquet",
        {"srcIP": ["a", "b"] * count, "len": pa.array(range(2 * count), pa.int32()),
         "ts": pa.array([at(s) for s in range(first, last) for _ in "ab"], pa.timestamp("us", "UTC"))},
    )  # fmt: skip


def made(spark: Any, text: str, work: Path) -> Any:
    return sw.script(spark, text, variables={"work": work})


def started(spark: Any, text: str, work: Path) -> None:
    made(spark, text, work).start().awaitTermination()


def table(folder: Path) -> list[tuple[Any, ...]]:
    rows = pq.read_table(folder).to_pylist() if folder.exists() else []
    return sorted((r["srcIP"], r["window_end"].astimezone(dt.timezone.utc), r["n"]) for r in rows)


def test_a_script_defines_streams_views_and_tables(spark: Any, work: Path):
    text = HEAD + PACKETS + TALKERS + """
    CREATE TEMPORARY VIEW big AS SELECT * FROM packets WHERE len > 3;
    CREATE STREAMING TABLE again USING noop AS SELECT srcIP, n FROM talkers WHERE n > 1;
    CREATE STREAMING TABLE late USING parquet OPTIONS (path '${work}/late') PARTITIONED BY (srcIP) AS SELECT * FROM LATE(packets);
    EXPLAIN SELECT * FROM big;
    """  # fmt: skip
    script = made(spark, text, work)
    assert list(script.streams) == ["packets"]
    assert list(script.outputs) == ["talkers", "again", "late"]
    packets = script.streams["packets"]
    expected = packets.groupBy("srcIP", sw.window("10 seconds")).agg("count(*) AS n")
    expected = (
        expected.select("srcIP", "window.end AS window_end", "n")
        .where("n > 1")
        .select("srcIP", "n")
    )
    assert render(script.outputs["again"]._stream._node) == render(expected._node)
    assert "output talkers" in script.explain()
    report = script.check()
    assert report.ok and not [w for w in report.warnings if w.kind == "late"]


def test_a_checkpoint_may_hide_in_the_directory_of_its_table(spark: Any, work: Path):
    hidden = HEAD.replace("/ck'", "/talkers/_ck'")
    assert list(made(spark, hidden + PACKETS + TALKERS, work).outputs) == ["talkers"]


def test_a_stream_says_of_itself_what_python_would(spark: Any, work: Path):
    text = """
    CREATE STREAM p (srcIP STRING, len INT, ts TIMESTAMP) USING parquet OPTIONS (path '${work}/packets')
      TIME ts PROGRESS DELAY 5 SECONDS IDLE AFTER 1 MINUTE FUTURE GUARD OFF LAG LIMIT 1 HOUR
      ARRIVAL BY len, srcIP PARTITION BY srcIP ('a', NULL, 'b') LATE DROP END OF STREAM;
    CREATE STREAM q (srcIP STRING, len BIGINT) USING parquet OPTIONS (path '${work}/packets')
      TIME len UNIT SECOND PROGRESS MAX DELAY PARTITION BY srcIP (3) LATE RAISE;
    SELECT srcIP, len, ts FROM p; SELECT srcIP FROM q;
    """
    script = made(spark, text, work)
    reader = (
        sw.readStream(spark)
        .schema("srcIP STRING, len INT, ts TIMESTAMP")
        .parquet(str(work / "packets"))
    )
    policy = sw.BoundedDelay("5 seconds").idleAfter("1 minute").futureGuard(None).lagLimit("1 hour")
    p = sw.stream(
        reader, time="ts", name="p", progress=policy, order=["len", "srcIP"], partition="srcIP", partitions=["a", None, "b"],
        late="drop", endOfStream=True,
    )  # fmt: skip
    other = sw.readStream(spark).schema("srcIP STRING, len BIGINT").parquet(str(work / "packets"))
    q = sw.stream(
        other,
        time="len",
        timeUnit="second",
        name="q",
        partition="srcIP",
        partitions=3,
        late="raise",
    )
    for name, stream in (("p", p), ("q", q)):
        assert replace(script.streams[name]._node, input=0) == replace(stream._node, input=0)


def test_words_of_others_mean_the_same(spark: Any, work: Path):
    plain = made(spark, PACKETS + TALKERS, work)
    theirs = made(
        spark,
        PACKETS.replace("ts TIMESTAMP)", "ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '2' SECONDS)").replace("TIME ts PROGRESS DELAY 2 SECONDS", "")
        + TALKERS.replace("CREATE", "CREATE OR REFRESH").replace("GROUP BY srcIP", "GROUP BY srcIP EMIT ON WINDOW CLOSE"),
        work,
    )  # fmt: skip
    one, other = (s.outputs["talkers"]._stream._node for s in (plain, theirs))
    assert render(one, policies=True) == render(other, policies=True)


def test_a_check_warns_of_late_rows_and_silent_partitions(spark: Any, work: Path):
    text = """
    CREATE STREAM p (srcIP STRING, len INT, ts TIMESTAMP) USING parquet OPTIONS (path '${work}/packets')
      TIME ts PROGRESS ORDERED PARTITION BY srcIP ('a', 'b');
    SELECT count(*) FROM p [RANGE 1 MINUTE];
    """
    warnings = made(spark, text, work).check().warnings
    assert [w.kind for w in warnings] == ["late", "idle"]
    assert "LATE(p)" in warnings[0].hint and "IDLE AFTER" in warnings[1].hint


def test_a_raw_input_is_taken_apart_before_its_time_is_named(spark: Any, tmp_path: Path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text(
        '{"k": "x", "ts": "2026-01-01T00:00:01Z"}\n{"k": "y", "ts": "2026-01-01T00:00:02Z"}\n'
    )
    text = """
    SET checkpointLocation = '${work}/ck'; SET trigger = 'available now'; SET endOfStream = true;
    CREATE STREAM raw USING text OPTIONS (path '${work}/in');
    CREATE STREAM events TIME ts PROGRESS ORDERED AS
      SELECT r.value, from_json(value, 'k STRING, ts TIMESTAMP').k AS k, from_json(r.value, 'k STRING, ts TIMESTAMP').ts AS ts
      FROM raw r WHERE value LIKE '%x%';
    CREATE STREAMING TABLE out USING parquet OPTIONS (path '${work}/out') AS SELECT k, ts FROM events;
    """
    made(spark, text, tmp_path).start().awaitTermination()
    assert [r["k"] for r in pq.read_table(tmp_path / "out").to_pylist()] == ["x"]


@pytest.mark.parametrize(
    ("text", "condition", "says"),
    [
        (HEAD + PACKETS + TALKERS + TALKERS.replace("TABLE talkers", "TABLE more"), "SAME_DIRECTORY", "same directory"),
        (HEAD + PACKETS + TALKERS.replace("/talkers'", "/packets/x'"), "SAME_DIRECTORY", "lies in the directory of stream"),
        (HEAD + PACKETS + TALKERS.replace("/talkers'", "/ck/x'"), "SAME_DIRECTORY", "lies in the directory of the checkpoint"),
        (HEAD + PACKETS + TALKERS.replace("/talkers'", "'"), "SAME_DIRECTORY", "lies in the directory of table"),
        (PACKETS + "CREATE STREAMING TABLE t AS SELECT * FROM packets;", "NO_PATH", "has no path"),
        ("CREATE STREAM s USING parquet TIME ts;", "NO_PATH", "has no path"),
        (PACKETS + PACKETS, "DUPLICATE_NAME", "defined twice"),
        ("SET spark.sql.ansi.enabled = true;" + PACKETS + "SELECT * FROM packets", "BAD_OPTION", "session is given"),
        ("SET chekpointLocation = 'x';" + PACKETS + "SELECT * FROM packets", "BAD_OPTION", "no option"),
        ("SET trigger = 'soon';" + PACKETS + "SELECT * FROM packets", "BAD_DURATION", "not a duration"),
        (PACKETS.replace("TIME ts", "TIME tss") + "SELECT * FROM packets", "COLUMN_NOT_FOUND", "tss"),
        (PACKETS.replace("TIME ts", "TIME srcIP") + "SELECT * FROM packets", "BAD_TIME_TYPE", "srcIP"),
        (PACKETS.replace("len INT", "len INTT") + "SELECT * FROM packets", "BAD_TYPE", "INTT"),
        (PACKETS.replace("/packets", "/nowhere") + "SELECT * FROM packets", "PATH_NOT_FOUND", "nowhere"),
        ("CREATE STREAM r USING rate; SELECT * FROM r", "NOT_A_STREAM", "raw input"),
        ("CREATE STREAM r USING rate; CREATE STREAM s TIME ts AS SELECT count(*) AS n, timestamp AS ts FROM r;", "BAD_SELECT", "one row at a time"),
        ("CREATE STREAM r USING rate; CREATE STREAM s TIME ts AS SELECT tymestamp AS ts FROM r;", "COLUMN_NOT_FOUND", "tymestamp"),
        (PACKETS + "CREATE STREAM s TIME ts AS SELECT * FROM packets;", "NOT_RAW", "has a time already"),
        (PACKETS, "NO_OUTPUT", "no output"),
        (PACKETS.replace("len INT", "WATERMARK FOR ts AS ts, len INT"), "SYNTAX", "in front of a column"),
        (PACKETS.replace("ts TIMESTAMP)", "ts TIMESTAMP, WATERMARK FOR ts AS len - INTERVAL '2' SECOND)"), "SYNTAX", "another column"),
        (TALKERS, "NO_TABLE", "packets"),
        ("CREATE STREAM r USING nosuchformat TIME ts; SELECT * FROM r", "BAD_SOURCE", "nosuchformat"),
        ("CREATE RELATION r USING parquet OPTIONS (path 'x')", "NOT_THERE_YET", "relations are made in Python"),
        (PACKETS + "IGNORE FROM packets WHERE len > 1", "NOT_ON_STREAMS", "IGNORE"),
        (PACKETS + "SELECT * FROM UNMATCHED(packets)", "NOT_THERE_YET", "UNMATCHED"),
    ],
)  # fmt: skip
def test_a_script_is_refused_at_its_place(
    spark: Any, work: Path, text: str, condition: str, says: str
):
    with pytest.raises(sw.SlackwaterError) as raised:
        made(spark, text, work).start()
    assert raised.value.condition == condition, str(raised.value)
    assert says in raised.value.message and raised.value.place is not None
    assert len(str(raised.value).splitlines()) <= 8


def test_a_secret_is_shown_by_its_name(spark: Any, work: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HIDDEN_PLACE", "/no/such/place/hush")
    text = "CREATE STREAM s (ts TIMESTAMP) USING parquet OPTIONS (path '${env:HIDDEN_PLACE}') TIME ts; SELECT * FROM s"
    with pytest.raises(sw.AnalysisError) as raised:
        made(spark, text, work)
    assert "hush" not in str(raised.value) and "${env:HIDDEN_PLACE}" in str(raised.value)


def marked(text: str, error: Any) -> str:
    """The letters that an error points at."""
    line = text.split("\n")[error.place.line - 1]
    return line[error.place.column - 1 :][: error.place.length]


def test_a_state_that_nothing_frees_points_at_its_clause(spark: Any, work: Path):
    """Found when the query starts: punctuation on one column says nothing of the other."""
    text = """
    CREATE STREAM p (srcIP STRING, len INT, ts TIMESTAMP, done TIMESTAMP) USING parquet OPTIONS (path '${work}/packets')
      TIME ts PROGRESS PUNCTUATED BY done;
    CREATE TEMPORARY VIEW v AS SELECT srcIP, count(*) AS n FROM p GROUP BY srcIP;
    CREATE STREAMING TABLE t USING noop AS SELECT srcIP FROM v WHERE n > 1;
    """
    with pytest.raises(sw.AnalysisError) as raised:
        made(spark, text, work).start(checkpointLocation=str(work / "ck"))
    assert raised.value.condition == "UNBOUNDED_STATE"
    assert marked(text, raised.value) == "GROUP BY srcIP"
    text = (
        PACKETS + "CREATE STREAMING TABLE t USING noop AS SELECT ts - ts AS d, srcIP FROM packets;"
    )
    with pytest.raises(sw.AnalysisError) as raised:
        made(spark, text, work).start(checkpointLocation=str(work / "ck"))
    assert raised.value.condition == "UNSUPPORTED_TYPE"
    assert marked(text, raised.value) == "ts - ts AS d, srcIP"


REWRITTEN = {
    "white space, comments and case": TALKERS.replace("SELECT", "/* who */ select").replace(" FROM ", "\n  from "),
    "another spelling of the window": TALKERS.replace("packets [RANGE 10 SECONDS] GROUP BY srcIP", "TUMBLE(packets, ts, INTERVAL 10 SECONDS) GROUP BY srcIP, window_start"),
    "a view between": "CREATE TEMPORARY VIEW v AS SELECT * FROM packets;" + TALKERS.replace("FROM packets", "FROM v"),
}  # fmt: skip


def test_a_restart_compares_trees_and_not_texts(spark: Any, work: Path):
    """With windows open: each edit that keeps the tree goes on, and the windows that were open are whole."""
    before = HEAD + PACKETS + OTHER + TALKERS + OTHERS
    started(spark, before, work)
    # Statements swapped, a promise of the source changed, the window spelled otherwise.
    feed(work / "packets", "b", 15, 30)
    feed(work / "other", "b", 15, 30)
    after = HEAD + OTHER + PACKETS.replace("DELAY 2 SECONDS", "DELAY 1 SECOND") + OTHERS
    after += REWRITTEN["another spelling of the window"]
    started(spark, after, work)
    expected = [(k, at(e), 10) for k in "ab" for e in (10, 20)]
    assert table(work / "talkers") == table(work / "others") == sorted(expected)
    for name in ("white space, comments and case", "a view between"):
        started(spark, HEAD + PACKETS + OTHER + REWRITTEN[name] + OTHERS, work)
    for wrong, clause in (
        (after.replace("count(*) AS n FROM TUMBLE", "count(*) AS m FROM TUMBLE"), "srcIP, window_end, count(*) AS m"),
        (after.replace("count(*) AS n FROM TUMBLE", "sum(len) AS n FROM TUMBLE"), "GROUP BY srcIP, window_start"),
        (after.replace("packets", "packages").replace("/packages'", "/packets'"), "packages"),
        (after.replace("INTERVAL 10 SECONDS", "INTERVAL 20 SECONDS"), "GROUP BY srcIP, window_start"),
        (after.replace("GROUP BY srcIP, window_start", "WHERE len > 1 GROUP BY srcIP, window_start"), "len > 1"),
    ):  # fmt: skip
        with pytest.raises(sw.CheckpointError) as raised:
            started(spark, wrong, work)
        assert raised.value.condition == "QUERY_CHANGED"
        assert marked(wrong, raised.value) == clause, str(raised.value)
    assert table(work / "talkers") == sorted(expected)


def test_a_relation_is_joined_in_python(spark: Any, work: Path):
    spark.createDataFrame([("a", 1)], "k string, x int").write.parquet(str(work / "names"))
    relation = sw.relation(str(work / "names"), "k", spark=spark)
    with pytest.raises(sw.AnalysisError, match="join it in Python"):
        sw.sql("SELECT * FROM r", streams={"r": relation})
    stream = sw.stream(sw.replay(spark, [], "k string, ts timestamp"), time="ts", name="s")
    joined = sw.sql(
        "SELECT k, x, ts FROM j WHERE x > 0", streams={"j": stream.join(relation, on="k")}
    )
    assert joined.columns == ["k", "x", "ts"]
