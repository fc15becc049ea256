"""The column engine: one DuckDB per process. No other module imports duckdb."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from slackwater.kernels import listed
from slackwater.kernels.prepared import Prepared, is_small
from slackwater.kernels.room import spill_error
from slackwater.model.duck_sql import literal
from slackwater.model.names import ours

if TYPE_CHECKING:
    import duckdb

Connection: TypeAlias = "duckdb.DuckDBPyConnection"

_lock = threading.Lock()
_roots: dict[int, duckdb.DuckDBPyConnection] = {}
_local = threading.local()
_spill: str | None = None

SORTED = ours("_sorted")
"""What the rows to be sorted are called in a statement."""

LEAST_TO_SORT = 64 << 20
"""With less the column engine gives up a sort that spills."""

PIECE_ROWS = 16_384
"""Rows of an answer that is given piece by piece."""

NESTED = 3_000
"""Levels that a statement may have, where the engine's default is 1,000: each operator of a path is up to two. Of 8,000 levels the
engine overruns a thread's stack of 8 MB, of 4,000 not yet."""

KEPT = 256
"""Statements and answers that a connection remembers, the latest."""

Shape: TypeAlias = "tuple[str, tuple[tuple[str, pa.Schema], ...]]"
"""A statement and the columns of the tables that it reads, by name."""


