"""No name of ours hides a user's where Spark reads the rows: the queries of users, batch by batch in real jobs.

Batches come from a table instead of a streaming source, since Spark's own start takes much longer than a batch.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import slackwater as sw
from slackwater.engine.analysis.analyse import Analyser, struct_of
from slackwater.engine.driver.job import run_job
from slackwater.engine.driver.loop import Loop, Query
from slackwater.engine.driver.passes import Shown, passed
from slackwater.engine.lowlevel.inputs import FrameInput, places, row_fields
from slackwater.engine.plan.layout import build
from slackwater.engine.plan.plan import Output
from slackwater.engine.store.checkpoint import Checkpoint
from slackwater.model.names import SOURCE
from slackwater.sinks.base import Sink
from slackwater.surface.stream import Stream
from slackwater.testing.clock import ManualClock
from slackwater.testing.local.host import LocalHost
from tests.engine.given_names import Given
from tests.engine.in_process import Engine, _Rows
from tests.engine.test_names import draws, rows

pytestmark = pytest.mark.spark


class _SparkJobs(LocalHost):
    """Batches that a test hands over, real jobs."""

    def row_files(self, location: Path, source: int, batch: int) -> list[str]:
        return []

    def run_job(self, *given: Any) -> list[dict[str, Any]]:
        return run_job(*given)


class RowEngine(Engine):
    """As `Engine`, but with a DataFrame's rows and real jobs."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch, spark: Any):
        super().__init__(folder, patch)
        self.host = _SparkJobs()
        self.spark = spark.newSession()  # a job changes settings of the session of its batch

    def run(self, given: Given, nodes: dict[str, Any], table: pa.Table) -> dict[str, Counter[Any]]:
        """All rows in one batch, with which the stream ends."""
        self.checkpoint = Checkpoint(str(self.folder / "ck"))
        self.checkpoint.acquire()
        frame = self.spark.createDataFrame(table.to_pylist(), struct_of(given.fields))
        plan = build([Output(n, s._node) for n, s in nodes.items()], ansi=True, zone="UTC")
        inputs = [FrameInput(frame)]
        plan = passed(plan, Shown(inputs))
        sinks: dict[str, Sink] = {}
        for o in plan.outputs:
            sink = _Rows(o.name, o.node.schema)
            sink.checkpoint, sink.found = self.checkpoint, self.results.setdefault(o.name, {})
            sinks[o.name] = sink
        query = Query(plan, inputs, sinks, 1, 1, ManualClock(None), host=self.host)
        loop = Loop(query, self.checkpoint, "query")
        loop.final = True
        self.batches.append({0: ["rows"]})
        from pyspark.sql import functions as F

        held = zip(row_fields(plan, inputs, 0), places(plan, inputs)[0], strict=True)
        columns = [F.col(_quoted(f.name)).alias(place) for f, place in held]
        loop.run(frame.select(F.lit(0).alias(SOURCE), *columns), 0)
        self.checkpoint.release()
        return {n: Counter(_bare(r) for r in self.rows(n)) for n in self.results}


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _bare(value: Any) -> Any:
    return tuple(map(_bare, value.values())) if isinstance(value, dict) else value


class Texts:
    """A stream of a user, and texts in plain names."""

    def __init__(self, given: Given, spark: Any):
        self.given = given
        self._names = {p: _quoted(n) for p, n in given.names.items()}
        source = given.source(times=("ts", "tb"))
        self.stream = Stream(source, {0: FrameInput(None)}, Analyser(spark), spark)

    def __call__(self, *texts: str) -> list[str]:
        return [t.format_map(self._names) for t in texts]


def reduced(t: Texts) -> dict[str, Stream]:
    """Filters, projections and partial aggregates, all of them in Spark SQL."""
    g = t.given
    kept = t.stream.where(*t("{s}.{x} > 0")).select(
        *t("{ts}", "{p}.{x} AS {k}", "{s}", "{u} AS {p}", "{u}.{y} + {y} AS {v}")
    )
    groups = kept.groupBy(
        *t("{s}.{x} AS {key}", "{k} AS {key2}"), sw.window(8, 4).alias(g.name("w"))
    )
    return {
        "out": groups.agg(*t("sum({p}.{y}) AS {total}", "min({v}) AS {low}", "count(*) AS {n}"))
    }


def evaluated(t: Texts) -> dict[str, Stream]:
    """Expressions that only Spark has: in filters, projections, groups, arguments, keys, and over results."""
    g = t.given
    kept = t.stream.where(*t("hash({s}.{x}) % 3 <> 0"))
    window = sw.window(8, 4).alias(g.name("w"))
    groups = kept.groupBy(*t("hash({p}.{x}) % 3 AS {key}", "{s}.{x} AS {key2}"), window)
    counted = groups.agg(*t("sum(hash({u}.{y}) % 100) AS {total}", "count({s}.{y}) AS {n}"))
    left = t.stream.select(*t("{ts}", "hash({s}.{x}) AS {k}", "{s}", "{extra0}", "{extra1}"))
    right = t.stream.select(*t("{tb}", "hash({p}.{x}) AS {k}", "{p}", "{extra0}", "{extra1}"))
    pairs = left.alias(g.name("left")).join(
        right.alias(g.name("right")), on=g.name("k"), within=sw.band(before=2, after=1),
        where=t("{s}.{y} < {p}.{y}")[0],
    )  # fmt: skip
    return {
        "counted": counted,
        "shown": counted.where(*t("hash({key2}) % 2 = 0 OR {w}.end > 3")).select(
            *t("{w}", "hash({total}) AS {v}", "{key}", "{key2} + {n} AS {k}")
        ),
        "pairs": pairs,
        "sorted": kept.sort(),
        "distinct": kept.dropDuplicates([g.name(c) for c in ("ts", "k", "s")]),
    }


QUERIES = {"reduced": reduced, "evaluated": evaluated}
PLAIN_RESULTS: dict[str, dict[str, Counter[Any]]] = {}


DRAWS = list(draws(20))
USUAL = {"reduced": 6, "evaluated": 2}
"""So many draws of each in every run of the tests, the others with the faults. Six have used all names of relations and of
columns of ours.
"""
RUNS = [
    pytest.param(q, d, marks=[pytest.mark.faults] if d >= USUAL[q] else [])
    for q in QUERIES
    for d in range(len(DRAWS) if q == "reduced" else 10)
]


@pytest.mark.parametrize(("query", "draw"), RUNS)
def test_other_names_give_the_same_rows_of_a_dataframe(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, query: str, draw: int
) -> None:
    def found(name: str, given: Given) -> dict[str, Counter[Any]]:
        (tmp_path / name).mkdir()
        engine = RowEngine(tmp_path / name, monkeypatch, spark)
        table = given.table([r for batch in rows() for r in batch])
        return engine.run(given, QUERIES[query](Texts(given, spark)), table)

    if query not in PLAIN_RESULTS:
        PLAIN_RESULTS[query] = found("plain", Given())
        assert all(PLAIN_RESULTS[query].values())
    got = found("given", Given(DRAWS[draw]))
    for name, want in PLAIN_RESULTS[query].items():
        assert got[name] == want, name
