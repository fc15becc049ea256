"""Which modules of the package a test uses, read from the sources.

A name in a test function leads to where it comes from: to an import of its file, to a function, class or value of its file,
to a fixture of its file or of a ``conftest.py`` above it, and from there on to the names that these use. Modules in ``tests``
and ``benchmarks/tests`` are followed in the same way, and so are the package's own ``testing.executors``, which run a query
for a test. Other modules are not: a function of ``benchmarks`` that runs a query does not speak for the test that calls it.
A name that a local variable hides is counted nevertheless.

What users reach is what ``surface`` imports, directly or not, and the modules of names that the package gives out. What
nearly every test imports tells nothing: ``model``, ``errors`` and ``testing`` do not count.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import TypeAlias

import grimp

FOLLOWED = ("tests", "benchmarks/tests")
EXECUTORS = "testing.executors"
NOT_COUNTED = ("model", "errors", "testing")


Step: TypeAlias = str | set[tuple[Path, str]]
"""Where a name leads to: a module of the package, or names of files that are followed."""


@dataclass
class Names:
    """The names of a file: those that it imports, as (module, name in it), and those that it defines."""

    imported: dict[str, tuple[str, str]] = field(default_factory=dict)
    defined: dict[str, list[ast.stmt]] = field(default_factory=dict)

    def read(self, body: list[ast.stmt]) -> None:
        """Take in the statements of a module, those under ``if`` and the like, too."""
        for node in body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                self.imported.update(imports(node))
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                self.defined.setdefault(node.name, []).append(node)
            elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                for name in (n for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)):
                    self.defined.setdefault(name.id, []).append(node)
            else:
                for part in ("body", "orelse", "finalbody"):
                    self.read(getattr(node, part, []))


def imports(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, tuple[str, str]]]:
    """The names that a statement binds, each with its module and its name there (empty: the module itself)."""
    for alias in node.names:
        if isinstance(node, ast.ImportFrom):
            yield alias.asname or alias.name, (node.module or "", alias.name)
        else:
            yield alias.asname or alias.name.partition(".")[0], (alias.name, "")


class Reach:
    """Answers which modules that users reach a test uses."""

    def __init__(self, root: Path, package: str = "slackwater") -> None:
        self.root, self.package = root, package
        self._read = cache(self._names)
        self._next = cache(self._steps)

    @cached_property
    def modules(self) -> frozenset[str]:
        """All modules of the package."""
        return frozenset(self._graph.modules)

    @cached_property
    def _graph(self) -> grimp.ImportGraph:
        return grimp.build_graph(self.package, cache_dir=None, exclude_type_checking_imports=True)

    @cached_property
    def counted(self) -> frozenset[str]:
        """Modules that users reach, less those that tell nothing."""
        surface = f"{self.package}.surface"
        entries = {m for m in self.modules if m == surface or m.startswith(surface + ".")}
        entries |= {m for m, _ in self._given.values() if m in self.modules}
        reached = set(entries)
        for entry in entries:
            reached |= self._graph.find_upstream_modules(entry)
        silent = tuple(f"{self.package}.{part}" for part in NOT_COUNTED)
        return frozenset(
            m for m in reached if not any(m == s or m.startswith(s + ".") for s in silent)
        )

    @cached_property
    def _given(self) -> dict[str, tuple[str, str]]:
        """The names that the package itself gives to users, with their modules."""
        (found,) = [
            p
            for folder in (self.root / "src", self.root)
            if (p := folder / self.package / "__init__.py").exists()
        ]
        return self._read(found).imported

    def of(self, test: str) -> str:
        """A counted module that ``tests/test_a.py::test_f`` uses; a method has those of its class. Empty: none."""
        file, name = test.partition("[")[0].split("::")[:2]
        start = (self.root / file, name)
        waiting, seen = [start], {start}
        while waiting:
            modules, names = self._next(*waiting.pop())
            if found := modules & self.counted:
                return min(found)
            waiting += names - seen
            seen |= names
        return ""

    # --- names ------------------------------------------------------------------------------------

    def _names(self, path: Path) -> Names:
        names = Names()
        names.read(ast.parse(path.read_text(encoding="utf-8")).body)
        return names

    def _steps(self, path: Path, name: str) -> tuple[frozenset[str], frozenset[tuple[Path, str]]]:
        """Where a name of a file leads to at once: modules of the package, and names of files that are followed."""
        names = self._read(path)
        steps = [self._follow(names.imported[name])] if name in names.imported else []
        for node in names.defined.get(name, []):
            steps += self._used_in(path, node)
        return (
            frozenset(s for s in steps if isinstance(s, str)),
            frozenset(n for s in steps if not isinstance(s, str) for n in s),
        )

    def _used_in(self, path: Path, node: ast.stmt) -> Iterator[Step]:
        names = self._read(path)
        for part in ast.walk(node):
            if isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name):
                module, name = names.imported.get(part.value.id, ("", ""))
                if module == self.package and not name:
                    yield self._follow((module, part.attr))
            elif isinstance(part, ast.Name):
                if part.id in names.imported or part.id in names.defined:
                    yield {(path, part.id)}
            elif isinstance(part, ast.arg):
                yield {(self._fixture_file(path, part.arg), part.arg)}
            elif isinstance(part, ast.Import | ast.ImportFrom):
                for _, source in imports(part):
                    yield self._follow(source)

    def _fixture_file(self, path: Path, name: str) -> Path:
        """The file of a fixture: the test's own, or the nearest conftest.py that has it."""
        if name in self._read(path).defined:
            return path
        for folder in path.parents:
            conftest = folder / "conftest.py"
            if conftest.exists() and name in self._read(conftest).defined:
                return conftest
            if folder == self.root:
                break
        return path

    def _follow(self, source: tuple[str, str]) -> Step:
        """Where an imported name leads to."""
        module, name = source
        whole = f"{module}.{name}" if name else module
        if whole in self.modules or self._helper(whole):
            module, name = whole, ""
        if module == self.package:
            given = self._given.get(name, (module, ""))
            return self._follow(given) if given[0] != module else set()
        if helper := self._helper(module):
            return {(helper, each) for each in ([name] if name else self._read(helper).defined)}
        return module if module in self.modules else set()

    def _helper(self, module: str) -> Path | None:
        """The file of a module beside the tests, or of one that runs queries for them."""
        file = module.replace(".", "/") + ".py"
        if module.startswith(f"{self.package}.{EXECUTORS}."):
            return path if (path := self.root / "src" / file).exists() else None
        if any(file.startswith(folder + "/") for folder in FOLLOWED):
            return path if (path := self.root / file).exists() else None
        return None
