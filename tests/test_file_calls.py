"""Who touches a file of a checkpoint or of a sink does it through `Storage`: no other file call stands in the code.

The engine, the sinks and the kernels are read as syntax trees. What looks like a call that reaches a file must be in `ALLOWED`, by file
and call, with a reason; an entry that nothing needs any more fails as well. Types are unknown here, so a call is known by its name and the number
of its arguments: `path.exists()` is one of pathlib's, `storage.exists(path)` is not.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import slackwater

ROOT = Path(slackwater.__path__[0])
FILES = sorted(
    str(p.relative_to(ROOT)) for room in ("engine", "sinks", "kernels") for p in (ROOT / room).rglob("*.py")
)  # fmt: skip

IMPLEMENTATION = "engine/store/local.py"

INPUT = "input files are no part of a checkpoint"
LOGS = "Spark's own logs: Spark writes them, on whatever file system it knows"

ALLOWED: dict[str, tuple[str, set[str]]] = {
    # input
    "engine/lowlevel/daemon.py": ("no file: the process ends", {"os._exit"}),
    "engine/lowlevel/splits.py": (INPUT, {"os.path.getsize"}),
    "engine/parquet/columns.py": (INPUT, {"pq.read_metadata"}),
    "engine/parquet/damage.py": (INPUT, {"pq.ParquetFile", "SQL read_parquet("}),
    "engine/parquet/folders.py": (INPUT, {"os.path.getsize"}),
    "engine/store/versions.py": ("files of relations are input", {"os.stat"}),
    "engine/paths/relation_tables.py": (
        "bytes that `KeptFiles` maps, read as a table",
        {"pa.ipc.open_file"},
    ),
    "engine/paths/relation_files.py": ("files of relations are input", {"pq.ParquetFile"}),
    "engine/store/copies.py": ("bytes in memory, which a `Storage` writes", {"pa.ipc.new_file"}),
    "engine/paths/segments.py": (
        "files of relations are input, and bytes that `KeptFiles` maps",
        {"pq.ParquetFile", "pa.ipc.open_file"},
    ),
    "engine/store/exact_paths.py": (
        "links to input files, for a column engine that takes their names for patterns",
        {"tempfile.TemporaryDirectory", "tempfile.gettempdir", "os.symlink", "os.access"},
    ),
    # Spark's logs
    "engine/store/hadoop_checksum.py": (LOGS, {".read_bytes"}),
    "engine/store/log_checks.py": (
        LOGS,
        {".read_bytes", ".exists()", ".is_dir", ".is_file", ".iterdir", ".rglob"},
    ),
    "engine/store/log_digest.py": (
        LOGS,
        {".read_bytes", ".exists()", ".is_dir", ".iterdir", ".glob"},
    ),
    "engine/store/log_paths.py": (LOGS, {".read_text", ".is_dir", ".iterdir"}),
    "engine/store/spark_log.py": (
        f"{LOGS}; identity() is of input files",
        {".read_bytes", ".exists()", ".is_dir", ".iterdir", ".glob", ".unlink", "os.stat"},
    ),
    "engine/driver/moving.py": (
        f"{INPUT}, and a log that is rewritten gets the mode that Spark gave it",
        {"os.path.exists", "os.path.isdir", "os.path.samefile", "os.walk", "shutil.copymode"},
    ),
    # scratch of a machine
    "kernels/column_engine.py": (
        "where the column engine spills: nothing of it outlives the process",
        {"os.makedirs", "os.mkdir", "shutil.rmtree", "tempfile.mkdtemp"},
    ),
    "engine/store/kept.py": (
        "what an executor keeps between batches: nothing depends on it, and Spark removes it with the executor",
        {
            ".exists()",
            ".is_dir",
            ".stat()",
            "open",
            "pa.memory_map",
            "mmap.PROT_READ",
            "mmap.mmap",
            "os.O_CLOEXEC",
            "os.O_RDONLY",
            "os.fstat",
            ".read_text",
            ".mkdir",
            ".lstat",
            "shutil.disk_usage",
            "fcntl.LOCK_EX",
            "fcntl.LOCK_NB",
            "fcntl.LOCK_SH",
            "fcntl.flock",
            "os.O_CREAT",
            "os.O_RDWR",
            "os.O_WRONLY",
            "os.DirEntry",
            "os.close",
            "os.getuid",
            "os.makedirs",
            "os.open",
            "os.path.isdir",
            "os.replace",
            "os.scandir",
            "os.stat",
            "os.unlink",
            "os.walk",
            "os.write",
            "shutil.rmtree",
        },
    ),
    "engine/store/failpoints.py": (
        "hits that the processes of a fault test count together",
        {
            "os.O_APPEND",
            "os.O_CREAT",
            "os.O_WRONLY",
            "os.SEEK_CUR",
            "os.close",
            "os.lseek",
            "os.open",
            "os.write",
        },
    ),
    "kernels/room.py": (
        "how much room a disk has, for the error that it is full",
        {"shutil.disk_usage"},
    ),
}

# Of `os` and `os.path` what needs no file; the rest of them reaches one.
PURE = {
    "os.environ", "os.fspath", "os.getpid", "os.kill", "os.killpg", "os.PathLike", "os.strerror", "os.urandom",
    "os.R_OK", "os.W_OK", "os.X_OK",
    "os.path", "os.path.abspath", "os.path.basename", "os.path.dirname", "os.path.join", "os.path.normpath",
}  # fmt: skip
MODULES = {"fcntl", "glob", "io", "mmap", "os", "shutil", "subprocess", "tempfile", "zipfile"}
PATHLIB = {
    "chmod", "glob", "hardlink_to", "is_dir", "is_file", "is_symlink", "iterdir", "lchmod", "lstat", "mkdir",
    "read_bytes", "read_text", "readlink", "resolve", "rglob", "rmdir", "samefile", "symlink_to", "touch",
    "unlink", "walk", "write_bytes", "write_text",
}  # fmt: skip
SHARED = {"exists": 0, "stat": 0, "rename": 1, "replace": 1, "open": 2}
"""Names that others have as well: pathlib's take no more arguments than these."""

