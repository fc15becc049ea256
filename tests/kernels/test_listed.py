"""Records as lists that the column engine searches: they match the rows that the same records match as conditions."""

from __future__ import annotations

import gc
import pickle
import random
from datetime import date, datetime, timedelta, timezone
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.kernels import listed
from slackwater.kernels.column_engine import connect, sql_to_arrow
from slackwater.kernels.listed import Listed, apart
from slackwater.kernels.translate.records import listing, matching
from slackwater.kernels.types import arrow_schema
from slackwater.model.node import Source
from slackwater.model.policy import BoundedDelay
from slackwater.model.schema import Field
from slackwater.model.time import TimeColumn
from slackwater.semantics.feedback import order
from slackwater.semantics.patterns import Pattern, Patterns, Test
from tests.examples import examples

FIELDS = (
    Field("ts", "bigint"), Field("k", "int"), Field("l", "bigint"), Field("b", "boolean"), Field("d", "date"),
    Field("at", "timestamp"), Field("x", "double"), Field("s", "string"),
)  # fmt: skip
NODE = Source(FIELDS, (TimeColumn("ts", "long", 1),), "s", policies=(BoundedDelay(delay=1),))
ENDS = (-(1 << 63), -(1 << 63) + 1, (1 << 63) - 2, (1 << 63) - 1)
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def value(rng: random.Random, type: str) -> Any:
    if rng.random() < 0.1:
        return None
    n = rng.randint(-3, 70)
    match type:
        case "int" | "double":
            return n
        case "bigint":
            return rng.choice(ENDS) if rng.random() < 0.1 else n
        case "boolean":
            return n % 2 == 0
        case "date":
            return date(1970, 1, 1) + timedelta(days=n)
        case "timestamp":
            return EPOCH + timedelta(microseconds=n)
    return str(n)


def code(rng: random.Random, type: str) -> Any:
    if type == "bigint" and rng.random() < 0.1:
        return rng.choice((*ENDS, 1 << 63))
    if type == "string":
        return str(rng.randint(0, 70))
    n = rng.randint(-3, 70)
    return order.first_from(float(n), "double") if type == "double" else n


def spans(rng: random.Random, type: str, count: int) -> Test:
    cuts = sorted({code(rng, type) for _ in range(2 * count)})
    made: list[tuple[Any, Any]] = list(zip(cuts[::2], cuts[1::2], strict=False))
    if made and rng.random() < 0.3:
        made[0] = (None, made[0][1])
    if made and rng.random() < 0.3:
        made[-1] = (made[-1][0], None)
    return Test.of(made, rng.random() < 0.2)


def records(rng: random.Random) -> Patterns:
    made: list[Pattern] = []
    columns = rng.sample(FIELDS, rng.randint(1, 3))
    # Boxes that are apart on the first column, as a rule.
    lead = columns[0]
    for low, high in spans(rng, lead.type, rng.randint(1, 40)).spans:
        tests = {c.name: spans(rng, c.type, 1) for c in columns[1:]}
        made.append(Pattern.of({lead.name: Test(((low, high),), rng.random() < 0.02), **tests}))
    if rng.random() < 0.5:  # and one test of many ranges
        one = rng.choice(FIELDS)
        made.append(Pattern.of({one.name: spans(rng, one.type, 40)}))
    if rng.random() < 0.2:
        made.append(made[0])
    return tuple(p for p in made if not p.empty)


USED: list[int] = []


@pytest.mark.spec("FC-F57")
def test_lists_match_the_rows_that_conditions_match() -> None:
    @examples(60)
    @given(st.integers(0, 2**32 - 1))
    def same(seed: int) -> None:
        rng = random.Random(seed)
        asked = records(rng)
        rows = [{f.name: value(rng, f.type) for f in FIELDS} for _ in range(60)]
        table = pa.Table.from_pylist(rows, arrow_schema(FIELDS))
        plain = matching(NODE, asked)
        written, lists = listing(NODE, asked)
        assert written.sql == plain.sql and "__sw_inside" not in str(plain.duck)
        USED.append(len(lists))
        texts = f"SELECT {plain.duck} AS one, {written.duck} AS other FROM t"
        found = sql_to_arrow(connect(), texts, {"t": table})
        assert found["one"].to_pylist() == found["other"].to_pylist()
        assert found["other"].null_count == 0

    same()
    assert sum(USED) > 20


def test_a_list_goes_with_those_who_hold_it() -> None:
    one = Listed([((1, 3), (None, 5)), ((7, 9), (2, None))])
    number, copy = one.number, pickle.loads(pickle.dumps(one))
    assert copy == one and copy.number == number
    del one
    text = f"SELECT {copy.call(['a', 'b'])} FROM t"
    table = pa.table({"a": [1, 2, 3, 8, None], "b": [4, 5, 0, 2, 0]})
    (column,) = sql_to_arrow(connect(), text, {"t": table}).columns
    assert column.to_pylist() == [True, False, False, True, None]
    del copy
    listed.read.cache_clear()  # those that were read last stay
    gc.collect()
    with pytest.raises(Exception, match="is not known in this process"):
        sql_to_arrow(connect(), text, {"t": table})
    assert listed.evaluate(pa.array([], pa.int64()), pa.array([], pa.int64())).to_pylist() == []


def test_of_two_that_are_equal_one_may_go() -> None:
    """Two places of a batch have the same records: one is done with them before the other."""
    boxes = [((1, 3),), ((7, 9),)]
    one, other = Listed(boxes), Listed(boxes)
    table = pa.table({"a": [1, 5]})
    for gone in ("other", "one"):
        text = f"SELECT {one.call(['a'])} FROM t"
        if gone == "other":
            del other
        else:
            other, one = Listed(boxes), None  # type: ignore[assignment]
        gc.collect()
        (column,) = sql_to_arrow(connect(), text, {"t": table}).columns
        assert column.to_pylist() == [True, False]


def test_single_texts_are_one_list_of_constants() -> None:
    """Each as a condition of its own took engines eight times as long."""
    texts = ["", "a'b", "a\0", "\u00e9", "z"]
    test = Test.among(texts) | order.above("zz", "string")
    expr = matching(NODE, (Pattern.of({"s": test}),))
    assert (expr.sql.count(" IN ("), str(expr.duck).count(" IN (")) == (1, 1)
    assert (expr.sql.count(">"), str(expr.duck).count(">")) == (1, 1)
    rows = [None, *texts, "a", "a\0b", "zz", "zz\0", "zzz", "Z"]
    table = pa.table({"s": rows})
    (found,) = sql_to_arrow(connect(), f"SELECT {expr.duck} FROM t", {"t": table}).columns
    assert found.to_pylist() == [test.matches(r) for r in rows]


def test_boxes_that_overlap_on_every_column_are_no_list() -> None:
    many = [((0, 10 + i), (i, i + 2)) for i in range(40)]
    assert apart(many) is None
    asked = tuple(Pattern.of({"k": Test((a,)), "l": Test((b,))}) for a, b in many)
    assert listing(NODE, asked)[1] == ()
    open_twice = [((None, 3), (0, 1)), ((None, 5), (0, 1))]
    assert apart(open_twice) is None
