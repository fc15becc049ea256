"""What a query says itself: a filter above an aggregate is feedback, and changes no result."""

from __future__ import annotations

import datetime as dt
import math
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.engine.driver.feedback import guard_lines
from slackwater.engine.driver.passes import Written, passed
from slackwater.engine.plan.layout import build
from slackwater.engine.plan.plan import Output, Plan
from slackwater.engine.store.failpoints import POINTS
from slackwater.engine.store.feedback_log import state_of
from slackwater.kernels.types import arrow_type
from slackwater.model.node import Filter, Node
from slackwater.model.schema import Expr, Field
from slackwater.semantics.feedback.standing import Request
from slackwater.testing.feedback import frozen
from slackwater.testing.local.run import scratch_folder
from slackwater.testing.transcripts.query import aggregate, expression
from tests.engine.feedback.running import Ran, play
from tests.engine.feedback.viewport import FIELDS, Viewed, rows, source
from tests.engine.feedback.viewport import said as feedback_on
from tests.examples import examples
from tests.semantics.feedback.cases import FAMILIES

SEEDS = st.integers(0, 2**32 - 1)


@pytest.fixture
def folder() -> Iterator[Path]:
    with scratch_folder() as made:
        yield made


# --- nothing changes --------------------------------------------------------------------------------------


def results(ran: Ran) -> dict[str, Counter[Any]]:
    return {
        name: Counter(frozen(r) for rows in by_batch.values() for r in rows)
        for name, by_batch in ran.rows.items()
    }


def check_equal(family: str, seed: int, crash: str | None = None) -> None:
    rng = random.Random(seed)
    case = FAMILIES[family](rng)
    splits = rng.choice([(True,), (False,), (True, False)])
    share = rng.random() < 0.7
    runs = []
    for reach in ("off", "source"):
        with scratch_folder() as made:
            runs.append(
                play(case, made, rng, feedback=False, splits=splits, share=share, reach=reach,
                     crash=crash if reach == "source" else None)
            )  # fmt: skip
    assert results(runs[0]) == results(runs[1])
    for batch, progress in runs[0].streams.items():
        assert runs[1].streams.get(batch, progress) == progress


@pytest.mark.parametrize("family", ["said", "hot_said", "case", "shared", "nested"])
def test_results_are_the_same_with_and_without(family: str) -> None:
    @examples(12 if "said" in family else 2)
    @given(SEEDS, st.sampled_from([None, None, *POINTS]))
    def same(seed: int, crash: str | None) -> None:
        check_equal(family, seed, crash)

    same()


# --- and rows and state are saved -------------------------------------------------------------------------


def peaks(above: str | None = "n >= 90", agg: str = "max(v)") -> Node:
    step = {"window": {"range": 6, "slide": 3}, "by": ["segment"], "agg": {"n": agg}}
    node: Node = aggregate(source(), step)
    if above is not None:
        node = Filter(node.schema, node.times, node, expression(above, node.schema))
    return node


def planned(*outputs: Node) -> Plan:
    named = [Output("map" if not i else f"more{i}", node) for i, node in enumerate(outputs)]
    return passed(build(named, ansi=True, zone="UTC"), Written())


def ran(plan: Plan, *, splits: bool = True, reach: Any = "source") -> tuple[Viewed, int, int]:
    """A run, with the rows that came to the aggregate, and the most that it held."""
    with scratch_folder() as made:
        run = Viewed(made, plan, splits=splits)
        run.run.reach = reach
        run.give(rows())
        run.run.start()
        run.all()
        run.run.stop()
    figures = [op for m in run.manifests for op in m.progress["operators"].values()]
    return run, sum(f["rowsIn"] for f in figures), max(f["state"]["rows"] for f in figures)


@pytest.mark.parametrize("splits", [True, False])
@pytest.mark.parametrize(
    ("condition", "agg"),
    [
        ("n >= 90", "max(v)"),
        ("n <= 9", "min(v)"),
        ("segment = 4", "count(*)"),
    ],
)
@pytest.mark.spec("FC-F16")
def test_what_a_filter_drops_is_neither_shuffled_nor_kept(
    condition: str, agg: str, splits: bool
) -> None:
    without, most, held = ran(planned(peaks(condition, agg)), splits=splits, reach="off")
    with_it, fewer, less = ran(planned(peaks(condition, agg)), splits=splits)
    assert sorted(map(repr, with_it.rows())) == sorted(map(repr, without.rows()))
    assert without.rows(), "some results are wanted"
    assert fewer < most / 4 and less < held / 3
    places = with_it.manifests[-1].progress["feedback"]["places"]
    assert set(places) == {"cars"} and places["cars"]["totalRowsDropped"] > 150
    (shown,) = with_it.manifests[0].progress["feedback"]["filters"]
    assert shown["operator"].startswith("filter-")
    lines = guard_lines(with_it.plan, None, "source")
    assert "of the query itself: ~{" in lines[0]
    assert [line.split(": ")[0].split(" -> ")[0] for line in lines[1:]] == ["cars"]
    assert not without.manifests[-1].feedback and "feedback" not in without.manifests[-1].progress


