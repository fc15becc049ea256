"""What a task sends on: results larger than memory, and times that are made of several."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slackwater.engine.paths import delivery, wire
from slackwater.engine.paths.batch import Batch, Staging
from slackwater.engine.paths.delivery import Delivery
from slackwater.engine.paths.steps import ticks_sql
from slackwater.engine.plan.layout import build
from slackwater.engine.plan.plan import Output
from slackwater.kernels.column_engine import connect, sql_to_arrow
from slackwater.model.node import Source
from slackwater.model.policy import BoundedDelay
from slackwater.model.schema import Field
from slackwater.model.time import TimeColumn

TIME = TimeColumn("ts", "long", None)


def test_a_blob_of_an_unknown_kind_is_no_table() -> None:
    table = pa.table({"v": [1]})
    (blob,) = wire.pack(7, table)
    assert wire.unpack(blob) == (7, table)
    assert wire.unpack(wire.pack_control("group", 3)) == ("group", 3)
    with pytest.raises(ValueError, match="starts with b'B': no table"):
        wire.unpack(b"B" + blob[1:])


def test_results_beyond_the_limit_are_written_at_once_and_none_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    source = Source((Field("ts", "bigint"),), (TIME,), "s", 0, (BoundedDelay(0),))
    plan = build([Output("out", source)], ansi=True, zone="UTC")
    staging = {"out": Staging(str(tmp_path), ())}
    batch = Batch(plan, 0, 1, 1, None, frozenset(), False, {}, {}, {}, "", staging)
    monkeypatch.setattr(delivery, "MAX_PENDING_BYTES", 100)  # 12 numbers
    task = Delivery(batch, "t")
    for start in range(0, 50, 5):
        task.keep_output("out", pa.table({"ts": range(start, start + 5)}))
    written = len(task.files["out"])
    task.finish()
    files = task.files["out"]
    assert written == 3 and len(files) == 4  # three tables each, and the last one
    found = [v for f in files for v in pq.read_table(tmp_path / f.name)["ts"].to_pylist()]
    assert found == list(range(50)) and sum(f.rows for f in files) == 50


@pytest.mark.parametrize(
    ("kind", "expected"), [("greatest", [3, 4, 7, 8]), ("least", [1, 2, 7, 8])]
)
def test_a_time_of_several_takes_all_parts_and_leaves_nulls_out(kind, expected):
    parts = (TimeColumn("a", "long", None), TimeColumn("b", "long", None))
    time = TimeColumn("t", kind, None, True, parts)
    rows = pa.table({"a": [1, 4, 7, None], "b": [3, 2, None, 8]})
    found = sql_to_arrow(connect(), f"SELECT {ticks_sql(time)} AS t FROM rows", {"rows": rows})
    assert found["t"].to_pylist() == expected
