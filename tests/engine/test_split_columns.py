"""What a split source makes of files: types, folders, names, damage. Spark's answers are in the tables."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slackwater.engine.lowlevel.splits import plan_splits, scanned
from slackwater.engine.parquet.folder_values import literal_of
from slackwater.engine.parquet.folders import data_files
from slackwater.engine.parquet.types import Mismatch, reading, stored_columns
from slackwater.engine.store.spark_log import present
from slackwater.errors import ExecutionError, SlackwaterError
from slackwater.kernels.column_engine import connect, plain
from slackwater.kernels.types import arrow_schema, parse
from slackwater.model.schema import Field
from tests.engine.in_process import Make
from tests.engine.parquet_pairs import DECLARED, READ, stored, written
from tests.engine.test_time_ranges import result as windowed
from tests.semantics.zones import OFFSETS
from tests.surface.helpers import write

V = {"v": [1]}


def fields(ddl: str) -> tuple[Field, ...]:
    """Columns such as ``k int, v bigint``; no types with a comma."""
    return tuple(Field(*c.split(maxsplit=1)) for c in ddl.split(", "))


def table(
    root: Path,
    schema: Sequence[Field],
    *,
    zone: str = "UTC",
    tasks: int = 1,
    recursive: bool = False,
) -> pa.Table:
    """The rows of all files below a directory, as the tasks of a split source read them."""
    files = sorted(str(p) for p in root.rglob("*") if p.is_file())
    held = data_files(str(root), files, schema, zone, recursive=recursive)
    made = [arrow_schema(schema).empty_table()]
    for splits in plan_splits(held, tasks):
        if splits:
            with scanned(schema, splits, "512MB") as sql:
                made.append(plain(connect().sql(sql).to_arrow_table()))
    return pa.concat_tables([m.cast(made[0].schema) for m in made])


def rows(root: Path, schema: Sequence[Field], **options: Any) -> list[dict[str, Any]]:
    return table(root, schema, **options).to_pylist()


def refused(call: Any, condition: str, *names: str) -> SlackwaterError:
    with pytest.raises(SlackwaterError) as caught:
        call()
    assert caught.value.condition == condition, caught.value
    assert all(n in str(caught.value) for n in names) and caught.value.hint
    return caught.value


# ---- types ----
def test_every_stored_type_is_read_as_what_spark_reads_it_as(tmp_path: Path) -> None:
    for name, types in READ.items():
        options: dict[str, Any] = {"use_deprecated_int96_timestamps": name == "int96"}
        if name.endswith("whole"):
            options["store_decimal_as_integer"] = True
        pq.write_table(pa.table({"c": stored(name)}), tmp_path / "x.parquet", **options)
        (column,) = stored_columns(pq.read_metadata(tmp_path / "x.parquet").schema)
        for declared in DECLARED:
            try:
                reading(column, parse(declared), "c")
            except Mismatch:
                assert declared not in types.split(), f"{name} as {declared} is refused"
            else:
                assert declared in types.split(), f"{name} as {declared} is read"


def test_values_are_those_that_are_stored(tmp_path: Path) -> None:
    pairs = list(written(tmp_path))
    schema = tuple(Field(c, declared) for c, _, declared in pairs)
    values = {c: [] for c, _, _ in pairs}  # type: dict[str, list[Any]]
    for row in rows(tmp_path, schema):
        for c, value in row.items():
            if value is not None:
                values[c].append(value)
    got = {(name, declared): values[c] for c, name, declared in pairs}
    utc = dt.timezone.utc
    assert got["i16", "tinyint"] == [44, -7] and got["u16", "smallint"] == [-5536, 7]
    assert got["u32", "bigint"] == [4_000_000_000, 7] and got["u8", "tinyint"] == [-56, 7]
    assert got["i32", "date"] == [dt.date(2161, 8, 27), dt.date(1969, 12, 25)]
    assert got["d5_2 whole", "int"] == [12300, -700] and got["d5_2 whole", "tinyint"] == [12, 68]
    assert got["d5_2", "binary"] == [b"\x00\x30\x0c", b"\xff\xfd\x44"]
    assert got["string", "binary"] == [b"7", b"\xc3\xa9"] and got["bytes", "string"] == ["7", "é"]
    assert str(got["utc ms", "timestamp_ntz"][0]) == "2026-01-02 03:04:05.123000"
    assert got["local us", "timestamp"][0] == dt.datetime(2026, 1, 2, 3, 4, 5, 123_456, utc)
    assert got["int96", "timestamp"][1] == dt.datetime(1969, 12, 31, 20, 34, 14, 321_099, utc)
    assert got["utc ns", "bigint"] == [1767323045123456007, -12345678900993]
    assert got["struct", "struct<z:int>"] == [{"z": None}, {"z": None}]


def nested(kind: pa.DataType, *values: Any) -> dict[str, Any]:
    return {"c": pa.array(values, kind)}


_STRUCT = pa.struct([("a", pa.int32())])
_IN_STRUCT = pa.struct([("s", _STRUCT), ("b", pa.int32())])


@pytest.mark.parametrize(
    ("declared", "columns", "wanted"),
    [
        ("array<struct<z:int>>", nested(pa.list_(_STRUCT), [{"a": 1}, None], [], None),
         [[{"z": None}, None], [], None]),
        ("array<struct<A:bigint,z:int>>", nested(pa.list_(_STRUCT), [{"a": 1}]),
         [[{"A": 1, "z": None}]]),
        ("map<string,struct<z:int>>",
         nested(pa.map_(pa.string(), _STRUCT), [("x", {"a": 1}), ("y", None)], None),
         [[("x", {"z": None}), ("y", None)], None]),
        ("struct<s:struct<z:int>,b:bigint>",
         nested(_IN_STRUCT, {"s": {"a": 1}, "b": 2}, {"s": None, "b": 3}, None),
         [{"s": {"z": None}, "b": 2}, {"s": None, "b": 3}, None]),
        ("struct<q:array<int>,b:int>", nested(_IN_STRUCT, {"s": None, "b": 2}, None),
         [{"q": None, "b": 2}, None]),
        ("struct<b:string,a:bigint>",
         nested(pa.struct([("a", pa.int32()), ("b", pa.string())]), {"a": 1, "b": "x"}),
         [{"b": "x", "a": 1}]),
        ("array<tinyint>", nested(pa.list_(pa.int32()), [300, None]), [[44, None]]),
        ("map<binary,bigint>", nested(pa.map_(pa.string(), pa.int32()), [("x", 1)]), [[(b"x", 1)]]),
        # Names that differ in case only, beside one that the column engine would make of them.
        ("struct<A_1:int>",
         nested(pa.struct([("a", pa.int32()), ("A", pa.int32()), ("A_1", pa.int32())]),
                {"a": 1, "A": 2, "A_1": 3}),
         [{"A_1": 3}]),
    ],
)  # fmt: skip
def test_nested_types_by_name(tmp_path: Path, declared: str, columns: Any, wanted: Any) -> None:
    write(tmp_path, "x.parquet", columns)
    assert [r["c"] for r in rows(tmp_path, [Field("c", declared)])] == wanted


@pytest.mark.parametrize(
    ("declared", "kind", "value"),
    [
        ("struct<a:int>", pa.struct([("a", pa.float64())]), {"a": 1.5}),
        ("struct<a:int>", pa.struct([("a", pa.int64())]), {"a": 1}),
        ("struct<a:int>", pa.struct([("a", pa.int32()), ("A", pa.int32())]), {"a": 1, "A": 2}),
        ("array<int>", pa.list_(pa.float64()), [1.5]),
        ("map<string,int>", pa.map_(pa.string(), pa.float64()), [("x", 1.5)]),
        ("map<string,int>", pa.list_(pa.struct([("key", pa.string()), ("value", pa.int32())])), []),
        ("array<int>", _STRUCT, {"a": 1}),
        ("int", _STRUCT, {"a": 1}),
        ("struct<a:int>", pa.int32(), 1),
    ],
)
def test_nothing_is_rounded_inside_of_a_column(
    tmp_path: Path, declared: str, kind: pa.DataType, value: Any
) -> None:
    path = write(tmp_path, "x.parquet", nested(kind, value))
    schema = [Field("c", declared)]
    error = refused(lambda: rows(tmp_path, schema), "BAD_COLUMN_TYPE", str(path), "'c'", declared)
    assert error.parameters == {"path": str(path), "column": "c"}


def test_a_column_is_refused_when_a_row_of_it_is_asked_for(tmp_path: Path) -> None:
    write(tmp_path, "a.parquet", {"v": [1], "k": ["x"], "K": ["y"], "n": ["z"]})
    write(tmp_path, "b.parquet", {"v": pa.array([], pa.int64()), "n": pa.array([], pa.string())})
    assert rows(tmp_path, fields("v bigint")) == V_ROWS
    schema = fields("v bigint, k string, n int")
    with scanned(schema, plan_splits([str(tmp_path / "a.parquet")], 1)[0], "512MB") as sql:
        assert connect().sql(f"SELECT sum(v) FROM ({sql})").fetchall() == [(1,)]
    refused(lambda: rows(tmp_path, fields("k string")), "AMBIGUOUS_COLUMN", "a.parquet", "'k'", "K")
    refused(lambda: rows(tmp_path, fields("n int")), "BAD_COLUMN_TYPE", "a.parquet", "'n'")
    os.remove(tmp_path / "a.parquet")
    assert rows(tmp_path, fields("n int")) == []  # as Spark: nothing is read, so nothing is wrong


V_ROWS = [{"v": 1}]


def test_columns_whose_names_differ_in_case_are_told_apart(tmp_path: Path) -> None:
    write(tmp_path, "x.parquet", {"V": [1], "v": [2], "v_1": [3], "": [4], "w": [5]})
    assert rows(tmp_path, fields("v_1 bigint, W bigint")) == [{"v_1": 3, "W": 5}]


def test_a_column_named_as_the_engine_numbers_rows(tmp_path: Path) -> None:
    number = {"File_Row_Number": list(range(50_000)), "v": list(range(50_000))}
    write(tmp_path, "x.parquet", number, row_group_size=5_000)
    write(tmp_path, "y.parquet", {"v": list(range(50_000))}, row_group_size=5_000)
    plan = plan_splits([str(tmp_path / n) for n in ("x.parquet", "y.parquet")], 4)
    assert sum(s.path.endswith("x.parquet") for p in plan for s in p) == 1
    assert sum(s.path.endswith("y.parquet") for p in plan for s in p) > 1
    made = rows(tmp_path, fields("file_row_number bigint, v bigint"), tasks=4)
    assert sorted(r["v"] for r in made) == sorted(2 * number["v"])
    assert [r["v"] for r in made if r["file_row_number"] is not None] == number["v"]


def test_values_of_the_old_calendar_are_refused(tmp_path: Path) -> None:
    days = pa.array([dt.date(2026, 1, 2), dt.date(1500, 1, 1)])
    for name, column, version in (("old", days, "2.4.8"), ("new", days, "4.3.0"), ("late", days[:1], "2.4.8")):  # fmt: skip
        table = pa.table({"d": column}).replace_schema_metadata({"org.apache.spark.version": version})  # fmt: skip
        pq.write_table(table, tmp_path / f"{name}.parquet")
    refused(lambda: rows(tmp_path, fields("d date")), "BAD_COLUMN_VALUE", "old.parquet", "'d'")
    os.remove(tmp_path / "old.parquet")
    assert sorted(r["d"] for r in rows(tmp_path, fields("d date"))) == sorted(
        [*days.to_pylist(), dt.date(2026, 1, 2)]
    )


# ---- names ----
STRANGE = [
    "c[ab].parquet", "ca.parquet", "a*.parquet", "ab.parquet", "a?.parquet", "b\\c.parquet", "{x,y}.parquet",
    "x.parquet", "it's.parquet", "p%20.parquet", "h#1.parquet", "é ü.parquet", "[.parquet", "**.parquet",
    "[!a].parquet", "d;x=1.parquet", "n\nl.parquet", "**", 'q".parquet', "sub[1]/**/f?.parquet", "sub1/x/f1.parquet",
]  # fmt: skip


def test_each_file_is_read_once_whatever_its_name(tmp_path: Path) -> None:
    for folder in ("in", "in[1] {a}*?\\'%20#é"):
        for name in STRANGE:
            write(tmp_path / folder, name, {"v": [name], "n": [folder]})
        made = rows(tmp_path / folder, fields("v string, n string"), tasks=3, recursive=True)
        assert sorted(r["v"] for r in made) == sorted(STRANGE)
        assert {r["n"] for r in made} == {folder}


# ---- folders ----
NEW_YORK = "America/New_York"
VALUES = [
    ("int", "007", 7), ("int", "+7", 7), ("int", "-7", -7), ("int", "٣", 3), ("int", "1.5", None), ("int", " 7", None),
    ("int", "7L", None), ("int", "2147483648", None), ("int", "0x1", None), ("int", "1_0", None),
    ("tinyint", "300", 44), ("smallint", "70000", 4464), ("bigint", "9223372036854775808", None), ("bigint", "5", 5),
    ("double", "1.5", 1.5), ("double", "1e3", 1000.0), ("double", "1d", 1.0), ("double", "0x1p3", 8.0),
    ("double", " 1 ", 1.0), ("double", "-Infinity", float("-inf")), ("double", "inf", None), ("double", "nan", None),
    ("float", "1e300", float("inf")), ("float", "0.5", 0.5),
    ("boolean", "TRUE", True), ("boolean", "t", None), ("boolean", "1", None),
    ("string", "a%20b", "a b"), ("string", "%C3%A9", "Ã©"), ("string", "%E9é", "éé"), ("string", "%zz%2", "%zz%2"),
    ("string", "a=b", "a=b"), ("binary", "%41", b"%41"),
    ("decimal(5,2)", "1.50", "1.50"), ("decimal(5,2)", "1.5", None), ("decimal(5,2)", "1234.00", None),
    ("decimal(5,2)", "x", None),
    ("date", "2026-1-2", dt.date(2026, 1, 2)), ("date", "2026", dt.date(2026, 1, 1)),
    ("date", "2026-01-02 03%3A04", dt.date(2026, 1, 2)), ("date", "2026-02-30", None), ("date", "026-01-02", None),
    ("timestamp", "2026-01-02 03%3A04%3A05", "2026-01-02T08:04:05"), ("timestamp", "2026-01-02", "2026-01-02T05:00:00"),
    ("timestamp", "2026-01-02T03%3A04%3A05Z", "2026-01-02T03:04:05"),
    ("timestamp", "2026-01-02 3%3A4%3A5.1234567", "2026-01-02T08:04:05.123456"),
    ("timestamp", "2026-01-02 03%3A04%3A05+05%3A30", "2026-01-01T21:34:05"),
    ("timestamp", "2026-01-02 03%3A04%3A05 Europe%2FBerlin", "2026-01-02T02:04:05"),
    ("timestamp", "2026-03-08 02%3A30%3A00", "2026-03-08T07:30:00"),
    ("timestamp", "2026-11-01 01%3A30%3A00", "2026-11-01T05:30:00"),
    ("timestamp", "2026-01-02 03", "2026-01-02T08:00:00"), ("timestamp", "2026-01-02T", None),
    ("timestamp", "2026-01-02 24%3A00%3A00", None), ("timestamp", "x", None),
    ("timestamp_ntz", "2026-01-02 03%3A04%3A05", "2026-01-02T03:04:05"),
    ("timestamp_ntz", "2026-01-02T03%3A04%3A05Z", "2026-01-02T03:04:05"),
    ("timestamp_ntz", "2026-01-02 24%3A00%3A00", "2026-01-02T00:00:00"),
    ("array<int>", "1", None),
]  # fmt: skip
"""Declared type, text in the folder's name, value in New York; None: refused."""


