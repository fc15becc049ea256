"""What the tasks of one batch are told: plain values, pickled into the task functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from slackwater.engine.plan.guards import NO_GUARDS, Guards
from slackwater.engine.plan.plan import Plan
from slackwater.engine.store.local import OUTPUT, PRIVATE
from slackwater.engine.store.manifest import Run
from slackwater.engine.store.storage import Folder, Storage
from slackwater.semantics.bounds import START
from slackwater.semantics.progress import SourceState
from slackwater.semantics.quality.state import QualityState
from slackwater.semantics.sealing import Proof
from slackwater.semantics.waiting import WaitPolicy

if TYPE_CHECKING:
    from slackwater.engine.paths.reports import SourceReport


@dataclass(frozen=True)
class Staging:
    """Where the tasks put an output's files: ``folder``, cut by the columns ``partition_by``.

    ``storage`` holds them: a sink's own, or the checkpoint's.
    """

    folder: str
    partition_by: tuple[str, ...] = ()
    storage: Storage = OUTPUT


@dataclass(frozen=True)
class Settings:
    """Knobs of a query that tasks need; none changes a result. ``storage`` holds the checkpoint."""

    memory: str = "1GB"
    compact_runs: int = 8
    compact_rows: int = 2_000_000
    compression: str = "zstd"
    smooth: int = 0
    smooth_windows: int = 2
    low_table: int = 0
    low_flush: int = 0
    low_probe: bool = False
    storage: Storage = PRIVATE


@dataclass(frozen=True)
class RelationAt:
    """A relation as a batch sees it: the ``version`` that it takes, and the one of the batch ``before`` it.

    ``memory`` is how many bytes of it an executor may keep. If it is read in ``segments``, those that ``stay`` are kept
    from batch to batch, by name: rows that need no others never wait. ``policy`` says when those that wait are served, all groups
    together, ``idle`` that the batch has no input. Rows that wait for a version which is gone take another one ``instead``.
    """

    version: str
    before: str | None = None
    memory: int = 0
    segments: bool = False
    stay: frozenset[str] = frozenset()
    policy: WaitPolicy | None = None
    idle: bool = False
    instead: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Batch:
    """One micro-batch as its tasks see it.

    ``states`` and ``bounds`` are those in force when the batch began; ``runs`` the live state runs per
    operator and group; ``ledgers`` and ``holds`` those of operators that put work off; ``tables`` the low-level
    tables per operator; ``relations`` the versions of relations, by name; ``guards`` what feedback lets tasks drop, and
    ``skipped`` what sources have to report of rows that no task reads; ``marks`` those after the batch before, of operators that
    keep a pace; ``proofs`` what partials of operators are looked through for.
    """

    plan: Plan
    id: int
    epoch: int
    groups: int
    now: int | None
    ended: frozenset[str]
    flush: bool
    states: Mapping[str, SourceState]
    bounds: dict[str, dict[str, int]]
    runs: dict[str, list[list[Run]]]
    root: str
    staging: dict[str, Staging]
    backlog: frozenset[str] = frozenset()
    ledgers: dict[str, list[Any]] = field(default_factory=dict)
    holds: dict[str, list[int]] = field(default_factory=dict)
    tables: dict[str, list[Run]] = field(default_factory=dict)
    relations: dict[str, RelationAt] = field(default_factory=dict)
    settings: Settings = field(default_factory=Settings)
    failpoints: str = ""
    guards: Guards = NO_GUARDS
    skipped: tuple[SourceReport, ...] = ()
    marks: Mapping[str, int] = field(default_factory=dict)
    proofs: Mapping[str, Sequence[Proof]] = field(default_factory=dict)

    @property
    def run_folder(self) -> Folder:
        """Where state runs lie."""
        return Folder(self.settings.storage, PurePath(self.root, "runs"))

    def bound(self, node: str, column: str) -> int:
        """The bound in force of a node's column."""
        return self.bounds.get(node, {}).get(column, START)

    def quality(self, source: str, column: str) -> QualityState | None:
        """What is known of a source's column under a quality target; None before the first batch, or without one."""
        state = self.states.get(source)
        return None if state is None else state.quality.get(column)

    def prefix(self, what: str) -> str:
        """Start of a file name that is unique to this query's epoch and batch."""
        return f"{what}-b{self.id:08d}-e{self.epoch}"