@pytest.mark.parametrize(
    "node",
    [
        peaks("n >= 90", "sum(v)"),
        peaks("n + 0 >= 90"),
        peaks("n <= 90 OR n IS NULL"),
        peaks("n <= 90"),
        peaks("n <= 90 OR n % 2 = 0"),
    ],
)
def test_what_cannot_go_on_costs_nothing(node: Node) -> None:
    """The filter is enough: no guard stands beside it, and no word of it is kept."""
    run, *_ = ran(planned(node))
    assert not any(m.feedback for m in run.manifests)
    lines = guard_lines(run.plan, None, "source")
    assert not lines or lines[1:] == ["nothing below can be dropped by that"]


VALUES: dict[str, list[Any]] = {
    "double": [None, math.nan, math.inf, -math.inf, -0.0, 0.0, 0.5, 1.5, 2.0],
    "string": [None, "", "a", "ab", "b", "é"],
    "timestamp": [None, *(dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc) + dt.timedelta(0, 0, u) for u in range(4))],
}  # fmt: skip
AT = "TIMESTAMP '2026-01-01 00:00:00.000002'"
CONDITIONS = {
    "double": [f"n {op} CAST('{v}' AS DOUBLE)" for op, v in
               [(">=", 0), (">", 0.5), ("<=", 1.5), ("<", 0), ("<", "Infinity"), (">=", "NaN"), ("=", 1.5)]],
    "string": ["n >= 'ab'", "n > 'a'", "n <= 'a'", "n < 'b'", "n <> 'ab'", "n = 'a'"],
    "timestamp": [f"n > {AT}", f"n >= {AT}", f"n < {AT}", f"NOT (n > {AT})"],
}  # fmt: skip


@pytest.mark.parametrize("type", VALUES)
@pytest.mark.parametrize("function", ["max", "min"])
def test_values_of_all_kinds_have_sparks_order(type: str, function: str) -> None:
    """NaN is above all, the two zeros are one, and nulls are below nothing and above nothing."""
    rng = random.Random(f"{type} {function}")
    fields, going = (*FIELDS[:2], Field("v", type)), 0
    for above in CONDITIONS[type]:
        step = {"window": {"range": 6, "slide": 3}, "by": ["segment"]}
        node: Node = aggregate(
            source(fields=fields), {**step, "agg": {"n": f"{function}(v)", "w": f"{function}(v)"}}
        )
        duck = above.replace("TIMESTAMP", "TIMESTAMPTZ").replace("02'", "02+00'")
        plan = planned(Filter(node.schema, node.times, node, Expr(above, "boolean", duck)))
        tables = [
            pa.table(
                {
                    "segment": pa.array([rng.randint(0, 2) for _ in range(8)], pa.int64()),
                    "ts": pa.array([3 * n + rng.randint(0, 3) for _ in range(8)], pa.int64()),
                    "v": pa.array([rng.choice(VALUES[type]) for _ in range(8)], arrow_type(type)),
                }
            )
            for n in range(2)
        ]
        going += any("may drop" in line for line in guard_lines(plan, None, "source"))
        found = []
        for reach in ("off", "source"):
            with scratch_folder() as made:
                run = Viewed(made, plan, splits=rng.random() < 0.5)
                run.run.reach = reach  # type: ignore[assignment]
                run.give(tables)
                run.run.start(1)
                run.all()
                run.run.stop()
                # Which of two equal zeros comes out is for the engine to say.
                found.append(sorted(repr(r).replace("-0.0", "0.0") for r in run.rows()))
        assert found[0] == found[1], above
    assert going >= 2, "most were to be taken by no row"


