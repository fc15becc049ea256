"""Punctuation read in columns says what it says row by row, and thousands of closed values take little."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.engine.lowlevel.punctuation import Punctuation
from slackwater.errors import ExecutionError
from slackwater.model.node import Source
from slackwater.model.policy import Punctuated
from slackwater.model.schema import Field
from slackwater.model.time import TimeColumn
from slackwater.semantics.pattern_text import pattern_of
from slackwater.semantics.patterns import Patterns, joined, merged
from slackwater.semantics.settings import resolve_source
from tests.examples import examples

MAP = "map<string,struct<op:string,value:string>>"
ARROW = pa.map_(pa.string(), pa.struct([("op", pa.string()), ("value", pa.string())]))
TYPES = {"n": "bigint", "k": "string", "ts": "bigint"}
FIELDS = (*(Field(c, t) for c, t in TYPES.items()), Field("p", MAP))
SOURCE = Source(FIELDS, (TimeColumn("ts", "long", None),), "s", policies=(Punctuated("p"),))
BATCH: Any = SimpleNamespace(states={}, now=None, plan=SimpleNamespace(zone="UTC"))

tests = st.one_of(
    st.tuples(st.sampled_from(["n", "N"]), st.sampled_from(["=", "<", "in "]), st.integers(-3, 9)),
    st.tuples(st.just("k"), st.sampled_from(["=", ">="]), st.sampled_from(["a", "b", "ab", ""])),
    st.tuples(st.just("ts"), st.sampled_from(["=", ">"]), st.integers(0, 9)),
)


def read(said: list[Any], codes: list[int], names: list[str]) -> dict[str, Patterns]:
    table = pa.table({"p": pa.array(said, ARROW)})
    return Punctuation(BATCH, SOURCE, resolve_source(SOURCE)).read(table, np.array(codes, np.int64), names).patterns  # fmt: skip


def written(test: tuple[str, str, Any]) -> tuple[str, dict[str, str]]:
    name, op, value = test
    return (name, {"op": op.strip(), "value": f"[{value}]" if op == "in " else str(value)})


@examples(100)
@given(
    st.lists(
        st.none() | st.lists(tests, min_size=1, max_size=2, unique_by=lambda t: t[0].lower()),
        max_size=8,
    ),
    st.data(),
)
def test_columns_say_what_rows_say(said: list[Any], data: st.DataObject) -> None:
    rows = [None if p is None else [written(t) for t in p] for p in said]
    codes = data.draw(st.lists(st.integers(0, 1), min_size=len(rows), max_size=len(rows)))
    expected: dict[str, list[Any]] = {}
    for row, code in zip(rows, codes, strict=True):
        if row is not None:
            p = pattern_of({c: (t["op"], t["value"]) for c, t in row}, TYPES)
            expected.setdefault("xy"[code], []).append(p)
    found = read(rows, codes, ["x", "y"])
    assert {n: merged(p) for n, p in found.items()} == {n: merged(p) for n, p in expected.items()}


@pytest.mark.parametrize("value", ["1x", None, "1.5", "9" * 30])
def test_what_is_no_value_is_refused_as_ever(value: str | None) -> None:
    with pytest.raises(ExecutionError, match=r"is not a value of column 'n'|BAD_PUNCTUATION"):
        read([[("n", {"op": "=", "value": "7"})], [("n", {"op": "=", "value": value})], [("m", None)]], [0, 0, 0], [""])  # fmt: skip


def test_twenty_thousand_closed_orders_take_little() -> None:
    """Half a second of CPU time is promised, for reading and for merging with what holds already."""
    order = np.random.default_rng(1).permutation(40_000)
    held: Patterns = ()
    for closed in (order[:20_000], order[20_000:]):
        said = [[("n", {"op": "=", "value": str(v)})] for v in closed.tolist()]
        table = pa.table({"p": pa.array(said, ARROW)})
        codes = np.zeros(len(said), np.int64)
        began = time.process_time()
        found = Punctuation(BATCH, SOURCE, resolve_source(SOURCE)).read(table, codes, [""])
        held = joined(held, found.patterns[""], ["ts"])
        taken = time.process_time() - began
        print(f"20,000 closed orders, in no order: {taken:.3f} s of CPU time")
        assert taken < 0.5
    assert [p.test("n") and p.test("n").spans for p in held] == [((0, 40_000),)]  # type: ignore[union-attr]
