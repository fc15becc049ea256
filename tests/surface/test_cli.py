"""The command line without Spark: usage, exit codes, errors as people see them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from slackwater import __version__
from slackwater.surface.cli import main
from tests.surface.history_records import checkpoint, record


def run(*arguments: object) -> int:
    """The exit code of a command line."""
    with pytest.raises(SystemExit) as ended:
        main([str(a) for a in arguments])
    code = ended.value.code
    return 0 if code is None else int(code)


def test_version(capsys: pytest.CaptureFixture[str]):
    assert run("--version") == 0
    assert capsys.readouterr().out == f"slackwater {__version__}\n"


def test_help_names_the_commands(capsys: pytest.CaptureFixture[str]):
    assert run("--help") == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in ("demo", "run", "check", "report"))


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["run"],
        ["run", "no-such-file.py"],
        ["run", __file__, "--timeout", "-1"],
        ["check"],
        ["check", "no-such-file.py"],
        ["check", __file__, "--sonj"],
        ["report"],
        ["report", "no-such-folder"],
        ["demo", "--seconds", "1"],
        ["demo", "--seconds", "soon"],
    ],
    ids=" ".join,
)
def test_bad_usage_ends_with_2(arguments: list[str]):
    assert run(*arguments) == 2


def test_a_file_of_another_kind_is_bad_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = tmp_path / "query.txt"
    file.write_text("SELECT 1")
    assert run("run", file) == 2
    said = capsys.readouterr().err
    assert "NOT_A_QUERY_FILE" in said and "to fix: give a .sql file" in said


def test_a_file_without_a_query_is_bad_usage_and_learns_what_is_expected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    file = tmp_path / "empty.py"
    file.write_text("x = 1\n")
    assert run("run", file) == 2
    said = capsys.readouterr().err
    assert "'empty.py' neither defines query(spark) nor starts a query" in said
    assert "to fix: define query(spark)" in said


def test_a_file_to_check_holds_a_query(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = tmp_path / "empty.py"
    file.write_text("x = 1\n")
    assert run("check", file) == 2
    assert "neither defines query(spark) nor starts a query" in capsys.readouterr().err
    file = tmp_path / "text.txt"
    file.write_text("x = 1\n")
    assert run("check", file) == 2
    assert "NOT_A_QUERY_FILE" in capsys.readouterr().err
    file = tmp_path / "wrong.py"
    file.write_text("import slackwater as sw\nsw.start([])\n")
    assert run("check", file) == 2
    assert "[NO_OUTPUT]" in capsys.readouterr().err


def test_our_error_in_a_file_is_shown_without_frames(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    file = tmp_path / "wrong.py"
    file.write_text("import slackwater as sw\nsw.start([])\n")
    assert run("run", file) == 2
    said = capsys.readouterr().err
    assert "[NO_OUTPUT]" in said and "to fix:" in said
    assert "Traceback" not in said and "File" not in said


def test_an_error_of_the_file_itself_shows_its_lines_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    file = tmp_path / "broken.py"
    file.write_text("def half(x):\n    return x / 0\n\nhalf(3)\n")
    assert run("run", file) == 1
    said = capsys.readouterr().err
    assert "line 4" in said and "line 2, in half" in said and "ZeroDivisionError" in said
    assert "runpy" not in said


def test_modules_beside_the_file_can_be_imported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "beside_the_query.py").write_text("raise RuntimeError('found')\n")
    file = tmp_path / "query.py"
    file.write_text("import beside_the_query\n")
    assert run("run", file) == 1
    assert "RuntimeError: found" in capsys.readouterr().err


def test_the_demo_leaves_foreign_directories_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "packets").mkdir()
    mine = tmp_path / "packets" / "mine.txt"
    mine.write_text("precious")
    assert run("demo", "--output", tmp_path) == 2
    assert "OUTPUT_NOT_EMPTY" in capsys.readouterr().err
    assert mine.read_text() == "precious"


def test_report_writes_one_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    folder = checkpoint(tmp_path / "ck", [record(i) for i in range(12)])
    target = tmp_path / "deep" / "report.html"
    assert run("report", folder, "-o", target) == 0
    assert capsys.readouterr().out == f"{target}\n"
    assert "<svg" in target.read_text(encoding="utf-8")


def test_report_of_a_directory_that_is_no_checkpoint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert run("report", tmp_path, "-o", tmp_path / "r.html") == 2
    said = capsys.readouterr().err
    assert "[NO_CHECKPOINT]" in said and "to fix:" in said
    assert not (tmp_path / "r.html").exists()


def test_the_command_line_loads_without_pyspark():
    code = (
        "import sys, slackwater.surface.cli, slackwater.surface.report;"
        "sys.exit('pyspark' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
