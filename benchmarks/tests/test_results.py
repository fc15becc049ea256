"""Results name their commit, and figures in the documents are those of the results."""

from __future__ import annotations

import json
import re
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from benchmarks import growth, quality_page, record, report

DOCS = record.ROOT / "docs"
COMMIT = re.compile(rf"[0-9a-f]{{12}}( {record.CHANGED})?|{record.UNKNOWN}[;: (].+")


def kept(name: str) -> dict[str, Any]:
    return dict(json.loads((record.RESULTS / f"{name}.json").read_text(encoding="utf-8")))


def words(document: str) -> str:
    return " ".join((DOCS / document).read_text(encoding="utf-8").split())


FILES = sorted(p for p in record.RESULTS.iterdir() if not p.stem.endswith("-quick"))


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_every_results_file_names_its_commit(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".json":
        found = json.loads(text)
        assert COMMIT.fullmatch(found["commit"])
        parts = found.get("commits", {})
        assert all(COMMIT.fullmatch(c) and part in found for part, c in parts.items())
    else:
        assert re.search(rf"\(commit ({COMMIT.pattern})\)", text)


def test_a_tree_that_was_changed_says_so(tmp_path: Path) -> None:
    def run(*words: str) -> None:
        names = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        subprocess.run(["git", *names, *words], cwd=tmp_path, check=True, capture_output=True)

    assert record.commit(tmp_path).startswith(record.UNKNOWN)
    run("init", "-q")
    for name in ("src/a.py", "benchmarks/b.py", "benchmarks/results/c.json", "docs/d.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("1")
    run("add", "-A")
    run("commit", "-qm", "one")
    clean = record.commit(tmp_path)
    assert re.fullmatch("[0-9a-f]{12}", clean) and COMMIT.fullmatch(clean)
    # Results and pages are what a run writes: what it measured is the code.
    (tmp_path / "docs/d.md").write_text("2")
    (tmp_path / "benchmarks/results/c.json").write_text("2")
    assert record.commit(tmp_path) == clean
    (tmp_path / "src/new.py").write_text("2")
    assert record.commit(tmp_path) == f"{clean} {record.CHANGED}"


def test_a_document_of_results_begins_with_the_commit() -> None:
    assert COMMIT.fullmatch(record.heading(quick=True)["commit"])


# --- pages that benchmarks write ------------------------------------------------------------------


def test_pages_are_those_of_the_results() -> None:
    assert growth.document(kept("growth")) == (DOCS / "growth.md").read_text(encoding="utf-8")
    page = (DOCS / "benchmarks.md").read_text(encoding="utf-8")
    assert page.startswith(report.document(kept("windows")).rstrip())
    readme = (record.ROOT / "README.md").read_text(encoding="utf-8")
    assert report.readme(kept("windows")) in readme
    page = (DOCS / "quality-experiments.md").read_text(encoding="utf-8")
    assert page == quality_page.page(kept("quality"))


# --- figures in documents that people write -------------------------------------------------------


@pytest.mark.parametrize(("name", "digits"), [("smoothing", 1), ("smoothing-spark", 2)])
def test_smoothing_has_the_ratios_of_the_results(name: str, digits: int) -> None:
    ways = kept(name)["ways"]
    ratios = [f"{ways[w]['ratio']:.{digits}f}" for w in ("plain", "smooth", "lazy", "slow", "both")]
    assert f"| {' | '.join(ratios)} |" in words("smoothing.md")


def test_smoothing_has_the_rates_of_the_low_level() -> None:
    (point,) = kept("low-level")["points"]
    text = words("smoothing.md")
    assert f"With {point['groups']:,} groups and {point['slots']:,} slots" in text
    others = max(point[v]["mostSent"] for v in ("lazy", "slow"))
    assert f"sends {point['ordered']['mostSent']:,} entries at once" in text
    assert f"never more than {others:,}" in text
    lazy, slow = (point[v]["rate"] / point["ordered"]["rate"] for v in ("lazy", "slow"))
    assert f"{lazy:.2f} times the ordered variant's for lazy flush and {slow:.2f} times" in text


def test_sharing_has_the_memory_and_the_seconds_of_the_results() -> None:
    text = words("concurrent.md")
    cases = kept("sharing")["cases"]
    for name in ("same rows", "rare rows", "two levels", "three slacks"):
        ways = [cases[name][w] for w in ("unshared", "optimal", "panes", "shared panes")]
        figures = [f"{w['rows']:.0f} ({w['model']:.0f})" for w in ways]
        figures += [f"{w['seconds']:.1f} s" for w in ways[2:]]
        assert f"| {' | '.join(figures)} |" in text, name


def test_quality_has_the_cost_of_the_results() -> None:
    plain, target = kept("quality")["cost"]["runs"]
    more = [f"{b / a - 1:.0%}" for a, b in zip(plain["rounds"], target["rounds"], strict=True)]
    said = " and ".join([", ".join(more[:-1]), more[-1]]).replace("%", " %")
    assert f"took {said} more time" in words("quality.md")


def test_a_commit_that_is_not_in_the_history_is_looked_up_in_a_page() -> None:
    """Results keep the name of the tree that was measured, also where it landed under another one."""
    pages = [
        DOCS / f"{n}.md"
        for n in ("benchmarks", "faults", "faults-night", "joins-memory", "quality-experiments")
    ]
    texts = [p.read_text(encoding="utf-8") for p in (*pages, *record.RESULTS.glob("*.json"))]
    listed = (DOCS / "commits.md").read_text(encoding="utf-8")
    named = {n for t in texts for n in NAME.findall(t)}
    asked = "\n".join(sorted(named))
    done = subprocess.run(
        ["git", "cat-file", "--batch-check=%(objectname)"], input=asked, cwd=record.ROOT, capture_output=True, text=True
    )  # fmt: skip
    if done.returncode or is_shallow():
        pytest.skip("no git with the whole history")
    unknown = {line.split()[0] for line in done.stdout.splitlines() if line.endswith(" missing")}
    assert {n for n in unknown if n not in listed} == set()


# --- figures that are too old ---------------------------------------------------------------------

MEASURED = ("src/slackwater/engine", "src/slackwater/kernels")
MOST_BEHIND = 200
"""So many commits may have changed what is measured, until it is measured again."""
NAME = re.compile(r"\b(?=[0-9a-f]*[a-f])(?=[0-9a-f]*[0-9])[0-9a-f]{7,12}\b")


OLD = {
    "adaptive", "experiments", "joins", "low-level", "quality", "sharing", "smoothing", "smoothing-spark",
    "windows",
}  # fmt: skip
"""Figures that were older already when this rule came. A name is taken out when they are measured again."""


@pytest.mark.parametrize("path", [p for p in FILES if p.suffix == ".json"], ids=lambda p: p.name)
def test_figures_are_measured_again_before_they_are_old(path: Path) -> None:
    if is_shallow():
        pytest.skip("no git with the whole history")
    named = commits_of(json.loads(path.read_text(encoding="utf-8")))
    old = {name: n for name in named if (n := behind(name)) > MOST_BEHIND}
    if path.stem in OLD:
        assert old, f"{path.name} has new figures: take it out of OLD"
        return
    assert not old, (
        f"{path.name}: the engine or the kernels have changed in more than {MOST_BEHIND} commits since {old}; "
        "measure again on a quiet machine"
    )


def test_the_commits_since_a_measurement_are_counted() -> None:
    if is_shallow():
        pytest.skip("no git with the whole history")
    first = git("rev-list", "--max-parents=0", "HEAD").split()[-1][:12]
    changes = git("rev-list", "--count", f"{first}..HEAD", "--", *MEASURED)
    assert behind(first) == int(changes) > MOST_BEHIND
    assert behind(git("rev-parse", "--short=12", "HEAD").strip()) == 0
    # A tree that did not land under its name is as old as the one that did.
    assert behind("9d0dff8c436e") == behind("036cfa6")
    assert commits_of(
        {"commit": f"{first} {record.CHANGED}", "cases": [{"commit": "97f1397"}]}
    ) == {first, "97f1397"}
    assert commits_of(
        {"commit": "not recorded; the file landed in b7e1e03", "parts": {"commit": 0.007}}
    ) == {"b7e1e03"}


def commits_of(found: Any) -> set[str]:
    """The commits that a document of results names, of all its parts."""
    if isinstance(found, list):
        return set().union(*map(commits_of, found))
    if not isinstance(found, dict):
        return set()
    texts = [t for k in ("commit", "commits") for t in _texts(found.get(k))]
    return {n for t in texts for n in NAME.findall(t)}.union(*map(commits_of, found.values()))


def _texts(said: Any) -> list[str]:
    return (
        [said] if isinstance(said, str) else list(said.values()) if isinstance(said, dict) else []
    )


@cache
def behind(name: str) -> int:
    """How many commits have changed what is measured since the one of a name."""
    if git("cat-file", "-t", name, check=False).strip() != "commit":
        (name,) = re.findall(
            rf"^\|[^|]*\b{name[:7]}[0-9a-f]*\b[^|]*\|[^|]*\| ([0-9a-f]+)", COMMITS, re.MULTILINE
        )
    return int(git("rev-list", "--count", f"{name}..HEAD", "--", *MEASURED))


COMMITS = (DOCS / "commits.md").read_text(encoding="utf-8")


def git(*words: str, check: bool = True) -> str:
    return subprocess.run(["git", *words], cwd=record.ROOT, check=check, capture_output=True, text=True).stdout  # fmt: skip


def is_shallow() -> bool:
    """Also where there is no git."""
    return git("rev-parse", "--is-shallow-repository", check=False).strip() != "false"
