"""The pages that ``make faults`` and ``make faults-night`` write."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.faults import commits, night_table
from tests.faults.night import drawn
from tests.faults.night_table import Line
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


def test_a_line_is_run_again_if_it_failed_or_its_commit_has_another_engine(tmp_path: Path) -> None:
    page = tmp_path / "faults.md"
    table = Table()
    table.add("tumbling", "job.after", 1, 0, 0)
    table.add("tumbling", "gc.after", 0, 0, 0)
    table.write(page)
    known = Table(read(page))
    commit = commits.here()
    assert {x.commit for x in known.lines.values()} == {commit}
    assert not known.due("tumbling", "job.after", {commit}.__contains__)
    assert known.due("tumbling", "job.after", {"another"}.__contains__)
    assert known.due("tumbling", "gc.after", {commit}.__contains__)
    assert known.due("sliding", "job.after", {commit}.__contains__)


def test_a_line_with_fewer_kills_than_its_case_asks_for_is_run_again() -> None:
    table = Table()
    commit = table.add("pace", "random moments", 4, 0, 0).commit
    assert not table.due("pace", "random moments", {commit}.__contains__)
    assert not table.due("pace", "random moments", {commit}.__contains__, kills=4)
    assert table.due("pace", "random moments", {commit}.__contains__, kills=5)


def test_a_line_from_before_lines_named_their_commit_is_run_again(tmp_path: Path) -> None:
    page = tmp_path / "faults.md"
    page.write_text("| tumbling | job.after | 1 | 0 | 0 | ok | 2026-11-16 16:17 UTC |\n")
    known = Table(read(page))
    assert known.lines["tumbling", "job.after"].verdict == "ok"
    assert known.due("tumbling", "job.after")


def test_watched_files_that_differ_from_a_commit_make_it_old() -> None:
    first = commits._git("rev-list", "--max-parents=0", "HEAD")[1].split("\n")[0]
    assert not commits.fresh(first)
    assert not commits.fresh("no such commit")
    assert not commits.fresh(commits.here() + commits.CHANGED)


def test_a_night_keeps_the_lines_of_other_seeds_and_names_what_failed(tmp_path: Path) -> None:
    page = tmp_path / "night.md"
    case = drawn(3)
    good = Line(3, case.scenario, case.victim, "step 4, then 5 of 9", 2, 0, 0, "", "abc")
    first = night_table.Table()
    first.add(good)
    first.add(Line(4, "tumbling", "worker", "hit 2 of gc.after", 1, 0, 0, "Error: gone", "abc"))
    first.add(Line(5, "tumbling", "worker", "hit 2 of gc.after", 1, 7, 0, "", "abc"))
    first.write(page)
    second = night_table.Table()
    second.add(Line(5, "tumbling", "worker", "hit 2 of gc.after", 1, 0, 0, "", "def"))
    second.write(page)
    known = night_table.Table.read(page)
    assert known.lines[3] == good
    assert {s: x.verdict for s, x in known.lines.items()} == {
        3: "ok",
        4: "FAILED: Error: gone",
        5: "ok",
    }
    assert "3 cases, 4 kills, 1 failed." in page.read_text()
    assert not known.due(case, {"abc"}.__contains__)
    assert known.due(case, {"def"}.__contains__)
    assert known.due(replace(case, scenario="another"), {"abc"}.__contains__)
    assert known.due(drawn(6), {"abc", "def"}.__contains__)
