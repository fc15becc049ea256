"""What semi and anti joins keep: left rows that wait, right rows that a left row may still meet."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from slackwater.engine.operators.join import JoinProgram
from slackwater.engine.operators.program import Program
from slackwater.testing.executors.kernel_join import KernelJoin
from slackwater.testing.executors.kernel_tables import PLACE
from slackwater.testing.transcripts.script import parse

KINDS = ("left_semi", "left_anti")


def join_of(how: str, **more: Any) -> KernelJoin:
    stream = {"columns": {"k": "string", "ts": "bigint", "v": "bigint"}, "time": "ts"}
    step = {"join": ["a", "b"], "keys": ["k"], "band": {"before": 5, "after": 5}, "how": how, **more}  # fmt: skip
    text = {"name": "state", "streams": {"a": stream, "b": stream}, "query": [step], "script": []}
    return KernelJoin(parse(text).outputs["out"].node)  # type: ignore[arg-type]


def table(*rows: tuple[str | None, int, int]) -> pa.Table:
    keys, times, values = zip(*rows, strict=True) if rows else ((), (), ())
    return pa.table(
        {
            "k": pa.array(keys, pa.string()),
            "ts": pa.array(times, pa.int64()),
            "v": pa.array(values, pa.int64()),
            PLACE: pa.array(range(len(rows)), pa.int64()),
        }
    )


def stored(join: KernelJoin, part: str) -> int:
    return sum(r.rows for r in join._machine.runs if r.part == part)


def fill(join: KernelJoin) -> list[int]:
    """60 left rows that wait, then a partner for each, in six batches; how many left rows are stored after each."""
    nothing, open_ = table(), (0, 0)
    assert join.step([table(*((str(i), 10, i) for i in range(60))), nothing], open_, open_, 0).num_rows == 0  # fmt: skip
    kept = []
    for part in range(6):
        rows = [(str(i), 11, i) for i in range(part * 10, part * 10 + 10)]
        # A new left row in each batch, so that there are runs to merge.
        found = join.step([table((f"new {part}", 12, 0)), table(*rows)], open_, open_, 0)
        assert found.num_rows == (10 if join.node.how == "left_semi" else 0)
        kept.append(stored(join, "0"))
    return kept


@pytest.mark.parametrize("how", KINDS)
def test_left_rows_that_have_met_a_partner_are_merged_away(how: str) -> None:
    join = join_of(how)
    kept = fill(join)
    assert kept[-1] < 40, "most of the 66 have met a partner"
    assert stored(join, "1") == 60, "a left row may still come"
    # What is left is right: the other rows have not met any.
    found = join.step([table(), table()], (0, 0), (100, 100), 0)
    assert found.num_rows == (6 if how == "left_anti" else 0)
    assert join._machine.rows == 0


def test_without_that_rule_they_are_kept_until_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(JoinProgram, "compact", Program.compact)
    assert fill(join_of("left_semi"))[-1] == 66


@pytest.mark.parametrize("how", KINDS)
def test_a_left_row_that_meets_a_partner_on_arrival_is_not_stored(how: str) -> None:
    join = join_of(how)
    found = join.step([table(("x", 10, 1), ("y", 10, 2), (None, 10, 3)), table(("x", 12, 1))], (0, 0), (0, 0), 0)  # fmt: skip
    assert found["k"].to_pylist() == (["x"] if how == "left_semi" else [None])
    assert (stored(join, "0"), stored(join, "1"), stored(join, "0m")) == (1, 1, 0)
    # Rows below their side's need are not stored: b is past all partners of the left row, a of the right one.
    join.step([table(("z", 10, 1)), table(("z", 30, 1))], (0, 0), (40, 40), 0)
    assert join._machine.rows == 0


def test_only_columns_that_are_needed_are_stored() -> None:
    # A transcript's condition counts as reading all columns; what users write is taken apart (`test_existence_joins`).
    plain, asked = join_of("left_semi"), join_of("left_semi", where="a_v < b_v")
    for join, more in ((plain, set()), (asked, {"v"})):
        join.step([table(("x", 10, 1)), table(("y", 10, 1))], (0, 0), (0, 0), 0)
        names = {r.part: set(join._machine.tables[r.name].column_names) for r in join._machine.runs}
        assert names["0"] == {"k", "v", "__sw_time", "__sw_bucket", "__sw_row"}
        assert names["1"] == {"__sw_k0", "__sw_time", "__sw_bucket"} | more
