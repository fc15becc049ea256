"""The page that ``make faults`` writes."""

from __future__ import annotations

from pathlib import Path

from tests.faults.table import Table, read


def test_a_second_run_replaces_its_own_lines_only(tmp_path: Path) -> None:
    page = tmp_path / "faults.md"
    first = Table()
    first.add("tumbling", "job.after", 1, 0, 0)
    first.add("tumbling", "gc.after", 0, 0, 0)
    first.write(page)
    assert "1 failed" in page.read_text()  # a step that was not reached has proven nothing
    second = Table()
    second.add("tumbling", "gc.after", 1, 0, 0)
    second.add("sliding", "job.after", 1, 2, 0)
    second.write(page)
    found = read(page)
    assert {k: x.verdict for k, x in found.items()} == {
        ("tumbling", "job.after"): "ok",
        ("tumbling", "gc.after"): "ok",
        ("sliding", "job.after"): "FAILED",
    }
    assert "- union, rows and splits: all" in page.read_text()
