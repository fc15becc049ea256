"""What a query says itself: a filter above an aggregate is feedback, and changes no result."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.engine.driver.feedback import guard_lines
from slackwater.engine.driver.passes import Written, passed
from slackwater.engine.plan.layout import build
from slackwater.engine.plan.plan import Output, Plan
from slackwater.engine.store.failpoints import POINTS
from slackwater.engine.store.feedback_log import state_of
from slackwater.model.node import Filter, Node
from slackwater.testing.feedback import frozen
from slackwater.testing.local.run import scratch_folder
from slackwater.testing.transcripts.query import aggregate, expression
from tests.engine.feedback.running import Ran, play
from tests.engine.feedback.viewport import Viewed, rows, source
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


@pytest.mark.spec("FC-F16", "FC-F34")
@pytest.mark.parametrize("family", ["said", "case", "shared", "nested"])
def test_results_are_the_same_with_and_without(family: str) -> None:
    @examples(12 if family == "said" else 2)
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
@pytest.mark.spec("FC-F34")
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
    (said,) = with_it.manifests[0].progress["feedback"]["said"]
    assert said["operator"].startswith("filter-")
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
        peaks("n <= 90 OR n % 2 = 0"),
    ],
)
@pytest.mark.spec("FC-F57")
def test_what_cannot_go_on_costs_nothing(node: Node) -> None:
    """The filter is enough: no guard stands beside it, and no word of it is kept."""
    run, *_ = ran(planned(node))
    assert not any(m.feedback for m in run.manifests)
    lines = guard_lines(run.plan, None, "source")
    assert not lines or lines[1:] == ["nothing below can be dropped by that"]


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
@pytest.mark.spec("FC-F34")
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
