"""The command line with Spark: query files, the examples, the demonstration."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from slackwater.engine.store import history
from slackwater.surface.cli.run_file import noticed, start_described
from slackwater.surface.demo.results import account
from tests.surface.test_cli import run
from tests.surface.verb_documents import check_document

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

HEAD = """
import slackwater as sw
# The bound is at 12 when the last batch begins: its second row is late, its window closed.
BATCHES = [[(1, 10)], [(12, 1), (3, 100)], [(25, 2), (5, 1000)]]
def counts(spark, late="admit"):
    rows = sw.replay(spark, BATCHES, "t long, v long")
    s = sw.stream(rows, time="t", name="rows", progress=sw.Ordered(), late=late)
    return s.groupBy(sw.window(10)).agg("sum(v) AS total")
"""


@pytest.fixture(autouse=True)
def _session(spark: SparkSession) -> None:
    """Commands use the session that is there."""


def write(folder: Path, body: str) -> Path:
    file = folder / "q.py"
    file.write_text(HEAD + body)
    return file


def shown(text: str) -> set[tuple[str, ...]]:
    """The rows of the tables that Spark printed."""
    found = re.findall(r"^\|(.*)\|$", text, re.MULTILINE)
    return {tuple(cell.strip() for cell in row.split("|")) for row in found}


def test_a_writer_that_query_returns_is_run_to_its_end(tmp_path: Path):
    file = write(
        tmp_path,
        f"""
def query(spark):
    return (counts(spark).writeStream.option("path", "{tmp_path}/out")
        .option("endOfStream", True).trigger(availableNow=True))
""",
    )
    assert run("run", file, "--checkpoint", tmp_path / "ck") == 0
    rows = pq.read_table(tmp_path / "out").to_pylist()
    assert {(r["wid"], r["total"]) for r in rows} == {(0, 110), (1, 1), (2, 2)}
    records = history.read(tmp_path / "ck")
    assert sum(r["numInputRows"] for r in records) == 5
    assert run("report", tmp_path / "ck", "-o", tmp_path / "report.html") == 0
    assert "Event time of rows.t" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_a_stream_that_query_returns_is_shown(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    made: dict[str, Any] = {}
    exec(HEAD, made)
    with noticed() as started:
        start_described(made["counts"](spark), "q", str(tmp_path / "ck"), started)
    (query,) = started
    query.processAllAvailable()
    query.stop()
    assert ("0", "{0, 10}", "110") in shown(capsys.readouterr().out)


def test_a_query_is_stopped_after_the_timeout(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = write(
        tmp_path, "def query(spark):\n    return counts(spark).writeStream.format('noop')\n"
    )
    assert run("run", file, "--timeout", "0.5") == 0
    assert "running" in capsys.readouterr().err


def test_a_file_may_start_its_query_itself(tmp_path: Path):
    file = write(
        tmp_path,
        f"""
q = (counts(sw.session()).writeStream.option("path", "{tmp_path}/out")
    .option("checkpointLocation", "{tmp_path}/ck").trigger(availableNow=True).start())
""",
    )
    assert run("run", file) == 0
    assert pq.read_table(tmp_path / "out").num_rows == 2


def test_checkpoint_does_not_go_with_a_file_that_starts_its_query_itself(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    file = write(
        tmp_path,
        "counts(sw.session()).writeStream.format('noop').trigger(availableNow=True).start()\n",
    )
    assert run("run", file, "--checkpoint", tmp_path / "ck") == 2
    assert "--checkpoint goes with query(spark)" in capsys.readouterr().err


def test_a_query_that_fails_ends_with_1_and_shows_our_error_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    file = write(
        tmp_path,
        """
def query(spark):
    return counts(spark, "raise").writeStream.format("noop").trigger(availableNow=True)
