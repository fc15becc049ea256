"""Writes docs/conformance.md: which test proves which feature of the specifications.

Features stand in docs/features.yaml. A test says what it proves by ``@pytest.mark.spec("WQ-F13")``
(on a function, a class, a parameter or the module), a transcript by a ``spec:`` list. Tests are
read, not run or imported. A mark on a parameter counts for that parameter alone: ``test_f[by_tuple]``.

A feature is proven by code that users reach, so one of its tests must use a module that `tools.reach` counts. A test
beside the benchmarks proves baselines, generators and measurements only: features of that kind are listed with ``harness:``.

A test that is skipped or expected to fail proves nothing, and one that failed refutes. What became of marked tests in
their last run stands in `RUN`, which `tests/marked.py` writes.

A rule is tested in `RULES` by itself, which says nothing about who asks it. So a feature needs a test elsewhere, which
runs the rule through an operator, or says why it cannot (``rules_only:``). Those that have neither yet stand in `UNTRIED`.

Usage: ``python -m tools.conformance [--check]``; with ``--check`` nothing is written, and the exit
code is 1 if the file is out of date. Without it, lines of `UNTRIED` that no longer apply are taken out.
"""

from __future__ import annotations

import argparse
import ast
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.marked import FAILED, RAN, RUN
from tools.reach import Reach

ROOT = Path(__file__).resolve().parent.parent
REPORT = "docs/conformance.md"
TESTS = ("tests", "benchmarks/tests")
TRANSCRIPTS = "tests/transcripts"
RUNNERS = "test_transcripts*.py"
"""The tests, in the first folder of `TESTS`, that run every transcript."""
RULES = "tests/semantics/"
"""The tests of rules as functions on numbers."""
UNTRIED = "docs/untried.txt"
"""Features that only tests in `RULES` prove. Lines are only ever taken out."""
NOT_A_PROOF = {"skip", "xfail"}
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # eight times as fast, where it is built


@dataclass(frozen=True)
class Feature:
    """A capability that a specification asks for.

    ``reason`` and ``tests`` if the design replaced it, ``harness`` if it is no part of what users run, ``lacks`` if it is
    open and there is more to say, ``declined`` if it is not to be built, and why. ``rules_only`` says why no operator can
    show what a test of the rule shows.
    """

    id: str
    capability: str
    reason: str = ""
    tests: tuple[str, ...] = ()
    harness: str = ""
    lacks: str = ""
    declined: str = ""
    rules_only: str = ""


FIELDS = {"replaced", "harness", "open", "not_built", "rules_only"}
"""What a feature may have beside its capability."""

Specs = dict[str, tuple[str, list[Feature]]]
"""Title and features, by the prefix of the specification."""


@dataclass
class Marks:
    """What the tests claim: feature id -> the tests that prove it; all tests there are, and who runs transcripts."""

    proofs: dict[str, list[str]] = field(default_factory=dict)
    tests: set[str] = field(default_factory=set)
    runners: list[str] = field(default_factory=list)

    def add(self, ids: Sequence[str], test: str) -> None:
        for name in ids:
            proofs = self.proofs.setdefault(name, [])
            if test not in proofs:
                proofs.append(test)


# --- features -------------------------------------------------------------------------------------


def load_features(root: Path = ROOT) -> Specs:
    """The features by prefix of their specification: (title, features in order)."""
    document = yaml.load((root / "docs/features.yaml").read_text(encoding="utf-8"), _LOADER)
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
    kinds = set(value) - {"capability"}
    replaced = value.get("replaced") or {}
    unknown = kinds - FIELDS | set(replaced) - {"reason", "tests"}
    if unknown or not value.get("capability") or len(kinds & {"replaced", "open", "not_built"}) > 1:
        raise ValueError(
            f"docs/features.yaml: {name} needs a capability, and may have one of replaced, open and not_built, and "
            "harness and rules_only"
        )
    empty = [k for k in sorted(kinds - {"replaced"}) if not value[k]]
    if empty:
        raise ValueError(f"docs/features.yaml: {name}: `{empty[0]}` needs a reason")
    if "replaced" in kinds and not (replaced.get("reason") and replaced.get("tests")):
        raise ValueError(f"docs/features.yaml: {name}: `replaced` needs a reason and tests")
    return Feature(
        name,
        value["capability"],
        replaced.get("reason", ""),
        tuple(replaced.get("tests", ())),
        value.get("harness", ""),
        value.get("open", ""),
        value.get("not_built", ""),
        value.get("rules_only", ""),
    )