@pytest.mark.parametrize(("declared", "text", "value"), VALUES)
def test_the_value_of_a_folder(tmp_path: Path, declared: str, text: str, value: Any) -> None:
    path = write(tmp_path, f"k={text}/x.parquet", V)
    schema = (Field("k", declared), Field("v", "bigint"))
    if value is None:
        refused(
            lambda: rows(tmp_path, schema, zone=NEW_YORK),
            "BAD_FOLDER_VALUE",
            str(path.parent),
            "'k'",
        )
        return
    (row,) = rows(tmp_path, schema, zone=NEW_YORK)
    got = row["k"]
    if isinstance(got, dt.datetime):
        got = got.replace(tzinfo=None).isoformat()
    assert (str(got) if declared.startswith("decimal") else got) == value and row["v"] == 1


@pytest.mark.parametrize(("zone", "hours"), OFFSETS.items())
def test_the_time_of_a_folder_in_any_zone(zone: str, hours: float) -> None:
    """Of the session, or named in the folder."""
    noon = dt.datetime(2026, 1, 2, 12, tzinfo=dt.timezone.utc).timestamp() - hours * 3600
    for text, session in (("2026-01-02 12", zone), (f"2026-01-02 12 {zone}", NEW_YORK)):
        value = literal_of(text, parse("timestamp"), session)
        assert value == f"make_timestamp({round(noon * 1_000_000)})"
    assert literal_of("2026-01-02 12 Mars/Phobos", parse("timestamp"), zone) is None


