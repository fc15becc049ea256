"""Types that Spark does not have: an error with a caret under them, wherever a type can stand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import slackwater as sw
from slackwater.surface.cli import main
from tests.surface.sql.test_refused import marked, refused

pytestmark = pytest.mark.spark

TIMES = (
    "TIMESTAMP(3)", "TIMESTAMP_LTZ(3)", "TIMESTAMP_NTZ(3)", "TIMESTAMP(0)", "TIMESTAMP(9)", "ARRAY<TIMESTAMP(3)>",
    "STRUCT<a: TIMESTAMP(6), b: TIMESTAMP(3)>", "MAP<STRING, ARRAY<TIMESTAMP_NTZ(3)>>", "TIMESTAMP(3) WITH LOCAL TIME ZONE",
    "TIMESTAMP(3) WITHOUT TIME ZONE",
)  # fmt: skip
OTHERS = (
    "ARRAY", "FOO", "DECIMAL(50, 2)", "DECIMAL(5, 6)", "VARCHAR", "VARCHAR(99999999999999)", "INT(3)", "STRING(3)",
    "STRING COLLATE nope", "BYTES", "ROW<a INT>", "ARRAY<INT", "INTERVAL DAY TO YEAR", "TIMESTAMP WITH TIME ZONE",
)  # fmt: skip
PLACES = (
    "SELECT ts, try_cast(p.len AS {type}) AS x FROM packets p",
    "SELECT ts FROM packets WHERE CAST(len AS {type}) IS NULL",
    "SELECT DISTINCT ts, CAST(len AS {type}) AS x FROM packets",
    "SELECT count(*) FROM packets p GROUP BY CAST(p.len AS {type}), window(ts, '1 minute')",
    "SELECT max(CAST(len AS {type})) FROM packets [RANGE 1 MINUTE]",
    "SELECT max(len) FROM packets [RANGE 1 MINUTE] HAVING CAST(max(len) AS {type}) IS NULL",
    "SELECT heavy_hitters(CAST(len AS {type}), 0.1) FROM packets [RANGE 1 MINUTE]",
    "SELECT a.len FROM packets a JOIN other b ON a.ts = b.ts AND CAST(a.len AS {type}) = b.len",
    "SELECT a.ts FROM packets a JOIN other b ON a.ts = b.ts WHERE CAST(a.len AS {type}) IS NULL",
    "SELECT ts, len FROM packets UNION ALL SELECT ts, CAST(len AS {type}) FROM other",
)  # fmt: skip


def scripted(spark: Any, text: str) -> sw.AnalysisError:
    with pytest.raises(sw.AnalysisError) as raised:
        sw.script(spark, text)
    assert raised.value.place is not None and len(str(raised.value).splitlines()) <= 8
    return raised.value


def at_its_type(text: str, type: str, error: sw.AnalysisError) -> None:
    """The caret stands in the expression or column of the type; of a time with digits it is the type itself."""
    under, first = marked(text, error), text.rindex(type)
    assert error.column is not None and error.length is not None
    assert error.column - 1 < first + len(type) and error.column - 1 + error.length > first
    assert len(under) < 60
    if "TIMESTAMP" in type and "3" in type:
        assert error.condition == "BAD_TYPE" and under in type and "(3)" in under, str(error)
        local = "NTZ" in type or "WITHOUT" in type
        assert error.hint.startswith("write TIMESTAMP_NTZ;" if local else "write TIMESTAMP,")
        assert "date_trunc('MILLISECOND', t)" in error.hint


@pytest.mark.parametrize("type", [*TIMES, *OTHERS])
def test_a_column_of_no_type(spark: Any, type: str):
    text = f"CREATE STREAM s (k ARRAY<ARRAY<INT>>, x {type}, ts TIMESTAMP, WATERMARK FOR ts AS ts) USING parquet OPTIONS (path 'p'); SELECT * FROM s"
    error = scripted(spark, text)
    at_its_type(text, type, error)
    assert "ts TIMESTAMP" not in marked(text, error), "the other columns are right"


@pytest.mark.parametrize("type", [*TIMES, *OTHERS])
def test_a_cast_to_no_type(type: str, streams: dict[str, Any]):
    text = f"SELECT ts, CAST(len AS {type}) AS x, router FROM packets"
    at_its_type(text, type, refused(text, streams))


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("type", ["TIMESTAMP(3)", "STRING COLLATE nope"])
def test_no_type_in_another_place(place: str, type: str, streams: dict[str, Any]):
    text = place.format(type=type)
    at_its_type(text, type, refused(text, streams))


@pytest.mark.parametrize("type", ["TIMESTAMP(3)", "TIMESTAMP_NTZ(3)", "STRING COLLATE nope", "FOO"])
def test_a_cast_by_sign_and_a_text_with_types(type: str, streams: dict[str, Any]):
    text = f"SELECT ts, p.len::{type} AS x FROM packets p"
    at_its_type(text, type, refused(text, streams))
    text = f"SELECT ts, from_json(router, 'a {type}') AS x FROM packets"
    assert marked(text, refused(text, streams)) == f"from_json(router, 'a {type}')"


@pytest.mark.parametrize("type", ["TIMESTAMP(3)", "STRING COLLATE nope", "FOO"])
def test_a_raw_input_taken_apart_with_no_type(spark: Any, type: str):
    for select in (f"SELECT CAST(value AS {type}) AS ts FROM r", f"SELECT timestamp AS ts FROM r WHERE CAST(value AS {type}) > 1"):  # fmt: skip
        text = f"CREATE STREAM r USING rate; CREATE STREAM s TIME ts AS {select}; SELECT * FROM s"
        at_its_type(text, type, scripted(spark, text))


def test_six_digits_are_a_timestamp(streams: dict[str, Any]):
    made = sw.sql("SELECT ts, CAST(len AS TIMESTAMP(6)) AS a, CAST(ts AS TIMESTAMP_NTZ(6)) AS b, timestamp(3) AS c FROM packets", streams=streams)  # fmt: skip
    assert [f.dataType.simpleString() for f in made.schema.fields] == ["timestamp", "timestamp", "timestamp_ntz", "timestamp"]  # fmt: skip


def test_the_commands_end_with_2(spark: Any, tmp_path: Path, capsys: Any):
    path = tmp_path / "talkers.sql"
    path.write_text("CREATE STREAM s (k STRING,\n  ts TIMESTAMP(3)) USING parquet OPTIONS (path 'p') TIME ts;\nSELECT * FROM s;\n")  # fmt: skip
    for verb in ("check", "run"):
        with pytest.raises(SystemExit) as ended:
            main([verb, str(path)])
        assert ended.value.code == 2
        shown = capsys.readouterr().err
        assert f"{path}:2:6: [BAD_TYPE]" in shown and "^^^^^^^^^^^^" in shown


BAD = (
    ("TIME", "TIME", "write STRING"), ("TIME(3)", "TIME(3)", "write STRING"), ("STRUCT<a: TIME>", "TIME", "write STRING"),
    ("MAP<INT, TIME>", "TIME", "write STRING"), ("TEXT", "TEXT", "write STRING"), ("DATETIME", "DATETIME", "write TIMESTAMP"),
    ("ARRAY<TEXT>", "TEXT", "write STRING"), ("INT(11)", "INT(11)", "write INT"), ("DECIMAL(40,2)", "DECIMAL(40,2)", "write DECIMAL(38, 2)"),
    ("DECIMAL(5, 6)", "DECIMAL(5, 6)", "write DECIMAL(6, 6)"), ("INT[]", "INT[]", "write ARRAY<INT>"), ("UNSIGNED INT", "UNSIGNED INT", "write BIGINT"),
    ("BIGINT UNSIGNED", "BIGINT UNSIGNED", "write DECIMAL(20, 0)"), ("VARCHAR", "VARCHAR", "write STRING"), ("ARRAY", "ARRAY", "write, for example, ARRAY<INT>"),
    ("STRNG", "STRNG", "did you mean STRING?"), ("FOO", "FOO", "write a type of Spark's: BOOLEAN"), ("ROW(a INT)", "ROW(", "write STRUCT"),
    ("TIMESTAMP WITH TIME ZONE", "TIMESTAMP WITH TIME ZONE", "write TIMESTAMP,"), ("DOUBLE PRECISION", "DOUBLE PRECISION", "write DOUBLE"),
)  # fmt: skip


@pytest.mark.parametrize(("type", "under", "hint"), BAD)
def test_what_to_write_instead(
    type: str, under: str, hint: str, spark: Any, streams: dict[str, Any]
):
    text = f"SELECT ts, CAST(len AS {type}) AS x, router FROM packets"
    created = f"CREATE STREAM s (k STRING,\n  x {type},\n  time TIMESTAMP) USING parquet OPTIONS (path 'p') TIME time; SELECT * FROM s"
    for whole, error in ((text, refused(text, streams)), (created, scripted(spark, created))):
        assert error.condition == "BAD_TYPE" and marked(whole, error) == under, str(error)
        assert error.hint.startswith(hint), str(error)
    for given in (
        lambda: sw.readStream(spark).schema(f"x {type}, t LONG"),
        lambda: sw.replay(spark, [], f"x {type}"),
    ):
        with pytest.raises(sw.AnalysisError) as raised:
            given()
        assert raised.value.condition == "BAD_TYPE" and raised.value.hint.startswith(hint)


@pytest.mark.parametrize(
    ("column", "says"),
    [
        ("x INT DEFAULT 3", "the columns of a stream have no defaults"),
        ("x DECIMAL(4, 1) DEFAULT 3", "the columns of a stream have no defaults"),
        ("x INT GENERATED ALWAYS AS (1)", "the columns of a stream are not generated"),
        ("x INT PRIMARY KEY", "the columns of a stream have no constraints but NOT NULL"),
    ],
)
def test_a_column_with_more_than_a_type(column: str, says: str, spark: Any):
    text = f"CREATE STREAM s (k STRING, {column}, ts TIMESTAMP) USING parquet OPTIONS (path 'p') TIME ts; SELECT * FROM s"
    error = scripted(spark, text)
    assert says in error.message and marked(text, error) in column, str(error)
    assert "leave" in error.hint


def test_the_schema_of_python_names_its_type(spark: Any):
    from slackwater.testing import run

    for given in (
        lambda: sw.readStream(spark).schema("k STRING,\n ts TIMESTAMP(3)"),
        lambda: sw.replay(spark, [], "ts TIMESTAMP(3)"),
        lambda: run(lambda df: df, [], "ts TIMESTAMP(3)", spark=spark, local=True),
    ):
        with pytest.raises(sw.AnalysisError) as raised:
            given()
        assert (
            raised.value.condition == "BAD_TYPE"
            and "there is no TIMESTAMP(3)" in raised.value.message
        )
        assert raised.value.hint.startswith("write TIMESTAMP,")
    with pytest.raises(sw.AnalysisError, match=r"BAD_TYPE.*Syntax error"):
        sw.readStream(spark).schema("k STRING ts TIMESTAMP")
    assert sw.readStream(spark).schema("time STRING, `a time` INT")._schema is not None


@pytest.mark.parametrize("type", ["STRING COLLATE UTF8_LCASE", "VARIANT"])
def test_an_output_of_a_type_that_cannot_be_written(type: str, spark: Any, tmp_path: Path):
    (tmp_path / "in").mkdir()
    text = f"""SET checkpointLocation = '{tmp_path}/ck';