def load_untried(root: Path = ROOT) -> list[str]:
    """The ids in `UNTRIED`; none if there is no such file."""
    path = root / UNTRIED
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [line for line in lines if line and not line.startswith("#")]


def prune_untried(gone: Sequence[str], root: Path = ROOT) -> None:
    """Take lines out of `UNTRIED`."""
    path = root / UNTRIED
    if gone:
        lines = path.read_text(encoding="utf-8").splitlines()
        path.write_text("".join(f"{n}\n" for n in lines if n not in gone), encoding="utf-8")


# --- marks ----------------------------------------------------------------------------------------


def collect_marks(root: Path = ROOT) -> Marks:
    """Everything that the test files and transcripts claim to prove."""
    marks = Marks()
    for folder in TESTS:
        for path in sorted((root / folder).rglob("test_*.py")):
            _marks_of_module(path, path.relative_to(root).as_posix(), marks)
    for path in sorted((root / TRANSCRIPTS).glob("*.yaml")):
        _marks_of_transcript(path, path.relative_to(root).as_posix(), marks)
    files = {p.relative_to(root).as_posix() for p in (root / TESTS[0]).glob(RUNNERS)}
    marks.runners = sorted(t for t in marks.tests if t.partition("::")[0] in files and "[" not in t)
    return marks


def _marks_of_module(path: Path, name: str, marks: Marks) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"), name)
    values: dict[str, ast.expr] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign):
            values.update({t.id: node.value for t in node.targets if isinstance(t, ast.Name)})
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            values[node.name] = ast.Constant(node.name)  # what pytest calls it as a parameter
    everywhere = [values["pytestmark"]] if "pytestmark" in values else []
    _marks_of_body(tree.body, name, everywhere, values, marks)


def _marks_of_body(
    body: list[ast.stmt],
    name: str,
    outer: list[ast.expr],
    values: Mapping[str, ast.expr],
    marks: Marks,
) -> None:
    for node in body:
        if isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            inner = [*outer, *node.decorator_list]
            _marks_of_body(node.body, f"{name}::{node.name}", inner, values, marks)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if not node.name.startswith("test"):
                continue
            test = f"{name}::{node.name}"
            marks.tests.add(test)
            decorators = [*outer, *node.decorator_list]
            sets = [d for d in decorators if _mark_name(d) == "parametrize"]
            others = [d for d in decorators if _mark_name(d) != "parametrize"]
            proves = not any(_mark_name(d) in NOT_A_PROOF for d in others)
            if proves:
                marks.add([i for d in others for i in _spec_ids(d, test)], test)
            for call in sets:
                for parameter, ids in _parameters(call, values, test):
                    marks.tests.add(f"{test}[{parameter}]")
                    if proves:
                        marks.add(ids, f"{test}[{parameter}]")


def _mark_name(node: ast.expr) -> str:
    """``skip`` of ``pytest.mark.skip`` or ``pytest.mark.skip(...)``; empty for anything else."""
    target = node.func if isinstance(node, ast.Call) else node
    if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Attribute):
        return target.attr if target.value.attr == "mark" else ""
    return ""


def _spec_ids(node: ast.expr, test: str) -> Iterator[str]:
    """Ids of every ``mark.spec(...)`` inside ``node``."""
    for call in ast.walk(node):
        if isinstance(call, ast.Call) and _mark_name(call) == "spec":
            for argument in call.args:
                if not (isinstance(argument, ast.Constant) and isinstance(argument.value, str)):
                    raise ValueError(
                        f"{test}: mark.spec takes literal ids, to be read without running"
                    )
                yield argument.value


