"""How inputs are read is chosen once, and whoever meets a reading that it does not know says so."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark")

from slackwater.engine.driver import job
from slackwater.engine.driver.passes import PASSES, Begun, Shown, Started, Written, passed
from slackwater.engine.lowlevel import inputs as row_inputs
from slackwater.engine.lowlevel import tasks
from slackwater.engine.lowlevel.inputs import FrameInput, Input, SplitInput
from slackwater.engine.plan.layout import build
from slackwater.engine.plan.plan import Output, Plan
from slackwater.engine.plan.reading import (
    FusedScan,
    JvmPartials,
    Reading,
    Rows,
    RowsWithSteps,
    Scan,
    chosen,
    described,
)
from slackwater.model.aggregate import Primitive
from slackwater.model.node import LATE_FIELDS, Filter, Late, Node, Source
from slackwater.model.policy import BoundedDelay, Ordered, Quality
from slackwater.model.schema import Expr, Field, column
from slackwater.model.time import TimeColumn
from slackwater.model.window import TimeWindow
from slackwater.surface.explain import explain_plan
from tests.engine.test_low_table import FIELDS, counted

SOURCE = Source(FIELDS, (TimeColumn("ts", "long", 1_000_000),), "s", 0, (Ordered(),))
OTHER = replace(SOURCE, name="t", input=1)
FILES, FRAME = SplitInput(None, "in", FIELDS), FrameInput(None)
OLD_FILES = replace(FILES, by_rows="a column that only Spark reads")
WINDOW = TimeWindow(10, 10, 0, "ts")


def sums(source: Node) -> Node:
    return counted(source, ("k",), WINDOW, "v")


def blocked(source: Source) -> Filter:
    """A filter that only Spark can evaluate."""
    return Filter(source.schema, source.times, source, Expr("f(v)", "boolean", None, "f"))


def read(inputs: Sequence[Input], *nodes: Node, **how: Any) -> tuple[Reading, ...]:
    outputs = [Output(f"o{i}", node) for i, node in enumerate(nodes)]
    return chosen(build(outputs, ansi=True, zone="UTC", **how), inputs).readings


SPREAD = replace(
    sums(SOURCE), primitives=(Primitive("_b0", "stddev_samp", (column("v", "double"),), "double"),)
)


@pytest.mark.parametrize(
    ("item", "nodes", "reading"),
    [
        (FILES, [sums(SOURCE)], FusedScan(0)),
        (FILES, [SOURCE], Scan()),
        (FILES, [sums(SOURCE), SOURCE], Scan()),
        (FILES, [sums(replace(SOURCE, order=("ts",)))], Scan()),
        (FILES, [sums(replace(SOURCE, late="raise"))], Scan()),
        (FILES, [sums(blocked(SOURCE))], JvmPartials(0, RowsWithSteps((0,)))),
        (FILES, [blocked(SOURCE), SOURCE], RowsWithSteps((0,))),
        (OLD_FILES, [SOURCE], Rows()),
        (OLD_FILES, [sums(SOURCE)], JvmPartials(0, Rows())),
        (FRAME, [SOURCE], Rows()),
        (FRAME, [sums(SOURCE)], JvmPartials(0, Rows())),
        (FRAME, [sums(SOURCE), blocked(SOURCE)], RowsWithSteps((2,))),
        (FRAME, [SPREAD], Rows()),
        (FRAME, [sums(replace(SOURCE, policies=(BoundedDelay(1).futureGuard(5, future="side"),)))], Rows()),
    ],
)  # fmt: skip
def test_the_reading_of_one_input(item: Input, nodes: list[Node], reading: Reading) -> None:
    assert read([item], *nodes) == (reading,)


def test_rows_that_come_late_as_a_stream_are_needed_as_such() -> None:
    late = Late((*FIELDS, *LATE_FIELDS), SOURCE.times, SOURCE)
    assert read([FILES], sums(SOURCE), late) == (Scan(),)


def test_spark_reduces_the_rows_of_an_input_only_if_it_is_the_only_one_of_rows() -> None:
    assert read([FRAME, FRAME], sums(SOURCE), sums(OTHER)) == (Rows(), Rows())
    assert read([FRAME, FILES], sums(SOURCE), sums(OTHER)) == (JvmPartials(0, Rows()), FusedScan(1))


def test_a_window_plan_that_keeps_rows_needs_rows() -> None:
    assert read([FILES], sums(SOURCE), window_plan="wids") == (Scan(),)
    assert read([FRAME], sums(SOURCE), window_plan="buffered") == (Rows(),)


def test_panes_with_gaps_need_rows_since_those_between_windows_tell_progress() -> None:
    gaps = counted(SOURCE, ("k",), TimeWindow(5, 10, 0, "ts"), "v")
    assert read([FILES], gaps, window_plan="panes") == (Scan(),)


def test_local_times_are_not_for_the_jvm() -> None:
    fields = tuple(Field("ts", "timestamp_ntz") if f.name == "ts" else f for f in FIELDS)
    local = replace(SOURCE, schema=fields, times=(TimeColumn("ts", "timestamp_ntz"),))
    assert read([FRAME], sums(local)) == (Rows(),)
    assert read([FILES], sums(local)) == (FusedScan(0),)


def test_rows_that_are_judged_one_by_one_are_read_in_one_task() -> None:
    policy = Quality(error=0.1, granularity=2, strict=True)
    strict = replace(OTHER, policies=(policy,), order=("ts",))
    (fused, scan) = read([FILES, FILES], sums(SOURCE), counted(strict, ("k",), WINDOW, "v"))
    assert (fused, scan) == (FusedScan(0, True), Scan(True))


def test_a_reading_adds_little_to_what_tasks_are_sent() -> None:
    plan = build([Output("o", sums(SOURCE))], ansi=True, zone="UTC")
    more = len(pickle.dumps(chosen(plan, [FRAME]))) - len(pickle.dumps(plan))
    assert 0 < more < 150  # of a batch of some thousand bytes


# ---- readings that nobody knows ----
@dataclass(frozen=True)
class ByTelegraph:
    by_columns = in_one_task = False


UNKNOWN: Any = ByTelegraph()


def incomplete(inputs: Sequence[Input] = (FRAME,)) -> Plan:
    plan = chosen(build([Output("o", SOURCE)], ansi=True, zone="UTC"), inputs)
    return replace(plan, readings=(UNKNOWN,))


def scanned() -> None:
    tasks._scan(incomplete(), [SimpleNamespace(source=SOURCE)], [])  # type: ignore[list-item]


@pytest.mark.parametrize(
    "meet",
    [
        lambda: described(UNKNOWN),
        lambda: explain_plan(incomplete(), [FRAME]),
        lambda: row_inputs._evaluated(incomplete(), 0),
        lambda: job._row_part(None, SimpleNamespace(plan=incomplete()), [FRAME]),  # type: ignore[arg-type]
        scanned,
    ],
)
def test_an_unknown_reading_is_an_error(meet: Callable[[], object]) -> None:
    with pytest.raises(TypeError, match="no input is read as ByTelegraph"):
        meet()


def test_what_spark_reads_is_no_split_and_the_other_way_round() -> None:
    plan = chosen(build([Output("o", SOURCE)], ansi=True, zone="UTC"), [FRAME])
    with pytest.raises(TypeError, match="input 0 is read by Spark"):
        tasks._scan(plan, [SimpleNamespace(source=SOURCE)], [])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="input 0 is read by the column engine"):
        row_inputs._evaluated(replace(plan, readings=(Scan(),)), 0)


# ---- passes ----
def test_passes_run_at_their_moment_in_the_order_of_the_tuple(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[str] = []

    def spied(name: str) -> Callable[[Plan, Any], Plan]:
        def run(plan: Plan, moment: Any) -> Plan:
            seen.append(name)
            return plan

        return run

    spies = tuple(p._replace(run=spied(p.name)) for p in PASSES)
    monkeypatch.setattr("slackwater.engine.driver.passes.PASSES", spies)
    plan = build([Output("o", SOURCE)], ansi=True, zone="UTC")
    for moment in (Written(), Started([FRAME], "auto", True, {}, {}, None), Begun(None)):
        passed(plan, moment)
    assert seen == [p.name for p in PASSES]
    seen.clear()
    passed(plan, Shown([FRAME]))
    assert seen == [
        "leave out columns that nobody reads", "count rows without a partner once",
        "choose how inputs are read",
    ]  # fmt: skip


def test_a_plan_that_is_shared_is_read_as_the_shared_operators_want() -> None:
    """Two sums over the same rows are two paths at first, so that rows are needed, and one when they share their panes."""
    wide = counted(SOURCE, ("k",), TimeWindow(20, 10, 0, "ts"), "v")
    plan = build(
        [Output("a", sums(SOURCE)), Output("b", wide)], ansi=True, zone="UTC", window_plan="panes"
    )
    assert passed(plan, Shown([FILES])).readings == (Scan(),)
    start = Started([FILES], "panes", True, {}, {}, None)
    assert passed(plan, start).readings == (FusedScan(0),)


@pytest.mark.parametrize(
    ("reading", "text"),
    [
        (Rows(), "rows"),
        (Rows(True), "rows, in one task"),
        (RowsWithSteps((1, 2)), "rows, and Spark evaluates the row steps of 2 path(s)"),
        (JvmPartials(0, Rows()), "partial aggregates by the JVM"),
        (Scan(True), "scan of rows, in one task"),
        (FusedScan(0), "fused scan"),
    ],
)
def test_explain_prints_the_reading(reading: Reading, text: str) -> None:
    assert described(reading) == text
    plan = build([Output("o", SOURCE)], ansi=True, zone="UTC")
    item = FILES if reading.by_columns else FRAME
    lines = explain_plan(replace(plan, readings=(reading,)), [item]).splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("level 0, stream s: "))
    assert lines[at + 1] == f"  reading: {text}"
