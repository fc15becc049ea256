"""Requests to a running query: numbers that are given once, and files that go when they are done."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from slackwater.engine.store import failpoints
from slackwater.engine.store import manifest as manifests
from slackwater.engine.store.checkpoint import Checkpoint
from slackwater.engine.store.control import FlushRequest, request_flush, requested_flushes
from tests.engine.in_process import Engine, Make
from tests.engine.test_low_table import plan_of, table


def files(checkpoint: Checkpoint) -> list[str]:
    return sorted(p.name for p in checkpoint.control.iterdir())


def started(make: Make) -> Engine:
    engine = make()
    engine.start(plan_of(10, 10))
    engine.batch(table([(1, 1, 1)]))
    return engine


@pytest.mark.parametrize(
    ("name", "number"),
    [("flush-000012", 12), ("flush-1234567", 1234567), ("flush-", None), ("flush-1.tmp", None),
     ("other", None)],
)  # fmt: skip
def test_the_name_of_a_file_says_what_it_asks(name: str, number: int | None) -> None:
    request = FlushRequest.of(name)
    assert (None if request is None else request.number) == number
    assert request is None or request.name == name


def test_a_number_is_not_given_again_when_the_file_of_another_is_gone(tmp_path: Path) -> None:
    checkpoint = Checkpoint(str(tmp_path))
    checkpoint.acquire()
    assert [request_flush(checkpoint) for _ in range(3)] == [1, 2, 3]
    (checkpoint.control / "flush-000001").unlink()
    assert request_flush(checkpoint) == 4
    (checkpoint.control / "flush-000004").unlink()
    # No intent has taken it, so nothing but the one who asked knows of it.
    assert request_flush(checkpoint, above=4) == 5
    assert requested_flushes(checkpoint, None) == 5


def test_a_number_that_was_taken_is_not_given_again(engine: Make) -> None:
    q = started(engine)
    q.batch(flush=True)
    q.batch(flush=True)
    assert files(q.checkpoint) == []
    done = [manifests.read(q.checkpoint, batch) for batch in (1, 2)]
    assert [m.flushes for m in done if m is not None] == [1, 2]
    assert request_flush(q.checkpoint) == 3


def test_a_request_that_an_intent_has_taken_is_done_though_its_file_is_lost(
    engine: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    q = started(engine)
    failpoints.reset()
    monkeypatch.setenv(failpoints.ENV, "job.after=raise")
    with pytest.raises(failpoints.InjectedFailure):
        q.batch(flush=True)
    monkeypatch.delenv(failpoints.ENV)
    (q.checkpoint.control / "flush-000001").unlink()
    assert request_flush(q.checkpoint) == 2  # the intent has the first
    q.stop()
    q.start(plan_of(10, 10))
    q.loop.run(None, 1)  # type: ignore[arg-type]
    assert q.rows("small") and q.loop.last is not None and q.loop.last.flushes == 1
    assert files(q.checkpoint) == ["flush-000002"]
    q.batch()
    assert q.loop.last.flushes == 2 and files(q.checkpoint) == []


def test_a_lost_request_that_no_intent_has_taken_counts_as_not_sent(engine: Make) -> None:
    q = started(engine)
    request_flush(q.checkpoint)
    (q.checkpoint.control / "flush-000001").unlink()
    q.batch()
    assert not q.rows("small")
    q.batch(flush=True)
    assert q.rows("small")


def test_requests_that_are_made_together_have_numbers_of_their_own(tmp_path: Path) -> None:
    checkpoint = Checkpoint(str(tmp_path))
    checkpoint.acquire()
    with ThreadPoolExecutor(8) as pool:
        numbers = list(pool.map(lambda _: request_flush(checkpoint), range(40)))
    assert sorted(numbers) == list(range(1, 41))
