"""Docs do not rot: examples in docstrings run, code in the documents compiles, links lead somewhere."""

from __future__ import annotations

import ast
import doctest
import importlib
import re
import warnings
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src/slackwater"
MODULES = sorted(PACKAGE.rglob("*.py"))
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
OPTIONAL = {"pyspark", "py4j", "hypothesis"}
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE

SOFT_LINES, HARD_LINES = 400, 800


def _module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _uses_spark(path: Path) -> bool:
    """Whether an example in the file speaks of ``spark``, the session that this test then provides."""
    text = path.read_text(encoding="utf-8")
    return re.search(r"^\s*(>>>|\.\.\.) .*\bspark\b", text, re.MULTILINE) is not None


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(p, id=_module_name(p), marks=[pytest.mark.spark] if _uses_spark(p) else [])
        for p in MODULES
    ],
)
def test_examples_in_docstrings_run(
    path: Path, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    try:
        module = importlib.import_module(_module_name(path))
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in OPTIONAL:
            pytest.skip(f"needs {error.name}")
        raise
    extra = {"spark": request.getfixturevalue("spark")} if _uses_spark(path) else {}
    monkeypatch.chdir(tmp_path)  # an example may write files
    runner = doctest.DocTestRunner(optionflags=OPTIONS)
    for test in doctest.DocTestFinder(exclude_empty=True).find(module, extraglobs=extra):
        said: list[str] = []
        result = runner.run(test, out=said.append)
        assert result.failed == 0, "".join(said)


@pytest.mark.parametrize("path", MODULES, ids=_module_name)
def test_a_module_holds_one_idea(path: Path):
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= HARD_LINES, f"{path.name} has {lines} lines: split it"
    if lines > SOFT_LINES:
        warnings.warn(f"{path.relative_to(ROOT)} has {lines} lines", stacklevel=1)


def _document(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def python_blocks(text: str) -> list[tuple[int, str]]:
    """(line number, code) of each fenced block marked as Python."""
    found = re.finditer(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return [(text[: m.start(1)].count("\n") + 1, m.group(1)) for m in found]


@pytest.mark.parametrize("path", DOCUMENTS, ids=_document)
def test_python_in_documents_compiles(path: Path):
    for line, code in python_blocks(path.read_text(encoding="utf-8")):
        try:
            ast.parse(code)
        except SyntaxError as error:
            pytest.fail(f"{_document(path)}:{line + (error.lineno or 1) - 1}: {error.msg}")


@pytest.mark.parametrize("path", DOCUMENTS, ids=_document)
def test_links_between_documents_lead_somewhere(path: Path):
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:|#", target):
            continue
        assert (path.parent / target.partition("#")[0]).exists(), f"{_document(path)}: {target}"


def test_the_readers_of_documents_find_what_they_should():
    text = "a\n```python\nx = 1\n```\n```bash\nls\n```\n"
    assert python_blocks(text) == [(3, "x = 1\n")]


@pytest.mark.spark
def test_the_example_of_the_readme_runs_and_goes_on_after_a_restart(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "readings").mkdir()
    (_, code), *_ = python_blocks((ROOT / "README.md").read_text(encoding="utf-8"))
    start = datetime(2026, 1, 1, tzinfo=timezone.utc)

    def arrive(name: str, *rows: tuple[int, float]) -> None:
        times = pa.array([start + timedelta(seconds=s) for s, _ in rows], pa.timestamp("us", "UTC"))
        columns = {"sensor": ["a"] * len(rows), "ts": times, "value": [v for _, v in rows]}
        pq.write_table(pa.table(columns), tmp_path / "readings" / f"{name}.parquet")

    arrive("first", (30, 3.0), (0, 1.0), (40, -7.0), (100, 5.0))
    exec(compile(code, "README.md", "exec"), {})
    arrive("second", (20, 100.0), (200, 9.0))  # the bound is at 90 s: the first row is late
    exec(compile(code, "README.md", "exec"), {})

    means = spark.read.parquet(str(tmp_path / "out" / "means")).where(
        "window.end = timestamp'2026-01-01 00:01:00'"
    )
    assert [tuple(r) for r in means.select("sensor", "mean", "n").collect()] == [("a", 2.0, 2)]
    late = (
        spark.read.parquet(str(tmp_path / "out" / "late")).select("value", "_late_reason").collect()
    )
    assert [tuple(r) for r in late] == [(100.0, "late")]


def test_bold_terms_of_the_architecture_are_in_the_glossary():
    text = (ROOT / "docs" / "architecture.md").read_text().partition("## When not to use")[0]
    bold = {t.strip(" .").lower() for t in re.findall(r"\*\*([^*]+)\*\*", text)}
    glossary = (ROOT / "docs" / "glossary.md").read_text()
    rows = [line.split("|")[1:4] for line in glossary.splitlines() if line.startswith("| ")][2:]
    terms = [term.strip() for term, _, _ in rows]
    assert bold and not bold - set(terms)
    assert terms == sorted(set(terms))
    for term, _, place in rows:
        (path,) = re.findall(r"`([^`]+)`", place)
        assert (ROOT / "src" / "slackwater" / path).exists() or (ROOT / path).exists(), term


def test_files_that_the_architecture_names_exist():
    for document in ("docs/architecture.md", "docs/glossary.md", "CONTRIBUTING.md"):
        named = re.findall(r"`([a-z_]+/[a-z_/]+\.(?:py|yaml|md))`", (ROOT / document).read_text())
        missing = [
            n for n in named if not any((ROOT / d / n).exists() for d in ("", "src/slackwater"))
        ]
        assert named and not missing, f"{document} names {missing}"
