"""Every aggregate over every type, in parts and whole, against the definitions."""

from __future__ import annotations

import math
from decimal import Decimal
from itertools import groupby

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from slackwater.errors import AnalysisError, ExecutionError
from slackwater.kernels import column_engine
from slackwater.kernels.aggregates import partials
from slackwater.kernels.types import arrow_type
from slackwater.kernels.windows.partials_step import without_prefix
from slackwater.model.aggregate import Primitive
from slackwater.model.schema import Expr, column
from tests.examples import examples
from tests.kernels import brute
from tests.kernels.strategies import VALUES, rows

PRIMITIVES = brute.all_primitives()
EASY = examples(30, suppress_health_check=list(HealthCheck))


def states(primitives: list[Primitive], data: list[dict], parts: int = 1) -> list[pa.Table]:
    """State rows of each, one per part of the data that has rows (one for no data), by the column engine."""
    items = ", ".join(item for p in primitives for item in partials.duck_partials(p))
    sql = f"SELECT {items} FROM input"
    if data:
        sql = f"SELECT part, {items} FROM input GROUP BY part ORDER BY part"
    numbers = pa.array([i % parts for i in range(len(data))])
    table = brute.table(data, sql + " k").append_column("part", numbers)
    raw = column_engine.sql_to_arrow(column_engine.connect(), sql, {"input": table})
    raw = without_prefix(raw)
    return [
        pa.table(partials.from_duck(p, raw), schema=pa.schema(partials.state_fields(p)))
        for p in primitives
    ]


def state(p: Primitive, data: list[dict], parts: int = 1) -> pa.Table:
    return states([p], data, parts)[0]


def columns_of(p: Primitive) -> tuple[str, ...]:
    return tuple(sorted({a.sql.strip("`") for a in p.args}))


SETS = {
    columns: list(group)
    for columns, group in groupby(sorted(PRIMITIVES, key=columns_of), columns_of)
}


def check(p: Primitive, table: pa.Table, data: list[dict], ansi: bool) -> None:
    try:
        expected = brute.aggregate(p, data, ansi)
    except brute.Overflow:
        with pytest.raises(ExecutionError, match="ARITHMETIC_OVERFLOW"):
            partials.finish(p, table, ansi)
        return
    result = partials.finish(p, table, ansi)
    assert result.type == arrow_type(p.type)
    got = result.to_pylist()
    assert len(got) == 1
    assert brute.same(p, got[0], expected, data), (p, got[0], expected)


@pytest.mark.spec("WQ-F44")
@pytest.mark.parametrize("columns", SETS, ids=lambda columns: "-".join(columns) or "none")
@EASY
@given(st.data())
def test_parts_merge_to_the_value_of_the_whole(columns, data):
    # All aggregates over the same columns at once: one statement for them.
    # Catches: sub-aggregates merged by the wrong super-aggregate (counts merged by count), nulls that
    # count, a NaN that loses against a number, a sum that overflows on the way but not at the end.
    values = data.draw(rows(columns, st.just(0), most=12))
    ansi = data.draw(st.booleans())
    parts = data.draw(st.integers(1, 4))
    for p, pieces in zip(SETS[columns], states(SETS[columns], values, parts), strict=True):
        merged = partials.merge_groups([p], pieces, np.array([0]))
        check(p, merged, values, ansi)
        pairwise = pieces.slice(0, 1)
        for i in range(1, pieces.num_rows):
            pair = pa.concat_tables([pairwise, pieces.slice(i, 1)])
            pairwise = partials.merge_groups([p], pair, np.array([0]))
        check(p, pairwise, values, ansi)


@pytest.mark.parametrize("p", PRIMITIVES, ids=lambda p: f"{p.function}-{'-'.join(columns_of(p))}")
def test_state_columns_carry_the_name_and_survive_an_empty_table(p):
    fields = partials.state_fields(p)
    assert all(f.name.startswith(p.name + "_") for f in fields)
    empty = pa.schema(fields).empty_table()
    assert partials.merge_groups([p], empty, np.array([], dtype=np.int64)).schema == empty.schema
    assert partials.finish(p, empty, True).type == arrow_type(p.type)


@examples(75)
@given(st.lists(st.lists(VALUES["i8"], min_size=1, max_size=6), min_size=1, max_size=5))
def test_segments_do_not_leak_into_each_other(groups):
    p = brute.primitive("_a0", "sum", "i8")
    flat = [{"i8": v} for g in groups for v in g]
    single = state(p, flat, len(flat))
    starts = np.cumsum([0] + [len(g) for g in groups[:-1]])
    merged = partials.merge_groups([p], single, starts)
    got = partials.finish(p, merged, False).to_pylist()
    assert got == [(sum(g) + 2**63) % 2**64 - 2**63 for g in groups]