# --- marks on parameters --------------------------------------------------------------------------


def _parameters(
    node: ast.expr, values: Mapping[str, ast.expr], test: str
) -> Iterator[tuple[str, list[str]]]:
    """The parameters of ``mark.parametrize`` whose ids can be read, and the features that each proves."""
    assert isinstance(node, ast.Call)
    given = {k.arg: k.value for k in node.keywords}
    listed = node.args[1] if len(node.args) > 1 else given.get("argvalues")
    if isinstance(listed, ast.Name):
        listed = values.get(listed.id)
    if not isinstance(listed, ast.List | ast.Tuple):
        if listed is not None and any(_spec_ids(listed, test)):
            raise ValueError(f"{test}: parameters with marks are written out one by one")
        return
    names = given.get("ids")
    written = names.elts if isinstance(names, ast.List | ast.Tuple) else []
    for index, value in enumerate(listed.elts):
        ids = list(_spec_ids(value, test))
        if any(_mark_name(m) in NOT_A_PROOF for m in _marks_of_parameter(value)):
            ids = []
        own = written[index] if index < len(written) else None
        parameter = _keyword_id(value) or (_id(value, values) if names is None else _text(own))
        if parameter:
            yield parameter, ids
        elif ids:
            raise ValueError(
                f"{test}: a parameter with mark.spec needs an id that can be read: id=…"
            )


def _marks_of_parameter(node: ast.expr) -> Iterator[ast.expr]:
    if _is_param(node):
        for keyword in node.keywords:  # type: ignore[attr-defined]
            if keyword.arg == "marks":
                yield from getattr(keyword.value, "elts", [keyword.value])


def _is_param(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "param"
    )


def _keyword_id(node: ast.expr) -> str:
    keywords = node.keywords if isinstance(node, ast.Call) and _is_param(node) else []
    return next((_text(k.value) for k in keywords if k.arg == "id"), "")


def _id(node: ast.expr, values: Mapping[str, ast.expr]) -> str:
    """The id that pytest gives to a parameter of plain values or of functions; empty if it cannot be read."""
    if isinstance(node, ast.Call) and _is_param(node):
        parts = node.args
    else:
        parts = node.elts if isinstance(node, ast.Tuple) else [node]
    texts = [_text(values.get(p.id) if isinstance(p, ast.Name) else p) for p in parts]
    return "-".join(texts) if all(texts) else ""


