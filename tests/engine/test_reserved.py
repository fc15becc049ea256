"""Names that rows in state need for themselves."""

from __future__ import annotations

from typing import Any

import pytest

from slackwater.engine.plan import Output, build
from slackwater.errors import AnalysisError
from slackwater.model.node import Dedup, Sort, Source
from slackwater.model.policy import BoundedDelay
from slackwater.model.schema import Field
from slackwater.model.time import TimeColumn

TIME = TimeColumn("ts", "long", None)
FIELDS = (Field("ts", "bigint"), Field("v", "bigint"))


def plan_for(kind: str, name: str) -> Any:
    schema = (*FIELDS, Field(name, "bigint"))
    source = Source(schema, (TIME,), "s", 0, (BoundedDelay(0),))
    node: Any = Sort(schema, (TIME,), source, "ts")
    if kind == "dedup":
        node = Dedup(schema, (TIME,), source, ("ts", "v"), None, "ts")
    return build([Output("out", node)], ansi=True, zone="UTC")


@pytest.mark.parametrize("kind", ["sort", "dedup"])
@pytest.mark.parametrize("name", ["_time", "_TIME", "_bucket", "_for", "_k0"])
def test_a_column_with_a_name_of_ours_is_refused_with_the_way_out(kind: str, name: str) -> None:
    with pytest.raises(AnalysisError) as caught:
        plan_for(kind, name)
    assert caught.value.condition == "RESERVED_NAME" and f"'{name}'" in str(caught.value)
    assert f"withColumnRenamed('{name}'" in caught.value.hint


@pytest.mark.parametrize("name", ["time", "_times", "_key", "_k", "k0"])
def test_other_names_are_the_users(name: str) -> None:
    plan_for("sort", name)
