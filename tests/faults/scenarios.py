"""Queries that are killed and restarted, with their input and what must come out.

A scenario is a transcript: its rows are written as files, one per stream and batch, its query is built
through the public surface, and the oracle says which rows must be in the sinks at the end.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

import slackwater as sw
from slackwater.engine.driver.handle import StreamingQuery
from slackwater.engine.store import spark_log
from slackwater.kernels.types import arrow_schema
from slackwater.model.node import Source
from slackwater.model.schema import Field
from slackwater.sinks.base import Sink
from slackwater.sinks.files import ParquetSink
from slackwater.sources.replay import replay, write_batch
from slackwater.testing.clock import ManualClock
from slackwater.testing.executors.observing import array, plain
from slackwater.testing.executors.spark import _Surface
from slackwater.testing.local.host import LocalHost
from slackwater.testing.transcripts.script import Transcript, _projected, oracle, parse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BATCHES = 8
DDL = {"id": "bigint", "k": "string", "ts": "timestamp", "v": "bigint"}
VIEWED = "map"
BASE = 1_767_225_600  # 2026-01-01 in seconds


@dataclass(frozen=True)
class Scenario:
    """A query over files; ``splits`` are the streams that are read as splits, ``format`` is the sinks'.

    ``over`` names the streams that are another one's rows again, under a policy of their own. State is merged from more
    than ``runs`` files on: a short band leaves few. ``views`` say from which batch on which keys are looked at in ``VIEWED``: all
    other results of that output are given up.
    """

    name: str
    text: Mapping[str, Any]
    splits: frozenset[str] = frozenset()
    format: str = "parquet"
    over: Mapping[str, str] = field(default_factory=dict)
    runs: int = 2
    views: Mapping[int, str] = field(default_factory=dict)

    @cached_property
    def transcript(self) -> Transcript:
        return parse(self.text)

    @cached_property
    def expected(self) -> dict[str, Counter[Any]]:
        """All rows of each output, over all batches, as the oracle has them."""
        return _totals(self.transcript)

    def write_inputs(self, spark: SparkSession, folder: Path) -> None:
        """One file per stream and batch; a stream that is silent in a batch has no file then."""
        for number, step in enumerate(self.transcript.batches):
            for name, rows_ in step.rows.items():
                if name not in self.over:
                    self.write_file(spark, folder, name, number, rows_)

    def write_file(
        self, spark: SparkSession, folder: Path, name: str, number: int, rows: list[dict[str, Any]]
    ) -> None:
        from pyspark.sql.types import StructType

        source = self.transcript.sources[name]
        schema = arrow_schema(source.schema)
        table = pa.table(
            [array([r.get(f.name) for r in rows], f.type) for f in schema], schema=schema
        )
        target = folder / name / "slackwater-replay-batches"
        target.mkdir(parents=True, exist_ok=True)
        write_batch(table, StructType.fromDDL(_ddl(source)), target, number)

    def start(
        self,
        spark: SparkSession,
        inputs: Path,
        state: Path,
        *,
        groups: int,
        options: Mapping[str, Any] | None = None,
        change: Callable[[dict[str, Any]], dict[str, Any]] = dict,
    ) -> StreamingQuery:
        """The query on the checkpoint and sinks below ``state``; ``change`` alters its pipelines."""
        writers = [
            stream.writeStream.queryName(n)
            .format(self.format)
            .option("path", str(state / "sink" / n))
            .clock(self._clock(state))
            for n, stream in self.streams(spark, inputs, change).items()
        ]
        return sw.start(
            writers,
            checkpointLocation=str(state / "checkpoint"),
            trigger={"availableNow": True},
            options={
                "endOfStream": True,
                "partitionGroups": groups,
                "compactRuns": self.runs,
                **(options or {}),
            },
        )

    def streams(
        self,
        spark: SparkSession,
        inputs: Path,
        change: Callable[[dict[str, Any]], dict[str, Any]] = dict,
    ) -> dict[str, Any]:
        """What the query puts out, by name."""
        sources = self.transcript.sources
        frames = {
            n: self._frame(spark, s, inputs) for n, s in sources.items() if n not in self.over
        }
        streams = {n: self._stream(frames[self.over.get(n, n)], s) for n, s in sources.items()}
        pipelines = change(dict(self.text["query"]))
        surface = _Surface(streams, pipelines)
        return {n: surface.named(n) for n in pipelines}

    def resume_locally(
        self,
        spark: SparkSession,
        inputs: Path,
        state: Path,
        *,
        groups: int,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        """As `start`, to the end, and without a job of Spark. The sinks write Parquet."""
        from tests.surface.local import run_locally

        def sink(name: str, fields: tuple[Field, ...]) -> Sink:
            return ParquetSink(name, fields, str(state / "sink" / name))

        run_locally(
            self.streams(spark, inputs), state, clock=self._clock(state), sink=sink, host=_Logged(),
            options={"partitionGroups": groups, "compactRuns": self.runs, **(options or {})},
        )  # fmt: skip

    def _frame(self, spark: SparkSession, source: Source, inputs: Path) -> Any:
        return replay(
            spark,
            [],
            _ddl(source),
            directory=str(inputs / source.name),
            splits=source.name in self.splits,
        )

    def _stream(self, df: Any, source: Source) -> Any:
        return sw.stream(
            df,
            time=source.times[0].name,
            name=source.name,
            progress=source.policies[0],
            late=source.late,
            order=list(source.order) or None,
        )

    def _clock(self, state: Path) -> ManualClock:
        batches = self.transcript.batches
        clock = _Viewer(batches[0].now, self.views, state / "checkpoint")
        clock.script({i: s.now for i, s in enumerate(batches) if s.now is not None})
        return clock

    def found(self, state: Path) -> dict[str, Counter[Any]]:
        """What the sink directories hold, as any reader of parquet sees it."""
        total = {}
        for name, output in self.transcript.outputs.items():
            read = self._read(state / "sink" / name)
            total[name] = Counter(_projected(r, output.columns) for r in read)
        return total

    def _read(self, folder: Path) -> list[dict[str, Any]]:
        if self.format == "json":
            files = [p for p in folder.glob("*.json") if p.name[0] not in "._"]
            return [json.loads(line) for p in files for line in p.read_text().splitlines()]
        return [plain(r) for r in pq.read_table(folder).to_pylist()]

    def compare(self, state: Path, batches: Transcript | None = None) -> tuple[int, int]:
        """How many rows are missing, and how many are there that should not be.

        ``batches``: what Spark made of the files, if not one batch of each (`tests.faults.taken`).
        """
        shown = self.found(state)
        expected = self.expected if batches is None else _totals(batches)
        lost = sum((w - shown[n])[r] for n, w in expected.items() for r in w if self._wanted(n, r))
        twice = sum(sum((shown[n] - w).values()) for n, w in expected.items())
        return lost, twice

    def _wanted(self, output: str, row: Any) -> bool:
        """Whether no view gave a row up."""
        if output != VIEWED or not self.views:
            return True
        key = row[self.transcript.outputs[output].columns.index("k")]
        return all(key in keys for keys in self.views.values())


class _Viewer(ManualClock):
    """A clock whose reader looks at other keys now and then. It is read before a batch takes in what was asked."""

    def __init__(self, micros: int | None, views: Mapping[int, str], checkpoint: Path):
        super().__init__(micros)
        self._views = dict(views)
        self._checkpoint = str(checkpoint)

    def now(self, batch: int) -> int | None:
        if batch in self._views:
            listed = ", ".join(f"'{k}'" for k in self._views.pop(batch))
            sw.attach(self._checkpoint).feedback(
                sw.only(f"k IN ({listed})"), output=VIEWED, name="view", lease="forever"
            )
        return super().now(batch)


def _totals(transcript: Transcript) -> dict[str, Counter[Any]]:
    total: dict[str, Counter[Any]] = {n: Counter() for n in transcript.outputs}
    for seen in oracle(transcript):
        for name, output in transcript.outputs.items():
            total[name].update(_projected(r, output.columns) for r in seen.outputs[name])
    return total


class _Logged(LocalHost):
    """Goes on where Spark stopped: batches that are in Spark's log have the offsets of the log."""

    def offsets(self, location: Path, batch: int) -> list[Any] | None:
        logged = spark_log.offsets(location, batch)
        return super().offsets(location, batch) if logged is None else logged


