"""The handle of a query, over a Spark query played by hand: outputs that come and go, and errors of a start."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from slackwater.engine.driver.handle import Prepared, StreamingQuery
from slackwater.errors import AnalysisError, ExecutionError


class SparkQuery:
    """Runs until it is stopped."""

    def __init__(self, loop: Loop):
        self.loop = loop
        self._stopped = threading.Event()

    @property
    def isActive(self) -> bool:
        return not self._stopped.is_set()

    def stop(self) -> None:
        self._stopped.set()

    def awaitTermination(self) -> None:
        self._stopped.wait()


class Loop:
    """The outputs that a run would make, and what was told to it."""

    last = error = None
    idle_count = 0

    def __init__(self, outputs: list[str]):
        self.outputs = outputs
        self.settled = 0
        self.records: list[dict[str, Any]] = []

    def settle(self) -> None:
        self.settled += 1

    def end(self) -> None:
        pass


class Checkpoint:
    """Counts who has it."""

    def __init__(self, hands: int = 0):
        self.hands = hands
        self.released = False

    def handed_over(self) -> Checkpoint:
        return Checkpoint(self.hands + 1)

    def release(self) -> None:
        self.released = True


class Outputs:
    """As much of a group as the handle asks for."""

    def __init__(self, *names: str):
        self.names = list(names)
        self.started: list[SparkQuery] = []

    def start(self, loop: Any, final: bool) -> Any:
        self.started.append(SparkQuery(loop))
        return self.started[-1]

    def _change(self, names: list[str]) -> Any:
        def change(checkpoint: Any) -> Prepared:
            self.names = names
            loop: Any = Loop(names)
            return Prepared(loop, self.start, lambda extended: ", ".join(names))

        return change

    def adding(self, writer: Any) -> Any:
        return self._change([*self.names, writer])

    def unchanged(self) -> Any:
        return self._change(self.names)

    def removing(self, name: str) -> Any:
        if name not in self.names:
            raise AnalysisError("NO_OUTPUT", f"no output is called {name!r}", hint="another")
        return self._change([n for n in self.names if n != name])


def started(group: Outputs) -> StreamingQuery:
    loop: Any = Loop(group.names)
    checkpoint: Any = Checkpoint()
    return StreamingQuery(
        "q", loop, checkpoint, "id", group.start, False, lambda extended: "", lambda: None, group
    )


def running(group: Outputs) -> list[list[str]]:
    return [q.loop.outputs for q in group.started if q.isActive]


def test_an_output_that_is_removed_is_made_no_more_and_the_others_go_on(capsys: Any) -> None:
    group = Outputs("a", "b")
    q = started(group)
    first = group.started[0].loop
    first.records = [{"batchId": 3}]
    q.remove("a")
    # One run, without it, of a loop that begins where the old one was settled.
    assert running(group) == [["b"]] and first.settled == 1
    assert q._checkpoint.hands == 1  # type: ignore[attr-defined]
    assert q._loop.records == [{"batchId": 3}]
    q.add("c")
    assert running(group) == [["b", "c"]] and len(group.started) == 3
    q.explain()
    assert capsys.readouterr().out == "b, c\n"
    q.stop()
    assert running(group) == [] and q._checkpoint.released  # type: ignore[attr-defined]


def test_a_change_that_cannot_be_leaves_the_query_as_it_was() -> None:
    group = Outputs("a", "b")
    q = started(group)
    with pytest.raises(AnalysisError, match="no output is called 'nobody'"):
        q.remove("nobody")
    assert running(group) == [["a", "b"]] and len(group.started) == 1
    q.remove("b")  # and it can still be changed
    assert running(group) == [["a"]]
    q.stop()
    with pytest.raises(ExecutionError, match="this one has ended"):
        q.remove("a")


def test_an_output_that_cannot_be_opened_does_not_end_the_others() -> None:
    group = Outputs("a", "b")
    q = started(group)

    def adding(writer: Any) -> Any:
        def change(checkpoint: Any) -> Prepared:
            raise AnalysisError(
                "CHECKPOINT_IN_SINK", "it lies in the sink's directory", hint="move it"
            )

        return change

    group.adding = adding  # type: ignore[method-assign]
    with pytest.raises(AnalysisError, match="sink's directory"):
        q.add("c")
    assert q.isActive and running(group) == [["a", "b"]] and q.exception() is None
    q.remove("b")  # and it can still be changed
    assert running(group) == [["a"]]
    q.stop()


def test_a_query_can_be_stopped_while_its_outputs_change() -> None:
    """Between two runs there is none that could be stopped."""
    group = Outputs("a", "b")
    q = started(group)
    stopper = threading.Thread(target=q.stop, daemon=True)
    change = group.removing

    def removing(name: str) -> Any:
        made = change(name)

        def slow(checkpoint: Any) -> Prepared:
            stopper.start()
            while not q._stopped:
                pass
            return made(checkpoint)

        return slow

    group.removing = removing  # type: ignore[method-assign]
    q.remove("a")
    stopper.join(20)
    assert not stopper.is_alive() and not q.isActive
    assert running(group) == []


def test_a_name_that_is_taken_is_told_with_the_way_out() -> None:
    """Spark's own text speaks of its conf, and is an error of another kind in each version."""

    def start(loop: Any, final: bool) -> Any:
        raise ValueError(
            "Cannot start query with name clicks as a query with that name is already active in this "
            "SparkSession"
        )

    loop: Any = Loop([])
    checkpoint: Any = Checkpoint()
    with pytest.raises(AnalysisError) as caught:
        StreamingQuery("clicks", loop, checkpoint, "id", start, False, str, lambda: None)
    assert caught.value.condition == "NAME_IN_USE"
    assert "'clicks'" in str(caught.value) and "queryName" in (caught.value.hint or "")

    def other(loop: Any, final: bool) -> Any:
        raise ValueError("something else")

    with pytest.raises(ValueError, match="something else"):
        StreamingQuery("clicks", loop, checkpoint, "id", other, False, str, lambda: None)
