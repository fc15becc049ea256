"""Where the columns of several inputs of rows lie in the one DataFrame that they make."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from slackwater.engine.lowlevel.inputs import places
from slackwater.engine.plan.reading import Rows
from slackwater.model.schema import Field


def made(*types: str) -> Any:
    return SimpleNamespace(
        fields=tuple(Field(f"c{i}", t) for i, t in enumerate(types)), narrows=False
    )


def test_columns_of_one_type_share_their_place_and_of_an_input_none_do() -> None:
    plan: Any = SimpleNamespace(readings=(Rows(), Rows()))
    found = places(
        plan, [made("bigint", "timestamp", "bigint"), made("timestamp", "string", "bigint")]
    )
    first, second = found[0], found[1]
    assert len(set(first)) == len(set(second)) == 3
    assert second[0] == first[1] and second[2] == first[0] and second[1] not in first