def _ddl(source: Source) -> str:
    return ", ".join(f"`{f.name}` {f.type}" for f in source.schema)


def rows(
    seed: int, batches: int = BATCHES, count: int = 30, late: bool = True
) -> list[list[list[Any]]]:
    """Batches of rows that advance by 10 s each, out of order, with repeats and rows far too late.

    Without ``late`` a row is at most 19 s older than any before it.
    """
    random_ = random.Random(seed)
    made: list[list[list[Any]]] = []
    number = 0
    for batch in range(batches):
        current = []
        for _ in range(count):
            back = random_.choice([0, 0, 0, 1, 4, 9, 25, 45] if late else [0, 0, 0, 1, 4, 9])
            second = BASE + batch * 10 + random_.random() * 10 - back
            current.append(
                [number, random_.choice("abcdef"), round(second, 3), random_.randrange(100)]
            )
            number += 1
        earlier = [r for b in made[-2:] for r in b] if late else []
        current += random_.sample(earlier, min(6, len(earlier)))  # sent once more
        current += random_.sample(current, 3)
        made.append(current)
    return made


def _script(streams: Mapping[str, list[list[list[Any]]]], tick: int | None = None) -> list[Any]:
    steps: list[dict[str, Any]] = []
    for batch in range(max(len(b) for b in streams.values())):
        steps.append({"rows": {n: b[batch] for n, b in streams.items() if batch < len(b)}})
        if tick is not None:
            steps[-1]["tick"] = tick
    return [*steps, {"end": True}]


