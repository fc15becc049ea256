"""What `tools.house` counts, on code made for it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tools import house


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(house, "PACKAGE", tmp_path)
    monkeypatch.setattr(house, "ENGINE", tmp_path / "engine")
    (tmp_path / "engine" / "plan").mkdir(parents=True)
    return tmp_path


def figures(room: str) -> dict[str, house.Figure]:
    return {f.name: f for f in house.ROOMS[room]()}


def test_a_parameter_of_a_capability_is_a_thread_and_its_own_module_is_none(package: Path) -> None:
    (package / "engine" / "feedback_log.py").write_text("from a import feedback")
    (package / "engine" / "plain.py").write_text("'feedback'  # feedback\nspaces = 1\n")
    (package / "engine" / "thread.py").write_text("def f(pace: int, feedback=None): ...\n")
    threads = figures("threads")
    assert threads["modules that name feedback"].places == ("thread.py",)
    assert threads["modules that name pace"].places == ("thread.py",)
    assert threads["modules that name relations"].count == 0


def test_questions_for_the_kind_of_a_step_are_counted(package: Path) -> None:
    (package / "engine" / "plan" / "steps.py").write_text(
        "class GuardStep: ...\nclass Other: ...\n"
    )
    (package / "asks.py").write_text(
        "isinstance(s, GuardStep | int)\nisinstance(s, Other)\nmatch s:\n    case GuardStep(match=m): ...\n    case int(): ...\n"
    )
    assert figures("steps")["questions for the kind of a step"].count == 2


def test_fields_are_those_of_values_alone(package: Path) -> None:
    (package / "engine" / "a.py").write_text(
        "@dataclass(frozen=True)\nclass Batch:\n    a: int\n    b: ClassVar[int] = 1\n    def f(self): c: int = 1\n"
        "class Intent:\n    a: int\n"
    )
    assert {n: f.count for n, f in figures("fields").items()} == {"fields of Batch": 1}


def test_the_testing_kit_is_not_weighed(package: Path) -> None:
    (package / "testing").mkdir()
    (package / "testing" / "a.py").write_text("x = 1\n" * 9)
    (package / "b.py").write_text("x = 1\n" * 7)
    assert figures("lines")["lines of src without testing"].count == 7


def test_what_is_above_its_limit_is_named() -> None:
    now = [house.Figure("a", 3, 0), house.Figure("b", 3, 0), house.Figure("new", 9, 0)]
    assert house.too_heavy(now, {"a": 2, "b": 3}) == ["a: 3, and the limit is 2"]


def test_names_are_those_of_code_not_of_texts() -> None:
    code = ast.parse("import x.y\nfrom a.b import c\nd.e(f=g)\ndef h(i): 'j'\nclass K: ...")
    assert {*house.names(code)} == {"a", "b", "c", "d", "e", "f", "g", "h", "i", "K"}


def test_a_room_that_does_not_exist_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        house.main(["kitchen"])
    assert "kitchen" in capsys.readouterr().err
