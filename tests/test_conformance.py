"""docs/conformance.md tells the truth: it is what the marks in the tests say today."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import marked
from tools import conformance
from tools.reach import Reach


def test_every_claim_is_one_of_a_test_on_what_users_reach():
    features, marks = conformance.load_features(), conformance.collect_marks()
    untried = conformance.load_untried()
    assert conformance.problems(features, marks, Reach(conformance.ROOT), {}, untried) == []
    assert conformance.stale_untried(features, marks, untried) == [], "run: make conformance"


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
    AA-F7: {capability: Done otherwise., replaced: {reason: simpler, tests: ["tests/test_a.py::test_p[by_tuple]"]}}
    AA-F8: {capability: By a test of a benchmark., harness: a baseline}
    AA-F9: {capability: Not yet., open: a simulation has it}
    AA-F10: {capability: Never., not_built: nobody reads it}
"""
TESTS = """
import pytest
from example.kernels.sums import add
pytestmark = [pytest.mark.spec("AA-F4"), pytest.mark.slow]
MANY = [pytest.param(add, 2, id="by_nth", marks=[pytest.mark.slow, pytest.mark.spec("AA-F3")])]

@pytest.mark.spec("AA-F1")
def test_f():
    add()

@pytest.mark.spec("AA-F2")
class TestC:
    def test_m(self):
        add()

@pytest.mark.parametrize("x", [1, pytest.param("by_tuple", marks=pytest.mark.spec("AA-F3"))])
def test_p(x):
    add()

@pytest.mark.parametrize(("x", "y"), MANY)
def test_q(x, y):
    add()

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
RUNNER = """
from example.surface import stream

def test_transcripts(path):
    stream(path)
