"""Checkpoints that earlier commits wrote, kept for ever: each must open on the code of today.

An archive ``<version>/<name>.tar.xz`` holds the input, the checkpoint and the sinks of a query that stopped in the
middle of a batch. Spark's logs and our intents name input files by their absolute paths, so an archive is unpacked
where it was written; a lock keeps two test runs on one machine apart.

``python -m tests.checkpoints.kept VERSION`` writes the archives of the code at hand, once for each format that is
released; the version is then added to `VERSIONS`. They are never written anew: what today's code can read of its own
files proves nothing.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import sys
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from slackwater.engine.store import failpoints
from tests.faults.scenarios import VIEWED, Scenario, _delay, _script, _window, rows, scenarios

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ARCHIVES = Path(__file__).parent
PLACE = Path("/tmp/slackwater-kept-checkpoints")
STOP = "job.after=raise@5"

VERSIONS = ("e35c92f", "5e49ee6")
"""The commits that wrote them, oldest first."""

BESIDES = {"f7ba12e": ("standing-feedback",)}
"""What later commits wrote of queries that those versions could not run. `make test` resumes it without a job of Spark."""

USUAL = {
    "e35c92f": ("dedup-and-sort", "join", "join-in-little-memory", "three", "two-slacks"),
    "5e49ee6": (
        "adaptive", "aggregate-of-aggregate", "dedup-and-sort", "join", "join-in-little-memory", "three", "two-slacks",
        "union-rows-and-splits", "window-ids", "windows",
    ),
}  # fmt: skip
"""What `make test` resumes: of the newest version enough to meet each shape of state, of an older one those that the newest
no longer writes. `make faults` resumes all of them on Spark.
"""

ON_SPARK = (
    ("e35c92f", "join"), ("5e49ee6", "aggregate-of-aggregate"), ("5e49ee6", "union-rows-and-splits"),
)  # fmt: skip
"""Which of them `make test` resumes on Spark: each version, rows beside splits, and a sink that Spark writes. It resumes
the others without a job of Spark, where state, intents and sinks are read by the same code.
"""

Shape = tuple[str, tuple[str, ...]]
"""A kind of operator, and the columns of ours in a file of its state."""


@dataclass(frozen=True)
class Kept:
    """A query of which a checkpoint is kept: a scenario, and the options that it runs with."""

    scenario: Scenario
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def slug(self) -> str:
        """The name of its archive."""
        return re.sub(r"\W+", "-", self.scenario.name)

    def archive(self, version: str) -> Path:
        return ARCHIVES / version / f"{self.slug}.tar.xz"

    def write(self, spark: SparkSession, version: str) -> None:
        """Run the query into the middle of its fifth batch, and keep what is on disk then."""
        with self._place(version) as place:
            self.scenario.write_inputs(spark, place / "in")
            failpoints.reset()
            os.environ[failpoints.ENV] = STOP
            try:
                self.start(spark, place, groups=2)
            except failpoints.InjectedFailure:
                pass
            else:
                raise AssertionError(f"{self.scenario.name} ended before its fifth batch")
            finally:
                del os.environ[failpoints.ENV]
            self.archive(version).parent.mkdir(exist_ok=True)
            with tarfile.open(self.archive(version), "w:xz", format=tarfile.PAX_FORMAT) as out:
                out.add(place, arcname=".", filter=_nobody)

    @contextmanager
    def unpacked(self, version: str) -> Iterator[Path]:
        """The archive's folders, where they were written."""
        with self._place(version) as place, tarfile.open(self.archive(version)) as archive:
            archive.extractall(place, filter="tar")
            yield place

    def shapes(self, version: str) -> set[Shape]:
        """The shapes of the state that its manifests name."""
        found = set()
        with tarfile.open(self.archive(version)) as archive:
            files = {
                entry.name.rpartition("checkpoint/slackwater/")[2]: _bytes(archive, entry)
                for entry in archive.getmembers()
                if entry.isfile()
            }
        for name, data in files.items():
            if not name.startswith("manifests/"):
                continue
            manifest = json.loads(data.partition(b"\n")[0])
            for operator, groups in manifest["runs"].items():
                for run in (r for group in groups for r in group):
                    state = files.get(f"runs/{run['name']}")
                    if state is not None:  # a manifest outlives what it names
                        columns = pa.ipc.open_file(pa.py_buffer(state)).schema.names
                        ours = tuple(c for c in columns if c.startswith("_"))
                        found.add((operator.partition("-")[0], ours))
        return found

    def newest_manifest(self, version: str) -> dict[str, Any]:
        """The newest manifest in its archive."""
        with tarfile.open(self.archive(version)) as archive:
            (*_, newest) = sorted(
                (e for e in archive.getmembers() if e.isfile() and "/manifests/" in e.name),
                key=lambda e: e.name,
            )
            found: dict[str, Any] = json.loads(_bytes(archive, newest).partition(b"\n")[0])
            return found

    @contextmanager
    def _place(self, version: str) -> Iterator[Path]:
        place = PLACE / version / self.slug
        place.parent.mkdir(parents=True, exist_ok=True)
        with open(f"{place}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir()
            try:
                yield place
            finally:
                shutil.rmtree(place, ignore_errors=True)

    def start(self, spark: SparkSession, place: Path, *, groups: int) -> None:
        """Run the query to its end."""
        self.scenario.start(
            spark, place / "in", place / "state", groups=groups, options=self.options
        ).awaitTermination()

    def resume_locally(self, spark: SparkSession, place: Path, *, groups: int) -> None:
        """Run the query to its end, without a job of Spark."""
        self.scenario.resume_locally(
            spark, place / "in", place / "state", groups=groups, options=self.options
        )


def _bytes(archive: tarfile.TarFile, entry: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(entry)
    assert file is not None
    return file.read()


def _nobody(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """An archive says nothing of who wrote it."""
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


NEWER = frozenset({"semi and anti join", "closed orders", "moving viewport", "pace"})
"""Scenarios that no kept version could run."""


@cache
def kept() -> dict[str, Kept]:
    """All queries of which checkpoints are kept, by the names of their archives."""
    made = [Kept(s) for s in scenarios().values() if s.name not in NEWER]
    made += [
        Kept(_windows()),
        Kept(_aggregates("window ids", 21), {"windowPlan": "wids"}),
        Kept(_aggregates("panes", 22), {"windowPlan": "panes"}),
        Kept(_sums("adaptive", 23), {"windowPlan": "adaptive"}),
        Kept(_sums("smooth", 24), {"smooth": 2}),
        Kept(_three()),
    ]
    return {k.slug: k for k in made}


@cache
def known() -> dict[str, Kept]:
    """Those, and the queries of `BESIDES`, by the names of their archives."""
    return {**kept(), **{k.slug: k for k in [Kept(_feedback())]}}


def _ordered(seed: int) -> list[list[list[Any]]]:
    """Rows whose ids rise in order of arrival, none of them twice."""
    batches = []
    for batch in rows(seed, late=False):
        once = {r[0]: r for r in batch}
        batches.append([once[i] for i in sorted(once)])
    return batches


def _windows() -> Scenario:
    """A window of every type, all over one stream."""

    def over(window: dict[str, Any], *by: str, **agg: str) -> list[Any]:
        return [{"from": "s"}, {"window": window, "by": list(by), "agg": agg}]

    query = {
        "rows": over({"rows": 8, "slide": 4}, "k", n="count(*)", t="sum(v)"),
        "per": over({"rows": 6, "slide": 2, "per": "k"}, t="sum(v)"),
        "operator": over({"rows": 5, "at": "operator"}, n="count(*)", most="max(v)"),
        "landmark": over(
            {"landmark": "10 seconds", "origin": "2026-01-01 00:00:00"},
            "k",
            n="count(*)",
            t="sum(v)",
        ),
        "arrival": over({"by_tuple": "10 seconds", "every": 3}, n="count(*)", t="sum(v)"),
        "rank": over({"by_tuple": "10 seconds", "every": 3, "over": "rank"}, n="count(*)"),
        "session": over({"session": "2 seconds"}, "k", n="count(*)", t="sum(v)", most="max(v)"),
    }
    stream = {**_delay({"bounded_delay": "20 seconds"}), "order": "id"}
    text = {"name": "windows", "streams": {"s": stream}, "query": query,
            "check": {"session": {"columns": ["k", "window.start", "window.end", "n", "t", "most"]}},
            "script": _script({"s": _ordered(20)})}  # fmt: skip
    return Scenario("windows", text)


def _aggregates(name: str, seed: int) -> Scenario:
    """Aggregates of every kind of state over sliding windows."""
    calls = {
        "n": "count(*)", "t": "sum(v)", "low": "min(v)", "mean": "avg(v)", "kinds": "count(DISTINCT v)",
        "middle": "median(v)", "usual": "mode(v, true)", "newest": "last(v)",
    }  # fmt: skip
    query = {"all": [{"from": "s"}, _window("20 seconds", "5 seconds", **calls)]}
    stream = _delay({"bounded_delay": "20 seconds"})
    text = {"name": name, "streams": {"s": stream}, "query": query,
            "script": _script({"s": rows(seed, late=False)})}  # fmt: skip
    return Scenario(name, text, frozenset({"s"}))


def _sums(name: str, seed: int) -> Scenario:
    query = {
        "sums": [{"from": "s"}, _window("20 seconds", "5 seconds", n="count(*)", t="sum(v)")],
        "once": [{"from": "s"}, {"dedup": {"subset": ["id"], "within": "30 seconds"}}],
    }
    stream = _delay({"bounded_delay": "20 seconds"})
    text = {"name": name, "streams": {"s": stream}, "query": query,
            "script": _script({"s": rows(seed, late=False)})}  # fmt: skip
    return Scenario(name, text)


def _three() -> Scenario:
    """A join of three streams, one of two, and windows over its results."""
    join = {"keys": ["k"], "where": "s_v <= t_v"}
    query = {
        "three": [{"join": ["s", "t", "u"], "keys": ["k"],
                   "reach": ["9 seconds", "9 seconds", "5 seconds"]}],
        "pairs": [{"join": ["s", "t"], **join, "band": {"before": "9 seconds", "after": "5 seconds"}}],
        "sums": [{"from": "pairs"}, _window("10 seconds", n="count(*)", t="sum(t_v)")],
    }  # fmt: skip
    streams = {n: _delay({"bounded_delay": "20 seconds"}) for n in "stu"}
    script = _script({n: rows(30 + i, count=5, late=False) for i, n in enumerate("stu")})
    text = {"name": "three", "streams": streams, "query": query, "script": script}
    return Scenario("three", text)


def _feedback() -> Scenario:
    """Where it stops, a view has moved twice: it stands, and some windows of keys that came back are dark. Panes are sealed, and a
    pace has its mark.
    """
    query = {
        VIEWED: [{"union": ["s", "r"]}, _window("20 seconds", "5 seconds", n="count(*)", t="sum(v)")],
        "few": [{"join": ["s", "r"], "keys": ["k"], "band": {"before": "9 seconds", "after": "5 seconds"}},
                _window("10 seconds", n="count(*)"), {"where": "n < 8"}],
        "live": [{"union": [[{"from": "s"}, {"where": "v < 70"}], "r"]}, {"pace": "12 seconds"}],
    }  # fmt: skip
    streams = {n: _delay({"bounded_delay": "20 seconds"}) for n in "sr"}
    text = {"name": "standing feedback", "streams": streams, "query": query,
            "script": _script({"s": rows(41, late=False), "r": rows(42, late=False)})}  # fmt: skip
    views = {1: "abc", 3: "abcde", 6: "cdf"}
    return Scenario("standing feedback", text, frozenset({"s"}), runs=1, views=views)


def main(version: str, *names: str) -> None:
    from slackwater import session

    spark = session(cores=2, memory="1g")
    for slug, item in known().items():
        if not names or slug in names:
            item.write(spark, version)
            print(f"{slug}: {item.archive(version).stat().st_size} bytes", flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
