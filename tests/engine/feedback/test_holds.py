"""What must hold under guards as it does without: who stops at a late row sees it, and what is skipped is not touched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slackwater.errors import SlackwaterError
from tests.engine.feedback.viewport import Viewed, plan_of, source, view


def table(times: list[int], segments: list[int]) -> pa.Table:
    columns = {"segment": segments, "ts": times, "v": [7] * len(times)}
    return pa.table({n: pa.array(v, pa.int64()) for n, v in columns.items()})


@pytest.mark.parametrize(
    ("splits", "outputs"), [(False, False), (True, False), (True, True)], ids=["rows", "scan", "late"]
)  # fmt: skip
@pytest.mark.parametrize("group", [1, None])
def test_a_late_row_that_nobody_needs_stops_a_query_that_stops_at_late_rows(
    splits: bool, outputs: bool, group: int | None, tmp_path: Path
) -> None:
    """The error shows the row whole."""
    plan = plan_of(source(late="raise"), late=outputs)
    run = Viewed(tmp_path, plan, splits=splits, group=group)
    run.give([table([10, 20], [1, 5]), table([21, 2, 22], [5, 1, 1])])
    run.run.start()
    run.run.send(view(plan, 5, 5))
    done = run.step()
    assert done.progress["feedback"]["places"]["cars"]["rowsDropped"] == 1, "a guard is there"
    with pytest.raises(SlackwaterError) as caught:
        run.step()
    assert caught.value.condition == "LATE_ROW"
    for shown in ("'segment': '1'", "'ts': '2'", "'v': '7'"):
        assert shown in str(caught.value)
    run.run.stop()


def damaged(path: Path, wanted: set[int]) -> int:
    """Overwrite the pages of all row groups that hold none of the segments that are ``wanted``; how many."""
    footer = pq.read_metadata(path)
    data, count = bytearray(path.read_bytes()), 0
    for i in range(footer.num_row_groups):
        group = footer.row_group(i)
        held = group.column(0).statistics
        if held.max < min(wanted) or held.min > max(wanted):
            count += 1
            for c in range(group.num_columns):
                column = group.column(c)
                begin = column.dictionary_page_offset or column.data_page_offset
                end = begin + column.total_compressed_size
                data[begin:end] = b"\xff" * (end - begin)
    path.write_bytes(bytes(data))
    return count


@pytest.mark.parametrize("late", [False, True], ids=["fused", "rows"])
def test_pages_of_row_groups_that_are_skipped_are_never_touched(late: bool, tmp_path: Path) -> None:
    """They are no pages at all: a query without the feedback fails at them, and one with it does not notice."""
    plan = plan_of(late=late)
    tables = [table([10 * n + i for i in range(10)], list(range(10))) for n in range(4)]

    def played(folder: Path, feedback: bool) -> list[dict[str, Any]]:
        run = Viewed(folder, plan, splits=True, group=1)
        run.give(tables)
        for path in Path(run.run.inputs[0].path).glob("*.parquet"):
            assert damaged(path, {4, 5}) == 8
        run.run.start()
        if feedback:
            run.run.send(view(plan, 4, 5))
        try:
            run.all()
        finally:
            run.run.stop()
        assert [m.progress["streams"]["cars"]["numInputRows"] for m in run.manifests[:4]] == [
            10
        ] * 4
        return run.rows()

    with pytest.raises(Exception, match=r"(?i)parquet|page|decompress|snappy|thrift|invalid"):
        played(tmp_path / "whole", False)
    rows = played(tmp_path / "part", True)
    assert {r["segment"] for r in rows} == {4, 5}
    assert sum(r["n"] for r in rows) == 2 * 2 * 4, "each row is in two windows"