"""


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in {
        "docs/features.yaml": FEATURES,
        "src/example/__init__.py": "from example.surface import stream",
        "src/example/surface.py": "from example.kernels import sums\nfrom example.model import value",
        "src/example/kernels/__init__.py": "",
        "src/example/kernels/sums.py": "",
        "src/example/kernels/unused.py": "",
        "src/example/model/__init__.py": "",
        "src/example/model/value.py": "",
        "tests/__init__.py": "",
        "tests/test_a.py": TESTS,
        "tests/test_transcripts.py": RUNNER,
        "benchmarks/tests/test_b.py": BENCHMARK,
        "tests/transcripts/t.yaml": TRANSCRIPT,
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path / "src"))
    return tmp_path


def main(repo: Path, *arguments: str) -> int:
    return conformance.main(list(arguments), repo, "example")


def problems(repo: Path, run: dict[str, str] | None = None) -> list[str]:
    features, marks = conformance.load_features(repo), conformance.collect_marks(repo)
    untried = conformance.load_untried(repo)
    return conformance.problems(features, marks, Reach(repo, "example"), run or {}, untried)


def test_marks_are_found_wherever_pytest_allows_them(repo: Path):
    proofs = conformance.collect_marks(repo).proofs
    everywhere = [
        "tests/test_a.py::test_f",
        "tests/test_a.py::TestC::test_m",
        "tests/test_a.py::test_p",
        "tests/test_a.py::test_q",
    ]
    assert proofs == {
        "AA-F1": everywhere[:1],
        "AA-F2": everywhere[1:2],
        "AA-F3": ["tests/test_a.py::test_p[by_tuple]", "tests/test_a.py::test_q[by_nth]"],
        "AA-F4": everywhere,
        "AA-F5": ["tests/transcripts/t.yaml::late row"],
        "AA-F8": ["benchmarks/tests/test_b.py::test_b"],
    }


def test_the_report_counts_each_state(repo: Path):
    text = conformance.render(conformance.load_features(repo), conformance.collect_marks(repo))
    assert "| Example (AA) | 10 | 5 | 1 | 1 | 2 | 1 |" in text
    assert "| AA-F3 | By a parameter. | `test_a.py::test_p[by_tuple]`<br>" in text
    assert "| AA-F6 | Only by a skipped test. | open |" in text
    assert "replaced by design: simpler (`test_a.py::test_p[by_tuple]`)" in text
    assert "a baseline: `benchmarks/tests/test_b.py::test_b`" in text
    assert "| AA-F9 | Not yet. | open: a simulation has it |" in text
    assert "| AA-F10 | Never. | not built: nobody reads it |" in text


def test_check_fails_until_the_report_is_written(repo: Path):
    assert main(repo, "--check") == 1
    assert main(repo) == 0
    assert main(repo, "--check") == 0


def test_a_mark_without_a_feature_is_named(repo: Path, capsys: pytest.CaptureFixture[str]):
    (repo / "tests/test_b.py").write_text(TESTS.replace("AA-F1", "AA-F99"))
    assert main(repo) == 1
    assert "tests/test_b.py::test_f: no feature AA-F99" in capsys.readouterr().err


@pytest.mark.parametrize("gone", ["test_gone", "test_p[by_nothing]"])
def test_a_replacement_must_have_a_test(repo: Path, gone: str):
    features = repo / "docs/features.yaml"
    features.write_text(features.read_text().replace("test_p[by_tuple]", gone))
    assert problems(repo)[0].startswith("docs/features.yaml: AA-F7 is said to be replaced, but")


@pytest.mark.parametrize(
    ("feature", "word"), [("AA-F7", "replaced"), ("AA-F9", "open"), ("AA-F10", "not built")]
)
def test_what_is_replaced_open_or_not_built_is_not_claimed_to_be_proven(
    repo: Path, feature: str, word: str
):
    path = repo / "tests/test_a.py"
    path.write_text(path.read_text().replace('spec("AA-F1")', f'spec("AA-F1", "{feature}")'))
    test = "tests/test_a.py::test_f"
    assert problems(repo) == [
        f"docs/features.yaml: {feature} is said to be {word}, but {test} claims to prove it"
    ]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("{capability: Never., not_built: ''}", "AA-F10: `not_built` needs a reason"),
        ("{capability: Never., rules_only: ''}", "AA-F10: `rules_only` needs a reason"),
        (
            "{capability: Never., not_built: a, open: b}",
            "AA-F10 needs a capability, and may have one",
        ),
        ("{capability: Never., refused: a}", "AA-F10 needs a capability, and may have one"),
    ],
)
def test_what_is_said_of_a_feature_is_of_a_known_kind_and_not_empty(repo: Path, value, text):
    features = repo / "docs/features.yaml"
    said = "{capability: Never., not_built: nobody reads it}"
    features.write_text(features.read_text().replace(said, value))
    with pytest.raises(ValueError, match=text):
        conformance.load_features(repo)


def test_a_marked_parameter_has_an_id_that_can_be_read(repo: Path):
    path = repo / "tests/test_a.py"
    path.write_text(TESTS.replace('id="by_nth", ', ""))
    with pytest.raises(ValueError, match=r"test_q: a parameter with mark\.spec needs an id"):
        conformance.collect_marks(repo)
    path.write_text(TESTS.replace("MANY = [", "MANY = 2 * ["))
    with pytest.raises(ValueError, match="test_q: parameters with marks are written out"):
        conformance.collect_marks(repo)


# --- what a test uses -----------------------------------------------------------------------------


OWN = """
import pytest
{imports}

@pytest.mark.spec("AA-F6")
def test_own({arguments}):
    {body}

def other():
    from example.kernels.sums import add
