"""Every text in ``docs/sql.md`` runs."""

from __future__ import annotations

import re
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import slackwater as sw
from tests.surface.helpers import at, write
from tests.surface.local import is_local, run_locally
from tests.surface.sql.fixtures import statements

pytestmark = pytest.mark.spark

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "sql.md"
TEXTS = re.findall(r"```sql\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
QUERIES = [t for block in TEXTS[1:] for t in statements(block)]


ROWS = [
    ("a" if i % 3 else "b", "b" if i % 2 else "a", 50 * i, at(2 * i - (40 if i % 9 == 8 else 0)), i) for i in range(100)
]  # fmt: skip
"""Some of them late."""


@pytest.fixture(scope="module")
def documented(spark: Any) -> dict[str, Any]:
    def stream(name: str, more: str = "", **options: Any) -> Any:
        schema = f"srcIP string, destIP string, len int, ts timestamp{more}"
        batches = [[r if more else r[:-1] for r in ROWS[i : i + 50]] for i in (0, 50)]
        policy = sw.BoundedDelay("10 seconds")
        return sw.stream(sw.replay(spark, batches, schema), time="ts", name=name, progress=policy, **options)  # fmt: skip

    return {
        "packets": stream("packets"), "replies": stream("replies"),
        "arrivals": stream("arrivals", ", n bigint", order="n"),
    }  # fmt: skip


def test_the_queries_of_the_document_run(documented: dict[str, Any], tmp_path: Path):
    assert len(QUERIES) > 15
    made = {f"q{i}": sw.sql(text, streams=documented) for i, text in enumerate(QUERIES)}
    assert all(is_local(stream) for stream in made.values())
    done = run_locally(made, tmp_path)
    for name, text in zip(made, QUERIES, strict=True):
        assert done.rows(name), text


def test_the_script_of_the_document_runs(spark: Any, tmp_path: Path):
    columns = {
        "srcIP": ["a", "b"] * 20, "len": pa.array(range(40), pa.int32()), "router": ["main1", "main2"] * 20,
        "ts": pa.array([at(i // 2) for i in range(40)], pa.timestamp("us", "UTC")),
    }  # fmt: skip
    write(tmp_path / "packets", "a.parquet", columns)
    script = sw.script(spark, TEXTS[0], variables={"work": tmp_path})
    assert list(script.outputs) == ["talkers", "late"] and script.check().ok
    query = script.start()
    rows: list[dict[str, Any]] = []
    until = monotonic() + 120
    try:
        # Idle partitions let the bound follow the clock, so that the query always has something to do.
        while not rows and query.isActive and monotonic() < until:
            sleep(0.1)
            rows = (
                pq.read_table(tmp_path / "talkers").to_pylist()
                if (tmp_path / "talkers").exists()
                else []
            )
    finally:
        query.finish()
    assert query.exception() is None
    assert {r["srcIP"] for r in rows} == {"a", "b"} and max(r["packets"] for r in rows) == 10
