"""Spark judges by the same SQL as the column engine: both against the definition."""

from __future__ import annotations

import random
from typing import Any

import pytest

from slackwater.semantics.lateness import limit_or_end
from slackwater.semantics.limits import EARLIEST, END, LATEST, START
from tests.semantics.lateness_cases import EDGES, Case, answers
from tests.semantics.test_lateness_forms import judging


def cases(count: int) -> list[Case]:
    rng = random.Random(1)
    bounds = [START, EARLIEST, LATEST, END, -1, 0, 1]

    def number(edges: list[int], low: int, high: int) -> int:
        return rng.choice([rng.choice(edges), rng.randint(-4, 4), rng.randint(low, high)])

    return [
        Case(
            rng.choice([None, *[number(EDGES, -(1 << 63), (1 << 63) - 1)] * 5]),
            number(bounds, START, END),
            rng.choice([None, *[number(bounds, START, END)] * 3]),
        )
        for _ in range(count)
    ]


@pytest.mark.spark
def test_spark_judges_like_the_definition(spark: Any) -> None:
    tried = cases(4000)
    rows = [(i, c.time, c.bound, limit_or_end(c.limit)) for i, c in enumerate(tried)]
    frame = spark.createDataFrame(rows, "i bigint, t bigint, b bigint, l bigint")
    frame.createOrReplaceTempView("lateness_cases")
    found = {r["i"]: tuple(r)[:-1] for r in spark.sql(judging("lateness_cases", "i")).collect()}
    assert found == {i: answers(c) for i, c in enumerate(tried)}