"""
NO_REACH = "AA-F6: none of its tests uses a module that users reach"


@pytest.mark.parametrize(
    ("imports", "arguments", "body", "counts"),
    [
        ("from example.kernels.sums import add", "", "add()", True),
        ("from example.kernels import sums", "", "sums.add()", True),
        ("", "", "from example.kernels import sums", True),
        ("import example as ex", "", "ex.stream()", True),
        ("from tests.helpers import run", "", "run()", True),
        ("", "engine", "engine.run()", True),
        ("from tests.helpers import idle", "", "idle()", False),
        ("from example.kernels.sums import add", "", "pass", False),
        ("from example.kernels.unused import add", "", "add()", False),
        ("from example.model.value import add", "", "add()", False),
        ("from benchmarks.simulated import run", "", "run()", False),
        ("import example as ex", "", "ex", False),
    ],
)
def test_a_proof_uses_what_users_reach(repo: Path, imports, arguments, body, counts):
    text = OWN.format(imports=imports, arguments=arguments, body=body)
    (repo / "tests/test_own.py").write_text(text)
    helpers = "from example.kernels import sums\ndef run(): sums.add()\ndef idle(): ..."
    (repo / "tests/helpers.py").write_text(helpers)
    (repo / "benchmarks/simulated.py").write_text(helpers)
    fixtures = "import pytest\nfrom tests.helpers import run\n@pytest.fixture\ndef engine(): run()"
    (repo / "tests/conftest.py").write_text(fixtures)
    assert [p.partition(",")[0] for p in problems(repo)] == ([] if counts else [NO_REACH])


def test_a_test_beside_the_benchmarks_proves_no_feature_of_the_product(repo: Path):
    text = OWN.format(imports="from example.kernels.sums import add", arguments="", body="add()")
    (repo / "benchmarks/tests/test_own.py").write_text(text)
    assert problems(repo)[0].startswith(NO_REACH)
    features = repo / "docs/features.yaml"
    features.write_text(features.read_text().replace(", harness: a baseline", ""))
    assert [p.partition(":")[0] for p in problems(repo)] == ["AA-F6", "AA-F8"]


# --- rules that no operator was seen to follow ----------------------------------------------------


@pytest.fixture
def rule(repo: Path) -> Path:
    """A repository in which the test of a rule is the only proof of AA-F6."""
    text = OWN.format(imports="from example.kernels.sums import add", arguments="", body="add()")
    path = repo / "tests/semantics/test_rule.py"
    path.parent.mkdir()
    path.write_text(text)
    return repo


def test_a_rule_needs_a_test_through_an_operator_or_a_reason_why_there_is_none(rule: Path):
    assert [p.partition(":")[0] for p in problems(rule)] == ["AA-F6"]
    assert "where nothing runs the rule through an operator" in problems(rule)[0]
    features = rule / "docs/features.yaml"
    said = features.read_text()
    features.write_text(
        said.replace(
            "AA-F6: Only by a skipped test.",
            "AA-F6: {capability: A rule., rules_only: nobody asks it}",
        )
    )
    assert problems(rule) == []
    marks = conformance.collect_marks(rule)
    text = conformance.render(conformance.load_features(rule), marks)
    assert "`semantics/test_rule.py::test_own`<br>No operator shows it: nobody asks it |" in text
    elsewhere = rule / "tests/test_own.py"
    elsewhere.write_text((rule / "tests/semantics/test_rule.py").read_text())
    assert [p.partition(" has ")[0] for p in problems(rule)] == ["docs/features.yaml: AA-F6"]
    features.write_text(said)
    assert problems(rule) == []


def test_what_replaces_a_feature_is_seen_through_an_operator_too(rule: Path):
    features = rule / "docs/features.yaml"
    (rule / "tests/test_own.py").write_text((rule / "tests/semantics/test_rule.py").read_text())
    assert problems(rule) == []
    gone = "tests/test_a.py::test_p[by_tuple]"
    features.write_text(
        features.read_text().replace(gone, "tests/semantics/test_rule.py::test_own")
    )
    assert [p.partition(":")[0] for p in problems(rule)] == ["AA-F7"]


def test_the_list_of_rules_that_are_left_only_shrinks(
    rule: Path, capsys: pytest.CaptureFixture[str]
):
    untried = rule / conformance.UNTRIED
    untried.write_text("# a line of words\nAA-F1\nAA-F6\nAA-F99\n")
    assert problems(rule) == []
    assert main(rule, "--check") == 1  # AA-F1 has a test elsewhere, and there is no AA-F99
    assert [line.partition(" is ")[0] for line in capsys.readouterr().err.splitlines()] == [
        "docs/untried.txt: AA-F1",
        "docs/untried.txt: AA-F99",
    ]
    assert main(rule) == 0
    assert untried.read_text() == "# a line of words\nAA-F6\n"
    assert main(rule, "--check") == 0


# --- proofs that were skipped or failed ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("run", "lost"),
    [
        ({}, []),
        ({"tests/test_a.py::test_f": marked.RAN}, []),
        ({"tests/test_a.py::test_f": "no Java"}, ["AA-F1"]),
        ({"tests/test_a.py::test_p[by_tuple]": "no Java"}, ["AA-F7"]),
        (
            {
                "tests/test_a.py::test_p[by_tuple]": "no Java",
                "tests/test_a.py::test_q[by_nth]": "no Java",
            },
            ["AA-F3", "AA-F7"],
        ),
        # Another parameter of the test ran, which says nothing about this one.
        (
            {
                "tests/test_a.py::test_p[1]": marked.RAN,
                "tests/test_a.py::test_p[2-by_tuple]": "no Java",
                "tests/test_a.py::test_q[by_nth]": "no Java",
            },
            ["AA-F3", "AA-F7"],
        ),
        # A claim of the whole test is lost only if no parameter ran.
        ({"tests/test_a.py::test_f[1]": "no Java", "tests/test_a.py::test_f[2]": marked.RAN}, []),
        ({"tests/test_transcripts.py::test_transcripts[t]": "no Java"}, ["AA-F5"]),
    ],
)
def test_a_feature_whose_only_proof_was_skipped_is_named(repo: Path, run, lost):
    wrong = problems(repo, run)
    assert [p.partition(":")[0] for p in wrong] == lost
    assert all("its only proof was skipped" in p and "no Java" in p for p in wrong)
    (repo / conformance.RUN).parent.mkdir()
    (repo / conformance.RUN).write_text(json.dumps(run))
    assert main(repo) == (1 if lost else 0)


@pytest.mark.parametrize(
    ("run", "refuted"),
    [
        ({"tests/test_a.py::test_f": marked.FAILED}, ["AA-F1", "AA-F4"]),
        # Another proof of the feature that holds is no excuse.
        ({"tests/test_a.py::test_q[by_nth]": marked.FAILED}, ["AA-F3", "AA-F4"]),
        # Nor is another parameter, of a claim of the whole test.
        (
            {"tests/test_a.py::test_f[1]": marked.RAN, "tests/test_a.py::test_f[2]": marked.FAILED},
            ["AA-F1", "AA-F4"],
        ),
        ({"tests/test_a.py::test_p[by_tuple]": marked.FAILED}, ["AA-F3", "AA-F4", "AA-F7"]),
        ({"tests/test_transcripts.py::test_transcripts[t]": marked.FAILED}, ["AA-F5"]),
        ({"benchmarks/tests/test_b.py::test_b": marked.FAILED}, ["AA-F8"]),
        ({"tests/test_gone.py::test_gone": marked.FAILED}, []),
    ],
)
def test_a_proof_that_failed_is_named(repo: Path, run, refuted):
    wrong = problems(repo, run)
    assert [p.partition(":")[0] for p in wrong] == refuted
    assert all("its proof failed when it last ran: " in p for p in wrong)
    assert main(repo) == 0
    (repo / conformance.RUN).parent.mkdir()
    (repo / conformance.RUN).write_text(json.dumps(run))
    assert main(repo, "--check") == (1 if refuted else 0)


RUN_ME = """
import pytest
FAILS = True

