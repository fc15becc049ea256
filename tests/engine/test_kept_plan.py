"""Spark's plan of the partial aggregation is made once: later batches bring their own rows and bounds."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

import slackwater as sw
from slackwater.engine.lowlevel import map_side
from tests.surface.helpers import write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SCHEMA = "k bigint, v bigint, t bigint"
BATCHES = 5


def made(frame: Any, name: str, late: Any) -> sw.Stream:
    stream = sw.stream(frame, time="t", name=name, progress=sw.BoundedDelay(7), late=late)
    # The greatest number is one that people write: it must not be taken for a bound.
    sums = stream.where("v <> 3 AND v < 9223372036854775807").groupBy("k", sw.window(10, 5))
    return sums.agg(F.sum("v").alias("total"), F.count("*").alias("n"))


@pytest.mark.parametrize("late", ["admit", "drop"])
def test_each_batch_is_judged_by_its_own_bound(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, late: str
) -> None:
    """Ticks are small numbers here, which the JVM must take for long ones; files are read as rows and as splits."""
    rng = random.Random(late)
    for batch in range(BATCHES):
        times = [10 * batch + rng.randint(-15, 12) for _ in range(200)]
        columns = {
            "k": [rng.randint(0, 3) for _ in times],
            "v": [rng.choice([None, rng.randint(-(1 << 50), 1 << 50), 3]) for _ in times],
            "t": [rng.choice([*[t] * 20, None]) for t in times],
        }
        typed = {c: pa.array(values, pa.int64()) for c, values in columns.items()}
        write(tmp_path / "in", f"{batch}.parquet", typed)
    planned: list[str] = []
    shape = map_side._shape
    monkeypatch.setattr(map_side, "_known", {})
    monkeypatch.setattr(map_side, "_shape", lambda *given: planned.append("") or shape(*given))
    found = {}
    for name in ("rows", "splits"):
        reader: Any = spark.readStream if name == "rows" else sw.readStream(spark)
        frame = reader.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "in"))
        query = (
            made(frame, name, late)
            .writeStream.format("parquet")
            .option("path", str(tmp_path / name))
            .option("checkpointLocation", str(tmp_path / f"checkpoint {name}"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        results = spark.read.parquet(str(tmp_path / name)).drop("window").collect()
        streams = [r["streams"][name] for r in query.recentProgress]
        counts = [(s["numInputRows"], s["late"]["t"], s["nullTime"]["t"]) for s in streams]
        found[name] = Counter(map(tuple, results)), counts
    assert found["rows"] == found["splits"]
    rows, counts = found["rows"]
    assert len(rows) > 20 and len(counts) >= BATCHES
    assert len({late_rows for _, late_rows, _ in counts}) > 2
    assert len(planned) == 1
    (known,) = map_side._known.values()
    assert known.kept is not None
