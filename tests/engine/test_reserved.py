"""Names that users may not have, and names that come twice."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from slackwater.engine.plan.layout import build
from slackwater.engine.plan.plan import Output
from slackwater.engine.plan.reserved import check_names, check_twice
from slackwater.errors import AnalysisError
from slackwater.model.names import ours
from slackwater.model.node import Dedup, Sort, Source
from slackwater.model.policy import BoundedDelay
from slackwater.model.render import digest, render
from slackwater.model.schema import Field
from slackwater.model.time import TimeColumn
from slackwater.sinks.base import check_types
from tests.engine.given_names import Given
from tests.engine.test_names import QUERIES

TIME = TimeColumn("ts", "long", None)
FIELDS = (Field("ts", "bigint"), Field("v", "bigint"))


def plan_for(kind: str, name: str, stream: str = "s") -> Any:
    schema = (*FIELDS, Field(name, "bigint"))
    source = Source(schema, (TIME,), stream, 0, (BoundedDelay(0),))
    node: Any = source
    if kind == "sort":
        node = Sort(schema, (TIME,), source, "ts")
    if kind == "dedup":
        node = Dedup(schema, (TIME,), source, ("ts", "v"), None, "ts")
    return build([Output("out", node)], ansi=True, zone="UTC")


@pytest.mark.parametrize("kind", ["rows", "sort", "dedup"])
@pytest.mark.parametrize("name", ["__sw_time", "__sw", "__SW_x", "__sWap"])
def test_a_column_that_begins_like_ours_is_refused_with_the_way_out(kind: str, name: str) -> None:
    with pytest.raises(AnalysisError) as caught:
        plan_for(kind, name)
    assert caught.value.condition == "RESERVED_NAME" and f"'{name}'" in str(caught.value)
    assert "withColumnRenamed" in caught.value.hint


def test_so_is_a_stream() -> None:
    with pytest.raises(AnalysisError, match="'__Sw1'") as caught:
        plan_for("rows", "x", "__Sw1")
    assert caught.value.condition == "RESERVED_NAME" and "name=" in caught.value.hint


@pytest.mark.parametrize("kind", ["rows", "sort", "dedup"])
@pytest.mark.parametrize(
    "name",
    ["_time", "_TIME", "_row", "_k0", "_bucket", "_for", "_sw", "_sw_x", "sw", "__s", "a__sw"],
)
def test_all_other_names_are_the_users(kind: str, name: str) -> None:
    plan_for(kind, name, name)


def test_names_are_compared_without_regard_to_case() -> None:
    check_twice(["a", "b"], "")
    with pytest.raises(AnalysisError, match="'A'") as caught:
        check_twice(["a", "b", "A"], "the way out")
    assert (caught.value.condition, caught.value.hint) == ("DUPLICATE_COLUMN", "the way out")
    check_names(["_a", "a__sw"])


WINDOW = Field("window", "struct<start:timestamp,end:timestamp>")


@pytest.mark.parametrize("name", ["window_start", "WINDOW_END"])
def test_a_window_in_csv_takes_two_names(name: str) -> None:
    fields = (Field("k", "int"), WINDOW, Field(name, "int"))
    check_types(fields, (), "json")
    check_types((fields[0], replace(WINDOW, name="w"), fields[2]), (), "csv")
    with pytest.raises(AnalysisError, match=name) as caught:
        check_types(fields, (), "csv")
    assert caught.value.condition == "DUPLICATE_COLUMN" and "alias" in caught.value.hint


# ---- ids of operators are made of texts with the names of ours that they always had ----

DIGESTS = {
    "fused": "2c2676", "wids": "53e023", "lazy": "53e023", "small": "759c78", "other": "ddfbd0", "large": "2dc5b3",
    "sessions": "6b81fd", "landmark": "7cafd8", "rank": "5cfa1b", "custom": "499b09", "counted": "1cac0e",
    "per": "93c0b9", "tuples": "4cd206", "sorted": "ff40e2", "sorted2": "8758ea", "distinct": "fd4c9c",
    "within": "d261a9", "union": "31b159", "late": "63ca9a", "inner": "75465a", "full": "12f3eb",
    "bounded": "6d7353", "three": "e728c4", "joint": "264a33", "joined": "9fff0e", "ended": "b5c4de",
    "error": "0ab841", "strict": "eb6e46",
}  # fmt: skip
"""Ids that commit e35c92f gave."""


def test_operators_have_the_ids_that_they_had() -> None:
    found = {}
    for name, query in QUERIES.items():
        for output, node in query(Given(patterns=name == "punctuated")).items():
            found[output] = digest(node)
            assert "__sw" not in "\n".join(render(node))
    assert found == DIGESTS


def test_a_group_column_that_is_called_like_an_aggregate_is_told_from_it() -> None:
    """No old query has such a column, so its text may say more."""
    given = Given({"key": "_a0"})
    node = given.agg(given.source(), given.time_window(4, 4), {"key": "{k}"}, {"n": "count"})
    (line,) = [x for x in render(node) if "aggregate" in x]
    assert f"`{ours('_a0')}`" in line and "AS _a0]" in line
    other = replace(node, outputs=(replace(node.outputs[0], expr=node.keys[0].expr),))
    assert digest(node) != digest(other)