def test_bigint_sum_passes_through_values_beyond_its_type():
    p = brute.primitive("_a0", "sum", "i8")
    top = 2**63 - 1
    data = [{"i8": v} for v in (top, top, top, -top, -top, -top, 7)]
    assert partials.finish(p, state(p, data), True).to_pylist() == [7]
    with pytest.raises(ExecutionError) as e:
        partials.finish(p, state(p, [{"i8": top}, {"i8": 1}]), True)
    assert e.value.condition == "ARITHMETIC_OVERFLOW" and e.value.hint
    wrapped = partials.finish(p, state(p, [{"i8": top}, {"i8": 1}]), False)
    assert wrapped.to_pylist() == [-(2**63)]


def test_average_of_decimals_rounds_half_away_from_zero():
    p = brute.primitive("_a0", "avg", "d5")  # decimal(9,6)
    up = [Decimal("0.01")] + [Decimal("0.00")] * 31  # 0.0003125 -> 0.000313 (half even: 0.000312)
    assert partials.finish(p, state(p, [{"d5": v} for v in up]), True).to_pylist() == [
        Decimal("0.000313")
    ]
    down = [{"d5": -v} for v in up]
    assert partials.finish(p, state(p, down), True).to_pylist() == [Decimal("-0.000313")]


def test_ties_of_max_by_do_not_depend_on_arrival():
    p = brute.primitive("_a0", "max_by", "s", "i1")
    q = brute.primitive("_a0", "min_by", "s", "i1")
    data = [{"s": "b", "i1": 1}, {"s": None, "i1": 1}, {"s": "c", "i1": 1}, {"s": "z"}]
    for turned in (data, data[::-1]):
        assert partials.finish(p, state(p, turned), True).to_pylist() == ["c"]
        assert partials.finish(q, state(q, turned), True).to_pylist() == [None]


def test_variance_of_equal_values_is_exactly_zero_however_cut():
    p = brute.primitive("_a0", "var_pop", "f8")
    pieces = state(p, [{"f8": 0.1}] * 21, 7)
    merged = partials.merge_groups([p], pieces, np.array([0]))
    assert partials.finish(p, merged, True).to_pylist() == [0.0]


@pytest.mark.parametrize("value", [0.1, 1e200])
def test_a_part_without_values_leaves_the_variance_alone(value):
    # Catches: distances measured from an empty part's mean, which is no mean at all.
    p = brute.primitive("_a0", "var_pop", "f8")
    pieces = state(p, [{"f8": v} for v in (None, value, value, value)], 4)
    assert pieces.num_rows == 4
    merged = partials.merge_groups([p], pieces, np.array([0]))
    assert partials.finish(p, merged, True).to_pylist() == [0.0]


def test_variance_keeps_its_digits_far_from_zero():
    # Catches: sums of squares, which lose all digits here.
    p = brute.primitive("_a0", "var_samp", "f8")
    data = [{"f8": 1e9 + v} for v in (4.0, 7.0, 13.0, 16.0)]
    got = partials.finish(p, partials.merge_groups([p], state(p, data, 4), np.array([0])), True)
    assert got.to_pylist()[0] == pytest.approx(30.0, rel=1e-9)


def test_a_single_value_has_no_sample_variance():
    for f, expected in (("var_samp", None), ("stddev_samp", None), ("var_pop", 0.0)):
        p = brute.primitive("_a0", f, "f8")
        assert partials.finish(p, state(p, [{"f8": 3.0}]), True).to_pylist() == [expected]


@pytest.mark.spec("WQ-F41")
def test_traits_say_what_a_planner_may_do():
    def of(f, *a):
        return brute.primitive("_a0", f, *a).traits

    for traits in (
        of("count"),
        of("sum", "i8"),
        of("avg", "d18"),
        of("sum", "f8"),
        of("var_pop", "f8"),
    ):
        assert traits.bounded and traits.differential
    assert not of("max", "i8").differential and of("max", "i8").bounded
    assert not of("max_by", "s", "i8").differential


def test_what_cannot_be_computed_names_itself():
    with pytest.raises(AnalysisError, match=r"sum\(`s`\): the argument is string"):
        partials.kind_of(Primitive("_a0", "sum", (column("s", "string"),), "double"))
    with pytest.raises(AnalysisError, match="struct<a:int>"):
        partials.kind_of(Primitive("_a0", "max", (column("z", "struct<a:int>"),), "struct<a:int>"))
    with pytest.raises(AnalysisError, match="reason here"):
        partials.duck_partials(
            Primitive("_a0", "sum", (Expr("f(x)", "int", None, "reason here"),), "bigint")
        )


def test_only_stable_partials_are_given_to_the_row_engine():
    assert partials.spark_partials(brute.primitive("_a0", "var_pop", "f8")) is None
    assert partials.spark_partials(brute.primitive("_a0", "sum", "d38")) is None
    assert len(partials.spark_partials(brute.primitive("_a0", "sum", "i8"))) == 3


def test_nan_is_the_greatest_and_never_the_least():
    data = [{"f8": v} for v in (math.nan, 1.0, math.inf, None)]
    high, low = brute.primitive("_a0", "max", "f8"), brute.primitive("_a0", "min", "f8")
    assert math.isnan(partials.finish(high, state(high, data, 4), True).to_pylist()[0])
    merged = partials.merge_groups([low], state(low, data, 4), np.array([0]))
    assert partials.finish(low, merged, True).to_pylist() == [1.0]
