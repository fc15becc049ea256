"""Types that Spark does not have: what to write instead, and where in a text they stand."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from slackwater.engine.analysis.spark_errors import captured
from slackwater.errors import AnalysisError

if TYPE_CHECKING:
    from pyspark.errors import PySparkException
    from pyspark.sql.types import StructType

_TYPES = (
    "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL", "STRING", "BINARY", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ",
)  # fmt: skip
_OTHER_NAMES = (
    "BYTE", "SHORT", "INTEGER", "LONG", "REAL", "DEC", "NUMERIC", "VOID", "VARIANT", "TIMESTAMP_LTZ",
)  # fmt: skip
_ELSEWHERE = {
    "STRING": ("TEXT", "TINYTEXT", "MEDIUMTEXT", "LONGTEXT", "NTEXT", "CLOB", "NVARCHAR", "VARCHAR2", "NCHAR", "UUID", "JSON", "ENUM"),
    "BINARY": ("BYTES", "BYTEA", "BLOB", "VARBINARY"),
    "TIMESTAMP": ("DATETIME", "DATETIME2", "SMALLDATETIME", "TIMESTAMPTZ"),
    "BOOLEAN": ("BOOL",), "SMALLINT": ("INT2", "UINT8"), "INT": ("INT4", "MEDIUMINT", "UINT16"), "BIGINT": ("INT8", "INT64", "UINT32"),
    "FLOAT": ("FLOAT4",), "DOUBLE": ("FLOAT8", "FLOAT64"), "DECIMAL(10, 2)": ("NUMBER", "MONEY"), "DECIMAL(20, 0)": ("UINT64",),
    "DECIMAL(38, 0)": ("HUGEINT", "INT128"),
}  # fmt: skip
_INSTEAD = {theirs: ours for ours, names in _ELSEWHERE.items() for theirs in names}
_WIDER = {
    "TINYINT": "SMALLINT", "BYTE": "SMALLINT", "SMALLINT": "INT", "SHORT": "INT", "INT": "BIGINT", "INTEGER": "BIGINT", "": "BIGINT",
    "BIGINT": "DECIMAL(20, 0)", "LONG": "DECIMAL(20, 0)",
}  # fmt: skip
_PARTS = {"ARRAY": "ARRAY<INT>", "MAP": "MAP<STRING, INT>", "STRUCT": "STRUCT<a: INT>"}
_STRONG = r"(?:\bAS\s+|::\s*|<\s*|:\s*|(?:\w|`)\s+)"
"""What stands in front of a type; a comma may stand in front of a name as well, so it comes second."""
_QUOTED = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"")
_TIME_TEXT = r"(?P<name>TIMESTAMP(?:_LTZ|_NTZ)?)\s*\((?P<sizes>\s*(?!6\s*\))\d+\s*)\)(?=(?P<local>\s+WITHOUT)?)"
_SIZED = r"(?P<name>\w+)(?:\s*\((?P<sizes>[^()]*)\))?"
_WORDS_BEHIND = r"(?:\w+(?:<[^()]*>)?(?:\s*\([^()]*\))?)\s+"


@dataclass(frozen=True)
class BadType:
    """A type that is refused: its letters in the text, what is wrong with it, and what to write."""

    start: int
    end: int
    message: str
    hint: str


def bad_type(text: str, condition: str, at: int | None = None) -> BadType | None:
    """The type in a text of SQL that Spark's error of this ``condition`` is about; ``at`` is the letter that Spark names.

    >>> bad_type("k STRING, x TEXT", "UNSUPPORTED_DATATYPE", 12)
    BadType(start=12, end=16, message='TEXT is not a type of Spark', hint='write STRING')
    """
    text = _QUOTED.sub(lambda m: m[0][0] + " " * (len(m[0]) - 2) + m[0][0], text)
    if condition == "UNSUPPORTED_TIME_TYPE":
        m = _placed(r"(?P<name>TIME)\b(?!\s+ZONE)(?:\s*\(\s*\d*\s*\))?", text)
        return m and _of(m, "Spark does not support the type TIME", "write STRING, or INT for the seconds since midnight")  # fmt: skip
    if condition in ("INVALID_TIMESTAMP_PRECISION", "FEATURE_NOT_ENABLED"):
        return _exact_time(_placed(_TIME_TEXT, text))
    if condition in ("UNSUPPORTED_DATATYPE", "DATATYPE_MISSING_SIZE", "INCOMPLETE_TYPE_DEFINITION.ARRAY", "INCOMPLETE_TYPE_DEFINITION.MAP", "INCOMPLETE_TYPE_DEFINITION.STRUCT"):  # fmt: skip
        if at is None:
            return None
        exact = re.compile(_TIME_TEXT, re.IGNORECASE).match(text, at)
        m = exact or re.compile(_SIZED, re.IGNORECASE).match(text, at)
        return _exact_time(exact) if exact else m and _named(m)
    if "DECIMAL" in condition or "PRECISION" in condition or "SCALE" in condition:
        return _decimal(text)
    return _written(text, at) if condition.startswith("PARSE_SYNTAX_ERROR") else None


def refuse_schema(error: PySparkException, text: str) -> AnalysisError:
    """The error of a schema that Spark does not take."""
    condition = error.getCondition() or ""
    bad = bad_type(text, condition, letter_of(error, text))
    if bad is not None:
        return AnalysisError("BAD_TYPE", bad.message, hint=bad.hint, schema=text)
    first = re.sub(r"^\[[\w.]+\]\s*|\s*SQLSTATE: .*", "", str(error).strip().splitlines()[0])
    return AnalysisError("BAD_TYPE", f"Spark cannot read the schema {text[:200]!r}: {first}", hint='write columns with types of Spark, such as "k STRING, ts TIMESTAMP"', schema=text)  # fmt: skip


def letter_of(error: PySparkException, text: str) -> int | None:
    """The letter of the text that Spark's parser names."""
    place = re.search(r"\(line (\d+), pos (\d+)\)", str(error))
    if place is None:
        return None
    lines = text.splitlines(keepends=True)
    return sum(len(line) for line in lines[: int(place[1]) - 1]) + int(place[2])