COUNTS = {"read_bytes"}
"""Names that a value may have as well: they count if they are called."""

PARQUET = {
    "ParquetDataset", "ParquetFile", "ParquetWriter", "read_metadata", "read_pandas", "read_schema", "read_table",
    "write_metadata", "write_table", "write_to_dataset",
}  # fmt: skip
ARROW = {"OSFile", "create_memory_map", "input_stream", "memory_map", "output_stream"}
STREAMS = {"new_file", "new_stream", "open_file", "open_stream"}
READERS = {"csv", "dataset", "feather", "fs", "json", "orc"}
NUMPY = {"fromfile", "load", "loadtxt", "memmap", "save", "savetxt", "savez", "tofile"}
IN_MEMORY = {
    "pa.BufferOutputStream", "pa.BufferReader", "pa.MockOutputStream", "pa.PythonFile", "pa.py_buffer",
}  # fmt: skip
SQL = re.compile(
    r"\bread_(?:parquet|csv|json|text|blob)\w*\(|\bparquet_scan\(|\bCOPY\s|\bATTACH\s|\b(?:EXPORT|IMPORT) DATABASE\b"
)


class Call(NamedTuple):
    """Something that reaches a file."""

    line: int
    what: str


def file_calls(text: str) -> Iterator[Call]:
    """All that a module's code does to files, as far as its names tell."""
    tree = ast.parse(text)
    names = _modules(tree)
    known = _opened(tree, names)
    prose = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr)}
    called = {id(n.func) for n in ast.walk(tree) if isinstance(n, ast.Call)}
    for node in ast.walk(tree):
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.ImportFrom) and node.module in MODULES | {"os.path"}:
            for name in node.names:
                if f"{node.module}.{name.name}" not in PURE:
                    yield Call(line, f"{node.module}.{name.name}")
        elif isinstance(node, ast.ImportFrom | ast.Import):
            for name in node.names:
                whole = f"{getattr(node, 'module', None) or ''}.{name.name}".strip(".")
                if whole in {f"pyarrow.{r}" for r in READERS}:
                    yield Call(line, whole)
        elif isinstance(node, ast.Attribute):
            whole = _dotted(node, names)
            module = whole.partition(".")[0]
            of_path = node.attr in PATHLIB and (id(node) in called or node.attr not in COUNTS)
            if module in MODULES and not whole.startswith("os.environ.") and whole not in PURE:
                yield Call(line, whole)
            elif of_path or (module == "Path" and node.attr in {*SHARED, *PATHLIB}):
                yield Call(line, f".{node.attr}")
        elif isinstance(node, ast.Call):
            yield from _called(node, names, known)
        elif isinstance(node, ast.Constant) and id(node) not in prose:
            found = SQL.search(node.value) if isinstance(node.value, str) else None
            if found is not None:
                yield Call(line, f"SQL {found.group().strip()}")


