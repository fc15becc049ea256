"""Moves modules into their rooms: ``git mv``, and every import of them rewritten.

``python tools/move_modules.py`` moves; with ``--imports`` it only rewrites imports, for files that were written against
the old tree; with ``--texts`` it rewrites names of modules in documents, comments and strings.
``--check BASE`` compares ``ast.dump`` of every moved module, imports aside, with the module at the commit BASE.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SRC = ROOT / "src"

ROOMS: dict[str, dict[str, str]] = {
    "engine": {
        "analysis": "analyse calls conjuncts cut>aggregates expression_text>text markers schema session_settings",
        "store": "checkpoint files manifest runs history failpoints control evidence log_checks",
        "plan": "plan reserved sharing statistics>window_plans placing",
        "paths": "batch wire deliver partition_dirs join_rows task_errors",
        "progress": "progress_step>step quality quality_joins>recall quality_record>record",
        "operators": "program present operators>stateful window_programs adaptive groupwise smoothing low_table "
        "join_operator>join join_spill>bounded_join shared_state>shared ledgers group_task",
        "lowlevel": "low_level>source_task low_level_tasks>tasks fused map_side inputs arrival punctuation "
        "strict_rows quality_rows",
        "driver": "loop intent job row_step handle cleaning records spark_logs recovery moving old_meaning old_times",
    },
    "kernels": {
        "aggregates": "cells comoments holistic kinds limbs overlapping partials sketches tables udaf",
        "windows": "aggregate>partials_step assemble panes landmark by_tuple sessions custom joint row_windows "
        "counting numbering adaptive smoothing low_table shared_panes group_close pattern_match",
        "joins": "join>step join_batch>batch join_spec>spec band_join condition",
        "joins.bounded": "join_blocks>blocks join_chunks>chunks join_group>group join_ledger>ledger "
        "join_marks>marks join_merge>merge join_probe>probe join_regroup>regroup join_residence>residence "
        "join_results>results join_spill>step join_stats>stats",
        "rows": "dedup sort waiting",
    },
    "testing": {
        "oracle": "oracle>nodes oracle_aggregates>aggregates oracle_closing>closing oracle_holistic>holistic "
        "oracle_join>join oracle_join_node>join_node oracle_joint>joint oracle_late>late oracle_local>local "
        "oracle_patterns>patterns oracle_progress>progress oracle_quality>quality oracle_slack>slack "
        "oracle_types>types oracle_window_types>window_types oracle_windows>windows expressions",
        "transcripts": "transcripts>script transcript_query>query transcript_aggregates>aggregates "
        "transcript_conditions>conditions transcript_join>join transcript_windows>windows",
        "executors": "kernel_executor>kernels kernel_join kernel_late kernel_tables program_machine summaries "
        "spark_executor>spark",
    },
}
ELSEWHERE = {
    "slackwater.sources.damage": "slackwater.engine.parquet.damage",
    "slackwater.sources.file_columns": "slackwater.engine.parquet.columns",
    "slackwater.sources.folder_values": "slackwater.engine.parquet.folder_values",
    "slackwater.sources.parquet_types": "slackwater.engine.parquet.types",
    "slackwater.sources.partition_folders": "slackwater.engine.parquet.folders",
    "slackwater.sources.exact_paths": "slackwater.engine.store.exact_paths",
    "slackwater.sources.file_log": "slackwater.engine.store.spark_log",
    "slackwater.sources.log_digest": "slackwater.engine.store.log_digest",
    "slackwater.sources.log_paths": "slackwater.engine.store.log_paths",
    "slackwater.sources.hadoop_checksum": "slackwater.engine.store.hadoop_checksum",
    "slackwater.sources.directories": "slackwater.engine.lowlevel.directories",
    "slackwater.sources.splits": "slackwater.engine.lowlevel.splits",
    "slackwater.sources.time_ranges": "slackwater.engine.lowlevel.time_ranges",
    "slackwater.surface.opening": "slackwater.engine.driver.opening",
}


def moves() -> dict[str, str]:
    """The new name of every module that moves."""
    new = dict(ELSEWHERE)
    for package, rooms in ROOMS.items():
        for room, modules in rooms.items():
            for item in modules.split():
                old, _, name = item.partition(">")
                new[f"slackwater.{package}.{old}"] = f"slackwater.{package}.{room}.{name or old}"
    return new


MOVES = moves()
NEW = set(MOVES.values())


def path_of(module: str) -> Path:
    return SRC / (module.replace(".", "/") + ".py")


def rewritten(text: str) -> str:
    """A module's text with the imports of moved modules rewritten; bound names stay."""
    tree = ast.parse(text)
    lines = text.splitlines(keepends=True)
    for node in sorted(ast.walk(tree), key=lambda n: getattr(n, "lineno", 0), reverse=True):
        if (
            isinstance(node, ast.ImportFrom)
            and node.module
            and node.module.startswith("slackwater")
        ):
            new = _from(node)
        elif isinstance(node, ast.Import) and any(a.name in MOVES for a in node.names):
            raise SystemExit(f"import {node.names[0].name}: write it as 'from ... import'")
        else:
            continue
        if new is None:
            continue
        indent = " " * node.col_offset
        assert node.end_lineno is not None
        tail = lines[node.end_lineno - 1]
        comment = re.search(r"#.*", tail)
        kept = f"  {comment.group()}" if comment else ""
        lines[node.lineno - 1 : node.end_lineno] = [
            f"{indent}{statement}{kept}\n" for statement in new
        ]
    return "".join(lines)