def schema_of(schema: StructType | str) -> StructType:
    """A schema that is given as such or as text, with types that Spark has."""
    from pyspark.errors import PySparkException
    from pyspark.sql.types import StructType

    from slackwater.engine.analysis.schema import type_name

    try:
        with captured():
            made: Any = StructType.fromDDL(schema) if isinstance(schema, str) else schema
            assert isinstance(made, StructType)
            check_taken(made)
    except PySparkException as error:
        text = schema if isinstance(schema, str) else ", ".join(f"{f.name} {type_name(f.dataType)}" for f in schema.fields)  # fmt: skip
        raise refuse_schema(error, text) from None
    return made


def check_taken(schema: StructType) -> None:
    """Spark takes columns of these types; it reads names of some that it does not."""
    from pyspark.sql import SparkSession

    if "time(" in schema.simpleString().lower():
        java: Any = SparkSession.active()._jsparkSession
        java.createDataFrame([], java.parseDataType(schema.json()))


# --- inside ---------------------------------------------------------------------------------------


def _placed(pattern: str, text: str) -> re.Match[str] | None:
    """The first match that stands where a type stands."""
    for before in (_STRONG, r",\s*"):
        m = re.search(f"{before}(?P<whole>{pattern})", text, re.IGNORECASE)
        if m is not None:
            return m
    return None


def _of(m: re.Match[str], message: str, hint: str) -> BadType:
    whole = "whole" if "whole" in m.re.groupindex else 0
    return BadType(m.start(whole), m.end(whole), message, hint)


def _exact_time(m: re.Match[str] | None) -> BadType | None:
    """``TIMESTAMP(3)``: Spark's times have six digits, whatever is asked for."""
    if m is None:
        return None
    kind, local = m["name"].upper(), m["local"] or m["name"].upper() == "TIMESTAMP_NTZ"
    return _of(
        m, f"there is no {kind}({m['sizes'].strip()}): times have six digits behind the second",
        f"write {'TIMESTAMP_NTZ' if local else 'TIMESTAMP, or TIMESTAMP_NTZ for local times'}; "
        "date_trunc('MILLISECOND', t) cuts what is behind the third",
    )  # fmt: skip


