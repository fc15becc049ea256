"""The vectorised judgement against the tuple-by-tuple simulation, and its independence of cuts."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import Phase, example, given
from hypothesis import strategies as st

from slackwater.model.window import TimeWindow
from slackwater.semantics.limits import START
from slackwater.semantics.quality import recent_delays
from slackwater.semantics.quality.adapt import Adaptation
from slackwater.semantics.quality.state import AdaptationState
from slackwater.semantics.quality.strict import Feed, judge
from slackwater.semantics.quality.target import Consumer, Target
from slackwater.semantics.quality.threshold import Asked
from slackwater.testing.oracle.quality import simulate
from tests.examples import examples

Rows = list[tuple[int, float]]
QUICK = (Phase.explicit, Phase.generate)  # a stream of hundreds of rows does not shrink


def stream(seed: int, rows: int) -> Rows:
    """Mostly in order, some late, a few very late, and a change of habits half-way."""
    rng = np.random.default_rng(seed)
    made = []
    time = int(rng.integers(-50, 50))
    for i in range(rows):
        time += int(rng.integers(0, 4))
        worse = 4 if i > rows // 2 and seed % 2 else 1
        late = rng.random() < 0.3
        delay = int(rng.exponential(6 * worse)) if late else 0
        if rng.random() < 0.01:
            delay += int(rng.integers(20, 120))
        made.append((time - delay, float(rng.integers(1, 20))))
    return made


def fresh(width: int, slide: int, target: Target) -> Adaptation:
    consumer = Consumer(TimeWindow(width, slide, 0, "t"), (Asked("sum", 0),), 1)
    return Adaptation.fresh(target, [consumer])


def feed(rows: Rows) -> tuple[np.ndarray, list[Feed]]:
    times = np.array([t for t, _ in rows], np.int64)
    values = np.array([v for _, v in rows])
    return times, [Feed(np.ones(len(rows), bool), [values])]


def window_sums(rows: Rows, bounds: np.ndarray, width: int, slide: int) -> dict[int, float]:
    found: dict[int, float] = {}
    for (time, value), bound in zip(rows, bounds.tolist(), strict=True):
        wid = time // slide
        while (wid + 1) * slide - width <= time:
            if bound < (wid + 1) * slide:
                found[wid] = found.get(wid, 0.0) + value
            wid += 1
    return found


@pytest.mark.spec(
    "QD-A1",
    "QD-A2",
    "QD-A3",
    "QD-B8",
    "QD-B11",
    "QD-D2",
    "QD-D5",
    "QD-D6",
    "QD-D10",
    "QD-D11",
)
@examples(25, phases=QUICK)
@given(
    st.integers(0, 10**6),
    st.sampled_from([(20, 5), (30, 30), (17, 4), (6, 10)]),
    st.sampled_from([0.02, 0.1, 0.3]),
    st.sampled_from([1, 3]),
)
@example(20579, (6, 10), 0.3, 1)  # a window all of whose rows came after it had closed
def test_slacks_and_sums_are_those_of_the_simulation(
    seed: int, window: tuple[int, int], error: float, granule: int
) -> None:
    width, slide = window
    rows = stream(seed, 260)
    wanted = simulate(rows, width=width, slide=slide, error=error, granule=granule, warm_rows=100)
    target = Target(error=error, granularity=granule, warm_rows=100)
    adaptation = fresh(width, slide, target)
    times, feeds = feed(rows)
    found = judge(adaptation, times, feeds, START)
    assert found.changes == wanted.changes
    assert found.bound == wanted.bound
    assert window_sums(rows, found.bounds, width, slide) == pytest.approx(wanted.sums)


def changing(seed: int, rows: int) -> Rows:
    """Three regimes of delays: short, ten times as long, short again."""
    rng = np.random.default_rng(seed)
    made = []
    for i in range(rows):
        mean = 20 if 3 * i // rows == 1 else 2
        made.append((i - int(rng.exponential(mean)), float(rng.integers(1, 9))))
    return made


@pytest.mark.spec("QD-C2", "QD-D2", "QD-D11")
@pytest.mark.parametrize("seed", range(4))
def test_slacks_across_changes_are_those_of_the_simulation(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    width, slide = [(20, 10), (30, 6), (12, 12), (25, 4)][seed % 4]
    rows = changing(seed, 2_700)
    wanted = simulate(rows, width=width, slide=slide, error=0.1, warm_rows=100, stretch_rows=150)
    monkeypatch.setattr(recent_delays, "ROWS", 150)
    adaptation = fresh(width, slide, Target(error=0.1, granularity=1, warm_rows=100))
    times, feeds = feed(rows)
    # Restarts in each regime, most of them while it is not known yet whether there was a change.
    bound, changes, sums = START, [], []
    for a, b in pairwise([0, 450, 1_300, *range(1_850, 2_300, 50), len(rows)]):
        kept = AdaptationState.from_json(json.loads(json.dumps(adaptation.kept.to_json())))
        adaptation = Adaptation.resumed(kept, adaptation.target, adaptation.consumers)
        piece = [Feed(f.passed[a:b], [v[a:b] for v in f.values]) for f in feeds]
        found = judge(adaptation, times[a:b], piece, bound)
        bound = found.bound
        changes += [(a + at, slack) for at, slack in found.changes]
        sums += found.bounds.tolist()
    assert changes == wanted.changes and bound == wanted.bound
    assert window_sums(rows, np.array(sums), width, slide) == pytest.approx(wanted.sums)
    assert adaptation.statistics.since is not None  # there was a change


@pytest.mark.spec("QD-A1")
@examples(15, phases=QUICK)
@given(
    st.integers(0, 10**6),
    st.lists(st.integers(0, 400), max_size=6),
    st.sampled_from(["model", "pd"]),
)
def test_it_does_not_matter_where_arrivals_are_cut(seed: int, cuts: list[int], method: str) -> None:
    rows = stream(seed, 400)
    target = Target(error=0.05, granularity=2, warm_rows=100, method=method)  # type: ignore[arg-type]
    whole = fresh(20, 5, target)
    times, feeds = feed(rows)
    wanted = judge(whole, times, feeds, START)
    part = fresh(20, 5, target)
    bound, bounds, changes = START, [], []
    edges = [0, *sorted(cuts), len(rows)]
    for a, b in pairwise(edges):
        # A restart between two pieces: only what JSON can hold goes on.
        kept = AdaptationState.from_json(json.loads(json.dumps(part.kept.to_json())))
        part = Adaptation.resumed(kept, target, part.consumers)
        piece = [Feed(f.passed[a:b], [v[a:b] for v in f.values]) for f in feeds]
        found = judge(part, times[a:b], piece, bound)
        bound = found.bound
        bounds += found.bounds.tolist()
        changes += [(a + at, slack) for at, slack in found.changes]
    assert bounds == wanted.bounds.tolist()
    assert changes == wanted.changes
    assert part.kept == whole.kept
