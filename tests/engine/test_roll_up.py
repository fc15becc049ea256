"""Partial aggregates of a low level, merged above: the same totals as an aggregate over the rows themselves."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import Phase, given
from hypothesis import strategies as st

from slackwater.engine.paths.batch import Settings
from slackwater.engine.plan.layout import build
from slackwater.engine.plan.plan import Output, Plan
from slackwater.model.aggregate import Primitive
from slackwater.model.names import ours
from slackwater.model.node import Aggregate, Source
from slackwater.model.policy import BoundedDelay
from slackwater.model.schema import Field, Named, column
from slackwater.model.time import TimeColumn
from slackwater.model.window import TimeWindow
from slackwater.testing.local.run import scratch_folder
from tests.engine.in_process import Engine
from tests.examples import examples
from tests.kernels import brute
from tests.kernels.strategies import rows

Rows = list[dict[str, Any]]
CALLS = [
    ("count",), ("sum", "i8"), ("avg", "i4"), ("sum", "f8"), ("max", "f8"), ("min", "s"), ("var_pop", "f8"),
    ("avg", "d18"), ("bool_and", "b"), ("max_by", "s", "i4"), ("count", "s"),
]  # fmt: skip
PRIMITIVES = tuple(brute.primitive(f"_a{i}", *call) for i, call in enumerate(CALLS))
COLUMNS = ("i4", "i8", "f8", "s", "d18", "b")
STEP, SPREAD = 20, 30
"""A batch's times begin so much later than those of the one before, and lie in so long a stretch."""


def plan_of(window: TimeWindow, primitives: tuple[Primitive, ...]) -> Plan:
    fields = (Field("k", "string"), Field("t", "bigint"))
    fields += tuple(Field(c, brute.COLUMNS[c]) for c in COLUMNS)
    source = Source(fields, (TimeColumn("t", "long", None),), "s", 0, (BoundedDelay(2 * SPREAD),))
    outputs = tuple(Named(p.name, column(ours(p.name), p.type)) for p in primitives)
    schema = (
        Field("k", "string"), Field("wid", "bigint"), Field("window", "struct<start:bigint,end:bigint>"),
        *(Field(p.name, p.type) for p in primitives),
    )  # fmt: skip
    times = (TimeColumn("window", "window", None, True),)
    key = (Named("k", column("k", "string")),)
    node = Aggregate(schema, times, source, key, window, primitives, outputs)
    return build([Output("out", node)], ansi=False, zone="UTC")


def checked(
    window: TimeWindow, primitives: tuple[Primitive, ...], batches: list[Rows], slots: int
) -> list[dict[str, int]]:
    """Run on tables of so many slots, two tasks and three groups; compare. What the tables of each batch did."""
    with scratch_folder() as folder:
        engine = Engine(folder)
        settings = Settings(low_table=slots, smooth_windows=2)
        engine.start(plan_of(window, primitives), groups=3, settings=settings)
        names = " ".join(["k", "t", *COLUMNS])
        for batch in batches:
            half = len(batch) // 2
            engine.batch(*(brute.table(part, names) for part in (batch[:half], batch[half:])))
        engine.batch(final=True)
        engine.stop()
        found = {(r["k"], r["wid"]): r for r in engine.rows("out")}
        assert len(found) == len(engine.rows("out"))
    everything = [row for batch in batches for row in batch]
    wanted = brute.windows(everything, window.range, window.slide, window.origin)
    assert set(found) == set(wanted)
    for group, inside in wanted.items():
        for p in primitives:
            direct = brute.aggregate(p, inside, ansi=False)
            assert brute.same(p, found[group][p.name], direct, inside), (group, p, direct)
    operators = [o for r in engine.records for o in r["operators"].values()]
    return [o["lowTable"] for o in operators if "lowTable" in o]


def arrived(parts: list[Rows]) -> list[Rows]:
    """Batches whose times go on, though they overlap with those before."""
    return [[{**r, "t": r["t"] + STEP * i} for r in part] for i, part in enumerate(parts)]


@pytest.mark.spec("OO-F13")
@examples(15, phases=(Phase.explicit, Phase.generate))
@given(
    st.lists(rows(COLUMNS, st.integers(0, SPREAD - 1), most=20), min_size=1, max_size=4),
    st.sampled_from([(10, 10), (12, 4), (6, 8)]),
    st.integers(-3, 3),
    st.permutations(range(len(PRIMITIVES))),
    st.sampled_from([1, 8]),
)
def test_a_roll_up_of_partials_is_the_aggregate_of_the_rows(
    parts: list[Rows], shape: tuple[int, int], origin: int, some: list[int], slots: int
) -> None:
    chosen = tuple(PRIMITIVES[i] for i in sorted(some[:5]))
    checked(TimeWindow(*shape, origin, "t"), chosen, arrived(parts), slots)


@pytest.mark.spec("OO-F13")
def test_a_group_whose_partials_left_the_table_several_times_has_one_total() -> None:
    rng = random.Random(4)
    parts = [
        [
            {"k": rng.choice("abcdef"), "t": rng.randrange(SPREAD), "i4": rng.randrange(9), "i8": rng.randrange(99),
             "f8": rng.random(), "s": rng.choice("xyz"), "b": rng.random() < 0.9}
            for _ in range(60)
        ]
        for _ in range(5)
    ]  # fmt: skip
    batches = arrived(parts)
    figures = checked(TimeWindow(10, 10, 0, "t"), PRIMITIVES, batches, slots=4)
    groups = {(r["k"], r["t"] // 10) for batch in batches for r in batch}
    sent = sum(f["sent"] for f in figures)
    assert sum(f["arrived"] for f in figures) > sent > 1.5 * len(groups)