""",
    )
    assert run("run", file) == 1
    said = capsys.readouterr().err
    assert "[LATE_ROW]" in said and "to fix: restart with late=" in said
    assert "Traceback" not in said and "\tat " not in said


def test_what_query_returns_must_be_something_to_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    file = write(tmp_path, "def query(spark):\n    return 42\n")
    assert run("run", file) == 2
    assert "query(spark) returned a int" in capsys.readouterr().err


# ---- examples ----
def test_the_sliding_window_example(capsys: pytest.CaptureFixture[str]):
    assert run("run", EXAMPLES / "sliding_window.py", "--timeout", "120") == 0
    means = {(r[0], r[2][-9:-1], r[3], r[4]) for r in shown(capsys.readouterr().out)}
    # From the definition: the readings of each sensor with end − 60 s ≤ time < end.
    assert means >= {
        ("roof", "12:00:20", "19.0", "2"),
        ("roof", "12:01:00", "21.0", "4"),
        ("roof", "12:01:20", "22.5", "4"),
        ("cellar", "12:01:00", "11.0", "3"),
    }
    assert len(means - {("sensor", "window", "mean", "n")}) >= 11


def test_the_late_rows_example(capsys: pytest.CaptureFixture[str]):
    assert run("run", EXAMPLES / "late_rows.py", "--timeout", "120") == 0
    rows = shown(capsys.readouterr().out)
    sales = {(r[1][-9:-1], r[2], r[3]) for r in rows if len(r) == 4}
    # The order of 12:00:15 missed its window; that of 12:01:10 did not.
    assert sales >= {("12:01:00", "3", "13"), ("12:02:00", "3", "9"), ("12:03:00", "1", "6")}
    late = {(r[0], r[2], r[3], r[4]) for r in rows if len(r) == 5}
    assert late >= {("west", "late", "65.0", "1"), ("west", "late", "10.0", "0")}


def test_the_band_join_example(capsys: pytest.CaptureFixture[str]):
    assert run("run", EXAMPLES / "band_join.py", "--timeout", "120") == 0
    rows = {(r[0], r[2], r[4]) for r in shown(capsys.readouterr().out) if len(r) == 5}
    assert rows - {("user", "shown", "click")} == {
        ("ann", "shoes", "quick"), ("bob", "tea", "just in time"), ("cid", "books", "NULL"),
        ("ann", "tea", "at once"), ("bob", "books", "NULL"),
    }  # fmt: skip


def test_the_late_accounts_example(capsys: pytest.CaptureFixture[str]):
    assert run("run", EXAMPLES / "late_accounts.py", "--timeout", "120") == 0
    rows = shown(capsys.readouterr().out)
    paid = {(r[0], r[2], r[4]) for r in rows if len(r) == 5}
    # The account of the second payment came after it; that of the third never did.
    assert paid - {("account", "amount", "owner")} == {
        ("1", "20.0", "ann"), ("2", "7.5", "bob"), ("1", "5.0", "ann"), ("2", "1.0", "bob"),
    }  # fmt: skip
    assert {(r[0], r[2]) for r in rows if len(r) == 3} >= {("3", "3.0")}


def test_the_example_of_a_table_in_sqlite(capsys: pytest.CaptureFixture[str]):
    assert run("run", EXAMPLES / "devices_in_sqlite.py", "--timeout", "120") == 0
    rows = shown(capsys.readouterr().out)
    joined = {(r[1], r[2]) for r in rows if len(r) == 4}
    assert joined - {("device", "room")} == {("7", "room 7"), ("99999", "room 9"), ("17", "room 7")}
    assert {r[0] for r in rows if len(r) == 3} >= {"123456"}


def test_the_example_of_what_is_missing(capsys: pytest.CaptureFixture[str]):
    file = EXAMPLES / "what_is_missing.py"
    assert run("run", file, "--timeout", "120") == 0
    text = capsys.readouterr().out
    assert "refused: groupBy(shop, window on ts)" in text and "on some of shop, ts" in text
    assert {(r[0], r[-1]) for r in shown(text)} >= {("north", "6"), ("south", "9"), ("north", "4")}
    assert run("check", file, "--requirements") == 0
    assert "verdict: grows with the number of values" in capsys.readouterr().out


def test_the_example_of_closed_orders(capsys: pytest.CaptureFixture[str]):
    assert run("run", EXAMPLES / "closed_orders.py", "--timeout", "120") == 0
    text = capsys.readouterr().out
    assert "the join is safe" in text
    rows = {tuple(r) for r in shown(text) if len(r) == 3} - {("order", "what", "paid")}
    assert rows == {("1", "tea", "7"), ("2", "rice", "NULL"), ("3", "oil", "5"), ("4", "salt", "2")}


# ---- demonstration ----
@pytest.mark.slow
def test_the_demo_loses_no_packet_and_writes_a_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert run("demo", "--seconds", "6", "--output", tmp_path / "demo") == 0
    said = capsys.readouterr().out
    assert "every packet is accounted for" in said and "Busiest senders" in said
    folder = tmp_path / "demo"
    packets = sum(pq.read_metadata(p).num_rows for p in (folder / "packets").glob("*.parquet"))
    sums = account(folder, packets)
    assert packets > 10_000 and sums.counted == sums.expected
    last = history.read(folder / "checkpoint")[-1]["streams"]["packets"]
    assert last["totalRows"] == packets
    assert (last["totalLate"]["ts"], last["future"]["ts"]) == (sums.late, sums.future)
    assert "Event time of packets.ts" in (folder / "report.html").read_text(encoding="utf-8")
    # A second run replaces the first.
    assert run("demo", "--seconds", "5", "--output", folder, "--json") == 0
    document = check_document("demo", capsys.readouterr().out)
    assert document["counted"] == document["expected"]
