"""Run streams in tests, and compare what comes out."""

from __future__ import annotations

import datetime as dt
import itertools
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import slackwater as sw
from slackwater.surface.stream import Stream
from tests.progress_schema import check_progress

UTC = dt.timezone.utc
START = dt.datetime(2026, 1, 1, tzinfo=UTC)
_written = itertools.count(1_700_000_000)


def at(second: float) -> dt.datetime:
    """A time so many seconds after the tests' beginning of time."""
    return START + dt.timedelta(seconds=second)


def seconds(time: dt.datetime) -> float:
    """The inverse of `at`; naive times are UTC."""
    time = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
    return (time - START).total_seconds()


QUICK = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


@contextmanager
def small_tables(spark: Any) -> Iterator[None]:
    """Spark's own answers over a few rows: to share them out, to plan anew on the way and to compile costs more than to compute."""
    before = {name: spark.conf.get(name) for name in QUICK}
    for name, value in QUICK.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


class Run:
    """What one run of a query put out: rows of each output by batch, and the progress records."""

    def __init__(self) -> None:
        self.batches: dict[str, dict[int, list[dict[str, Any]]]] = {}
        self.records: list[dict[str, Any]] = []
        self.query: Any = None

    def rows(self, name: str = "output") -> list[dict[str, Any]]:
        found = self.batches[name]
        return [row for batch in sorted(found) for row in found[batch]]

    @property
    def last(self) -> dict[str, Any]:
        return self.records[-1]


def run(
    streams: Stream | Mapping[str, Stream],
    checkpoint: Path | str,
    *,
    end: bool = True,
    clock: Any = None,
    options: Mapping[str, Any] | None = None,
    feedback: Mapping[str, Any] | None = None,
) -> Run:
    """Run on the available input until it is read; every progress record is checked."""
    named = {"output": streams} if isinstance(streams, Stream) else dict(streams)
    done = Run()
    writers = []
    for name, stream in named.items():
        writer = stream.writeStream.queryName(name)._foreach_table(_take(done, name))
        writers.append(writer if clock is None else writer.clock(clock))
    done.query = sw.start(
        writers,
        checkpointLocation=str(checkpoint),
        trigger={"availableNow": True},
        options={"endOfStream": end, **(options or {})},
        feedback=feedback,
    )
    try:
        done.query.awaitTermination()
    finally:
        done.records = done.query.recentProgress
        for record in done.records:
            check_progress(record)
    return done


def _take(done: Run, name: str) -> Callable[[Any, int], None]:
    done.batches[name] = {}

    def take(table: pa.Table, batch: int) -> None:
        done.batches[name][batch] = table.to_pylist()

    return take


def canonical(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> list[tuple[Any, ...]]:
    """Rows as sorted tuples of the columns, floats cut to 12 digits."""
    return sorted((tuple(_value(r[c]) for c in columns) for r in rows), key=repr)


def _value(value: Any) -> Any:
    if isinstance(value, float):
        if math.isnan(value):
            return "NaN"
        return float(f"{value:.11e}") + 0.0
    if isinstance(value, dict):
        return tuple(_value(v) for v in value.values())
    return value


def write(folder: Path, name: str, columns: Mapping[str, Any], **options: Any) -> Path:
    """A parquet file; columns are Arrow arrays or plain lists. Spark takes files in the order of these calls."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    hidden = path.parent / f".{path.name}"
    pq.write_table(pa.table(dict(columns)), hidden, **options)
    # Files of one millisecond would come in any order.
    os.utime(hidden, (next(_written),) * 2)
    hidden.rename(path)
    return path


def times(*second: float | None) -> pa.Array:
    """A timestamp column."""
    values = [None if s is None else at(s) for s in second]
    return pa.array(values, pa.timestamp("us", "UTC"))


def feed(folder: Path, batches: Sequence[Any], first: int, end: int) -> None:
    """Batches [first, end) of (k, ts, v) rows as files that Spark takes in this order."""
    for i in range(first, end):
        k, ts, v = zip(*batches[i], strict=True)
        write(
            folder, f"{i:04d}.parquet",
            {"k": list(k), "ts": pa.array(ts, pa.timestamp("us", "UTC")), "v": list(v)},
        )  # fmt: skip


def refused(
    call: Callable[[], Any],
    condition: str,
    *names: str,
    kind: type[sw.SlackwaterError] = sw.AnalysisError,
) -> sw.SlackwaterError:
    """The error of a call: its kind, condition, the names it must speak of, and that it has a hint."""
    with pytest.raises(sw.SlackwaterError) as caught:
        call()
    error = caught.value
    assert type(error) is kind, repr(error)
    assert error.condition == condition, repr(error)
    for name in names:
        assert name in str(error), f"{name!r} is not named in: {error}"
    assert error.hint, str(error)
    return error
