"""``python -m tools.house [ROOM ...]``: how heavy the house is, counted from the syntax tree.

Without a room all figures are printed. ``--check`` fails if one is above its limit: limits are what the tree has now, so that a
change can only lower them; ``--record`` writes lower ones down. What is wanted in the end stands beside each.

A *capability* is what a query may have or not and what is not an operator. A module is its own if its path says so; any other
engine module that has a name of it in its code, a parameter or an attribute, too, is a thread that leads out of it.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "slackwater"
ENGINE = PACKAGE / "engine"
LOOP = ENGINE / "driver" / "loop.py"
LIMITS = ROOT / "tools" / "house.json"
SMALL = 60
HELD_BY_USERS = "Stream"
"""The class that may be long: users hold it, and it has a method for whatever they may ask of it."""
WORKER = "slackwater.engine.operators.group_task"
"""What Spark's workers import for any query."""


@dataclass(frozen=True)
class Capability:
    """Where a capability is at home, and the names by which other modules speak of it."""

    home: re.Pattern[str]
    names: re.Pattern[str]


CAPABILITIES = {
    "feedback": Capability(
        re.compile(r"feedback|guards?\b|seal|stations|filters"),
        re.compile(r"[Ff]eedback|^guards?$|GuardStep|[Ss]eal"),
    ),
    "pace": Capability(re.compile(r"pace"), re.compile(r"(?<!s)pace[ds]?(_|$)|Pace")),
    "relations": Capability(
        re.compile(r"relation|copies|waiting|resident|segment|held"), re.compile(r"[Rr]elation")
    ),
}


@dataclass(frozen=True)
class Figure:
    """A number of the house, what is wanted of it, and where it comes from."""

    name: str
    count: int
    wanted: int
    places: tuple[str, ...] = ()


@cache
def tree(path: Path) -> ast.Module:
    """The syntax tree of a file."""
    return ast.parse(path.read_text(encoding="utf-8"))


def modules(root: Path, *, testing: bool = False) -> list[Path]:
    """The modules below a folder; those of the testing kit if asked for."""
    kit = PACKAGE / "testing"
    return sorted(p for p in root.rglob("*.py") if testing or not p.is_relative_to(kit))


def names(node: ast.AST) -> Iterator[str]:
    """All names in a piece of code: what it defines, reads, imports, asks for."""
    for n in ast.walk(node):
        match n:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                yield name
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.keyword(arg=str(name)):
                yield name
            case ast.ImportFrom(module=str(module)):
                yield from module.split(".")
                yield from (a.name for a in n.names)


def mentions(node: ast.AST, capability: Capability) -> bool:
    """Whether a piece of code has a name of a capability."""
    return any(capability.names.search(n) for n in names(node))


def lines_of(path: Path) -> int:
    """The lines of a file."""
    return len(path.read_text(encoding="utf-8").splitlines())


def loop() -> Iterator[Figure]:
    """The loop: how long its batch is, what it imports, how much of it belongs to guests."""
    found = tree(LOOP)
    (run,) = (n for n in ast.walk(found) if isinstance(n, ast.FunctionDef) and n.name == "run")
    yield Figure("lines of run", (run.end_lineno or 0) - run.lineno + 1, 35)
    ours = [
        n for n in found.body if isinstance(n, ast.ImportFrom) and "slackwater" in str(n.module)
    ]
    yield Figure("imports of the loop", len(ours), 18)
    statements = [n for n in ast.walk(run) if isinstance(n, ast.stmt) and not hasattr(n, "body")]
    guests = [s for s in statements if any(mentions(s, c) for c in CAPABILITIES.values())]
    yield Figure("statements of guests in run", len(guests), 0)


def threads() -> Iterator[Figure]:
    """Engine modules that name a capability and are not its own."""
    for name, capability in CAPABILITIES.items():
        places = tuple(
            str(p.relative_to(ENGINE))
            for p in modules(ENGINE)
            if not capability.home.search(str(p.relative_to(ENGINE)))
            and mentions(tree(p), capability)
        )
        yield Figure(f"modules that name {name}", len(places), 0, places)


def fields() -> Iterator[Figure]:
    """Fields of the documents and of what a task is given."""
    wanted = {"Batch": 18, "Manifest": 18, "Intent": 13}
    for path in modules(ENGINE):
        for node in tree(path).body:
            if isinstance(node, ast.ClassDef) and node.name in wanted and _is_value(node):
                own = [n for n in node.body if isinstance(n, ast.AnnAssign) and "ClassVar" not in ast.unparse(n.annotation)]  # fmt: skip
                yield Figure(f"fields of {node.name}", len(own), wanted[node.name])


def _is_value(node: ast.ClassDef) -> bool:
    return any("dataclass" in ast.unparse(d) for d in node.decorator_list)


