"""Copies that are made beside the batches, and what becomes of copies that are gone or damaged."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.engine.driver import relations
from slackwater.engine.driver.relation_forms import SEGMENTS
from slackwater.engine.driver.relations import NEVER
from slackwater.engine.paths import relation_tables, segments
from slackwater.engine.store import failpoints, kept
from slackwater.engine.store import manifest as manifests
from slackwater.engine.store.control import request_refresh
from slackwater.errors import ExecutionError, SlackwaterError
from slackwater.kernels.types import arrow_schema
from slackwater.testing.clock import ManualClock
from slackwater.testing.local.run import failing, scratch_folder
from tests.engine.test_relation_copies import (
    MINUTE,
    SECRET,
    Copied,
    Given,
    broken,
    contextless,
    stopped,
)
from tests.engine.test_relations import FIELDS, HELD
from tests.examples import examples


class Slow:
    """Rows that come when a test says so."""

    def __init__(self) -> None:
        self.may_go, self.begun = Event(), Event()
        self.rows = {1: "a"}

    def __call__(self) -> Any:
        self.begun.set()
        rows = dict(self.rows)
        assert self.may_go.wait(60)
        return rows


@pytest.fixture
def slow() -> Slow:
    made = Slow()
    made.may_go.set()
    return made


@pytest.fixture
def query(tmp_path: Path, slow: Slow, monkeypatch: pytest.MonkeyPatch) -> Iterator[Copied]:
    monkeypatch.setenv(kept.LOCAL_DIRS, str(tmp_path / "executor"))
    with stopped(Copied(tmp_path, given=Given(slow), refresh=NEVER)) as made:
        yield made
        slow.may_go.set()


@pytest.mark.spec("XJ-F57")
def test_batches_go_on_while_a_copy_is_made_and_take_it_when_it_is_complete(
    query: Copied, slow: Slow
) -> None:
    query.beside()
    slow.may_go.clear()
    slow.rows = {1: "b"}
    assert query.batch(1) == [(1, "a")]
    request_refresh(query.run.checkpoint, "d")
    for _ in range(3):
        assert query.batch(1) == [(1, "a")]
        assert query.record["copying"] is True and query.record["changedSegments"] == 0
    assert slow.begun.is_set()
    assert any(n.startswith("_making-") for n in query.copies)
    slow.may_go.set()
    query.made()
    assert query.batch(1) == [(1, "b")]
    assert query.record["copying"] is False and query.record["changedSegments"] == 1
    assert query.batch(1) == [(1, "b")]


def test_what_is_asked_for_while_a_copy_is_made_makes_another_one(
    query: Copied, slow: Slow
) -> None:
    query.beside()
    query.batch(1)
    slow.may_go.clear()
    slow.rows = {1: "b"}
    request_refresh(query.run.checkpoint, "d")
    query.batch(1)
    assert slow.begun.wait(60)
    slow.rows = {1: "c"}  # the copy in the making is of what was there before
    request_refresh(query.run.checkpoint, "d")
    query.batch(1)
    slow.may_go.set()
    query.made()
    assert query.batch(1) == [(1, "b")]
    query.batch(1)
    query.made()
    assert query.batch(1) == [(1, "c")]


def test_a_copy_that_is_complete_wakes_rows_that_wait(tmp_path: Path, slow: Slow) -> None:
    with stopped(Copied(tmp_path, HELD, given=Given(slow), refresh=MINUTE, clock=ManualClock(0))) as query:  # fmt: skip
        query.beside()
        assert query.batch(1, 2) == [(1, "a")]
        slow.rows = {2: "b"}
        clock = query.run.clock
        assert isinstance(clock, ManualClock)
        clock.advance(MINUTE)
        first = query.idle()  # asks for a copy
        query.made()
        assert first + query.idle() == [(2, "b")]


def asked_and_looked(query: Copied) -> None:
    """A batch that asks for a copy, and one that sees what became of it. Of one that fails at once, the first may see it."""
    query.batch(1)
    query.made()
    query.batch(1)


def test_three_failures_in_a_row_beside_the_batches_end_the_query(tmp_path: Path) -> None:
    given = Given(lambda: {1: "a"})
    clock = ManualClock(0)
    with stopped(Copied(tmp_path, given=given, refresh=MINUTE, clock=clock)) as query:
        query.beside()
        assert query.batch(1) == [(1, "a")]
        given.rows_of = broken
        for failure in range(1, 4):
            clock.advance(MINUTE)
            if failure == 3:
                with pytest.raises(ExecutionError, match="its function raised an error"):
                    asked_and_looked(query)
                break
            asked_and_looked(query)
            assert query.batch(1) == [(1, "a")]
            assert "ValueError" in query.record["problem"] and SECRET not in str(query.record)
            query.batch(1)
            assert given.calls == 1 + failure  # once per minute


class Cancelled(BaseException):
    """As asyncio, trio and others have it."""


def raised(error: BaseException) -> Any:
    raise error


def interrupted() -> Any:
    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"id": [1], "name": ["a"]})
        raise KeyboardInterrupt(SECRET)

    return pa.RecordBatchReader.from_batches(arrow_schema(FIELDS), batches())


class Odd:
    """What a function returns, which fails when it is asked for rows."""

    def __arrow_c_stream__(self, schema: Any = None) -> Any:
        raise Cancelled(SECRET)


@pytest.mark.parametrize(
    ("bad", "shown_as", "beside"),
    [
        (lambda: sys.exit(SECRET), "SystemExit", True),
        (lambda: sys.exit(SECRET), "SystemExit", False),
        (lambda: raised(Cancelled(SECRET)), "Cancelled", True),
        (lambda: raised(Cancelled(SECRET)), "Cancelled", False),
        (lambda: raised(KeyboardInterrupt(SECRET)), "KeyboardInterrupt", True),
        (interrupted, "KeyboardInterrupt", True),
        (Odd, "Cancelled", True),
    ],
)
def test_a_function_that_ends_the_program_is_one_that_fails(
    tmp_path: Path, bad: Callable[[], Any], shown_as: str, beside: bool
) -> None:
    given = Given(lambda: {1: "a"})
    with stopped(Copied(tmp_path, given=given, refresh=NEVER)) as query:
        query.beside() if beside else query.start()
        query.batch(1)
        given.rows_of = bad
        request_refresh(query.run.checkpoint, "d")
        query.batch(1)
        query.made()
        assert query.batch(1) == [(1, "a")]
        assert shown_as in query.record["problem"] and SECRET not in query.record["problem"]


def test_who_interrupts_the_program_while_it_waits_for_a_copy_ends_it(tmp_path: Path) -> None:
    given = Given(lambda: {1: "a"})
    with stopped(Copied(tmp_path, given=given, refresh=NEVER)) as query:
        query.start()
        query.batch(1)
        given.rows_of = lambda: raised(KeyboardInterrupt())
        request_refresh(query.run.checkpoint, "d")
        with pytest.raises(KeyboardInterrupt):
            query.batch(1)


# ---- the end ----


def without_end() -> Any:
    def batches() -> Iterator[pa.RecordBatch]:
        while True:
            yield pa.record_batch({"id": [1] * 1000, "name": ["a"] * 1000})

    return pa.RecordBatchReader.from_batches(arrow_schema(FIELDS), batches())


def copying(folder: Path) -> Copied:
    """A query beside which a copy is made of rows that have no end."""
    source = Given(lambda: {1: "a"})
    query = Copied(folder, given=source, refresh=NEVER)
    query.beside()
    query.batch(1)
    source.rows_of = without_end
    request_refresh(query.run.checkpoint, "d")
    query.batch(1)
    assert query.record["copying"] is True
    return query


def copying_threads() -> list[str]:
    return [t.name for t in threading.enumerate() if t.name == "slackwater-copy"]


def test_a_query_that_stops_gives_up_the_copy_in_the_making(tmp_path: Path) -> None:
    query = copying(tmp_path)
    assert copying_threads()
    query.run.stop()
    assert not copying_threads()
    assert [n for n in query.copies if n.startswith("_making-")] == []


def test_a_source_that_hangs_does_not_keep_a_query_from_stopping(
    query: Copied, slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relations, "STOPPING", 0.05)
    query.beside()
    query.batch(1)
    slow.may_go.clear()
    request_refresh(query.run.checkpoint, "d")
    query.batch(1)
    query.run.stop()
    assert copying_threads()
    slow.may_go.set()
    query.made()


def test_a_process_that_ends_while_a_copy_is_made_ends_well(tmp_path: Path) -> None:
    """Nobody stops the query. A thread that the interpreter stops inside of a library aborts the process."""
    code = "import pathlib, sys; from tests.engine.test_copies_beside import copying; copying(pathlib.Path(sys.argv[1]))"
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], cwd=Path(__file__).parents[2],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


# ---- what is gone, or damaged ----


def lose_folder(copy: Path) -> None:
    shutil.rmtree(copy)


def lose_file(copy: Path) -> None:
    (copy / "part-00000.parquet").unlink()


def lose_index(copy: Path) -> None:
    (copy / "index.arrow").unlink()


def forget() -> None:
    """What a process has read of copies; another one would start without it."""
    segments._indexes.clear()
    relation_tables._tables.clear()


@pytest.mark.parametrize("lose", [lose_folder, lose_file, lose_index])
@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.spec("XJ-F57")
def test_a_copy_that_is_gone_is_told_with_the_way_out_which_leads_out(
    query: Copied, slow: Slow, lose: Callable[[Path], None], begun: bool
) -> None:
    """Whether the batch that needs it had begun, or not."""
    query.beside()
    query.batch(1)
    if begun:
        with failing("intent.after"), pytest.raises(failpoints.InjectedFailure):
            query.batch(1)
    query.run.stop()
    (copy,) = query.copies
    lose(query.store / copy)
    shutil.rmtree(query.folder / "executor", ignore_errors=True)
    forget()
    slow.rows = {1: "b"}
    query.beside()
    version = query.run.loop.last.relations["d"].version  # type: ignore[union-attr]
    with pytest.raises(SlackwaterError) as caught:
        query.again() if begun else query.batch(1)
    text = f"{caught.value.message} {caught.value.hint}"
    assert copy in text and version in text and "relationVersions" in text
    query.run.stop()
    query.run.newest_versions = True
    query.beside()
    assert query.again() == [(1, "b")]
    assert query.record["replaced"] is True
    assert query.batch(1) == [(1, "b")]


@pytest.mark.parametrize(
    ("part", "form"),
    [("part-00000.parquet", "whole"), ("part-00000.parquet", SEGMENTS), ("index.arrow", SEGMENTS)],
)
def test_a_copy_that_is_damaged_gives_no_wrong_row(
    query: Copied, slow: Slow, part: str, form: str
) -> None:
    """Bits that changed on the disk, where neither length nor time tell."""
    slow.rows = {n: f"name {n}" for n in range(1000)}
    changed: dict[str, Any] = {"memory": 1 << 20, "form": SEGMENTS if form == SEGMENTS else None}
    query.beside(**changed)
    assert query.batch(7) == [(7, "name 7")]
    query.run.stop()
    (copy,) = query.copies
    path = query.store / copy / part
    status, whole = path.stat(), path.read_bytes()
    for place in range(10, len(whole) // 2, max(1, len(whole) // 20)):
        bad = bytearray(whole)
        bad[place] ^= 4
        path.write_bytes(bad)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        shutil.rmtree(query.folder / "executor", ignore_errors=True)
        forget()
        query.beside(**changed)
        with pytest.raises(SlackwaterError) as caught:
            query.again() if place > 10 else query.batch(*range(1000))
        text = f"{caught.value.message} {caught.value.hint}"
        assert copy in text and "relationVersions" in text, text
        query.run.stop()
    shutil.rmtree(path.parent)
    query.run.newest_versions = True
    query.beside(**changed)
    assert len(query.again()) == 1000


# ---- restarts and crashes, beside the batches ----

POINTS = (
    *failpoints.COPY_POINTS,
    "relation.listed",
    "intent.before",
    "intent.after",
    "job.after",
    "gc.after",
)


def named(query: Copied, number: int) -> str | None:
    """The version that the intent or the manifest of a batch names."""
    checkpoint = query.run.checkpoint
    one = manifests.read(checkpoint, number) or manifests.read_intent(checkpoint, number)
    return None if one is None else one.relations["d"].version


@given(
    st.lists(st.sampled_from(["batch", "batch", "refresh", "wait", "fail", "start", *POINTS]), min_size=3, max_size=14),
    st.booleans(),
    st.sampled_from([None, SEGMENTS]),
    st.sampled_from([1, 60, 100_000]),
)  # fmt: skip
@examples(25)
@pytest.mark.spec("XJ-F57")
def test_every_batch_reads_one_version_and_the_same_when_it_is_repeated(
    steps: list[str], is_slow: bool, form: Any, theta: int
) -> None:
    """The names in the table say in which call they were made: none is of a copy that was not complete, none goes back."""
    keys, fails = range(12), [False]

    def rows() -> Any:
        if fails[0]:
            raise ValueError(SECRET)
        number = source.calls
        if is_slow:
            time.sleep(0.002)
        return dict.fromkeys(keys, f"call {number}")

    source = Given(rows)
    with pytest.MonkeyPatch.context() as patched, scratch_folder() as folder:
        patched.setenv(kept.LOCAL_DIRS, str(folder / "executor"))
        with stopped(Copied(folder, given=source, refresh=NEVER, theta=theta)) as query:
            changed: dict[str, Any] = {"memory": 1 << 16, "form": form}

            def restarted() -> None:
                query.run.stop()
                query.run.loop.relations.stop()
                query.beside(**changed)

            def batch(point: str | None) -> list[Any]:
                try:
                    with failing(point) if point else contextless():
                        return query.batch(*keys)
                except failpoints.InjectedFailure:
                    # Also one that struck in the thread of a copy, maybe in an earlier batch.
                    number = query.run.done
                    begun = named(query, number)
                    restarted()
                    found = query.again()
                    assert begun in (None, named(query, number))
                    return found

            query.beside(**changed)
            last, failures = 1, 0
            for step in ["batch", *steps, "wait", "batch"]:
                if step == "refresh":
                    request_refresh(query.run.checkpoint, "d")
                elif step == "wait":
                    query.made()
                elif step == "fail":
                    failures += not fails[0]
                    fails[0] = not fails[0] and failures < 3
                elif step == "start":
                    restarted()
                else:
                    found = batch(step if step in POINTS else None)
                    names = {name for _, name in found}
                    assert len(found) == len(keys) and len(names) == 1
                    number = int(names.pop().split()[1])
                    assert last <= number <= source.calls
                    last = number
            query.run.loop.relations.copies_of("d").wait()
            assert len([n for n in query.copies if n.startswith("copy-")]) <= 7