def _text(node: ast.expr | None) -> str:
    """A literal as pytest writes it in an id."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str | int | float):
        return str(node.value)
    return ""


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

    for document in yaml.load_all(path.read_text(encoding="utf-8"), _LOADER):
        walk(document, name)


# --- what must hold -------------------------------------------------------------------------------


def problems(
    specs: Specs,
    marks: Marks,
    reach: Reach,
    run: Mapping[str, str],
    untried: Sequence[str] = (),
) -> list[str]:
    """Claims that cannot be true, each as a sentence."""
    features = {f.id: f for _, listed in specs.values() for f in listed}
    unknown = [
        f"{test}: no feature {name} in docs/features.yaml"
        for name, tests in sorted(marks.proofs.items())
        if name not in features
        for test in tests
    ]
    judge = _Judge(marks, reach, run)
    wrong = unknown + [p for f in features.values() for p in judge.problems(f)]
    return wrong + list(_problems_of_rules(features.values(), marks, untried))


def only_rules(feature: Feature, marks: Marks) -> bool:
    """Whether all that shows a feature of the product lies in `RULES`."""
    tests = marks.proofs.get(feature.id) or feature.tests
    return bool(tests) and not feature.harness and all(t.startswith(RULES) for t in tests)


def stale_untried(specs: Specs, marks: Marks, untried: Sequence[str]) -> list[str]:
    """The ids in `UNTRIED` that have a test elsewhere by now, a reason, or no feature."""
    features = {f.id: f for _, listed in specs.values() for f in listed}
    return [
        name
        for name in untried
        if (f := features.get(name)) is None or f.rules_only or not only_rules(f, marks)
    ]


def _problems_of_rules(
    features: Iterable[Feature], marks: Marks, untried: Sequence[str]
) -> Iterator[str]:
    for f in features:
        alone = only_rules(f, marks)
        if alone and not f.rules_only and f.id not in untried:
            yield (
                f"{f.id}: its tests are all in {RULES}, where nothing runs the rule through an operator; mark a test "
                "elsewhere that does, or say in docs/features.yaml why none can: rules_only"
            )
        if f.rules_only and not alone:
            yield f"docs/features.yaml: {f.id} has rules_only, but a test elsewhere, or none at all; take it out"


@dataclass
class _Judge:
    marks: Marks
    reach: Reach
    run: Mapping[str, str]
    """What became of each marked test in the last run that had it: `RAN`, `FAILED`, or why it was skipped."""

    def __post_init__(self) -> None:
        self.runners = [r for r in self.marks.runners if self.reach.of(r)]

    def problems(self, feature: Feature) -> Iterator[str]:
        proofs = self.marks.proofs.get(feature.id, [])
        word = _said(feature)
        if word:
            for test in proofs:
                yield f"docs/features.yaml: {feature.id} is said to be {word}, but {test} claims to prove it"
        if feature.harness and not proofs and not feature.reason:
            yield f"docs/features.yaml: {feature.id} is listed as harness, but no test proves it"
        missing = [t for t in feature.tests if t not in self.marks.tests]
        for test in missing:
            yield f"docs/features.yaml: {feature.id} is said to be replaced, but there is no test {test}"
        tests = proofs or [t for t in feature.tests if t not in missing]
        for test in tests:
            if self.failed(test):
                yield f"{feature.id}: its proof failed when it last ran: {test}"
        if not tests:
            return
        if not feature.harness and not any(self.on_product(t) for t in tests):
            yield (
                f"{feature.id}: none of its tests uses a module that users reach, outside of benchmarks/tests: "
                + ", ".join(tests)
            )
        whole = tests if feature.harness else [t for t in tests if self.on_product(t)]
        if whole and all(self.skipped(t) for t in whole):
            yield f"{feature.id}: its only proof was skipped: " + ", ".join(
                f"{t} ({self.skipped(t)})" for t in whole
            )

    def on_product(self, test: str) -> bool:
        """Whether a test, or who runs a transcript, uses what users reach."""
        if test.startswith(TRANSCRIPTS + "/"):
            return bool(self.runners)
        return not test.startswith(TESTS[1] + "/") and bool(self.reach.of(test))

    def skipped(self, test: str) -> str:
        """Why all runs of a test were skipped; empty if one was not, or if nobody knows of any."""
        fates = self._all_fates(test)
        return "" if {RAN, FAILED} & set(fates) else next(iter(fates), "")

    def failed(self, test: str) -> bool:
        """Whether a test, with one parameter or another, failed when it last ran."""
        return FAILED in self._all_fates(test)

    def _all_fates(self, test: str) -> list[str]:
        """What became of a test's runs, or of those of a transcript."""
        if test.startswith(TRANSCRIPTS + "/"):
            stem = Path(test.partition("::")[0]).stem
            return [f for r in self.runners for f in self._fates(f"{r}[{stem}]")]
        return self._fates(test)

    def _fates(self, test: str) -> list[str]:
        """What became of a test's runs: with ``[x]`` of those with that parameter, otherwise of all."""
        base, _, parameter = test.removesuffix("]").partition("[")
        return [
            fate
            for node, fate in self.run.items()
            if (parts := node.removesuffix("]").partition("["))[0] == base
            and (not parameter or f"-{parameter}-" in f"-{parts[2]}-")
        ]


def load_run(root: Path = ROOT) -> dict[str, str]:
    """What became of marked tests in the last run of each; empty if there was none."""
    path = root / RUN
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