def test_a_nan_that_no_footer_tells_of_is_no_value_below_the_limit() -> None:
    """Each group of four rows begins with 1.0, so that all footers say: all values are."""
    step = {"window": {"range": 6, "slide": 3}, "by": ["segment"], "agg": {"n": "max(v)"}}
    node: Node = aggregate(source(fields=(*FIELDS[:2], Field("v", "double"))), step)
    limit = "n >= CAST('2.0' AS DOUBLE)"
    plan = planned(Filter(node.schema, node.times, node, Expr(limit, "boolean", limit)))
    values = [1.0, math.nan, math.nan, 1.0] * 8
    count = len(values)
    table = pa.table(
        {
            "segment": [i // 2 for i in range(count)],
            "ts": [i % 6 for i in range(count)],
            "v": values,
        }
    )
    found = []
    for reach in ("off", "source"):
        with scratch_folder() as made:
            run = Viewed(made, plan)
            run.run.reach = reach  # type: ignore[assignment]
            run.give([table])
            run.run.start(1)
            run.all()
            run.run.stop()
            found.append(sorted(map(repr, run.rows())))
    assert found[0] == found[1] and found[0]


def test_conjuncts_count_by_themselves() -> None:
    _, most, _ = ran(planned(peaks("n + 0 >= 0 AND segment = 4")), reach="off")
    _, fewer, _ = ran(planned(peaks("n + 0 >= 0 AND segment = 4")))
    assert fewer < most / 4


def test_another_reader_without_the_filter_takes_it_away() -> None:
    below = peaks(None)
    filtered = Filter(below.schema, below.times, below, expression("n >= 90", below.schema))
    _, alone, _ = ran(planned(filtered))
    run, both, _ = ran(planned(filtered, below))
    assert both > 4 * alone and not any(m.feedback for m in run.manifests)


@pytest.mark.parametrize("splits", [True, False])
def test_an_output_that_comes_later_gets_whole_windows_only(folder: Path, splits: bool) -> None:
    """The aggregate lacks the rows below 90: what it does not know for sure it keeps back."""
    reference, *_ = ran(planned(peaks(None)))
    below = peaks(None)
    filtered = Filter(below.schema, below.times, below, expression("n >= 90", below.schema))
    run = Viewed(folder, planned(filtered), splits=splits)
    run.give(rows())
    run.run.start()
    for _ in range(4):
        run.step()
    run.run.stop()
    dark = state_of(run.manifests[-1]).dark
    assert list(dark) == [run.plan.operators[0].id]
    run.run.plan = planned(filtered, below)
    run.run.published["more1"] = {}
    run.run.start()
    assert state_of(run.step()).shades
    run.all()
    run.run.stop()
    whole = Counter(frozen(r) for r in reference.rows())
    wanted = [r for r in reference.rows() if r["n"] >= 90]
    got = run.rows("more1")
    assert not Counter(map(frozen, got)) - whole, "a partial window came out"
    assert Counter(map(frozen, run.rows())) == Counter(map(frozen, wanted))
    low = [r["wid"] for r in got if r["n"] < 90]
    assert low and not state_of(run.manifests[-1]).shades
    later = Counter(frozen(r) for r in reference.rows() if r["wid"] > min(low))
    assert later == Counter(frozen(r) for r in got if r["wid"] > min(low))


@pytest.mark.parametrize("reach", ["off", "output"])
@pytest.mark.spec("FC-F76")
def test_the_option_says_how_far_it_goes(reach: Any) -> None:
    run, *_ = ran(planned(peaks()), reach=reach)
    assert not any(m.progress["operators"] and m.feedback.get("dropped") for m in run.manifests)
    assert "of the query itself" not in "".join(guard_lines(run.plan, None, "output"))


def test_an_older_version_began_the_query(folder: Path) -> None:
    """It knew of no such feedback: that begins with the next batch, and windows that are half full come out as they are."""
    reference, *_ = ran(planned(peaks()), reach="off")
    run = Viewed(folder, planned(peaks()))
    run.give(rows())
    run.run.reach = "off"  # writes what the older version did: no word of feedback
    run.run.start()
    for _ in range(4):
        run.step()
    run.run.stop()
    assert not run.manifests[-1].feedback
    run.run.reach = "source"
    run.run.start()
    run.all()
    run.run.stop()
    assert run.manifests[-1].feedback
    assert Counter(map(frozen, run.rows())) == Counter(map(frozen, reference.rows()))


def test_a_retraction_makes_a_batch_where_the_query_says_what_cannot_go_on() -> None:
    """Sums tell nothing of rows: the filter is no guard, and a request on them guards results alone."""
    with scratch_folder() as made:
        run = Viewed(made, planned(peaks("n >= 90", "sum(v)")))
        run.give(rows(batches=1))
        run.run.start()
        run.step()
        number = run.run.send(Request("send", "map", "high", feedback_on("~{n >= 150}", run.plan)))
        assert [s.id for s in state_of(run.step()).standing] == [number]
        run.run.send(Request("retract", target=number))
        last = run.step()
        assert not state_of(last).standing and state_of(last).read == number + 1
        assert run.step().batch == last.batch, "nothing new: no batch"
        run.run.stop()
