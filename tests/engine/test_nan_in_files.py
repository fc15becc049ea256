"""NaN in Parquet files: footers do not tell of it, and a filter on a scan must see it all the same."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slackwater.engine.driver.passes import Written, passed
from slackwater.engine.plan.layout import build
from slackwater.engine.plan.plan import Output
from slackwater.model.node import Filter, Source
from slackwater.model.policy import BoundedDelay
from slackwater.model.schema import Expr, Field
from slackwater.model.time import TimeColumn
from slackwater.testing.local.run import LocalInput, LocalRun
from slackwater.testing.transcripts.query import aggregate

NAN = float("nan")
VALUES = [1.0, NAN, 3.0, None, 0.5, NAN]
"""Spark's order: NaN is greater than all, and equal to itself."""


@pytest.mark.parametrize("kind", ["double", "float"])
@pytest.mark.parametrize(
    ("condition", "passing"),
    [
        ("v > 5", [1, 5]),
        ("v >= 3", [1, 2, 5]),
        ("v <= 5", [0, 2, 4]),
        ("NOT (v <= 5)", [1, 5]),
        ("v = CAST('NaN' AS {kind})", [1, 5]),
        ("v + 0 > 5 OR v < 0.7", [1, 4, 5]),
        ("w.x > 5", [1, 5]),
    ],
)
def test_a_filter_sees_what_no_footer_tells_of(
    kind: str, condition: str, passing: list[int], tmp_path: Path
) -> None:
    arrow = pa.float64() if kind == "double" else pa.float32()
    fields = (
        Field("i", "bigint"), Field("ts", "bigint"), Field("v", kind), Field("w", f"struct<x:{kind}>")
    )  # fmt: skip
    table = pa.table(
        {
            "i": pa.array(range(6), pa.int64()),
            "ts": pa.array([0] * 6, pa.int64()),
            "v": pa.array(VALUES, arrow),
            "w": pa.array([{"x": v} for v in VALUES], pa.struct([("x", arrow)])),
        }
    )
    stream = Source(
        fields, (TimeColumn("ts", "long", None),), "s", policies=(BoundedDelay(delay=0),)
    )
    text = condition.format(kind=kind)
    kept = Filter(fields, stream.times, stream, Expr(text, "boolean", text))
    rows = {"window": {"range": 1, "slide": 1}, "by": ["i"], "agg": {"n": "count(*)"}}
    plan = passed(build([Output("out", aggregate(kept, rows))], ansi=True, zone="UTC"), Written())
    seen = []
    for splits in (True, False):
        run = LocalRun(tmp_path / str(splits), plan, [LocalInput(fields, splits)])
        run.give({0: table})
        for path in sorted(Path(run.inputs[0].path).glob("*.parquet")):
            pq.write_table(table, path, row_group_size=3)
            footer = pq.read_metadata(path).row_group(0).column(2).statistics
            assert footer.max == 3.0, "the footer leaves NaN out"
        run.start()
        run.step()
        run.step(final=True)
        run.stop()
        seen.append(sorted(r["i"] for t in run.published["out"].values() for r in t.to_pylist()))
    assert seen == [passing, passing]
