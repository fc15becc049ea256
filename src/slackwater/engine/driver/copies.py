"""Copies of relations: made beside the running batches, sorted by key; a batch takes one when it is whole.

A copy is asked for when the relation is due to be looked at and its source is not what the last copy was made of, or cannot tell. A thread
of the driver makes it. What it is made into becomes a version like any other, a list of files, so that intents, repeated batches and cleaning need
to know nothing of copies. What was asked for is met when a batch takes the copy: a driver that dies before asks again.
"""

from __future__ import annotations

import atexit
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import PurePath
from threading import Event, Thread, current_thread, main_thread
from typing import Any, Protocol

import pyarrow as pa

from slackwater.engine.clock import monotonic
from slackwater.engine.paths.relation_files import keyed_sql
from slackwater.engine.plan.relations import stored_keys
from slackwater.engine.store.copies import (
    About,
    Copy,
    CopyWriter,
    Store,
    copy_of,
    folder_of,
    key_digest,
    key_types,
)
from slackwater.engine.store.failpoints import InjectedFailure
from slackwater.engine.store.storage import Storage
from slackwater.engine.store.versions import TableFile
from slackwater.errors import AnalysisError, ExecutionError, SlackwaterError
from slackwater.kernels.column_engine import SORTED, is_engine_error, sorted_rows
from slackwater.kernels.sorted_copy import Cutter, ValueTooLarge
from slackwater.kernels.types import arrow_schema
from slackwater.model.duck_sql import quote
from slackwater.model.relation import Relation
from slackwater.model.schema import Field

THETA = 1 << 20
"""The least bytes of a segment, unless ``memory`` is so small that a quarter of it is less."""

STRIKES = 3
"""So many failures in a row of a source that cannot tell what has changed end the query."""


STOPPING = 3.0
"""Seconds that the end of a query, or of the process, waits for copies that are given up: a source may hang."""

_beside: dict[Thread, Copies] = {}
"""The threads that make copies, of all queries of this process."""
_exiting = Event()


class CopySource(Protocol):
    """What a copy is made of; the surface hands it in."""

    def identity(self) -> str | None:
        """What tells the rows that are there now from others; None if nothing does."""
        ...

    def rows(
        self, fields: Sequence[Field], scratch: PurePath, memory: int
    ) -> AbstractContextManager[pa.RecordBatchReader]:
        """The columns ``fields`` of its rows, some at a time. ``scratch`` is a folder for what it puts down meanwhile.

        What goes wrong is an error that says nothing of addresses, options or what others' exceptions say.
        """
        ...


@dataclass(frozen=True)
class CopyUse:
    """How a relation is copied: from where, into which ``store`` (None: below the checkpoint), in segments of at least ``theta`` bytes.

    With ``waits`` a batch that asks for a copy waits for it.
    """

    source: CopySource
    store: str | None = None
    theta: int | None = None
    waits: bool = False

    def __reduce__(self) -> tuple[Any, ...]:
        # Tasks get it with the plan and have no use for it; a function or a DataFrame cannot travel.
        return _nothing, ()


def _nothing() -> None:
    return None


@dataclass(frozen=True)
class Said:
    """What a look came to that gave no copy: the request that it met, when it was, and what was wrong."""

    asked: int
    looked: int | None
    problem: str | None


@dataclass
class _Attempt:
    """A copy in the making: what asked for it, and what became of it."""

    asked: int
    began: int | None
    identity: str | None
    done: Event = field(default_factory=Event)
    thread: Thread | None = None
    copy: Copy | None = None
    error: BaseException | None = None


