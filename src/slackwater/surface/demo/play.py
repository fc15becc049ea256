"""Plays the demonstration from beginning to end."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from slackwater.engine.clock import monotonic, sleep
from slackwater.errors import ExecutionError, SetupError
from slackwater.surface.demo import query as demo_query
from slackwater.surface.demo.feed import TICK, Feed
from slackwater.surface.demo.packets import Scene
from slackwater.surface.demo.results import Account, Latest, account, busiest, late_rows
from slackwater.surface.demo.view import View, human
from slackwater.surface.report import write_report

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from slackwater.engine.driver.handle import StreamingQuery

MARK = ".slackwater-demo"
PARTS = ("packets", "talkers", "late", "checkpoint")
DRAIN_SECONDS = 60.0


def prepare(folder: Path) -> None:
    """Make the output directory; one that an earlier demonstration left is emptied, no other."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        if not (folder / MARK).exists():
            raise SetupError(
                "OUTPUT_NOT_EMPTY",
                f"'{folder}' is there already, and no demo made it",
                hint="give another directory: slackwater demo --output DIR",
                path=folder,
            )
        for name in PARTS:
            shutil.rmtree(folder / name, ignore_errors=True)
        for name in ("report.html", "spark.log", demo_query.FILE):
            (folder / name).unlink(missing_ok=True)
    (folder / "packets").mkdir(parents=True, exist_ok=True)
    (folder / MARK).touch()


def play(
    spark: SparkSession, folder: Path, scene: Scene, console: Console, *, seed: int
) -> tuple[Path, Account]:
    """Run the query on the scene, show it, and write the report; its path, and where every packet went."""
    _warm(spark)
    feed = Feed(scene, folder / "packets", seed=seed)
    # Packets of both routers are there before the query: one that has not spoken yet would soon
    # count as idle, and be found late when it does.
    feed.start()
    try:
        query = demo_query.start(spark, folder)
        try:
            _follow(query, feed, View(console, Latest(folder / "talkers"), scene.seconds))
            _drain(query, feed)
            query.flush()
        finally:
            query.stop()
    finally:
        feed.stop()
    sums = account(folder, feed.rows)
    _tell(console, folder, sums)
    report = folder / "report.html"
    write_report(folder / "checkpoint", report, title="slackwater demo")
    return report, sums


def _warm(spark: SparkSession) -> None:
    """Run the query once on a few packets: workers start and code is compiled before the show."""
    with tempfile.TemporaryDirectory(prefix="slackwater-demo-") as name:
        folder = Path(name)
        (folder / "packets").mkdir()
        feed = Feed(Scene.of(TICK), folder / "packets")
        feed.start()
        feed.stop()
        demo_query.start(spark, folder, demo_query.AVAILABLE_NOW).awaitTermination()


def _follow(query: StreamingQuery, feed: Feed, view: View) -> None:
    with view:
        try:
            while feed.playing:
                view.show(query.lastProgress, feed.elapsed)
                _check(query)
                sleep(0.25)
        except KeyboardInterrupt:
            pass  # end early, with what is there
    feed.stop()
    if feed.error is not None:
        raise feed.error


def _drain(query: StreamingQuery, feed: Feed) -> None:
    """Wait until every packet has been read."""
    until = monotonic() + DRAIN_SECONDS
    while True:
        record = query.lastProgress
        if record is not None and record["streams"]["packets"]["totalRows"] >= feed.rows:
            return
        _check(query)
        if monotonic() > until:
            raise ExecutionError(
                "TOO_SLOW",
                f"the query has not read all packets {DRAIN_SECONDS:.0f} seconds after the last came",
                hint="this machine is busy or slow: try again, or a shorter demo with --seconds",
            )
        sleep(0.1)


def _check(query: StreamingQuery) -> None:
    error = query.exception()
    if error is not None:
        raise error


def _tell(console: Console, folder: Path, sums: Account) -> None:
    senders = Table("sender", "ten seconds up to", "packets", "bytes", title="Busiest senders")
    for sender, end, packets, size in busiest(folder, 5):
        senders.add_row(sender, f"{end:%H:%M:%S}", f"{packets:,}", f"{human(size)}B")
    late = Table(
        "reason", "router", "rows", "median by", "most by", "windows missed", title="Late rows"
    )
    for reason, router, rows, median, most, missed in late_rows(folder):
        late.add_row(
            reason, router, f"{rows:,}", f"{median:.1f} s", f"{most:.1f} s", f"{missed or 0:,}"
        )
    for table in (senders, late):
        for column in table.columns[2:]:
            column.justify = "right"
        table.title_justify = "left"
        console.print(table)
    verdict = (
        "every packet is accounted for"
        if sums.counted == sums.expected
        else f"[red]that is {sums.counted - sums.expected:+,} from what was expected[/red]"
    )
    console.print(
        f"{sums.packets:,} packets, each in {sums.per_packet} windows; {sums.future:,} from the future "
        f"set aside, {sums.late:,} late ones missed {sums.missed:,} windows. "
        f"The windows count {sums.counted:,}: {verdict}.",
        highlight=False,
    )