def _from(node: ast.ImportFrom) -> list[str] | None:
    def names(items: list[ast.alias]) -> str:
        return ", ".join(a.name + (f" as {a.asname}" if a.asname else "") for a in items)

    assert node.module is not None
    moved = [a for a in node.names if f"{node.module}.{a.name}" in MOVES]
    # A package may have the name of a module that moved into it.
    new = [a for a in node.names if f"{node.module}.{a.name}" in NEW]
    rest = [a for a in node.names if a not in moved and a not in new]
    module = MOVES.get(node.module, node.module)
    if not moved and (module == node.module or not rest):
        return None
    out = [f"from {module} import {names(rest)}"] if rest else []
    if new:
        out.append(f"from {node.module} import {names(new)}")
    for a in moved:
        package, _, name = MOVES[f"{node.module}.{a.name}"].rpartition(".")
        bound = a.asname or a.name
        out.append(f"from {package} import {name}" + (f" as {bound}" if bound != name else ""))
    return out


def sources() -> list[Path]:
    out = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "*.py"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    return [
        ROOT / p for p in out.stdout.split() if (ROOT / p).exists() and p != "tools/move_modules.py"
    ]


def move() -> None:
    for old, new in MOVES.items():
        if not path_of(old).exists():
            continue
        target = path_of(new)
        for folder in (target.parent, *target.parent.parents):
            if folder == SRC:
                break
            folder.mkdir(exist_ok=True)
            (folder / "__init__.py").touch()
        # A module may have the name of the package it moves to: git wants it out of the way first.
        subprocess.run(["git", "mv", str(path_of(old)), str(target)], cwd=ROOT, check=True)


def rewrite_imports() -> None:
    for path in sources():
        text = path.read_text()
        new = rewritten(text)
        if new != text:
            path.write_text(new)


def _renamed(match: re.Match[str]) -> str:
    module, rest = match.group(1), match.group(2) or ""
    # The first words are a new package's already, as in an import that was rewritten.
    if module + rest in NEW or (
        not rest and match.string[: match.start()].rpartition("\n")[2].strip() == "from"
    ):
        return match.group()
    return MOVES[module] + rest


def rewrite_texts() -> None:
    """Dotted names and paths of moved modules in documents, comments and strings."""
    pattern = re.compile(
        r"\b("
        + "|".join(re.escape(m) for m in sorted(MOVES, key=len, reverse=True))
        + r")\b(?!\.py)(\.[a-z_]+\b)?"
    )
    short = {
        m.removeprefix("slackwater.").replace(".", "/"): n.removeprefix("slackwater.").replace(
            ".", "/"
        )
        for m, n in MOVES.items()
    }
    paths = re.compile(
        r"\b(" + "|".join(re.escape(m) for m in sorted(short, key=len, reverse=True)) + r")\.py\b"
    )
    out = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    for name in out.stdout.split("\n"):
        path = ROOT / name
        if (
            not name
            or name == "tools/move_modules.py"
            or path.suffix not in {".py", ".md", ".toml", ".sh", ".yaml", ""}
            or not path.is_file()
        ):
            continue
        if name in {"CHANGELOG.md"}:
            continue
        text = path.read_text()
        new = pattern.sub(_renamed, text)
        new = paths.sub(lambda m: short[m.group(1)] + ".py", new)
        if new != text:
            path.write_text(new)


def dumped(text: str) -> str:
    """A module's tree without its imports."""

    class Drop(ast.NodeTransformer):
        def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
            return None

        visit_Import = visit_ImportFrom  # noqa: N815

    return ast.dump(Drop().visit(ast.parse(text)))


def check(base: str) -> None:
    """Every moved module, and every other one, is the same as at ``base``, imports aside."""
    new_of = {str(path_of(o).relative_to(ROOT)): path_of(n) for o, n in MOVES.items()}
    out = subprocess.run(
        ["git", "ls-tree", "-r", "--name-only", base],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    different = compared = 0
    for name in out.stdout.split():
        if not name.endswith(".py"):
            continue
        old = subprocess.run(
            ["git", "show", f"{base}:{name}"], cwd=ROOT, check=True, capture_output=True, text=True
        ).stdout
        path = new_of.get(name, ROOT / name)
        compared += 1
        if not path.exists() or dumped(old) != dumped(path.read_text()):
            different += 1
            print("differs:", name)
    print(f"{compared} modules compared, {different} differ")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--check"]:
        check(sys.argv[2])
    elif sys.argv[1:] == ["--texts"]:
        rewrite_texts()
    else:
        if sys.argv[1:] != ["--imports"]:
            move()
        rewrite_imports()
