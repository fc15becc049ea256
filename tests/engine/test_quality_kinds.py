"""Targets on averages, on quantiles and on single groups: kept, and cheaper than complete windows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from slackwater.engine.plan.layout import build
from slackwater.engine.plan.plan import Output, Plan
from slackwater.model.aggregate import Primitive
from slackwater.model.node import Aggregate, Source
from slackwater.model.policy import Policy, Quality
from slackwater.model.schema import Expr, Field, Named, column
from slackwater.model.window import TimeWindow
from tests.engine.in_process import Engine, Make
from tests.engine.test_quality import FIELDS, TIME, WINDOW, even, quality, run

SPAN = TimeWindow(100, 20, 0, "ts")


def rows(seed: int, count: int = 4_000) -> list[tuple[int, int, int, float]]:
    """(number, key, time, value) in order of arrival, two a tick; a third is late by some 30 ticks."""
    rng = np.random.default_rng(seed)
    made = np.arange(count) // 2
    late = np.where(rng.random(count) < 0.3, rng.exponential(30, count), 0)
    order = np.argsort(made + late, kind="stable")
    values = rng.integers(50, 150, count).astype(float)
    return [
        (i, int(at) % 3, int(made[at]), float(values[at])) for i, at in enumerate(order.tolist())
    ]


def plan(policy: Policy, function: str, params: tuple[Any, ...] = (), key: bool = False) -> Plan:
    """One aggregate of v by window."""
    value: tuple[Expr, ...] = (column("v", "double"),)
    primitive = Primitive("_a0", function, value, "double", params)
    keys = [Field("k", "bigint")] if key else []
    fields = [*keys, Field("wid", "bigint"), Field("window", "struct<start:bigint,end:bigint>")]
    source = Source(FIELDS, (TIME,), "s", 0, (policy,))
    node = Aggregate(
        (*fields, Field("x", "double")),
        (WINDOW,),
        source,
        tuple(Named(f.name, column(f.name, "bigint")) for f in keys),
        SPAN,
        (primitive,),
        (Named("x", column("__sw_a0", "double")),),
    )
    return build([Output("out", node)], ansi=True, zone="UTC")


def error(function: str, result: float, values: np.ndarray[Any, Any]) -> float:
    """How far a result is off, as the documentation defines it."""
    if function == "avg":
        return float(abs(result / values.mean() - 1))
    if function == "sum":
        return float(abs(result / values.sum() - 1))
    if function == "min":
        return float(result != values.min())
    below, upto = (values < result).mean(), (values <= result).mean()
    return float(max(below - 0.5, 0.5 - upto, 0.0))


COMPLETE: dict[str, float] = {}
"""The mean slack of complete windows, for the total and by group."""


def mean_slack(engine: Engine) -> float:
    return float(np.mean([q["slack"] for q in quality(engine)[9:-1]]))


@pytest.mark.spec("QD-D4", "QD-D13")
@pytest.mark.parametrize(
    ("function", "params", "per", "asked"),
    [
        ("avg", (), "total", 0.005),
        ("avg", (), "group", 0.01),
        ("percentile", ((0.5,), False, False), "total", 0.04),
        ("percentile", ((0.5,), False, False), "group", 0.02),
        ("sum", (), "group", 0.04),
    ],
)
def test_each_kind_of_target_is_kept_without_complete_windows(
    engine: Make, function: str, params: tuple[Any, ...], per: Any, asked: float
) -> None:
    data = rows(4)
    cuts = even(len(data), 14)
    key = per == "group"
    policy = Quality(error=asked, per=per, granularity=2)
    ours = run(engine, plan(policy, function, params, key), data, cuts, groups=1)
    # A minimum has no model of errors: its windows are complete, whatever the error.
    if per not in COMPLETE:
        made = run(engine, plan(policy, "min", (), key), data, cuts, groups=1)
        COMPLETE[per] = mean_slack(made)
    members: dict[Any, list[float]] = {}
    for _, k, t, v in data:
        for wid in range(t // 20, (t + 100) // 20):
            members.setdefault((wid, k if key else None), []).append(v)
    found = {(r["wid"], r.get("k")): r["x"] for r in ours.rows("out")}
    off = [error(function, found[w], np.array(v)) for w, v in members.items() if w in found]
    assert np.mean(np.array(off) <= asked) >= 0.95 and len(off) >= 0.99 * len(members)
    assert 0 < mean_slack(ours) < 0.7 * COMPLETE[per]