def _delay(spec: Any = None) -> dict[str, Any]:
    return {"columns": DDL, "time": "ts", "progress": spec or {"bounded_delay": "10 seconds"}}


def _window(span: str, slide: str | None = None, **agg: str) -> dict[str, Any]:
    window = {"range": span} if slide is None else {"range": span, "slide": slide}
    return {"window": window, "by": ["k"], "agg": agg}


def _join(*, before: str, after: str, **more: Any) -> dict[str, Any]:
    band = {"before": before, "after": after}
    return {"join": ["s", "t"], "keys": ["k"], "band": band, "where": "s_v <= t_v", **more}


def orders(seed: int, batches: int = BATCHES) -> dict[str, list[list[list[Any]]]]:
    """Orders and payments: an order is closed by one stream, then by the other, some batches after its first line.

    Some are never paid, some lines come after their order was closed.
    """
    random_ = random.Random(seed)
    made: dict[str, list[list[list[Any]]]] = {"orders": [], "payments": []}
    for batch in range(batches):
        fresh = range(batch * 10, batch * 10 + 10)
        lines = [
            [o, batch * 100 + random_.randrange(100), random_.randrange(9), None]
            for o in fresh
            for _ in range(2)
        ]
        paid = [
            [o - random_.choice([0, 0, 10, 20]), batch * 100, random_.randrange(99), None]
            for o in fresh
            if o % 3
        ]
        lines += [[random_.randrange(batch * 10 + 1), 5, 1, None]]
        for name, rows_, back in (("orders", lines, 2), ("payments", paid, 3)):
            closed = [o for o in range((batch - back) * 10, (batch - back) * 10 + 10) if o >= 0]
            one_by_one = [[None, None, None, {"order": o}] for o in closed[::2]]
            at_once = [[None, None, None, {"order": ["in", closed[1::2]]}]] if closed else []
            made[name].append([*rows_, *one_by_one, *at_once])
    return made  # fmt: skip


