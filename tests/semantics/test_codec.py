"""The one codec: values of declared types survive JSON, and what does not fit is refused."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from slackwater.model.codec import LEAN, Codec, from_json, positional, stored, to_json
from tests.examples import examples


class Pair(NamedTuple):
    low: int
    high: int | None


@positional
@dataclass(frozen=True)
class Span:
    pair: Pair
    name: str
    weight: float = field(default=1.0, metadata=LEAN)


@dataclass(frozen=True)
class Tree:
    spans: tuple[Span, ...]
    by_number: Mapping[int, Span]
    by_pair: Mapping[tuple[int, str], int]
    names: frozenset[str]
    grid: Sequence[Sequence[Pair]] = field(default=(), metadata=LEAN)
    low: int = field(default=0, metadata=stored(name="from"))
    child: Tree | None = field(default=None, metadata=LEAN)
    rest: dict[str, Any] = field(default_factory=dict, metadata=LEAN)


ints = st.integers(-9, 9)
pairs = st.builds(Pair, ints, st.none() | ints)
spans = st.builds(Span, pairs, st.text(max_size=3), st.sampled_from([1.0, 2.5]))
trees: st.SearchStrategy[Tree] = st.deferred(
    lambda: st.builds(
        Tree,
        st.lists(spans, max_size=2).map(tuple),
        st.dictionaries(ints, spans, max_size=2),
        st.dictionaries(st.tuples(ints, st.text(max_size=1)), ints, max_size=2),
        st.frozensets(st.text(max_size=2), max_size=2),
        st.lists(st.lists(pairs, max_size=2).map(tuple), max_size=2).map(tuple),
        ints,
        st.none() | trees,
        st.just({}) | st.just({"a": [1, {"b": None}]}),
    )
)


def again(value: Any) -> Any:
    return json.loads(json.dumps(to_json(value)))


@examples(100)
@given(tree=trees)
def test_values_survive_json(tree: Tree) -> None:
    assert from_json(Tree, again(tree)) == tree


def test_the_form_is_the_one_that_is_described() -> None:
    tree = Tree((Span(Pair(1, None), "a"),), {2: Span(Pair(1, 2), "b", 2.0), 1: Span(Pair(0, 0), "")}, {}, frozenset("ba"))  # fmt: skip
    assert again(tree) == {
        "spans": [[[1, None], "a"]],
        "by_number": [[1, [[0, 0], ""]], [2, [[1, 2], "b", 2.0]]],
        "by_pair": [],
        "names": ["a", "b"],
        "from": 0,
    }


def test_what_is_not_of_the_type_is_refused() -> None:
    whole = again(Tree((), {}, {}, frozenset()))
    with pytest.raises(TypeError, match="no field 'low'"):
        from_json(Tree, {**whole, "low": 1})
    with pytest.raises(TypeError, match="missing"):
        from_json(Tree, {k: v for k, v in whole.items() if k != "names"})
    with pytest.raises(TypeError, match="3 fields, and 4 values"):
        from_json(Span, [[1, 2], "a", 1.0, 5])


@dataclass
class Columns:
    counts: NDArray[np.int64]
    sparse: NDArray[np.int64] = field(
        metadata=stored(by=Codec(lambda v: np.flatnonzero(v).tolist(), lambda d: np.array(d)))
    )
    later: Span | None = field(default=None, metadata=stored(kind=f"{__name__}:Span"))


def test_arrays_and_fields_with_a_way_of_their_own() -> None:
    columns = Columns(np.array([3, 4]), np.array([0, 7, 7]), Span(Pair(1, 2), "x"))
    assert again(columns) == {"counts": [3, 4], "sparse": [1, 2], "later": [[1, 2], "x"]}
    read = from_json(Columns, again(columns))
    assert read.counts.dtype == np.int64 and read.counts.tolist() == [3, 4]
    assert read.later == columns.later
    assert from_json(Columns, again(Columns(np.array([], np.int64), np.array([1])))).later is None


@dataclass
class Unclear:
    value: int | Pair


def test_a_type_that_cannot_be_told_from_its_json_needs_a_way_of_its_own() -> None:
    with pytest.raises(TypeError, match=r"stored\(by="):
        to_json(Unclear(1))
