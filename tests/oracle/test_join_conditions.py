"""Joins whose further condition is a Python function on Arrow columns, against the oracle; and what it does wrong."""

from __future__ import annotations

import functools
import pickle
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import Phase, given
from hypothesis import strategies as st

import slackwater as sw
from slackwater.errors import AnalysisError, ExecutionError
from slackwater.kernels.joins.condition import holds
from slackwater.model.render import digest, render
from slackwater.model.schema import Field
from slackwater.surface.conditions import ConditionSpec, condition_of
from slackwater.testing.executors.kernels import kernels
from slackwater.testing.strategies import cut, disordered
from slackwater.testing.transcripts.script import oracle, parse
from tests.examples import examples
from tests.oracle.on_engine import check_on_engine, shortened
from tests.oracle.test_joins_against_oracle import _on_time, spans, totals
from tests.oracle.test_kernels_against_oracle import canonical

QUICK = (Phase.explicit, Phase.generate)  # a script of many parts shrinks for minutes
DELAY = 8


@st.composite
def scripts(draw: st.DrawFn, inputs: int, memory: int | None = None) -> dict[str, Any]:
    names = ["a", "b", "c"][:inputs]
    step: dict[str, Any] = {"join": names}
    if inputs == 2:
        step |= {"how": draw(st.sampled_from(["inner", "left", "full"])), **spans(draw)}
    else:
        step["reach"] = draw(st.lists(st.integers(0, 8), min_size=inputs, max_size=inputs))
    if draw(st.booleans()):
        step["keys"] = ["k"]
    step["where"] = {"function": draw(st.sampled_from(["rising", "odd_sum"]))}
    if memory is not None:
        step["memory"] = memory
    query = {
        "out": [step],
        "sums": [
            {"from": "out"},
            {"window": {"range": 5, "time": "max"}, "agg": {"n": "count(*)"}},
        ],
    }
    streams, batches = {}, {}
    for name in names:
        rows = draw(disordered(min_rows=3, max_rows=9, max_delay=DELAY, low=0, high=20))
        rows = rows if memory is None else _on_time(rows)
        batches[name] = cut(rows, draw(st.lists(st.integers(0, 9), min_size=1, max_size=3)))
        streams[name] = {
            "columns": {"ts": "bigint", "k": "string", "v": "bigint"},
            "time": "ts",
            "progress": {"bounded_delay": 12 if memory else draw(st.sampled_from([DELAY, 3]))},
        }
    steps = [
        {"rows": {n: b[i] for n, b in batches.items() if i < len(b)}}
        for i in range(max(map(len, batches.values())))
    ]
    return {"name": "random", "streams": streams, "query": query, "script": [*steps, {"end": True}]}


@pytest.mark.spec("XJ-F80")
@pytest.mark.parametrize("inputs", [2, 3])
@examples(30, phases=QUICK)
@given(data=st.data(), groups=st.sampled_from([1, 1, 2]))
def test_random_joins_with_a_function(data: st.DataObject, inputs: int, groups: int) -> None:
    text = data.draw(scripts(inputs))
    if data.draw(st.booleans()):
        del text["query"]["sums"]
    check_on_engine(parse(shortened(text, 3)), groups)


@pytest.mark.parametrize("inputs", [2, 3])
@examples(3)
@given(data=st.data())
def test_random_joins_with_a_function_by_kernels_alone(data: st.DataObject, inputs: int) -> None:
    transcript = parse(data.draw(scripts(inputs)))
    assert canonical(kernels("panes")(transcript)) == canonical(oracle(transcript))


@examples(4)
@given(data=st.data())
def test_random_joins_with_a_function_in_little_memory(data: st.DataObject) -> None:
    transcript = parse(data.draw(scripts(2, memory=data.draw(st.sampled_from([1, 300])))))
    assert totals(transcript, kernels("panes")(transcript)) == totals(
        transcript, oracle(transcript)
    )


FIELDS = [Field("k", "string"), Field("a_v", "bigint"), Field("b_v", "bigint")]
ROWS = pa.table({"k": ["x", "y", None], "a_v": [1, 5, None], "b_v": [2, 4, 3]})


