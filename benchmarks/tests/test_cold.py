"""The page's part on new processes, and the data of the wide cases."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq

from benchmarks import cold
from benchmarks.cases import NATIVE, ROWS
from benchmarks.datagen import Data, ddl, prepare


def measured() -> dict[str, object]:
    def runs(*seconds: float) -> list[list[dict[str, object]]]:
        return [
            [{"seconds": s, "parts": {"spark": s}, "stages": [s]} for _ in range(5)]
            for s in seconds
        ]

    case = {
        "name": "narrow",
        "commit": "abc",
        "bars": {ROWS: {"3-5": 1.1}},
        "contenders": {NATIVE: runs(2.0, 4.0), ROWS: runs(1.0, 4.0)},
        "cores_of_others": {NATIVE: [0.0, 0.3], ROWS: [0.1, 0.0]},
    }
    machine = {"date": "today", "machine": {"cores": 2}, "settings": {"heap": "4g"}}
    return {**machine, "cases": [case]}


def test_the_ratio_is_that_of_the_spans_batches() -> None:
    (line,) = cold.table(measured()["cases"])[1]  # type: ignore[arg-type]
    assert line[0] == "narrow, row source, 3-5"
    assert line[1:] == ["3.00", "2.50", "1.20x", "1.00 to 2.00", "1.1x", "met", "abc", "0.3"]


def test_the_section_is_put_in_front_of_the_joins_and_replaced() -> None:
    page = "# Page\n\nwindows\n\n<!-- bench-joins -->\n\njoins\n"
    once = cold.with_section(page, "new")
    assert once.index("new") < once.index("<!-- bench-joins -->") and "joins\n" in once
    assert cold.section_of(once) == "new"
    content = cold.section(measured())
    assert cold.section_of(cold.with_section(once, content)) == content
    assert cold.section_of(page) is None


def test_wide_files_have_the_columns_that_their_schema_says(tmp_path: Path) -> None:
    data = Data(batches=1, batch_rows=20, extra=4)
    folder = prepare(data, tmp_path)
    names = [c.split()[0] for c in ddl(folder).split(", ")]
    assert names == ["k", "v", "ts", "x0", "x1", "x2", "x3"]
    assert pq.read_table(next(folder.glob("*.parquet"))).column_names == names
    plain = prepare(Data(batches=1, batch_rows=20), tmp_path)
    assert ddl(plain) == "k bigint, v bigint, ts timestamp"
    assert "extra" not in json.loads(plain.with_suffix(".json").read_text())
