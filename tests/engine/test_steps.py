"""A third kind of step on a path is refused by its name, wherever steps are read: none is taken for a projection.

The two places that need a session (`row_step`, `inputs`) end their ``match`` as these do, and mypy sees that all know
every kind.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar
from unittest.mock import MagicMock

import pyarrow as pa
import pytest

from slackwater.engine.lowlevel.fused import Dialect, Fused, query
from slackwater.engine.paths.steps import carrying, relation, renamed
from slackwater.engine.plan.layout import build
from slackwater.engine.plan.plan import Output, Plan
from slackwater.engine.plan.sharing import share
from slackwater.engine.plan.steps import FilterStep, ProjectStep
from slackwater.model.node import Sort
from slackwater.model.schema import Expr, Named, column
from slackwater.model.window import TimeWindow
from tests.engine.test_low_table import counted
from tests.engine.test_sharing import BASE


@dataclass(frozen=True)
class LookUp:
    """A step that puts columns of a table beside those of a row, and has neither condition nor columns."""

    drops_rows: ClassVar[bool] = False
    expressions: ClassVar[tuple[Expr, ...]] = ()


STEPS: Any = (LookUp(),)
SUMS = counted(BASE, ("k",), TimeWindow(12, 4, 0, "ts"), "v")


def with_step(plan: Plan) -> Plan:
    """The first path of the plan with the unknown step at its end."""
    first, *others = plan.paths
    return replace(plan, paths=(replace(first, steps=(*first.steps, *STEPS)), *others))


def fused() -> None:
    plan = with_step(build([Output("sums", SUMS)], ansi=True, zone="UTC"))
    batch = MagicMock(plan=plan, now=0)
    batch.bound.return_value = 0
    query(batch, Fused.of(plan, plan.paths[0].id), "SELECT 1", Dialect(True))


def shared() -> None:
    sorts = [Output(n, Sort(BASE.schema, BASE.times, BASE, "ts")) for n in ("a", "b")]
    share(with_step(build(sorts, ansi=True, zone="UTC")), {}, None, wanted=True)


@pytest.mark.parametrize(
    "read",
    [
        lambda: relation(STEPS),
        lambda: carrying(STEPS, "x"),
        lambda: renamed(STEPS, pa.table({"x": [1]})),
        fused,
        shared,
    ],
    ids=["relation", "carrying", "renamed", "fused", "shared"],
)
def test_an_unknown_step_is_named(read: Callable[[], None]) -> None:
    with pytest.raises(TypeError, match="no step of a path is a LookUp"):
        read()


def test_only_a_filter_drops_rows() -> None:
    (path, *_) = build([Output("sums", SUMS)], ansi=True, zone="UTC").paths
    rest = ProjectStep((Named("k", column("k", "bigint")),))
    assert not replace(path, steps=(rest,)).has_filter
    assert replace(path, steps=(rest, FilterStep(column("b", "boolean")))).has_filter
