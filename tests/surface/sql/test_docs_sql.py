"""Every text in ``docs/sql.md`` is analysed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import slackwater as sw
from tests.surface.sql.fixtures import statements

pytestmark = pytest.mark.spark

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "sql.md"
TEXTS = re.findall(r"```sql\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
QUERIES = [t for block in TEXTS[1:] for t in statements(block)]


@pytest.fixture(scope="module")
def documented(spark: Any) -> dict[str, Any]:
    def stream(name: str, more: str = "", **options: Any) -> Any:
        schema = f"srcIP string, destIP string, len int, ts timestamp{more}"
        return sw.stream(sw.replay(spark, [], schema), time="ts", name=name, **options)

    return {
        "packets": stream("packets"), "replies": stream("replies"),
        "arrivals": stream("arrivals", ", n bigint", order="n"),
    }  # fmt: skip


@pytest.mark.parametrize("text", QUERIES, ids=lambda t: t[:50])
def test_a_query_of_the_document_is_analysed(text: str, documented: dict[str, Any]):
    assert sw.sql(text, streams=documented).columns


def test_the_script_of_the_document_is_checked(spark: Any, tmp_path: Path):
    (tmp_path / "packets").mkdir()
    script = sw.script(spark, TEXTS[0], variables={"work": tmp_path})
    assert list(script.outputs) == ["talkers", "late"] and script.check().ok


def test_there_are_examples():
    assert len(QUERIES) > 12