class Copies:
    """The copies of one relation.

    ``fields`` are the columns that the query reads; ``memory`` is what the relation may take in an executor, None if that does not matter.
    """

    def __init__(
        self,
        use: CopyUse,
        relation: Relation,
        fields: Sequence[Field],
        memory: int | None,
        storage: Storage,
        store: Store,
    ):
        self._use, self._relation, self._memory = use, relation, memory
        wanted = {f.name for f in fields}
        self._fields = tuple(f for f in relation.fields if f.name in wanted)
        self._storage, self._store = storage, store
        self._keyed = key_digest(relation, stored_keys(relation))
        self._attempt: _Attempt | None = None
        self._refused: str | None = None
        self._stopped = Event()
        self._known: dict[tuple[TableFile, ...], About | None] = {}
        self._failures = 0
        self.said: Said | None = None
        """What the last look came to, that has no copy for a batch to take; None if there was none in this process."""

    # ---- what is there ----
    @property
    def is_making(self) -> bool:
        """Whether a copy is in the making."""
        return self._attempt is not None and not self._attempt.done.is_set()

    def about(self, files: Sequence[TableFile]) -> About | None:
        """What is said of the copy that a version lists; None if it is none."""
        listed = tuple(files)
        if listed not in self._known:
            self._known = {listed: copy_of(self._storage, listed)}
        return self._known[listed]

    def suits(self, files: Sequence[TableFile]) -> bool:
        """Whether a version has the columns that are read, whoever wrote it."""
        names = {f.name for f in self._fields}
        return all(names <= set(f.decoded) for f in files)

    # ---- making one ----
    def now(self, asked: int, now: int | None) -> Copy:
        """Make a copy while the caller waits; an error is one at once."""
        self._attempt = attempt = _Attempt(asked, now, self._use.source.identity())
        self._run(attempt)
        if attempt.error is not None:
            self._attempt = None
            error, attempt.error = attempt.error, None
            raise error
        assert attempt.copy is not None
        return attempt.copy

    def ask(
        self, asked: int, now: int | None, version: Sequence[TableFile], *, again: bool = False
    ) -> None:
        """Begin a copy for the request ``asked``, unless one is in the making, or ``version`` is of what is there now.

        ``again``: also of what could not be copied the last time.
        """
        if self._attempt is not None:
            return  # what it misses is seen once it has been taken
        identity = self._use.source.identity()
        of_version = self.about(version)
        same = of_version is not None and (of_version.source, of_version.keyed) == (
            identity,
            self._keyed,
        )
        if identity is not None and same:
            self._refused = None
            self.said = Said(asked, now, None)
            return
        if identity is not None and identity == self._refused and not again:
            return
        if self._use.waits:
            self._attempt = _Attempt(asked, now, identity)
            self._run(self._attempt)
        elif not _exiting.is_set():
            attempt = self._attempt = _Attempt(asked, now, identity)
            # A source that hangs must not keep the process from ending, so it is a daemon.
            attempt.thread = Thread(
                target=self._run_beside, args=(attempt,), name="slackwater-copy", daemon=True
            )
            _end_with_process()
            attempt.thread.start()

    def ready(self) -> Copy | None:
        """The copy that is whole and that no batch is known to have taken. What has gone wrong is then in `said`."""
        attempt = self._attempt
        if attempt is None or not attempt.done.is_set():
            return None
        if attempt.error is None:
            if self._use.waits and attempt.identity != self._use.source.identity():
                # Who waits for a copy is to have what is there now.
                self._attempt = None
                return None
            return attempt.copy
        self._attempt = None
        if not isinstance(attempt.error, SlackwaterError):
            raise attempt.error
        self._failures += 1
        if attempt.identity is None and self._failures >= STRIKES:
            raise attempt.error
        self._refuse(attempt, attempt.error)
        return None

    def refused(self, error: SlackwaterError) -> None:
        """The copy that is ready cannot be used: it is not made again until its source is something else."""
        if self._attempt is not None:
            self._refuse(self._attempt, error)
        self._attempt = None

    def _refuse(self, attempt: _Attempt, error: SlackwaterError) -> None:
        self._refused = attempt.identity
        self.said = Said(attempt.asked, attempt.began, str(error))

    def taken(self) -> None:
        """A batch has taken the copy that was ready."""
        self._attempt = self.said = self._refused = None
        self._failures = 0

    @property
    def asked(self) -> int:
        """The request that the copy in the making, or the one that is whole, is to meet."""
        return 0 if self._attempt is None else self._attempt.asked

    def wait(self) -> None:
        """Wait for a copy that is in the making."""
        if self._attempt is not None:
            self._attempt.done.wait()

    def stop(self) -> None:
        """The query ends: a copy in the making is given up at its next piece."""
        self._stopped.set()

    def gone(self, limit: float) -> None:
        """After `stop`: wait for a copy in the making until ``limit``, of `monotonic`. A second time nobody waits."""
        attempt = self._attempt
        if attempt is not None and attempt.thread is not None:
            thread, attempt.thread = attempt.thread, None
            thread.join(max(0.0, limit - monotonic()))

    @property
    def count(self) -> int:
        """How many copies are on disk."""
        return self._store.count

    def sweep(self, versions: Sequence[Sequence[TableFile]]) -> None:
        """Remove the copies that none of ``versions`` lists and no batch can take any more."""
        kept = {f for f in map(folder_of, versions) if f is not None}
        attempt = self._attempt
        if attempt is not None and attempt.copy is not None:
            kept |= {f for f in [folder_of(attempt.copy.files)] if f is not None}
        elif self.is_making:
            return  # it may get its name at any moment
        self._store.sweep(kept)

    def _run_beside(self, attempt: _Attempt) -> None:
        _beside[current_thread()] = self
        try:
            if _exiting.is_set():
                self.stop()
            self._run(attempt)
        finally:
            _beside.pop(current_thread(), None)

    def _run(self, attempt: _Attempt) -> None:
        try:
            attempt.copy = self._made(attempt)
        except (SlackwaterError, InjectedFailure) as error:
            attempt.error = error
        except Exception as error:
            attempt.error = self._failed(error)
        except BaseException as error:
            # In the main thread it may be somebody at the keyboard: whoever waits for the copy is to stop as well. Elsewhere a source raised it.
            attempt.error = error if current_thread() is main_thread() else self._ended(error)
        finally:
            if isinstance(attempt.error, SlackwaterError):
                # What led to it may speak of addresses and secrets.
                attempt.error.__context__ = attempt.error.__cause__ = None
            attempt.done.set()

    def _failed(self, error: Exception) -> BaseException:
        """What went wrong, without what others' exceptions say: that may be a secret."""
        known = isinstance(error, OSError | pa.ArrowException | MemoryError)
        if not known and not is_engine_error(error) and type(error).__module__ != "_duckdb":
            return error
        why = getattr(error, "strerror", None) or type(error).__name__
        return ExecutionError(
            "RELATION_COPY",
            f"relation '{self._relation.name}' could not be copied: {why}",
            hint="the last copy stays in use; make room, memory or rights in the directory of its store",
            relation=self._relation.name,
        )

    def _ended(self, error: BaseException) -> ExecutionError:
        return ExecutionError(
            "RELATION_COPY",
            f"relation '{self._relation.name}' could not be copied: its source ended it ({type(error).__name__})",
            hint="the last copy stays in use; run the source by itself to see why",
            relation=self._relation.name,
        )

    def _made(self, attempt: _Attempt) -> Copy:
        started = monotonic()
        folder = self._store.making()
        try:
            self._write(folder, attempt, started)
            return self._store.finished(folder)
        except ValueTooLarge as error:
            self._store.forget(folder)
            too_large = self._too_large(error)
        except InjectedFailure:
            raise  # as if the driver had died
        except BaseException:
            self._store.forget(folder)
            raise
        raise too_large

    def _write(self, folder: PurePath, attempt: _Attempt, started: float) -> None:
        names = [f.name for f in self._fields]
        sql, keys = keyed_sql(self._relation, SORTED, names)
        # As codes of keys rise: rows without a key come first.
        order = ", ".join(f"{quote(k)} ASC NULLS FIRST" for k in keys)
        schema, types = arrow_schema(self._fields), key_types(self._relation)
        memory = self._memory or 0
        theta = self._use.theta or max(1, min(THETA, memory // 4) if memory else THETA)
        cutter = Cutter(keys, names, theta, self._memory)
        wanted = {k: schema.field(k).type if k in names else t for k, t in zip(keys, types)}
        whole = pa.schema([*schema, *(pa.field(k, t) for k, t in wanted.items() if k not in names)])
        writer = CopyWriter(self._storage, folder, schema, keys, list(wanted.values()))
        scratch, spill = folder / "scratch", folder / "spill"
        self._storage.make_folder(scratch)
        self._storage.make_folder(spill)
        with (
            self._use.source.rows(self._fields, scratch, memory) as rows,
            writer,
            sorted_rows(
                self._stoppable(rows), f"{sql} ORDER BY {order}", memory, str(spill)
            ) as pieces,
        ):
            for piece in pieces:
                self._go_on()
                for segment in cutter.add(piece.cast(whole)):
                    writer.add(segment)
            for segment in cutter.end():
                writer.add(segment)
        self._storage.delete_folder(scratch)
        self._storage.delete_folder(spill)
        self._go_on()

        def about(count: int) -> About:
            millis = round((monotonic() - started) * 1000)
            return About(attempt.identity, self._keyed, attempt.began, millis, count)

        writer.end(about)

    def _stoppable(self, rows: pa.RecordBatchReader) -> pa.RecordBatchReader:
        """All rows are read before the first piece comes sorted: the longest part of a copy."""

        def batches() -> Iterator[pa.RecordBatch]:
            for batch in rows:
                self._go_on()
                yield batch

        return pa.RecordBatchReader.from_batches(rows.schema, batches())

    def _go_on(self) -> None:
        if self._stopped.is_set():
            raise ExecutionError("NOT_RUNNING", "the query has ended", hint="start it again")

    def _too_large(self, error: ValueTooLarge) -> AnalysisError:
        shown = ", ".join(str(v) for v in error.key.values())
        return AnalysisError(
            "RELATION_TOO_LARGE",
            f"the rows of relation '{self._relation.name}' with the key {shown} take more than {error.size - 1} bytes in "
            f"memory, and memory= allows {self._memory}; a key is never cut",
            hint='give more; select fewer columns of it; or use option("relationForm", "whole"), which takes the relation into memory '
            "whatever its size",
            relation=self._relation.name,
        )


@lru_cache(maxsize=1)
def _end_with_process() -> None:
    """Have copies given up before the interpreter goes, which then stops threads where they are: inside of a library, that aborts the process.

    What is registered last comes first, and threads still run then.
    """
    atexit.register(_end_all)


def _end_all() -> None:
    _exiting.set()
    making, limit = list(_beside.items()), monotonic() + STOPPING
    for _, copies in making:
        copies.stop()
    for thread, _ in making:
        thread.join(max(0.0, limit - monotonic()))
