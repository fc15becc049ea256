"""Options of a quality target that show on the engine only: the controller, and errors of single groups."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from slackwater.model.policy import Quality
from slackwater.model.window import TimeWindow
from tests.engine.in_process import Make
from tests.engine.test_quality import even, quality, run, stream, summed

WINDOW = TimeWindow(100, 20, 0, "ts")


def consumer(record: dict[str, Any]) -> dict[str, Any]:
    (found,) = record["consumers"].values()
    return dict(found)


def steered(records: list[dict[str, Any]]) -> list[tuple[dict[str, Any], int]]:
    """The records that are warm, each with the slack that follows by the controller's definition."""
    alpha, error, window, out = 0.0, None, None, []
    for q in records:
        found = consumer(q)
        if q["warm"] and found["window"] != window:
            short = found["needed"] - found["measured"]
            change = 0.0 if error is None else short - error
            alpha = min(1.0, max(0.0, alpha + 0.2 * short + 4.0 * change))
            error = short
        window = found["window"]
        if q["warm"]:
            out.append((q, round(alpha * q["delays"]["largest"])))
    return out


@pytest.mark.spec("QD-B10", "QD-D12")
def test_a_controller_steers_the_slack_by_what_windows_turned_out_to_hold(engine: Make) -> None:
    rows = stream(5, 2_400)
    cuts = even(len(rows), 12)
    cuts = sorted(
        [*cuts, *(c + 4 for c in cuts[5:9])]
    )  # some batches are too small for a new window
    policy = Quality(coverage=0.98, method="pd", granularity=2)
    records = quality(run(engine, summed(policy, WINDOW), rows, cuts))[:-1]
    assert [q["slack"] for q, _ in steered(records)] == [slack for _, slack in steered(records)]
    windows = [consumer(q)["window"] for q in records]
    assert len(set(windows)) > 6 and sum(a == b for a, b in pairwise(windows)) > 1
    assert len({q["slack"] for q in records}) > 4


def test_results_of_single_groups_need_more_than_the_total(engine: Make) -> None:
    """A group has a fifth of the rows, so what its result misses by chance weighs more."""
    rows = stream(9, 6_000, rate=4.0)
    cuts = even(len(rows), 14)
    last = {}
    for per in ("total", "group"):
        policy = Quality(error=0.03, per=per, granularity=2)  # type: ignore[arg-type]
        plan = summed(policy, WINDOW, keys=("k",), count=False)
        last[per] = quality(run(engine, plan, rows, cuts))[-2]
    needed = {per: consumer(q)["needed"] for per, q in last.items()}
    assert needed["group"] > needed["total"] + 0.005
    assert last["group"]["slack"] > last["total"]["slack"]