def _modules(tree: ast.AST) -> dict[str, str]:
    """What names stand for that were imported, as this test calls it."""
    short = {
        "numpy": "np", "pathlib.Path": "Path", "pyarrow": "pa", "pyarrow.ipc": "pa.ipc", "pyarrow.parquet": "pq",
    }  # fmt: skip
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                top = name.name if name.asname else name.name.partition(".")[0]
                names[name.asname or top] = short.get(top, top)
        elif isinstance(node, ast.ImportFrom):
            module = short.get(node.module or "", node.module)
            for name in node.names:
                whole = f"{node.module}.{name.name}"
                names[name.asname or name.name] = short.get(whole, f"{module}.{name.name}")
    return names


def _dotted(node: ast.expr, names: dict[str, str]) -> str:
    """The whole name of an attribute, as far as it is one; empty for that of a value."""
    if isinstance(node, ast.Name):
        return names.get(node.id, "")
    if isinstance(node, ast.Attribute):
        before = _dotted(node.value, names)
        whole = f"{before}.{node.attr}" if before else ""
        return "pq" if whole == "pa.parquet" else whole
    return ""


def _opened(tree: ast.AST, names: dict[str, str]) -> set[str]:
    """Names of files that a storage opened, and of buffers."""
    known: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.withitem) and isinstance(node.optional_vars, ast.Name):
            made, name = node.context_expr, node.optional_vars.id
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            made, name = node.value, node.targets[0].id
        else:
            continue
        by_storage = isinstance(made, ast.Call) and getattr(made.func, "attr", "") == "writer"
        if by_storage or _in_memory(made, names):
            known.add(name)
    return known


def _in_memory(node: ast.expr, names: dict[str, str]) -> bool:
    return isinstance(node, ast.Call) and _dotted(node.func, names) in IN_MEMORY


def _called(node: ast.Call, names: dict[str, str], known: set[str]) -> Iterator[Call]:
    whole = _dotted(node.func, names)
    package, _, name = whole.rpartition(".")
    if isinstance(node.func, ast.Name) and node.func.id == "open":
        yield Call(node.lineno, "open")
    elif isinstance(node.func, ast.Attribute) and package not in MODULES:
        # `replace` of a text has two arguments, that of a dataclass has keywords.
        of_value = node.func.attr == "replace" and (node.keywords or not node.args)
        if len(node.args) <= SHARED.get(node.func.attr, -1) and not of_value:
            yield Call(node.lineno, f".{node.func.attr}()")
    if (package == "pq" and name in PARQUET) or (package == "pa.ipc" and name in STREAMS):
        files = node.args[1:2] if name.startswith("write") else node.args[:1]
        opened = [isinstance(f, ast.Name) and f.id in known for f in files]
        if not any(opened) and not any(_in_memory(f, names) for f in files):
            yield Call(node.lineno, whole)
    elif (package == "pa" and name in ARROW) or (package == "np" and name in NUMPY):
        yield Call(node.lineno, whole)