CREATE STREAM s (k STRING, x {type}, ts TIMESTAMP) USING parquet OPTIONS (path '{tmp_path}/in') TIME ts;
CREATE STREAMING TABLE o OPTIONS (path '{tmp_path}/o') AS SELECT x, ts FROM s;"""
    script = sw.script(spark, text)
    with pytest.raises(
        sw.AnalysisError, match=r"UNSUPPORTED_TYPE.*column 'x' of output 'o'"
    ) as raised:
        script.start()
    assert raised.value.place is not None


KEYS = (
    "SELECT count(*) AS c FROM TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL 5 MINUTES) GROUP BY {key}, window_end",
    "SELECT ts FROM (SELECT DISTINCT ts, {key} AS y FROM s) u",
    "SELECT a.ts FROM s a LEFT SEMI JOIN s b ON a.x = b.x AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 5 MINUTES",
)  # fmt: skip


@pytest.mark.parametrize("query", KEYS)
def test_a_key_that_compares_letters_by_a_rule_of_its_own(query: str, spark: Any, tmp_path: Path):
    """It was met by the first batch only, in a worker; rows must not be grouped by their bytes either."""
    (tmp_path / "in").mkdir()
    for type, key in (
        ("STRING COLLATE UTF8_LCASE", "x"),
        ("STRING", "CAST(x AS STRING COLLATE UTF8_LCASE)"),
    ):
        if key != "x" and "{key}" not in query:
            continue
        text = f"""SET checkpointLocation = '{tmp_path}/ck';
CREATE STREAM s (k STRING, x {type}, ts TIMESTAMP) USING parquet OPTIONS (path '{tmp_path}/in') TIME ts;
CREATE STREAMING TABLE o OPTIONS (path '{tmp_path}/o') AS {query.format(key=key)};"""
        script = sw.script(spark, text)
        with pytest.raises(
            sw.AnalysisError, match=r"UNSUPPORTED_TYPE.*collate UTF8_LCASE"
        ) as raised:
            script.start()
        assert raised.value.place is not None and raised.value.line == 3, raised.value
        assert "lower(" in raised.value.hint
