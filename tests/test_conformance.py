"""docs/conformance.md tells the truth: it is what the marks in the tests say today."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import conformance


def test_every_mark_names_a_feature_and_every_replacement_a_test():
    assert conformance.problems(conformance.load_features(), conformance.collect_marks()) == []


def test_the_report_is_up_to_date():
    expected = conformance.render(conformance.load_features(), conformance.collect_marks())
    written = (conformance.ROOT / conformance.REPORT).read_text(encoding="utf-8")
    assert written == expected, "run: make conformance"


FEATURES = """
AA:
  title: Example
  features:
    AA-F1: By a function.
    AA-F2: By a class.
    AA-F3: By a parameter.
    AA-F4: By the module.
    AA-F5: By a transcript.
    AA-F6: Only by a skipped test.
    AA-F7: {capability: Done otherwise., replaced: {reason: simpler, tests: ["tests/test_a.py::test_f"]}}
    AA-F8: By a test of a benchmark.
"""
TESTS = """
import pytest
pytestmark = [pytest.mark.spec("AA-F4"), pytest.mark.slow]

@pytest.mark.spec("AA-F1")
def test_f(): ...

@pytest.mark.spec("AA-F2")
class TestC:
    def test_m(self): ...

@pytest.mark.parametrize("x", [pytest.param(1, marks=pytest.mark.spec("AA-F3"))])
def test_p(x): ...

@pytest.mark.skip(reason="not yet")
@pytest.mark.spec("AA-F6")
def test_s(): ...

def helper(): ...
"""
BENCHMARK = """
import pytest

@pytest.mark.spec("AA-F8")
def test_b(): ...
"""
TRANSCRIPT = """
- name: late row
  spec: [AA-F5]
"""


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    for name, text in {
        "docs/features.yaml": FEATURES,
        "tests/test_a.py": TESTS,
        "benchmarks/tests/test_b.py": BENCHMARK,
        "tests/transcripts/t.yaml": TRANSCRIPT,
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_marks_are_found_wherever_pytest_allows_them(repo: Path):
    proofs = conformance.collect_marks(repo).proofs
    everywhere = [
        "tests/test_a.py::test_f",
        "tests/test_a.py::TestC::test_m",
        "tests/test_a.py::test_p",
    ]
    assert proofs == {
        "AA-F1": everywhere[:1],
        "AA-F2": everywhere[1:2],
        "AA-F3": everywhere[2:],
        "AA-F4": everywhere,
        "AA-F5": ["tests/transcripts/t.yaml::late row"],
        "AA-F8": ["benchmarks/tests/test_b.py::test_b"],
    }


def test_the_report_counts_proven_replaced_and_open(repo: Path):
    text = conformance.render(conformance.load_features(repo), conformance.collect_marks(repo))
    assert "| Example (AA) | 8 | 6 | 1 | 1 |" in text
    assert "| AA-F6 | Only by a skipped test. | open |" in text
    assert "replaced by design: simpler (`test_a.py::test_f`)" in text


def test_check_fails_until_the_report_is_written(repo: Path):
    assert conformance.main(["--check"], repo) == 1
    assert conformance.main([], repo) == 0
    assert conformance.main(["--check"], repo) == 0


def test_a_mark_without_a_feature_is_named(repo: Path, capsys: pytest.CaptureFixture[str]):
    (repo / "tests/test_b.py").write_text(TESTS.replace("AA-F1", "AA-F99"))
    assert conformance.main([], repo) == 1
    assert "tests/test_b.py::test_f: no feature AA-F99" in capsys.readouterr().err


def test_a_replacement_must_have_a_test(repo: Path):
    features = repo / "docs/features.yaml"
    features.write_text(features.read_text().replace("test_a.py::test_f", "test_a.py::test_gone"))
    assert (
        "AA-F7"
        in conformance.problems(conformance.load_features(repo), conformance.collect_marks(repo))[0]
    )
