"""Writes docs/conformance.md: which test proves which feature of the specifications.

Features stand in docs/features.yaml. A test says what it proves by ``@pytest.mark.spec("WQ-F13")``
(on a function, a class, a parameter set or the module), a transcript by a ``spec:`` list. Tests are
read, not run or imported. A test that is skipped or expected to fail proves nothing.

Usage: ``python tools/conformance.py [--check]``; with ``--check`` nothing is written, and the exit
code is 1 if the file is out of date.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
REPORT = "docs/conformance.md"
TESTS = ("tests", "benchmarks/tests")
NOT_A_PROOF = {"skip", "xfail"}


@dataclass(frozen=True)
class Feature:
    """A capability that a specification asks for; ``reason`` if the design replaced it."""

    id: str
    capability: str
    reason: str = ""
    tests: tuple[str, ...] = ()


@dataclass
class Marks:
    """What the tests claim: feature id -> the tests that prove it; all tests there are."""

    proofs: dict[str, list[str]] = field(default_factory=dict)
    tests: set[str] = field(default_factory=set)

    def add(self, ids: list[str], test: str) -> None:
        for name in ids:
            found = self.proofs.setdefault(name, [])
            if test not in found:
                found.append(test)


# --- features -------------------------------------------------------------------------------------


def load_features(root: Path = ROOT) -> dict[str, tuple[str, list[Feature]]]:
    """The features by prefix of their specification: (title, features in order)."""
    document = yaml.safe_load((root / "docs/features.yaml").read_text(encoding="utf-8"))
    loaded = {}
    for prefix, spec in document.items():
        features = [_feature(prefix, name, value) for name, value in spec["features"].items()]
        loaded[prefix] = (spec["title"], features)
    return loaded


def _feature(prefix: str, name: str, value: Any) -> Feature:
    if not name.startswith(prefix + "-"):
        raise ValueError(f"docs/features.yaml: {name} stands under {prefix}")
    if isinstance(value, str):
        return Feature(name, value)
    replaced = value.get("replaced") or {}
    unknown = set(value) - {"capability", "replaced"} | set(replaced) - {"reason", "tests"}
    if unknown or (replaced and not (replaced.get("reason") and replaced.get("tests"))):
        raise ValueError(
            f"docs/features.yaml: {name} needs a capability, and `replaced` a reason and tests"
        )
    return Feature(
        name, value["capability"], replaced.get("reason", ""), tuple(replaced.get("tests", ()))
    )


# --- marks ----------------------------------------------------------------------------------------


def collect_marks(root: Path = ROOT) -> Marks:
    """Everything that the test files and transcripts claim to prove."""
    marks = Marks()
    for folder in TESTS:
        for path in sorted((root / folder).rglob("test_*.py")):
            _marks_of_module(path, path.relative_to(root).as_posix(), marks)
    for path in sorted((root / "tests/transcripts").glob("*.yaml")):
        _marks_of_transcript(path, path.relative_to(root).as_posix(), marks)
    return marks


def _marks_of_module(path: Path, name: str, marks: Marks) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"), name)
    everywhere: list[ast.expr] = []
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        if any(isinstance(t, ast.Name) and t.id == "pytestmark" for t in targets):
            everywhere.append(node.value)  # type: ignore[attr-defined]
    _marks_of_body(tree.body, name, everywhere, marks)


def _marks_of_body(body: list[ast.stmt], name: str, outer: list[ast.expr], marks: Marks) -> None:
    for node in body:
        if isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            inner = [*outer, *node.decorator_list]
            _marks_of_body(node.body, f"{name}::{node.name}", inner, marks)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if not node.name.startswith("test"):
                continue
            test = f"{name}::{node.name}"
            decorators = [*outer, *node.decorator_list]
            marks.tests.add(test)
            if not any(_mark_name(d) in NOT_A_PROOF for d in decorators):
                marks.add([i for d in decorators for i in _spec_ids(d, test)], test)


def _mark_name(node: ast.expr) -> str:
    """``skip`` of ``pytest.mark.skip`` or ``pytest.mark.skip(...)``; empty for anything else."""
    target = node.func if isinstance(node, ast.Call) else node
    if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Attribute):
        return target.attr if target.value.attr == "mark" else ""
    return ""


def _spec_ids(node: ast.expr, test: str) -> Iterator[str]:
    """Ids of every ``mark.spec(...)`` inside ``node``: a parameter set may hold one too."""
    for call in ast.walk(node):
        if isinstance(call, ast.Call) and _mark_name(call) == "spec":
            for argument in call.args:
                if not (isinstance(argument, ast.Constant) and isinstance(argument.value, str)):
                    raise ValueError(
                        f"{test}: mark.spec takes literal ids, to be read without running"
                    )
                yield argument.value


def _marks_of_transcript(path: Path, name: str, marks: Marks) -> None:
    def walk(value: Any, case: str) -> None:
        if isinstance(value, dict):
            if value is not None and isinstance(value.get("name"), str):
                case = f"{name}::{value['name']}"
            spec = value.get("spec")
            if spec:
                marks.tests.add(case)
                marks.add([spec] if isinstance(spec, str) else list(spec), case)
            for inner in value.values():
                walk(inner, case)
        elif isinstance(value, list):
            for inner in value:
                walk(inner, case)

    for document in yaml.safe_load_all(path.read_text(encoding="utf-8")):
        walk(document, name)


# --- report ---------------------------------------------------------------------------------------


def problems(specs: dict[str, tuple[str, list[Feature]]], marks: Marks) -> list[str]:
    """Marks that name no feature; replacements whose tests do not exist."""
    features = {f.id: f for _, listed in specs.values() for f in listed}
    found = [
        f"{test}: no feature {name} in docs/features.yaml"
        for name, tests in sorted(marks.proofs.items())
        if name not in features
        for test in tests
    ]
    found += [
        f"docs/features.yaml: {f.id} is said to be replaced, but there is no test {test}"
        for f in features.values()
        for test in f.tests
        if test not in marks.tests
    ]
    return found


def render(specs: dict[str, tuple[str, list[Feature]]], marks: Marks) -> str:
    """The report, as Markdown."""
    totals, tables = [], []
    for prefix, (title, features) in specs.items():
        rows = [(f, *_state(f, marks)) for f in features]
        count = [sum(1 for _, state, _ in rows if state == s) for s in STATES]
        totals.append((title, prefix, len(features), *count))
        tables.append(
            f"\n## {title} ({prefix})\n\n| id | capability | proven by |\n| --- | --- | --- |\n"
        )
        tables.extend(
            f"| {f.id} | {_cell(f.capability)} | {_cell(text)} |\n" for f, _, text in rows
        )
    sums = [sum(row[i] for row in totals) for i in range(2, 6)]
    lines = [
        "# Conformance\n\n",
        "What the specifications ask for, and the test that proves it. ",
        "Written by `make conformance` from the marks in the tests; do not edit.\n\n",
        "*Proven*: a test fails if the feature breaks. *Replaced*: the design meets the need in ",
        "another way, which a test shows. *Open*: not there yet.\n\n",
        "| specification | features | proven | replaced | open |\n| --- | ---: | ---: | ---: | ---: |\n",
        *(f"| {t} ({p}) | {a} | {b} | {c} | {d} |\n" for t, p, a, b, c, d in totals),
        "| **all** | " + " | ".join(f"**{n}**" for n in sums) + " |\n",
    ]
    return "".join(lines + tables)


STATES = ("proven", "replaced", "open")


def _state(feature: Feature, marks: Marks) -> tuple[str, str]:
    proofs = marks.proofs.get(feature.id, [])
    if proofs:
        return "proven", "<br>".join(f"`{_short(test)}`" for test in proofs)
    if feature.reason:
        tests = ", ".join(f"`{_short(test)}`" for test in feature.tests)
        return "replaced", f"replaced by design: {feature.reason} ({tests})"
    return "open", "open"


def _short(test: str) -> str:
    return test.removeprefix("tests/")


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    """Write the report, or check it; the exit code."""
    parser = argparse.ArgumentParser(description="Write docs/conformance.md from the tests' marks.")
    parser.add_argument("--check", action="store_true", help="only say whether it is up to date")
    options = parser.parse_args(arguments)
    specs, marks = load_features(root), collect_marks(root)
    wrong = problems(specs, marks)
    if wrong:
        print("\n".join(wrong), file=sys.stderr)
        return 1
    text, report = render(specs, marks), root / REPORT
    if options.check:
        if not report.exists() or report.read_text(encoding="utf-8") != text:
            print(f"{REPORT} is out of date; run: make conformance", file=sys.stderr)
            return 1
        return 0
    report.write_text(text, encoding="utf-8")
    proven = sum(1 for _, features in specs.values() for f in features if f.id in marks.proofs)
    print(f"{REPORT}: {proven} of {sum(len(f) for _, f in specs.values())} features proven")
    return 0


if __name__ == "__main__":
    sys.exit(main())
