"""The column engine's connection."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pyarrow as pa
import pytest

from slackwater.kernels import column_engine
from slackwater.kernels.column_engine import connect, single_value, sql_to_arrow
from slackwater.kernels.prepared import FEW, Prepared
from slackwater.model.duck_sql import literal, quote


def setting(con, name: str) -> str:
    return con.execute(f"SELECT current_setting('{name}')").fetchall()[0][0]


def test_one_connection_per_process_with_limits():
    con = connect("256MB")
    assert connect("256MB") is con
    assert setting(con, "threads") == 1
    assert setting(con, "memory_limit").startswith("244")  # MiB
    assert setting(con, "TimeZone") == "UTC"
    assert not setting(con, "preserve_insertion_order")
    assert not setting(con, "autoinstall_known_extensions")
    assert not setting(con, "autoload_known_extensions")
    assert setting(connect(), "memory_limit").startswith(
        "244"
    )  # whoever says nothing changes nothing
    assert setting(connect("512MB"), "memory_limit").startswith("488")


def test_each_thread_and_each_forked_process_has_its_own():
    con = connect()
    other = []
    thread = threading.Thread(target=lambda: other.append(connect()))
    thread.start()
    thread.join()
    assert other[0] is not con
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        answer = b"n"
        try:
            again = connect()
            if again is not con and again.execute("SELECT 42").fetchall() == [(42,)]:
                answer = b"y"
        finally:
            os.write(write, answer)
            os._exit(0)
    os.waitpid(pid, 0)
    assert os.read(read, 1) == b"y"


def test_a_single_value_leaves_the_connection_free():
    """The engine refuses other work on a connection until an answer was read to its end."""
    con = connect()
    assert single_value(con, "SELECT 6 * 7") == 42
    assert sql_to_arrow(con, "SELECT v FROM t", {"t": pa.table({"v": [1]})}).num_rows == 1
    with pytest.raises(ValueError):
        single_value(con, "SELECT * FROM range(2)")
    assert sql_to_arrow(con, "SELECT v FROM t", {"t": pa.table({"v": [1]})}).num_rows == 1


def test_tables_are_forgotten_even_after_an_error():
    con = connect()
    table = pa.table({"x": [1, 2]})
    assert sql_to_arrow(con, "SELECT sum(x) AS s FROM gone", {"gone": table}).to_pylist() == [
        {"s": 3}
    ]
    with pytest.raises(Exception, match="nosuch"):
        sql_to_arrow(con, "SELECT nosuch FROM gone", {"gone": table})
    with pytest.raises(Exception, match="gone"):
        sql_to_arrow(con, "SELECT * FROM gone", {})


def test_a_statement_that_runs_again_sees_the_tables_of_now():
    def total(*values: object, type: pa.DataType = pa.int64()) -> list[dict[str, object]]:  # noqa: B008
        table = pa.table({"x": pa.array(values, type)})
        sql = "SELECT max(x) AS m, count(*) AS n FROM again"
        return sql_to_arrow(connect(), sql, {"again": table}).to_pylist()

    for _ in range(2):
        assert total() == [{"m": None, "n": 0}]
        assert total(1, 3) == [{"m": 3, "n": 2}]
        assert total(5) == [{"m": 5, "n": 1}]
        assert total("a", "b", type=pa.string()) == [{"m": "b", "n": 2}]


def test_a_planned_statement_reads_its_own_table_whatever_else_has_its_name():
    """From its third time on a statement over few rows is not planned again."""
    con, sql = connect(), "SELECT x, count(*) AS n FROM named WHERE x > 1 GROUP BY x ORDER BY x"
    shape = (sql, (("named", pa.schema([("x", pa.int64())])),))

    def counted(*values: int) -> list[tuple[object, object]]:
        table = pa.table({"x": pa.array(values, pa.int64())})
        return [(r["x"], r["n"]) for r in sql_to_arrow(con, sql, {"named": table}).to_pylist()]

    for number in range(4):
        assert counted(1, 2, number + 3) == [(2, 1), (number + 3, 1)]
        assert isinstance(column_engine._local.relations[shape], Prepared) == (number > 0)
        other = {"named": pa.table({"x": ["a", "b"]})}
        assert sql_to_arrow(con, "SELECT max(x) AS m FROM named", other)["m"].to_pylist() == ["b"]
        # After such changes the engine plans anew what was planned before.
        con.execute("CREATE TABLE another AS SELECT 7 AS x")
        connect(f"{500 + number}MB")
        assert counted(*range(FEW + 1))[-1] == (FEW, 1)
        con.execute("DROP TABLE another")
    connect("512MB")


def test_a_planned_statement_may_fail_and_keeps_no_table():
    def halves(*values: str) -> list[object]:
        sql, table = "SELECT CAST(x AS INT) // 2 AS y FROM texts", pa.table({"x": list(values)})
        return sql_to_arrow(connect(), sql, {"texts": table})["y"].to_pylist()

    for number in range(3):
        assert halves(str(2 * number)) == [number]
        with pytest.raises(Exception, match="no number"):
            halves("no number")
    before = pa.total_allocated_bytes()
    assert len(halves(*["2" * 9] * FEW)) == FEW
    assert pa.total_allocated_bytes() - before < 1 << 14


def test_sides_of_a_join_are_chosen_by_the_tables_of_now():
    """A plan from before would not know which is the smaller one."""
    con, sql = connect(), "SELECT l.x, r.y FROM l JOIN r ON l.x = r.x"
    tables = {"l": pa.table({"x": [1, 2]}), "r": pa.table({"x": [2], "y": [3]})}
    for _ in range(3):
        assert sql_to_arrow(con, sql, tables).to_pylist() == [{"x": 2, "y": 3}]
    assert not any(
        isinstance(k, Prepared) for s, k in column_engine._local.relations.items() if s[0] == sql
    )


def test_over_no_rows_an_answer_has_the_types_of_its_columns():
    for _ in range(2):
        for type in (pa.int32(), pa.string(), pa.timestamp("us", "UTC")):
            empty = pa.schema([("x", type)]).empty_table()
            got = sql_to_arrow(connect(), "SELECT x FROM empty_one", {"empty_one": empty})
            assert got.schema.types == [type] and got.num_rows == 0


def test_a_statement_that_failed_may_run_again():
    def halves(*values: str) -> list[object]:
        sql, table = "SELECT CAST(x AS INT) AS y FROM texts", pa.table({"x": list(values)})
        return sql_to_arrow(connect(), sql, {"texts": table})["y"].to_pylist()

    assert halves("1") == [1]
    with pytest.raises(Exception, match="no number"):
        halves("no number")
    assert halves("2") == [2]


def test_few_statements_are_kept_and_no_table():
    before = pa.total_allocated_bytes()
    for number in range(2 * column_engine.KEPT):
        for rows in (10_000, 0):
            table = pa.table({"x": pa.array(range(rows), pa.int64())})
            sql_to_arrow(connect(), f"SELECT x + {number} AS y FROM many", {"many": table})
    del table
    kept = column_engine._local
    assert len(kept.relations) == len(kept.answers) == column_engine.KEPT
    assert pa.total_allocated_bytes() - before < 1 << 20


def test_python_variables_are_not_tables():
    local = pa.table({"x": [1]})
    with pytest.raises(Exception, match="local"):
        sql_to_arrow(connect(), "SELECT * FROM local", {})
    assert local.num_rows == 1


def test_types_are_plain():
    sql = "SELECT 'a'::VARCHAR AS s, 1::HUGEINT AS h, 'x'::ENUM('x') AS e, now() AS t, ['q'] AS l"
    got = sql_to_arrow(connect(), sql, {}).schema
    assert got.types[:4] == [
        pa.string(), pa.decimal128(38, 0), pa.string(), pa.timestamp("us", "UTC"),
    ]  # fmt: skip
    assert got.types[4].value_type == pa.string()


def test_names_and_texts_are_quoted():
    assert quote('a"b') == '"a""b"' and literal("it's") == "'it''s'"


def test_no_other_module_imports_duckdb():
    package = Path(column_engine.__file__).parents[1]
    users = [
        p.name
        for p in package.rglob("*.py")
        if any(
            line.lstrip().startswith(("import duckdb", "from duckdb"))
            for line in p.read_text().splitlines()
        )
    ]
    assert users == ["column_engine.py"]


def test_no_module_leaves_an_answer_unread():
    package = Path(column_engine.__file__).parents[1]
    assert [p.name for p in package.rglob("*.py") if ".fetchone(" in p.read_text()] == []