def test_folders_count_below_the_source_only_and_before_the_file(tmp_path: Path) -> None:
    root = tmp_path / "k=7" / "in"
    schema = fields("k int, v bigint")
    write(root, "x.parquet", V)
    assert rows(root, schema) == [{"k": None, "v": 1}]
    write(root, "K=8/x.parquet", {"v": [2], "k": ["no number"]})
    write(root, "k=__HIVE_DEFAULT_PARTITION__/deeper/x.parquet", {"v": [3], "K": [1]})
    made = sorted(rows(root, schema), key=str)
    # As in Spark, a file outside of the folders does not count beside files inside.
    assert made == [{"k": 8, "v": 2}, {"k": None, "v": 3}]
    assert len(rows(root, schema[1:], recursive=True)) == 3
    (only,) = rows(root / "K=8", fields("v bigint"))
    assert only == {"v": 2}


@pytest.mark.parametrize(
    ("paths", "condition"),
    [
        (("k=1/x.parquet", "j=1/x.parquet"), "MIXED_FOLDERS"),
        (("k=1/x.parquet", "k=1/j=1/x.parquet"), "MIXED_FOLDERS"),
        (("k=1/x.parquet", "plain/x.parquet"), "MIXED_FOLDERS"),
        (("k=1/x.parquet", "plain/k=1/x.parquet"), "MIXED_FOLDERS"),
        (("k=/x.parquet",), "BAD_FOLDER"),
        (("=1/x.parquet",), "BAD_FOLDER"),
        (("k=1/K=2/x.parquet",), "BAD_FOLDER"),
    ],
)
def test_folders_that_contradict_each_other(
    tmp_path: Path, paths: tuple[str, ...], condition: str
) -> None:
    for path in paths:
        write(tmp_path, path, V)
    refused(lambda: rows(tmp_path, fields("k int, v bigint")), condition, str(tmp_path))