@pytest.mark.spec("AA-F1")
@pytest.mark.parametrize("x", [1, 2])
def test_f(x):
    if x == 2:
        pytest.skip("no Java")

@pytest.mark.spec("AA-F2")
@pytest.mark.xfail(reason="known")
def test_x():
    assert False

@pytest.mark.spec("AA-F3")
@pytest.mark.skipif(True, reason="no disk")
def test_s(): ...

@pytest.fixture
def before():
    assert not FAILS

@pytest.fixture
def after():
    yield
    assert not FAILS

@pytest.mark.spec("AA-F3")
def test_w():
    assert not FAILS

@pytest.mark.spec("AA-F3")
def test_before(before): ...

@pytest.mark.spec("AA-F3")
def test_after(after): ...

def test_without_a_mark(): pytest.skip("whatever")
"""


@pytest.mark.parametrize("processes", [[], ["-n", "2"]], ids=["one", "two"])
def test_a_run_writes_which_marked_tests_were_skipped_or_failed(
    tmp_path: Path, processes: list[str]
):
    (tmp_path / "conftest.py").write_text("from tests.marked import pytest_configure\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = spec\n")
    (tmp_path / "test_it.py").write_text(RUN_ME)

    def run(*more: str) -> dict[str, str]:
        environment = {**os.environ, "PYTHONPATH": str(conformance.ROOT)}
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *more]
        subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True)
        return conformance.load_run(tmp_path)

    first = run(*processes)
    assert first == {
        "test_it.py::test_f[1]": marked.RAN,
        "test_it.py::test_f[2]": "no Java",
        "test_it.py::test_s": "no disk",
        "test_it.py::test_w": marked.FAILED,
        "test_it.py::test_before": marked.FAILED,
        "test_it.py::test_after": marked.FAILED,
        "test_it.py::test_x": "expected to fail: known",
    }
    if not processes:  # a run of one test changes its own line
        (tmp_path / "test_it.py").write_text(RUN_ME.replace("x == 2", "False"))
        assert run("-k", "test_f") == {**first, "test_it.py::test_f[2]": marked.RAN}
        (tmp_path / "test_it.py").write_text(RUN_ME.replace("FAILS = True", "FAILS = False"))
        mended = {f"test_it.py::test_{name}": marked.RAN for name in ("w", "before", "after")}
        assert run() == {**first, **mended}