def connect(memory: str | None = None) -> duckdb.DuckDBPyConnection:
    """The process's connection: one thread, ``memory`` at most; by default what it was last, 512 MB at first.

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
            for columns, inside in enumerate(listed.FUNCTIONS, 1):
                kinds: list[Any] = ["BIGINT"] * (columns + 1)
                root.create_function(listed.function(columns), inside, kinds, "BOOLEAN", type="arrow")  # type: ignore[call-overload] # fmt: skip
    if getattr(_local, "pid", None) != pid:
        _local.con, _local.pid, _local.memory = _cursor(root), pid, None
        _local.relations, _local.answers = _Latest(), _Latest()
    own: duckdb.DuckDBPyConnection = _local.con
    memory = memory or _local.memory or "512MB"
    if memory != _local.memory:
        own.execute(f"SET memory_limit = {literal(memory)}")
        _local.memory = memory
    return own


def _cursor(root: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    con = root.cursor()
    _set_up(con)
    return con


def _set_up(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("SET preserve_insertion_order = false")
    con.execute("SET enable_progress_bar = false")
    # A name in a statement is a registered table, never a Python variable that happens to exist.
    con.execute("SET python_enable_replacements = false")
    con.execute("SET TimeZone = 'UTC'")
    con.execute(f"SET max_expression_depth = {NESTED}")


@contextmanager
def sorted_rows(
    rows: pa.RecordBatchReader, select: str, memory: int, folder: str
) -> Iterator[Iterator[pa.Table]]:
    """The answer of a statement over ``rows``, piece by piece, by an engine of its own that spills into ``folder``.

    ``select`` calls the rows by `SORTED`. Less memory than `LEAST_TO_SORT` does not do.
    """
    import duckdb

    memory = max(memory, LEAST_TO_SORT)
    config: dict[str, str | bool | int | float | list[str]] = {
        "threads": 1, "memory_limit": f"{memory // 1000}KB", "temp_directory": folder,
        "autoinstall_known_extensions": False, "autoload_known_extensions": False,
    }  # fmt: skip
    with duckdb.connect(":memory:", config=config) as con:
        _set_up(con)
        con.register(SORTED, rows)
        with _spilling(con):
            yield pieces(con, select)


def pieces(con: duckdb.DuckDBPyConnection, select: str) -> Iterator[pa.Table]:
    """The answer of a statement, some rows at a time: it is never in memory as a whole."""
    # A relation gives rows as they come; a statement's result would be put together first.
    relation = con.sql(select)
    read = getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader
    for batch in read(PIECE_ROWS):
        yield plain(pa.Table.from_batches([batch]))


def load() -> None:
    """Import the engine and open nothing, for a process from which others are forked."""
    import duckdb  # noqa: F401


class _Latest(OrderedDict[Shape, Any]):
    """What was used last, by shape."""

    def used(self, shape: Shape) -> Any:
        """What is kept, if anything; it is the latest from now on."""
        if shape not in self:
            return None
        self.move_to_end(shape)
        return self[shape]

    def keep(self, shape: Shape, value: Any) -> None:
        self[shape] = value
        if len(self) > KEPT:
            self.popitem(last=False)


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


def single_value(con: duckdb.DuckDBPyConnection, sql: str) -> Any:
    """The value of a SELECT of one row with one column.

    ``fetchone`` would not do: an answer that is not read to its end keeps the connection from other work.
    """
    ((value,),) = con.execute(sql).fetchall()
    return value


def sql_to_arrow(
    con: duckdb.DuckDBPyConnection, sql: str, tables: Mapping[str, pa.Table]
) -> pa.Table:
    """Run one SELECT over ``tables`` (by name) and return plain Arrow types.

    Plain: no string views, no dictionaries, HUGEINT as decimal(38,0), times in UTC.

    A batch runs the same statements as the one before it. What is kept of a statement is run without being parsed and
    bound once more, and over few rows without being planned; over tables without rows, the answer is the one of the last
    time. So a statement that reads ``tables`` reads nothing else, such as files.
    """
    if con is not getattr(_local, "con", None) or not tables:
        return _answer(con, sql, tables)  # what a file holds is not known from the statement
    shape = (sql, tuple((name, table.schema) for name, table in tables.items()))
    if any(table.num_rows for table in tables.values()):
        kept = _local.relations.used(shape)
        if kept is not None and is_small(tables) and _plans_are_kept():
            if not isinstance(kept, Prepared):
                kept = Prepared(_cursor(con), sql, tables)
                _local.relations.keep(shape, kept)
            with _spilling(con):
                return plain(kept.run(tables))
        return _answer(con, sql, tables, shape)
    answer: pa.Table | None = _local.answers.used(shape)
    if answer is None:
        answer = _answer(con, sql, tables, shape)
        _local.answers.keep(shape, answer)
    return answer


def scan_to_arrow(
    con: duckdb.DuckDBPyConnection, sql: str, tables: Mapping[str, pa.Table]
) -> pa.Table:
    """As `sql_to_arrow`, for a statement that reads files besides: nothing of it is kept."""
    return _answer(con, sql, tables)


def _answer(
    con: duckdb.DuckDBPyConnection,
    sql: str,
    tables: Mapping[str, pa.Table],
    shape: Shape | None = None,
) -> pa.Table:
    """Run a statement; one with a ``shape`` is kept for the next time."""
    for name, table in tables.items():
        con.register(name, table)
    try:
        with _spilling(con):
            relation = None if shape is None else _local.relations.used(shape)
            if relation is None or isinstance(relation, Prepared):
                relation = con.sql(sql)
                if shape is not None and shape not in _local.relations:
                    _local.relations.keep(shape, relation)
            result: pa.Table = relation.to_arrow_table()
    finally:
        for name in tables:
            con.unregister(name)
    return plain(result)


@cache
def _plans_are_kept() -> bool:
    """Whether this engine reads a held table anew in each run of a planned statement."""
    import duckdb

    return int(duckdb.__version__.partition(".")[0]) >= 2


@contextmanager
def _spilling(con: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """No room to spill is told as a full disk, not as a lack of memory."""
    import duckdb

    try:
        yield
    except (duckdb.IOException, duckdb.OutOfMemoryException) as error:
        folder = single_value(con, "SELECT current_setting('temp_directory')")
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
    if pa.types.is_decimal(t) and not pa.types.is_decimal128(t) and t.precision <= 38:
        return pa.decimal128(t.precision, t.scale)  # one with more digits is refused by its name
    if pa.types.is_struct(t):
        return pa.struct([pa.field(f.name, _plain_type(f.type)) for f in t])
    if pa.types.is_map(t):
        return pa.map_(_plain_type(t.key_type), _plain_type(t.item_type))
    if pa.types.is_list(t) or pa.types.is_large_list(t):
        return pa.list_(_plain_type(t.value_type))
    return t