def test_files_without_rows(tmp_path: Path) -> None:
    for name in ("_metadata", "_x.parquet", ".x.parquet"):
        pq.write_table(pa.table({"v": [2]}), tmp_path / name)
    (tmp_path / "zero.parquet").touch()
    write(tmp_path, "_k=1.parquet", V)
    assert rows(tmp_path, fields("v bigint")) == V_ROWS


# ---- damage ----
def damaged(path: Path, at: float) -> Path:
    data = bytearray(path.read_bytes())
    first = int(len(data) * at)
    data[first : first + 40] = os.urandom(40)
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("at", [0.3, 0.99])
@pytest.mark.parametrize("codec", ["snappy", "zstd"])
def test_a_damaged_page_or_footer_names_its_file(tmp_path: Path, codec: str, at: float) -> None:
    for name in ("a.parquet", "b[1].parquet", "c.parquet"):
        write(tmp_path, name, {"v": list(range(20_000)), "w": [f"{i:x}" * 9 for i in range(20_000)]},
              compression=codec, use_dictionary=False)  # fmt: skip
    path = damaged(tmp_path / "b[1].parquet", at)
    error = refused(lambda: rows(tmp_path, fields("v bigint, w string")), "BAD_FILE", str(path))
    assert type(error) is ExecutionError and error.parameters == {"path": str(path)}


