"""With feedback, the engine gives what it gives without, less some of the rows that were given up."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.engine.paths.batch import Settings
from slackwater.engine.store.failpoints import FEEDBACK_POINTS, POINTS
from slackwater.model.join import is_existence
from slackwater.model.node import Join, Node, Source
from slackwater.testing.local.run import scratch_folder
from slackwater.testing.transcripts.query import aggregate
from tests.engine.feedback.running import Ran, check, play
from tests.examples import examples
from tests.semantics.feedback import cases
from tests.semantics.feedback.guarded import Case

SEEDS = st.integers(0, 2**32 - 1)


def two_views(rng: random.Random) -> Case:
    """Two aggregates over the rows of one stream, each with a view of its own: a row group may go if both let it."""
    stream = cases.source("a", rng)
    outputs = {
        name: aggregate(
            stream, {"window": cases.window(rng), "by": ["k"], "agg": {"n": "count(*)"}}
        )
        for name in "xy"
    }
    return cases.dense(rng, outputs, {name: cases.tested(rng, "k") for name in "xy"})


FAMILIES = {**cases.FAMILIES, "two_views": two_views}
CRASHES = [None, None, *POINTS, *FEEDBACK_POINTS]


def one(family: str, seed: int, crash: str | None = None) -> None:
    rng = random.Random(seed)
    in_range(FAMILIES[family](rng), rng, crash)


def in_range(case: Case, rng: random.Random, crash: str | None, **under: Any) -> Ran:
    """Run a case without feedback, and with it ``under`` some settings; what it gave with feedback."""
    splits = rng.choice([(True,), (False,), (True, False)])
    share = rng.random() < 0.7
    runs = []
    for feedback in (False, True):
        with scratch_folder() as folder:
            more = {"crash": crash, **under} if feedback else {}
            runs.append(
                play(case, folder, rng, feedback=feedback, splits=splits, share=share, **more)
            )
    check(case, runs[1], runs[0])
    return runs[1]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.spec("FC-F7", "FC-F17", "FC-F83")
def test_results_are_in_range(family: str) -> None:
    @examples(3)
    @given(SEEDS, st.sampled_from(CRASHES))
    def of_each(seed: int, crash: str | None) -> None:
        one(family, seed, crash)

    of_each()


def rewritten(case: Case, changed: Callable[[Node], Node]) -> Case:
    """The same case of changed operators, children first; what is shared stays so."""
    known: dict[int, Node] = {}

    def of(node: Node) -> Node:
        if id(node) not in known:
            made = node.with_children(*map(of, node.children)) if node.children else node
            known[id(node)] = changed(made)
        return known[id(node)]

    return replace(case, outputs={name: of(node) for name, node in case.outputs.items()})


def without_late_rows(case: Case, rng: random.Random) -> Case:
    """The same without rows that are late: a window that waits to come out would take them in."""
    return rewritten(case, lambda n: replace(n, late="drop") if isinstance(n, Source) else n)


def in_little_memory(case: Case, rng: random.Random) -> Case:
    """The same with joins that keep most of their rows on disk, as far as a join can."""
    memory = rng.choice([1, 300, 900])

    def small(node: Node) -> Node:
        able = isinstance(node, Join) and len(node.inputs) == 2 and not is_existence(node.how)
        return replace(node, memory=memory) if able else node  # type: ignore[call-arg]

    return rewritten(case, small)


PLAIN = Settings()


@dataclass(frozen=True)
class Way:
    """A way to run the same query: its settings, the families that it is for, and by which figures of an operator one
    sees that it was gone.
    """

    families: tuple[str, ...]
    gone: Callable[[Mapping[str, Any]], Any]
    settings: Settings = PLAIN
    window_plan: str = "auto"
    change: Callable[[Case, random.Random], Case] = lambda case, _: case


OVER_WINDOWS = ("sliding", "ended", "nested", "ended_over_join", "said", "hot", "two_views")
OVER_JOINS = (
    "band",
    "unmatched",
    "ended_over_join",
    "ended_outer",
    "windows_of_outer",
    "over_pairs",
)
WAYS = {
    "smooth": Way(OVER_WINDOWS, lambda o: o.get("held"), Settings(smooth=1), change=without_late_rows),
    "low-level tables": Way(
        OVER_WINDOWS,
        lambda o: o.get("lowTable", {}).get("drained"),
        Settings(low_table=4, smooth_windows=1),
        change=without_late_rows,
    ),
    "smooth low-level tables": Way(
        ("two_views", "ended", "hot"),
        lambda o: o.get("held") and o.get("lowTable", {}).get("arrived"),
        Settings(low_table=4, low_flush=2, low_probe=True, smooth=1),
        change=without_late_rows,
    ),
    "adaptive": Way(
        OVER_WINDOWS, lambda o: o.get("groups", {}).get("lazy"), window_plan="adaptive"
    ),
    "buffered": Way(OVER_WINDOWS, lambda o: o.get("plan") == "buffered", window_plan="buffered"),
    "joins in little memory": Way(
        OVER_JOINS, lambda o: o.get("join", {}).get("delayedResults"), change=in_little_memory
    ),
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.spec("FC-F7")
def test_work_that_is_put_off_or_kept_otherwise_stays_in_range(way: str) -> None:
    """The range is that of the plain query without feedback. Each way is gone at least once, under feedback that acts."""
    chosen, seen = WAYS[way], []

    @examples(6)
    @given(SEEDS, st.sampled_from(chosen.families), st.sampled_from(CRASHES))
    def of_each(seed: int, family: str, crash: str | None) -> None:
        rng = random.Random(seed)
        case = chosen.change(FAMILIES[family](rng), rng)
        ran = in_range(case, rng, crash, settings=chosen.settings, window_plan=chosen.window_plan)
        figures = [o for batch in ran.operators.values() for o in batch.values()]
        acted = any(
            place["totalRowsDropped"]
            for m in ran.manifests.values()
            for place in m.progress.get("feedback", {}).get("places", {}).values()
        )
        seen.append(acted and any(chosen.gone(o) for o in figures))

    of_each()
    assert any(seen), "no example went this way"
