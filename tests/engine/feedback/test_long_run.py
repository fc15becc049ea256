"""Feedback over many batches: what is kept of it stays small, and the end of a stream comes after all rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from slackwater.engine.store.feedback_log import KEPT, state_of
from slackwater.engine.store.manifest import Manifest
from slackwater.semantics.feedback.standing import Request
from slackwater.testing.feedback import frozen
from slackwater.testing.local.run import scratch_folder
from tests.engine.feedback.viewport import Viewed, rows, said, view

BATCHES = 60


def _records(done: Manifest) -> int:
    """How many records a manifest holds, in force or still dark."""
    state = state_of(done)
    places = (state.asserted, state.dark, state.shades)
    stand = sum(len(s.feedback.records) for s in state.standing)
    return stand + sum(len(records) for place in places for records in place.values())


@pytest.mark.spec("FC-F21")
@pytest.mark.parametrize("places", [7, BATCHES], ids=["there and back", "ever on"])
def test_a_view_that_always_moves_leaves_no_more_records_than_at_first(
    places: int, tmp_path: Path
) -> None:
    """In each batch the view moves, and the oldest window that is wanted does; all of it can be seen in the record."""
    run = Viewed(tmp_path, group=None)
    run.give(rows(batches=BATCHES, each=12))
    run.run.start()
    for n in range(BATCHES):
        run.run.send(view(run.plan, n % places, n % places + 2))
        run.run.send(Request("send", "map", f"old {n}", said(f"~{{wid < {n}}}", run.plan)))
        run.step()
    kept = [_records(m) for m in run.manifests]
    assert max(kept[BATCHES // 2 :]) <= max(kept[: BATCHES // 2])
    assert max(kept) < BATCHES  # far below one of each that was sent
    shown = [m.progress["feedback"] for m in run.manifests]
    for done, told in zip(run.manifests, shown, strict=True):
        state = state_of(done)
        assert len(told["standing"]) == len(state.standing) <= 12
        assert sum(told["dark"].values()) == sum(map(len, state.shades.values()))
        assert all(told["places"][name]["records"] for name in state.asserted)
    control = sorted((Path(run.run.checkpoint.root) / "control").iterdir())
    assert len(control) <= KEPT + 2
    run.run.stop()


@pytest.mark.spec("FC-F49")
@pytest.mark.parametrize("splits", [True, False], ids=["files", "rows"])
def test_the_end_of_a_stream_comes_after_all_rows_and_all_feedback(
    splits: bool, tmp_path: Path
) -> None:
    """The last rows, a view's end and the end of the stream come together: no row is lost, and all windows come out."""
    with scratch_folder() as folder:
        whole = Viewed(folder, splits=splits)
        whole.give(rows(batches=3))
        whole.run.start()
        whole.all()
        whole.run.stop()
    run = Viewed(tmp_path, splits=splits)
    run.give(rows(batches=3))
    run.run.start()
    run.run.send(view(run.plan, 2, 5))
    run.step()
    run.run.send(Request("retract", target=1))
    while run.run.done < len(run.run.host.batches):
        run.step()
    last = run.step(final=True)
    run.run.stop()
    wanted = [r for r in whole.rows() if 2 <= r["segment"] <= 5]
    got = [r for r in run.rows() if 2 <= r["segment"] <= 5]
    assert sorted(map(repr, map(frozen, got))) == sorted(map(repr, map(frozen, wanted)))
    assert {frozen(r) for r in run.rows()} <= {frozen(r) for r in whole.rows()}
    assert len(run.rows()) > len(got)  # what came after the view had ended is there
    assert not state_of(last).shades and not state_of(last).standing