@pytest.mark.parametrize("file", [f for f in FILES if f != IMPLEMENTATION])
def test_files_are_reached_through_the_storage_alone(file: str) -> None:
    reason, allowed = ALLOWED.get(file, ("", set()))
    calls = list(file_calls((ROOT / file).read_text(encoding="utf-8")))
    found = [f"src/slackwater/{file}:{c.line}: {c.what}" for c in calls if c.what not in allowed]
    assert not found, f"{found}: ask the Storage that the checkpoint or the sink has"
    unused = allowed - {c.what for c in calls}
    assert not unused, f"{file} no longer needs {unused}: take them out of ALLOWED"
    assert not allowed or reason


def test_all_that_is_allowed_is_there() -> None:
    assert set(ALLOWED) <= set(FILES) and IMPLEMENTATION in FILES


@pytest.mark.parametrize(
    "text",
    [
        "open(path)",
        "with open(path, 'rb') as f: pass",
        "import os\nos.unlink(path)",
        "import os as system\nsystem.replace(a, b)",
        "import os\nos.path.exists(path)",
        "import os\nos.path.getsize(path)",
        "import os\nos.fsync(fd)",
        "import os\nos.scandir(path)",
        "from os import path, unlink",
        "from os.path import exists",
        "import shutil\nshutil.rmtree(path)",
        "from shutil import rmtree as gone",
        "import tempfile\ntempfile.mkdtemp()",
        "import fcntl\nfcntl.flock(fd, 1)",
        "import glob\nglob.glob('*')",
        "import io\nio.open(path)",
        "import subprocess\nsubprocess.run(['rm', path])",
        *(f"path.{name}()" for name in sorted(PATHLIB)),
        "path.exists()",
        "(folder / name).exists()",
        "path.stat().st_size",
        "path.rename(target)",
        "path.replace(target)",
        "path.open()",
        "path.open('rb', encoding='utf-8')",
        "from pathlib import Path\nmap(Path.exists, paths)",
        "from slackwater.x import ROOT\nROOT.exists()",
        "map(type(p).unlink, paths)",
        "import pyarrow.parquet as pq\npq.write_table(table, path)",
        "import pyarrow.parquet as pq\npq.read_table(self.staged / name)",
        "import pyarrow.parquet\npyarrow.parquet.read_table(path)",
        "from pyarrow import parquet\nparquet.ParquetFile(path)",
        "from pyarrow.parquet import ParquetFile\nParquetFile(path)",
        "from pyarrow.parquet import read_table as read\nread(path)",
        "import pyarrow as pa\npa.memory_map(path)",
        "import pyarrow as pa\npa.OSFile(path)",
        "import pyarrow as pa\npa.ipc.open_file(path)",
        "import pyarrow as pa\npa.ipc.new_file(path, schema)",
        "from pyarrow import ipc\nipc.open_file(path)",
        "import pyarrow.dataset as ds",
        "from pyarrow import fs",
        "import numpy as np\nnp.memmap(path)",
        "con.execute(f\"COPY (SELECT 1) TO '{path}'\")",
        "sql = f\"SELECT * FROM read_parquet('{path}')\"",
        "con.execute(\"ATTACH 'x.db'\")",
    ],
)
def test_a_call_that_reaches_a_file_is_found(text: str) -> None:
    assert list(file_calls(text)), text


@pytest.mark.parametrize(
    "text",
    [
        "storage.exists(path)",
        "storage.rename(a, b)",
        "storage.list(folder)",
        "text.replace('a', 'b')",
        "from dataclasses import replace\nreplace(value, field=1)",
        "super().open(spark, checkpoint, query_id)",
        "import os\nos.path.join(a, b)\nos.urandom(4)",
        "import pyarrow.parquet as pq\nwith storage.writer(p) as out:\n    pq.write_table(t, out)",
        "import pyarrow.parquet as pq\nimport pyarrow as pa\npq.read_table(pa.BufferReader(data))",
        "import pyarrow as pa\nsink = pa.BufferOutputStream()\npa.ipc.new_file(sink, schema)",
        "import pyarrow as pa\npa.ipc.open_file(pa.py_buffer(data))",
        "spark.read.parquet(path)",
        "def f():\n    'COPY a TO b; open(path)'",
    ],
)
def test_what_reaches_no_file_is_not_found(text: str) -> None:
    assert not list(file_calls(text)), text