# --- report ---------------------------------------------------------------------------------------


def render(specs: Specs, marks: Marks) -> str:
    """The report, as Markdown."""
    totals, tables = [], []
    for prefix, (title, features) in specs.items():
        rows = [(f, *_state(f, marks)) for f in features]
        count = [sum(1 for _, state, _ in rows if state == s) for s in STATES]
        totals.append((f"{title} ({prefix})", [len(features), *count]))
        tables.append(
            f"\n## {title} ({prefix})\n\n| id | capability | proven by |\n| --- | --- | --- |\n"
        )
        tables.extend(
            f"| {f.id} | {_cell(f.capability)} | {_cell(text)} |\n" for f, _, text in rows
        )
    sums = [sum(column) for column in zip(*(n for _, n in totals))]
    lines = [
        "# Conformance\n\n",
        "What the specifications ask for, and the test that proves it. ",
        "Written by `make conformance` from the marks in the tests; do not edit.\n\n",
        "*Proven*: a test fails if the feature breaks. *Harness*: a baseline, a generator or a measurement, which a test ",
        "proves; it is no part of what users run. *Replaced*: the design meets the need in ",
        "another way, which a test shows. *Open*: not there yet, or not in what users run. *Not built*: nor is it to be, for ",
        "the reason given.\n\n",
        "A parameter in brackets: the test proves the feature with that parameter.\n\n",
        f"| specification | features | {' | '.join(STATES)} |\n",
        f"| --- | ---: |{' ---: |' * len(STATES)}\n",
        *(f"| {name} | " + " | ".join(map(str, n)) + " |\n" for name, n in totals),
        "| **all** | " + " | ".join(f"**{n}**" for n in sums) + " |\n",
    ]
    return "".join(lines + tables)


STATES = ("proven", "harness", "replaced", "open", "not built")


def _said(feature: Feature) -> str:
    """The state that docs/features.yaml gives to a feature that no test may claim to prove; empty if it gives none."""
    if feature.declined:
        return "not built"
    return "replaced" if feature.reason else "open" if feature.lacks else ""


def _state(feature: Feature, marks: Marks) -> tuple[str, str]:
    proofs = marks.proofs.get(feature.id, [])
    if proofs:
        text = "<br>".join(f"`{_short(test)}`" for test in proofs) + _why(feature)
        return ("harness", f"{feature.harness}: {text}") if feature.harness else ("proven", text)
    if feature.reason:
        tests = ", ".join(f"`{_short(test)}`" for test in feature.tests)
        return "replaced", f"replaced by design: {feature.reason} ({tests}){_why(feature)}"
    if feature.declined:
        return "not built", f"not built: {feature.declined}"
    return "open", f"open: {feature.lacks}" if feature.lacks else "open"


def _why(feature: Feature) -> str:
    """Why tests of the rule are all there is."""
    return f"<br>No operator shows it: {feature.rules_only}" if feature.rules_only else ""


def _short(test: str) -> str:
    return test.removeprefix("tests/")


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def main(arguments: list[str] | None = None, root: Path = ROOT, package: str = "slackwater") -> int:
    """Write the report, or check it; the exit code."""
    parser = argparse.ArgumentParser(description="Write docs/conformance.md from the tests' marks.")
    parser.add_argument("--check", action="store_true", help="only say whether it is up to date")
    options = parser.parse_args(arguments)
    specs, marks = load_features(root), collect_marks(root)
    untried = load_untried(root)
    stale = stale_untried(specs, marks, untried)
    wrong = problems(specs, marks, Reach(root, package), load_run(root), untried)
    if options.check:
        wrong += [
            f"{UNTRIED}: {name} is not untried any more; run: make conformance" for name in stale
        ]
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
    prune_untried(stale, root)
    proven = sum(1 for _, features in specs.values() for f in features if f.id in marks.proofs)
    print(f"{REPORT}: {proven} of {sum(len(f) for _, f in specs.values())} features proven")
    return 0


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT / "src"))
    sys.exit(main())
