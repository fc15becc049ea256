"""What footers of files tell of times spares the scan questions, and changes no answer."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slackwater.engine.lowlevel import fused_scan as module
from slackwater.engine.lowlevel.fused import Dialect, _verdict
from slackwater.engine.lowlevel.splits import Split
from slackwater.engine.lowlevel.time_ranges import TimeRange, time_ranges
from slackwater.engine.plan.layout import build
from slackwater.engine.plan.plan import Output
from slackwater.kernels.column_engine import connect, sql_to_arrow
from slackwater.model.aggregate import Primitive
from slackwater.model.node import Aggregate, Source
from slackwater.model.policy import BoundedDelay
from slackwater.model.schema import Field, Named, column
from slackwater.model.time import TimeColumn
from slackwater.model.window import TimeWindow
from slackwater.semantics.limits import EARLIEST, LATEST
from tests.engine.in_process import Make, run_whole

TIME = TimeColumn("ts", "long", None)
FIELDS = (Field("k", "bigint"), Field("ts", "bigint"), Field("v", "bigint"))


def written(path: Path, times: list[int | None], **options: Any) -> Path:
    kind = options.pop("kind", pa.int64())
    pq.write_table(pa.table({"ts": pa.array(times, kind)}), path, **options)
    return path


def test_a_range_is_that_of_the_row_groups_that_are_read(tmp_path: Path) -> None:
    one = str(written(tmp_path / "1.parquet", [5, -7, 3, 40, 41, 9], row_group_size=3))
    two = str(written(tmp_path / "2.parquet", [100]))
    assert time_ranges([TIME], FIELDS, [Split(one)]) == [TimeRange(-7, 41)]
    assert time_ranges([TIME], FIELDS, [Split(one, 0, 3)]) == [TimeRange(-7, 5)]
    assert time_ranges([TIME], FIELDS, [Split(one, 3, 6), Split(two)]) == [TimeRange(9, 100)]


def test_where_footers_do_not_tell_nothing_is_known(tmp_path: Path) -> None:
    whole = written(tmp_path / "whole.parquet", [1, 2])
    for name, options in {
        "null": {"times": [1, None]},
        "silent": {"times": [1, 2], "write_statistics": False},
        "narrow": {"times": [1, 2], "kind": pa.int32()},
        "empty": {"times": []},
    }.items():
        path = written(tmp_path / f"{name}.parquet", **options)
        splits = [Split(str(path))]
        assert time_ranges([TIME], FIELDS, splits) == [None], name
        if name != "empty":
            assert time_ranges([TIME], FIELDS, [Split(str(whole)), *splits]) == [None], name
    other = TimeColumn("absent", "long", None)
    assert time_ranges([other], FIELDS, [Split(str(whole))]) == [None]


def test_a_field_of_a_struct_is_not_taken_for_a_column(tmp_path: Path) -> None:
    inner = pa.array([{"ts": 1}, {"ts": 2}])
    rows = {"s": inner, "l": pa.array([[{"ts": 3}], []]), "ts": [7, 8], "s.ts": [5, 6]}
    pq.write_table(pa.table(rows), tmp_path / "1.parquet")
    splits = [Split(str(tmp_path / "1.parquet"))]
    dotted = TimeColumn("s.ts", "long", None)
    fields = (*FIELDS, Field("s.ts", "bigint"))
    assert time_ranges([TIME, dotted], fields, splits) == [TimeRange(7, 8), None]


@pytest.mark.parametrize("seed", range(30))
def test_a_verdict_is_the_same_with_and_without_a_range(seed: int) -> None:
    rng = random.Random(seed)
    bound, limit = sorted(rng.sample(range(20), 2))
    times = [rng.randrange(rng.randrange(20), 20) for _ in range(rng.randrange(1, 5))]
    known = TimeRange(min(times), max(times))
    sql = _verdict(Dialect(duck=True), [bound, limit], 0, 1, known, decides=False)
    rows = pa.table({"__sw_t0": pa.array(times, pa.int64())})
    found = sql_to_arrow(connect(), f"SELECT __sw_t0 AS t, CAST({sql} AS INTEGER) AS v FROM rows", {"rows": rows})  # fmt: skip
    wanted = sorted((t, 1 if t < bound else 2 if t > limit else 0) for t in times)
    assert sorted((r["t"], r["v"]) for r in found.to_pylist()) == wanted


def result(late: str, origin: int) -> Any:
    source = Source(FIELDS, (TIME,), "s", 0, (BoundedDelay(5),), late=late)
    made = (
        Primitive("_a0", "sum", (column("v", "bigint"),), "bigint"),
        Primitive("_a1", "count", (), "bigint"),
    )
    outputs = tuple(Named(p.name[1:], column(p.column, p.type)) for p in made)
    fields = (FIELDS[0], Field("wid", "bigint"), Field("window", "struct<start:bigint,end:bigint>"))
    node = Aggregate(
        (*fields, *(Field(o.name, o.expr.type) for o in outputs)), (TimeColumn("window", "window", None, True),),
        source, (Named("k", column("k", "bigint")),), TimeWindow(20, 10, origin, "ts"), made, outputs,
    )  # fmt: skip
    return build([Output("out", node)], ansi=True, zone="UTC")


@pytest.mark.parametrize("late", ["admit", "drop"])
@pytest.mark.parametrize("origin", [0, 13])
def test_results_and_counts_are_those_of_a_scan_that_asks_every_row(
    engine: Make, monkeypatch: pytest.MonkeyPatch, late: str, origin: int
) -> None:
    rng = random.Random(origin)
    batches = []
    for b in range(12):
        # Before, around and after the origin; some batches have a late row, some a null or a time beyond all limits.
        times: list[int | None] = [rng.randrange(10 * b - 40, 10 * b - 28) for _ in range(20)]
        times += [10 * b - 70] if b % 2 else []
        times += [[None, EARLIEST - 1, LATEST + 1][b // 4]] if b % 4 == 3 else []
        rows = {"k": [rng.randrange(3) for _ in times], "ts": times, "v": [rng.randrange(9) for _ in times]}  # fmt: skip
        batches.append([pa.table(rows, pa.schema([(f.name, pa.int64()) for f in FIELDS]))])
    asked: list[Any] = []
    real = module.time_ranges

    def seen(*args: Any) -> Any:
        asked.extend(real(*args))
        return real(*args)

    monkeypatch.setattr(module, "time_ranges", seen)
    plan = result(late, origin)
    quick = run_whole(engine, plan, batches)
    assert sum(r is not None for r in asked) > 6 and None in asked
    monkeypatch.setattr(module, "time_ranges", lambda times, *_: [None] * len(times))
    plain = run_whole(engine, plan, batches)
    assert quick.results == plain.results and len(quick.rows("out")) > 20
    for a, b in zip(quick.records, plain.records, strict=True):
        assert a["streams"] == b["streams"]
    last = quick.records[-1]["streams"]["s"]
    assert last["totalLate"]["ts"] > 2 and last["totalRows"] == sum(t.num_rows for b in batches for t in b)  # fmt: skip