def test_sound_files_are_not_blamed_for_other_errors(tmp_path: Path) -> None:
    path = write(tmp_path, "x.parquet", V)
    with pytest.raises(Exception, match="mine"), scanned(
        fields("v bigint"), plan_splits([str(path)], 1)[0], "512MB"
    ) as sql:  # fmt: skip
        connect().sql(f"SELECT error('mine') FROM ({sql})").to_arrow_table()


def test_bytes_that_are_no_text_name_file_and_column(tmp_path: Path) -> None:
    path = write(tmp_path, "x.parquet", {"v": pa.array([b"\xff"])})
    refused(lambda: rows(tmp_path, fields("v string")), "BAD_COLUMN_VALUE", str(path), "'v'")


def test_a_task_that_aggregates_names_the_damaged_file(
    engine: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = pa.table({"k": range(20_000), "ts": range(20_000), "v": range(20_000)})
    made = engine("in[1]")
    made.start(windowed("admit", 0))
    made.batch(rows)
    real = pq.write_table

    def damaging(table: pa.Table, path: Path) -> None:
        real(table, path, use_dictionary=False)
        if path.name.endswith("-1.parquet"):
            damaged(path, 0.5)

    monkeypatch.setattr(pq, "write_table", damaging)
    path = str(made.folder / "in" / "0001-1.parquet")
    refused(lambda: made.batch(rows, rows, rows), "BAD_FILE", path)
    assert list(made.results["out"]) == [0]  # nothing of the batch was published


def test_a_file_that_is_gone_before_its_batch_is_named(tmp_path: Path) -> None:
    refused(lambda: present(str(tmp_path / "x.parquet")), "INPUT_CHANGED", "x.parquet")
