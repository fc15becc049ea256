"""Times and dates near the ends of what Spark has: the same as Spark's, or an error that shows the row."""

from __future__ import annotations

from typing import Any

import duckdb
import pytest

from slackwater.kernels.translate import translate
from slackwater.kernels.translate.types import duck_type

TYPES = {"l": "bigint", "t": "timestamp", "n": "timestamp_ntz", "u": "timestamp", "d": "date", "e": "date",
         "i": "int", 'a"b': "string"}  # fmt: skip
END = (1 << 63) - 1
# the first time that DuckDB can hold, and the last one: the next is its infinity
FIRST, LAST = -9_223_372_022_400_000_000, END - 1
DAYS = (1 << 31) - 1


def evaluated(sql: str, **values: Any) -> Any:
    """A translated expression over one row: times in microseconds, dates in days, and so is the result."""
    types = {n: k for n, k in TYPES.items() if n in values}
    done = translate(sql, types, ansi=True, zone="UTC")
    made = {
        "timestamp": "make_timestamptz({}::BIGINT)", "timestamp_ntz": "make_timestamp({}::BIGINT)",
        "date": "(DATE '1970-01-01' + CAST({} AS INTEGER))", "bigint": "CAST('{}' AS BIGINT)",
        "int": "CAST({} AS INTEGER)", "string": "'{}'",
    }  # fmt: skip
    columns = [
        f'{made[types[n]].format(v) if v is not None else f"CAST(NULL AS {duck_type(types[n])})"} AS "{n.replace(chr(34), chr(34) * 2)}"'
        for n, v in values.items()
    ]
    shown = {
        "timestamp": "epoch_us({})",
        "timestamp_ntz": "epoch_us({})",
        "date": "{} - DATE '1970-01-01'",
    }
    result = shown.get(done.type, "{}").format(f"({done.duck})")
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(f"CREATE TABLE r AS SELECT {', '.join(columns)}")
        (row,) = connection.execute(f"SELECT {result} FROM r").fetchall()
    return row[0]


@pytest.mark.parametrize(
    ("sql", "values", "want"),
    [
        ("timestamp_micros(`l`)", {"l": LAST}, LAST),
        ("timestamp_micros(`l`)", {"l": FIRST}, FIRST),
        ("timestamp_micros(`l`)", {"l": None}, None),
        ("timestamp_millis(`l`)", {"l": END // 1000}, END // 1000 * 1000),
        ("timestamp_seconds(`l`)", {"l": -9_223_372_022_400}, FIRST),
        ("timestamp_seconds(`i`)", {"i": -(1 << 31)}, -(1 << 31) * 1_000_000),
        ("(`t` + INTERVAL '1' SECOND)", {"t": LAST - 1_000_000}, LAST),
        ("(`n` - INTERVAL '1' SECOND)", {"n": FIRST + 1_000_000}, FIRST),
        ("timestampadd(HOUR, 1, `t`)", {"t": None}, None),
        ("date_add(`d`, `i`)", {"d": 1, "i": DAYS - 2}, DAYS - 1),
        ("date_sub(`d`, 1)", {"d": 2 - DAYS}, 1 - DAYS),
        ("date_add(`d`, `i`)", {"d": None, "i": 1}, None),
        # Spark's datediff goes round at the end of an int; its timestampdiff does not at the end of a long.
        ("datediff(`d`, `e`)", {"d": DAYS - 1, "e": 1 - DAYS}, -4),
        ("timestampdiff(SECOND, `t`, `u`)", {"t": FIRST, "u": LAST}, 18_446_744_059_254),
    ],
)  # fmt: skip
def test_what_can_be_held_is_sparks(sql: str, values: dict[str, Any], want: Any) -> None:
    assert evaluated(sql, **values) == want


@pytest.mark.parametrize(
    ("sql", "values", "row"),
    [
        ("timestamp_micros(`l`)", {"l": END}, f"l = {END}"),
        ("timestamp_micros(`l`)", {"l": -END - 1}, f"l = {-END - 1}"),
        ("timestamp_micros(`l`)", {"l": FIRST - 1}, f"l = {FIRST - 1}"),
        ("timestamp_micros((`l` + CAST(length(`a\"b`) AS BIGINT)))", {"l": LAST, 'a"b': "x"}, f'l = {LAST}, a"b = x'),
        ("timestamp_millis(`l`)", {"l": -END // 1000}, f"l = {-END // 1000}"),
        ("timestamp_seconds(`l`)", {"l": -9_223_372_036_854}, "l = -9223372036854"),
        ("timestamp_seconds(`l`)", {"l": END}, f"l = {END}"),
        ("(`t` - INTERVAL '1' SECOND)", {"t": FIRST}, f"t = {FIRST} microseconds"),
        ("(`t` + INTERVAL '1' SECOND)", {"t": LAST}, f"t = {LAST} microseconds"),
        ("(`n` + INTERVAL '1' MONTH)", {"n": LAST}, f"n = {LAST} microseconds"),
        ("timestampadd(HOUR, 1, `t`)", {"t": LAST}, f"t = {LAST} microseconds"),
        ("date_add(`d`, `i`)", {"d": 1, "i": DAYS}, f"d = 1970-01-02, i = {DAYS}"),
        ("date_sub(`d`, 2)", {"d": 2 - DAYS}, "d = 5877642-06-26 (BC)"),
    ],
)  # fmt: skip
def test_what_cannot_be_held_shows_the_row(sql: str, values: dict[str, Any], row: str) -> None:
    with pytest.raises(duckdb.ConversionException) as caught:
        evaluated(sql, **values)
    first = str(caught.value).splitlines()[0]
    assert "OUT_OF_RANGE" in first and f": {row}' to" in first
