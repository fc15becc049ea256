"""A restart finds out that a user's function has changed: by what it does, or by the version it was given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import slackwater as sw
from slackwater.model.time import TimeColumn
from slackwater.model.window import CustomWindow, describe_window
from slackwater.surface.window_types import _custom

TIME = TimeColumn("ts", "long", None)


def window(size: int, **more: Any) -> CustomWindow:
    spec = sw.customWindow(
        lambda low, high: np.arange(low // size, (high - 1) // size + 1),
        lambda ids: (ids * size, (ids + 1) * size),
        lambda times: (np.arange(len(times)), times // size),
        name="tens",
        **more,
    )
    return _custom(spec, TIME)


def test_a_custom_window_is_told_by_name_and_functions() -> None:
    assert window(10) == window(10) != window(20)
    assert describe_window(window(10)) == describe_window(window(10))
    assert describe_window(window(10)) != describe_window(window(20))
    assert window(10, version="1") == window(20, version="1")
    assert describe_window(window(20, version="1")) == "custom tens@1 shift 0 on ts"


def test_a_linear_window_is_told_by_its_lines() -> None:
    lines = sw.linearWindow((10, 0), (10, 25))
    shown = describe_window(_custom(lines, TIME))
    assert shown == "custom linear [10*w + 0, 10*w + 25) shift 0 on ts"


class Scaled:
    """Keeps a number that its methods use."""

    def __init__(self, by: int):
        self.by = by

    def state(self, state: Any, x: Any) -> Any:
        return {"n": state["n"] + self.by * len(x)}


def helper(x: Any) -> Any:
    return x


def uses(how: Callable[..., Any]) -> Callable[..., Any]:
    return lambda state, x: how(x)


def version(update: Callable[..., Any]) -> str:
    made = sw.udaf(
        dict, update, lambda a, b: a, lambda s: 0, stateType="n bigint", returnType="bigint"
    )
    return made._udaf.identity


def test_what_functions_are_made_of_counts() -> None:
    assert version(Scaled(1).state) == version(Scaled(1).state) != version(Scaled(2).state)
    assert version(uses(helper)) != version(uses(lambda x: [x]))
    assert version(uses(helper)) == version(uses(helper))