@cache
def scenarios() -> dict[str, Scenario]:
    """All scenarios by name."""
    sliding = {
        "sliding": [{"from": "s"}, _window("20 seconds", "5 seconds", n="count(*)", t="sum(v)")],
        "dedup": [{"from": "s"}, {"dedup": {"subset": ["id", "ts"]}}],
        "late": [{"late": "s"}],
    }
    minute = [{"from": "s"}, _window("10 seconds", n="count(*)", t="sum(v)")]
    made = [
        Scenario(
            "sliding",
            {"name": "sliding", "streams": {"s": _delay()}, "query": sliding,
             "script": _script({"s": rows(1)})},
        ),
        Scenario(
            "tumbling",
            {"name": "tumbling", "streams": {"s": _delay()}, "query": {"tumbling": minute},
             "script": _script({"s": rows(2)})},
            frozenset({"s"}),
            runs=1,
        ),
        Scenario(
            "aggregate of aggregate",
            {"name": "aggregate of aggregate", "streams": {"s": _delay()},
             "query": {
                 "short": minute,
                 "long": [{"from": "short"}, _window("30 seconds", n="sum(n)", most="max(t)")],
             },
             "script": _script({"s": rows(3)})},
            format="json",
            runs=1,
        ),
        Scenario(
            "dedup and sort",
            {"name": "dedup and sort", "streams": {"s": _delay({"bounded_delay": "20 seconds"})},
             "query": {"sorted": [
                 {"from": "s"}, {"dedup": {"subset": ["id", "ts"]}}, {"sort": "ts"},
             ]},
             "script": _script({"s": rows(4)})},
            frozenset({"s"}),
        ),
        Scenario(
            "union, rows and splits",
            {"name": "union", "streams": {"s": _delay(), "t": _delay("max_delay")},
             "query": {
                 "both": [
                     {"union": [[{"from": "s"}], [{"from": "t"}]]},
                     {"where": "v >= 10"},
                     _window("20 seconds", "10 seconds", n="count(*)", low="min(v)"),
                 ],
                 "late": [{"late": "t"}],
             },
             # Not _late_windows: the engine counts by the union's bound, the oracle by the source's own.
             "check": {"late": {"columns": [*DDL, "_late_reason", "_late_by", "_late_bound"]}},
             "script": _script({"s": rows(5), "t": rows(6)})},
            frozenset({"t"}),
        ),
        Scenario(
            # t says nothing after its third batch; idleAfter lets the union go on without it.
            "a silent source",
            {"name": "a silent source", "clock": BASE,
             "streams": {
                 "s": _delay({"bounded_delay": "10 seconds", "idle_after": "25 seconds"}),
                 "t": _delay({"bounded_delay": "10 seconds", "idle_after": "25 seconds"}),
             },
             "query": {"both": [
                 {"union": [[{"from": "s"}], [{"from": "t"}]]},
                 _window("20 seconds", n="count(*)", t="sum(v)"),
             ]},
             "script": _script({"s": rows(7), "t": rows(8, batches=3)}, tick=10)},
        ),
        Scenario(
            # Late rows meet what was kept for others; unmatched rows leave by the other stream's bound.
            "join",
            {"name": "join", "streams": {"s": _delay(), "t": _delay()},
             "query": {
                 "pairs": [_join(before="4 seconds", after="3 seconds", how="full")],
                 "sums": [{"from": "pairs"}, _window("10 seconds", n="count(*)", t="sum(s_v)")],
             },
             "script": _script({"s": rows(9), "t": rows(10)})},
            frozenset({"t"}),
            runs=1,
        ),
        Scenario(
            # Left rows leave with their first partner, or when none can come; some were stored, and some of these marked.
            "semi and anti join",
            {"name": "semi and anti join", "streams": {"s": _delay(), "t": _delay()},
             "query": {
                 "semi": [_join(before="4 seconds", after="3 seconds", how="left_semi")],
                 "anti": [_join(before="2 seconds", after="9 seconds", how="left_anti")],
                 "sums": [{"from": "semi"}, _window("10 seconds", n="count(*)", t="sum(v)")],
             },
             "script": _script({"s": rows(14), "t": rows(15)})},
            frozenset({"s"}),
            runs=1,
        ),
        Scenario(
            # The window is some times the memory, so pairs come from passes and windows wait for them.
            "join in little memory",
            {"name": "join in little memory",
             "streams": {n: _delay({"bounded_delay": "20 seconds"}) for n in ("s", "t")},
             "query": {
                 "pairs": [_join(before="4 seconds", after="9 seconds", how="left", memory=3000)],
                 "sums": [{"from": "pairs"}, _window("10 seconds", n="count(*)", t="sum(t_v)")],
             },
             "script": _script({"s": rows(11, late=False), "t": rows(12, late=False)})},
            frozenset({"s"}),
        ),
        Scenario(
            # Aggregates share panes and sorts share rows, each with the slack of its own stream; once the filters
            # are measured, rows of the slow sorts wait behind them.
            "two slacks",
            {"name": "two slacks",
             "streams": {"s": _delay(), "t": _delay({"bounded_delay": "30 seconds"})},
             "query": {
                 "soon": [{"from": "s"}, _window("20 seconds", "5 seconds", n="count(*)", t="sum(v)")],
                 "exact": [{"from": "t"}, _window("10 seconds", n="count(*)", most="max(v)")],
                 "early": [{"from": "s"}, {"where": "v >= 30"}, {"sort": "ts"}],
                 "late": [{"from": "t"}, {"where": "v < 50"}, {"sort": "ts"}],
                 "few": [{"from": "t"}, {"where": "v < 20"}, {"sort": "ts"}],
             },
             "script": _script({"s": rows(13), "t": rows(13)})},
            frozenset({"s"}),
            over={"t": "s"},
        ),
        Scenario(
            # State is freed by punctuation of the other stream alone, and rewritten when half of it is closed.
            "closed orders",
            {"name": "closed orders",
             "streams": {
                 n: {"columns": {"order": "bigint", "ts": "bigint", "v": "bigint", "done": "pattern"}, "time": "ts",
                     "progress": {"punctuated": "done"}}
                 for n in ("orders", "payments")
             },
             "query": {
                 "bill": [{"join": ["orders", "payments"], "keys": ["order"], "anytime": True, "how": "full"}],
                 "unpaid": [{"join": ["orders", "payments"], "keys": ["order"], "anytime": True, "how": "left_anti"}],
                 "totals": [
                     {"join": [{"as": "o", "from": "orders"}, {"as": "p", "from": "payments"}], "keys": ["order"],
                      "anytime": True},
                     {"by": ["order"], "agg": {"n": "count(*)", "total": "sum(p_v)"}},
                 ],
             },
             "script": _script(orders(16))},
            frozenset({"orders"}),
            runs=1,
        ),
        Scenario(
            # Whether a row is dropped hangs on the newest time and the clock as they were when its batch began.
            "pace",
            {"name": "pace", "clock": BASE, "streams": {"s": _delay(), "r": _delay({"bounded_delay": "90 seconds"})},
             "query": {
                 "live": [{"union": [[{"from": "s"}, {"where": "v < 70"}], "r"]}, {"pace": "12 seconds", "clock": True}],
                 "behind": [{"from": "r"}, {"outpaced": "6 seconds"}],
                 "sums": [{"from": "live"}, _window("10 seconds", n="count(*)", t="sum(v)")],
                 "near": [{"from": "s"}, {"pace": "4 seconds"}, _window("5 seconds", n="count(*)")],
             },
             "script": _script({"s": rows(19), "r": rows(20)}, tick=9)},
            frozenset({"s"}),
            runs=1,
        ),
        Scenario(
            "moving viewport",
            {"name": "moving viewport", "streams": {"s": _delay(), "r": _delay()},
             "query": {
                 VIEWED: [{"union": ["s", "r"]}, {"window": {"range": "20 seconds", "slide": "5 seconds"}, "by": ["k"],
                          "agg": {"n": "count(*)", "t": "sum(v)"}}],
                 "all": [{"from": "s"}, _window("10 seconds", n="count(*)")],
                 "late": [{"late": "s"}],
             },
             "script": _script({"s": rows(17), "r": rows(18)})},
            frozenset({"s"}),
            runs=1,
            views={1: "abcd", 2: "bcd", 4: "bcde", 6: "cdf"},
        ),
    ]  # fmt: skip
    return {s.name: s for s in made}