def steps() -> Iterator[Figure]:
    """Questions which kind of step something is: each new kind must answer all of them."""
    kinds = {
        n.name
        for n in tree(ENGINE / "plan" / "steps.py").body
        if isinstance(n, ast.ClassDef) and n.name.endswith("Step")
    } if (ENGINE / "plan" / "steps.py").exists() else set()  # fmt: skip
    asked = {
        p: n for p in modules(PACKAGE) if (n := sum(_asks(e, kinds) for e in ast.walk(tree(p))))
    }
    places = tuple(str(p.relative_to(PACKAGE)) for p in asked)
    yield Figure("questions for the kind of a step", sum(asked.values()), 0, places)


def _asks(node: ast.AST, kinds: set[str]) -> int:
    match node:
        case ast.Call(func=ast.Name(id="isinstance"), args=[_, kind]):
            return int(any(n in kinds for n in names(kind)))
        case ast.MatchClass(cls=ast.Name(id=name)):
            return int(name in kinds)
    return 0


def sizes() -> Iterator[Figure]:
    """The largest class, and modules that are hardly worth one."""
    classes = [
        ((n.end_lineno or 0) - n.lineno + 1, f"{n.name} in {p.relative_to(PACKAGE)}")
        for p in modules(PACKAGE)
        for n in ast.walk(tree(p))
        if isinstance(n, ast.ClassDef) and n.name != HELD_BY_USERS
    ]
    most = sorted(classes, reverse=True)[:5]
    yield Figure("lines of the largest class", most[0][0], 250, tuple(f"{n} {c}" for n, c in most))
    small = [p for p in modules(PACKAGE) if p.name != "__init__.py" and lines_of(p) < SMALL]
    yield Figure(f"modules below {SMALL} lines", len(small), 60)


def lines() -> Iterator[Figure]:
    """All lines, blank ones too."""
    yield Figure("lines of src without testing", sum(map(lines_of, modules(PACKAGE))), 73_000)
    tests = sorted((ROOT / "tests").rglob("*.py"))
    yield Figure("lines of tests", sum(map(lines_of, tests)), 60_000)


def codecs() -> Iterator[Figure]:
    """Functions that write and read one value's JSON by hand."""
    by_hand = [
        f"{p.relative_to(PACKAGE)}"
        for p in modules(PACKAGE)
        for n in ast.walk(tree(p))
        if isinstance(n, ast.FunctionDef) and n.name in ("to_json", "from_json")
    ]
    yield Figure("to_json and from_json", len(by_hand), 12)


def worker() -> Iterator[Figure]:
    """What a worker imports for any query, and how much of it belongs to capabilities."""
    code = f"import {WORKER}, sys; print(*(m for m in sys.modules if m.startswith('slackwater')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)  # fmt: skip
    imported = done.stdout.split()
    guests = tuple(
        sorted(m for m in imported if any(c.home.search(m) for c in CAPABILITIES.values()))
    )
    yield Figure("modules that a worker imports", len(imported), 302)
    yield Figure("of these of capabilities", len(guests), 0, guests)


ROOMS: dict[str, Callable[[], Iterator[Figure]]] = {
    f.__name__: f for f in (loop, threads, fields, steps, sizes, lines, codecs, worker)
}


def too_heavy(figures: list[Figure], limits: dict[str, int]) -> list[str]:
    """What is above its limit, as lines that say so."""
    return [
        f"{f.name}: {f.count}, and the limit is {limits[f.name]}"
        for f in figures
        if f.count > limits.get(f.name, f.count)
    ]


def main(words: list[str] | None = None) -> int:
    """Print figures; 1 if one is too high."""
    parser = argparse.ArgumentParser(prog="python -m tools.house", description=__doc__)
    parser.add_argument("rooms", nargs="*", metavar="ROOM", help=", ".join(ROOMS))
    parser.add_argument("--check", action="store_true", help="fail if a figure is above its limit")
    parser.add_argument("--record", action="store_true", help="write lower limits down")
    parser.add_argument("--places", action="store_true", help="name what is counted")
    asked = parser.parse_args(words)
    if unknown := set(asked.rooms) - set(ROOMS):
        parser.error(f"there is no room {min(unknown)!r}: take {', '.join(ROOMS)}")
    figures = [f for name in asked.rooms or ROOMS for f in ROOMS[name]()]
    limits: dict[str, int] = json.loads(LIMITS.read_text()) if LIMITS.exists() else {}
    for f in figures:
        print(
            f"{f.name:36} {f.count:7,}   limit {limits.get(f.name, f.count):7,}   wanted {f.wanted:7,}"
        )
        if asked.places and f.places:
            print("\n".join(f"    {p}" for p in f.places))
    if asked.record:
        lower = {f.name: min(f.count, limits.get(f.name, f.count)) for f in figures}
        LIMITS.write_text(json.dumps({**limits, **lower}, indent=1) + "\n")
    problems = too_heavy(figures, limits) if asked.check else []
    for line in problems:
        print(f"too heavy: {line}", file=sys.stderr)
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
