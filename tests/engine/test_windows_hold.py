"""What a result shows as its window holds just the rows that it counts, for each type of window, as a query runs.

Each row adds a bit of its own to a sum, which so tells the rows of each window. The windows that there are come from the
definition of the type, as spans.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pytest

from slackwater.engine.operators.registry import kind_of
from slackwater.engine.plan.layout import build
from slackwater.engine.plan.plan import Output
from slackwater.engine.store.statistics import OperatorStatistics
from slackwater.model.window import CustomWindow
from slackwater.semantics.linear_windows import Linear
from slackwater.testing.custom_windows import CUSTOM
from slackwater.testing.transcripts.script import parse
from tests.engine.in_process import Engine, Make

TIMES = [3, 3, 5, 4, 9, 10, 17, 13, 18, 31, 30, 42]
"""In two batches; no row is late by more than 5."""

Spans = list[tuple[int, int]]


def ran(make: Make, window: Mapping[str, Any], plan: str = "auto") -> Engine:
    columns = {"ts": "bigint", "v": "bigint", "g": "bigint"}
    stream = {"columns": columns, "time": "ts", "progress": {"bounded_delay": 5}, "order": "v"}
    query = [{"from": "s"}, {"window": window, "by": ["g"], "agg": {"total": "sum(v)"}}]
    script = parse({"name": "w", "streams": {"s": stream}, "query": query, "script": []})
    engine = make()
    outputs = [Output("out", o.node) for o in script.outputs.values()]
    engine.start(build(outputs, ansi=True, zone="UTC", window_plan=plan), groups=1)
    bits = [1 << i for i in range(len(TIMES))]
    for part in (slice(0, 6), slice(6, None)):
        engine.batch(pa.table({"ts": TIMES[part], "v": bits[part], "g": [1] * len(bits[part])}))
    engine.batch(final=True)
    engine.stop()
    return engine


def rows_of(total: int) -> frozenset[int]:
    return frozenset(i for i in range(len(TIMES)) if total >> i & 1)


def inside(spans: Spans, holds: Callable[[int, int, int], bool]) -> dict[tuple[int, int], frozenset[int]]:  # fmt: skip
    """The rows in each span that has any."""
    found = {s: frozenset(i for i in range(len(TIMES)) if holds(i, *s)) for s in spans}
    return {s: rows for s, rows in found.items() if rows}


def by_time(i: int, start: int, end: int) -> bool:
    return start <= TIMES[i] < end


def by_number(i: int, start: int, end: int) -> bool:
    return start <= i < end


def up_to(i: int, start: int, end: int) -> bool:
    return start < TIMES[i] <= end


CASES: dict[str, tuple[dict[str, Any], Spans, Callable[[int, int, int], bool]]] = {
    "time": ({"range": 7, "slide": 3, "origin": 2}, [(s, s + 7) for s in range(-40, 60) if s % 3 == 1], by_time),
    "gaps": ({"range": 2, "slide": 5}, [(e - 2, e) for e in range(-50, 60, 5)], by_time),
    "rows": ({"rows": 5, "slide": 2}, [(e - 5, e) for e in range(2, 20, 2)], by_number),
    "landmark": ({"landmark": 10, "origin": 4}, [(4, e) for e in range(14, 50, 10)], by_time),
    "every row": ({"by_tuple": 10}, [(t - 10, t) for t in TIMES], up_to),
    "every third": ({"by_tuple": 10, "every": 3, "over": "rank"}, [(t - 10, t) for t in sorted(TIMES)[2::3]], up_to),
    "session": ({"session": 4}, [(3, 9), (9, 17), (17, 22), (30, 35), (42, 46)], by_time),
    "linear": ({"custom": "linear"}, [(2 * w + 1, 3 * w + 4) for w in range(40)], by_time),
}  # fmt: skip


@pytest.fixture(autouse=True)
def linear(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows that grow: from ``2 w + 1`` to ``3 w + 4``."""
    lines = Linear((2, 1), (3, 4))
    made = lambda on: CustomWindow("lines", on, lines.windows, lines.extent, lines.wids)  # noqa: E731
    monkeypatch.setitem(CUSTOM, "linear", made)  # type: ignore[attr-defined]


@pytest.mark.spec("WQ-F12")
@pytest.mark.parametrize(
    ("name", "plan"),
    [
        *((n, "auto") for n in CASES if n != "linear"),
        pytest.param("linear", "auto", marks=pytest.mark.spec("WQ-F27")),
        ("time", "wids"),
        ("time", "buffered"),
        ("time", "adaptive"),
        ("gaps", "adaptive"),
    ],
)
def test_a_row_is_counted_just_where_it_lies_in_the_window_that_is_shown(
    engine: Make, name: str, plan: str
) -> None:
    window, spans, holds = CASES[name]
    results = ran(engine, window, plan).rows("out")
    shown = {(r["window"]["start"], r["window"]["end"]): rows_of(r["total"]) for r in results}
    assert len(shown) == len(results)
    assert shown == inside(spans, holds)


@pytest.mark.spec("WQ-F26")
@pytest.mark.parametrize(
    ("name", "plan", "told"),
    [
        ("time", "panes", "a row tells"),
        ("landmark", "landmark", "a row tells"),
        ("linear", "custom", "a row tells"),
        ("rows", "rows", "rows before it tell"),
        ("session", "sessions", "rows after it tell"),
        ("every row", "ticks", "rows after it tell"),
        ("every third", "ticks", "rows after it tell"),
    ],
)
def test_what_tells_the_windows_of_a_row_decides_how_it_runs(
    engine: Make, name: str, plan: str, told: str
) -> None:
    """Only where rows before it tell does each row come by itself to the operator, which numbers them."""
    q = ran(engine, CASES[name][0])
    (operator,) = q.loop.query.plan.operators
    assert kind_of(operator).described(operator, OperatorStatistics()).count(told) == 1
    (figures,) = q.records[0]["operators"].values()
    assert figures["plan"] == plan
    assert (figures["rowsIn"] == 6) == (told == "rows before it tell"), (
        "of the first batch's rows two have one time"
    )
