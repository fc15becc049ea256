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