def made(function: Callable[..., Any], **more: Any) -> Any:
    return condition_of(sw.condition(function, **more), FIELDS)


def test_parameters_are_columns_or_one_table() -> None:
    by_name = made(lambda b_v, a_v: pc.less(a_v, b_v))
    assert by_name.columns == ("b_v", "a_v")
    assert holds(by_name, ROWS).to_pylist() == [True, False, False]
    table = made(lambda rows: pc.greater(rows["a_v"], 1))
    assert table.columns == () and holds(table, ROWS).to_pylist() == [False, True, False]
    assert holds(made(lambda A_V: A_V.is_null()), ROWS).to_pylist() == [False, False, True]
    assert holds(made(lambda a_v, limit=3: np.asarray(a_v.fill_null(0)) > limit), ROWS)[1].as_py()


def fails(a_v: Any) -> Any:
    raise KeyError("no such thing")


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (fails, "'fails' .* raised KeyError: 'no such thing'"),
        (lambda a_v: a_v, "returned an array of int64, not an array of booleans"),
        (lambda a_v: True, "returned bool, not an array of booleans"),
        (lambda a_v: pa.scalar(True), "returned bool, not an array of booleans"),
        (lambda a_v: np.zeros((3, 1), bool), "2 dimension"),
        (lambda a_v: np.zeros(3, np.int8), "a NumPy array of int8"),
        (lambda a_v: pa.array([True]), "returned 1 values for 3 rows"),
        (lambda rows: None, "returned NoneType"),
    ],
)
def test_what_a_function_does_wrong_is_told(function: Any, told: str) -> None:
    with pytest.raises(ExecutionError, match=told) as caught:
        holds(made(function), ROWS)
    assert caught.value.condition == "JOIN_CONDITION_FAILED"


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (lambda a_v, c_v: None, "parameter 'c_v', which is no column of the join's result"),
        (lambda: None, "takes nothing"),
        (lambda *columns: None, "has no parameter of its own"),
        (7, "is of type int, not a function"),
    ],
)
def test_a_function_that_cannot_be_called_is_refused(function: Any, told: str) -> None:
    with pytest.raises(AnalysisError, match=told):
        made(function)


def below(limit: int) -> Callable[..., Any]:
    return lambda a_v: pc.less(a_v, limit)


def test_a_function_is_told_by_what_it_does() -> None:
    def same(a_v: Any) -> Any:
        return pc.less(a_v, 3)

    def other(a_v: Any) -> Any:
        return pc.less_equal(a_v, 3)

    def again(a_v: Any) -> Any:
        return pc.less(a_v, 3)

    version = lambda f, **more: made(f, **more).version  # noqa: E731
    assert version(same) == version(again) != version(other)
    assert version(below(3)) == version(below(3)) != version(below(4))
    bound = functools.partial(lambda limit, a_v: pc.less(a_v, limit), 3)
    assert version(bound) != version(functools.partial(bound.func, 4))
    assert version(same, version="7") == version(other, version="7") == "7"
    assert str(made(same)) == f"function same@{version(same)}(a_v)"


def test_another_function_makes_another_query() -> None:
    def node(function: str) -> Any:
        step = {"join": ["a", "b"], "band": {"after": 1}, "where": {"function": function}}
        stream = {"columns": {"ts": "bigint", "v": "bigint"}, "time": "ts"}
        text = {"name": "t", "streams": {"a": stream, "b": stream}, "query": [step], "script": []}
        return parse(text).outputs["out"].node

    assert digest(node("rising")) == digest(node("rising")) != digest(node("odd_sum"))
    assert "where function odd@1(all columns)" in render(node("odd_sum"))[0]


def test_a_function_travels_by_value() -> None:
    there = pickle.loads(pickle.dumps(made(below(3))))
    assert holds(there, ROWS).to_pylist() == [True, False, False]
    lock = threading.Lock()
    with pytest.raises(AnalysisError, match="cannot be sent to workers"):
        made(lambda a_v: lock)


def test_a_condition_shows_its_settings() -> None:
    assert sw.condition(fails, version="2") == ConditionSpec(fails, None, "2")