def _named(m: re.Match[str]) -> BadType:
    name = m["name"].upper()
    if name in ("VARCHAR", "CHAR", "CHARACTER"):
        return _of(m, f"{name} needs a length of at most 2147483647", "write STRING")
    if name in _PARTS:
        return _of(m, f"{name} does not say what is in it", f"write, for example, {_PARTS[name]}")
    if name in _TYPES or name in _OTHER_NAMES:
        return _of(m, f"the type {name} takes no length", f"write {name}")
    return _of(m, f"{name} is not a type of Spark", _instead(name))


def _instead(name: str) -> str:
    if name in _INSTEAD:
        return f"write {_INSTEAD[name]}"
    near = get_close_matches(name, _TYPES, 1)
    return f"did you mean {near[0]}?" if near else f"write a type of Spark's: {', '.join(_TYPES)}, ARRAY<...>, MAP<..., ...> or STRUCT<...>"  # fmt: skip


def _decimal(text: str) -> BadType | None:
    for m in re.finditer(r"\b(DECIMAL|DEC|NUMERIC)\s*\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)", text, re.IGNORECASE):  # fmt: skip
        digits, behind = int(m[2]), int(m[3] or 0)
        if digits > 38:
            return _of(m, f"{m[0]} has a precision of {digits}, and it is at most 38", f"write {m[1]}(38, {min(behind, 38)})")  # fmt: skip
        if behind > digits:
            return _of(m, f"{m[0]} has more digits behind the point, {behind}, than digits, {digits}", f"write {m[1]}({behind}, {behind})" if behind <= 38 else f"write {m[1]}(38, 38)")  # fmt: skip
    return None


def _written(text: str, at: int | None) -> BadType | None:
    """What is no type of Spark's because of its form, near where Spark's parser stops."""
    for pattern, made in _FORMS:
        m = _placed(pattern, text)
        if m is not None and (at is None or m.start("whole") <= at <= m.end("whole") + 1):
            return _of(m, *made(m))
    return None


def _unsigned(m: re.Match[str]) -> tuple[str, str]:
    name = (m["before"] or m["behind"] or "").upper()
    return f"{m['whole'].upper()} is not a type of Spark, whose numbers have a sign", f"write {_WIDER.get(name, 'BIGINT')}, which holds all its values"  # fmt: skip


_FORMS: tuple[tuple[str, Any], ...] = (
    (r"(?P<before>TINYINT|SMALLINT|INTEGER|INT|BIGINT)\s+UNSIGNED(?P<behind>\b)", _unsigned),
    (r"UNSIGNED(?:\s+(?P<behind>TINYINT|SMALLINT|INTEGER|INT|BIGINT))?(?P<before>\b)", _unsigned),
    (r"(?P<inner>\w+)\s*\[\s*\d*\s*\]", lambda m: (
        f"{m['whole']} is not a type of Spark", f"write ARRAY<{m['inner'].upper()}>")),
    (r"ROW\s*[<(]", lambda m: ("ROW is not a type of Spark", "write STRUCT<a: INT, b: STRING>")),
    (r"(?P<inner>TIMESTAMP|TIME)\s*(?:\(\s*\d+\s*\)\s*)?WITH\s+(?:LOCAL\s+)?TIME\s+ZONE", lambda m: (
        f"{' '.join(m['whole'].upper().split())} is not a type of Spark", "write TIMESTAMP, which is a point in time whatever the zone; or TIMESTAMP_NTZ for local times")),
    (r"DOUBLE\s+PRECISION", lambda m: ("DOUBLE PRECISION is not a type of Spark", "write DOUBLE")),
    (rf"{_WORDS_BEHIND}(?P<word>DEFAULT)\b", lambda m: (
        "the columns of a stream have no defaults", "leave DEFAULT out, and write coalesce(column, value) where the column is used")),
    (rf"{_WORDS_BEHIND}(?P<word>GENERATED)\b", lambda m: (
        "the columns of a stream are not generated", "leave the column out, and compute it in a SELECT on the stream")),
    (rf"{_WORDS_BEHIND}(?P<word>PRIMARY|UNIQUE|REFERENCES|CHECK)\b", lambda m: (
        "the columns of a stream have no constraints but NOT NULL", f"leave {m['word'].upper()} out")),
)  # fmt: skip
