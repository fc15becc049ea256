"""The column engine: one DuckDB per process. No other module imports duckdb."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from slackwater.kernels.room import spill_error
from slackwater.model.duck_sql import literal

if TYPE_CHECKING:
    import duckdb

Connection: TypeAlias = "duckdb.DuckDBPyConnection"

_lock = threading.Lock()
_roots: dict[int, duckdb.DuckDBPyConnection] = {}
_local = threading.local()
_spill: str | None = None


def connect(memory: str = "512MB") -> duckdb.DuckDBPyConnection:
    """The process's connection: one thread, ``memory`` at most.

    It spills to a folder for the owner alone: among the files of the task's executor, or a temporary one.

    Cached by process (a forked worker opens its own: a connection does not survive a fork) and by
    thread (a connection serves one thread). A later call with other limits changes them.
    """
    import duckdb  # here, since the driver only plans and never needs it

    pid = os.getpid()
    with _lock:
        root = _roots.get(pid)
        if root is None:
            _roots.clear()
            root = _roots[pid] = duckdb.connect(
                ":memory:",
                config={
                    "threads": 1,
                    "temp_directory": os.path.join(_spill_folder(), str(pid)),
                    "autoinstall_known_extensions": False,
                    "autoload_known_extensions": False,
                },
            )
    con: duckdb.DuckDBPyConnection | None = getattr(_local, "con", None)
    if con is not None and _local.of == (pid, memory):
        return con
    if con is None or _local.of[0] != pid:
        con = root.cursor()
    con.execute(f"SET memory_limit = {literal(memory)}")
    con.execute("SET preserve_insertion_order = false")
    con.execute("SET enable_progress_bar = false")
    # A name in a statement is a registered table, never a Python variable that happens to exist.
    con.execute("SET python_enable_replacements = false")
    con.execute("SET TimeZone = 'UTC'")
    _local.con, _local.of = con, (pid, memory)
    return con


def _spill_folder() -> str:
    """A folder that only this user may enter; the engine makes and removes one of its own in it when it spills."""
    global _spill
    if _spill is not None:
        return _spill
    # Spark tells its workers where the executor keeps its files; it removes them when it ends.
    for place in filter(None, os.environ.get("SPARK_LOCAL_DIRS", "").split(",")):
        folder = os.path.join(place, "slackwater-spill")
        try:
            os.makedirs(place, exist_ok=True)
            os.mkdir(folder, 0o700)
        except FileExistsError:
            pass
        except OSError:
            continue
        _spill = folder
        return folder
    made = _spill = tempfile.mkdtemp(prefix="slackwater-spill-")
    atexit.register(_remove, made, os.getpid())
    return made


def _remove(folder: str, owner: int) -> None:
    if os.getpid() == owner:  # a fork may use it, and does not own it
        shutil.rmtree(folder, ignore_errors=True)


@atexit.register
def _forget() -> None:
    """Let go of the connections while the interpreter is whole; later the engine complains of leaks."""
    _local.__dict__.clear()
    _roots.clear()


def is_engine_error(error: BaseException) -> bool:
    """Whether the column engine failed at what it was given, and not for want of memory."""
    import duckdb

    return isinstance(error, duckdb.Error) and not isinstance(error, duckdb.OutOfMemoryException)


def sql_to_arrow(
    con: duckdb.DuckDBPyConnection, sql: str, tables: Mapping[str, pa.Table]
) -> pa.Table:
    """Run one SELECT over ``tables`` (by name) and return plain Arrow types.

    Plain: no string views, no dictionaries, HUGEINT as decimal(38,0), times in UTC.
    """
    for name, table in tables.items():
        con.register(name, table)
    try:
        with _spilling(con):
            result: pa.Table = con.sql(sql).to_arrow_table()
    finally:
        for name in tables:
            con.unregister(name)
    return plain(result)


@contextmanager
def _spilling(con: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """No room to spill is told as a full disk, not as a lack of memory."""
    import duckdb

    try:
        yield
    except (duckdb.IOException, duckdb.OutOfMemoryException) as error:
        (folder,) = con.execute("SELECT current_setting('temp_directory')").fetchall()[0]
        full = spill_error(str(error), folder)
        if full is None:
            raise
        raise full from error


def plain(table: pa.Table) -> pa.Table:
    """The table with the Arrow types of ``kernels.types``; the same object if it has them."""
    types = [_plain_type(f.type) for f in table.schema]
    if all(a.equals(f.type) for a, f in zip(types, table.schema)):
        return table
    schema = pa.schema([pa.field(f.name, t) for f, t in zip(table.schema, types)])
    return table.cast(schema)


def _plain_type(t: pa.DataType) -> pa.DataType:
    if pa.types.is_string_view(t) or pa.types.is_large_string(t):
        return pa.string()
    if pa.types.is_binary_view(t) or pa.types.is_large_binary(t):
        return pa.binary()
    if pa.types.is_dictionary(t):
        return _plain_type(t.value_type)
    if pa.types.is_timestamp(t):
        return pa.timestamp("us", "UTC") if t.tz is not None else pa.timestamp("us")
    if pa.types.is_decimal(t) and not pa.types.is_decimal128(t):
        return pa.decimal128(t.precision, t.scale)
    if pa.types.is_struct(t):
        return pa.struct([pa.field(f.name, _plain_type(f.type)) for f in t])
    if pa.types.is_map(t):
        return pa.map_(_plain_type(t.key_type), _plain_type(t.item_type))
    if pa.types.is_list(t) or pa.types.is_large_list(t):
        return pa.list_(_plain_type(t.value_type))
    return t
