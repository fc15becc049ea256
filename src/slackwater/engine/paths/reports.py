"""What the tasks of one batch report, to each other and to the driver: the counterpart of `batch`.

On the wire each is JSON in a control message (`wire`). Parts that a report does not have are left out of it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from slackwater.engine.store.manifest import OutputFile, Run
from slackwater.kernels.windows.sealing import Proven
from slackwater.model.codec import LEAN, positional, stored, to_json
from slackwater.semantics.progress import SourceState
from slackwater.semantics.quality.recall_lateness import LateInterval
from slackwater.semantics.slack.waiting import StoreReport
from slackwater.semantics.summary import SourceSummary

if TYPE_CHECKING:
    from slackwater.kernels.joins.bounded.stats import Stats

Bounds = Mapping[str, Mapping[str, int]]
"""By name of a node and time column."""


@dataclass(frozen=True)
class SourceReport:
    """What every group task must know of a source, as one low-level task saw it.

    ``sample`` is JSON text: the time column and the row, of a late row where none may be.
    """

    source: str
    summary: SourceSummary
    sample: str | None = None


@dataclass(frozen=True)
class Progress:
    """States of the sources and bounds of all nodes after a batch, with the merged summaries, by name.

    ``sample`` is the least of those in the reports. ``digest`` tells tasks that agree; `signed` sets it. ``holds`` is what
    operators that put work off may promise of their inputs, as far as the level below knows; None: as before the batch.
    """

    states: Mapping[str, SourceState]
    summaries: Mapping[str, SourceSummary]
    bounds: Bounds
    sample: str | None = None
    digest: str | None = field(default=None, metadata=LEAN)
    holds: Mapping[str, Sequence[int]] | None = field(default=None, metadata=LEAN)

    @property
    def signed(self) -> Progress:
        """With the digest of what all tasks must agree on."""
        text = json.dumps(to_json(replace(self, digest=None, holds=None)), sort_keys=True)
        return replace(self, digest=hashlib.sha256(text.encode()).hexdigest()[:16])


@positional
@dataclass(frozen=True)
class TableReport:
    """What a low-level task says of one of its tables: its file after the batch (None: no entry is left), partials that
    arrived at it, and partials that it sent on. ``table`` names the task.
    """

    table: str
    run: Run | None
    arrived: int
    sent: int


@dataclass(frozen=True)
class TableFigures:
    """Partials that arrived at low-level tables, that those sent on, and that group tasks took out; entries left."""

    arrived: int
    sent: int
    drained: int
    entries: int


@dataclass(frozen=True)
class Figures:
    """What a batch measured of one operator in one group, by kind of operator; None: not of this kind.

    ``partials`` are those of complete panes or windows. ``groups`` counts how groups of an adaptive aggregate are
    kept. ``held`` partials of closed windows wait. ``low`` is of low-level tables, ``waiting`` of a store of rows,
    ``join`` of a join in little memory. ``recall`` is of a join with a target: its results by lateness.
    """

    partials: int | None = field(default=None, metadata=LEAN)
    groups: Mapping[str, int] | None = field(default=None, metadata=LEAN)
    held: int | None = field(default=None, metadata=LEAN)
    low: TableFigures | None = field(default=None, metadata=LEAN)
    waiting: StoreReport | None = field(default=None, metadata=LEAN)
    # The modules of bounded joins take long to import, and few tasks need them.
    join: Stats | None = field(
        default=None,
        metadata=stored(lean=True, kind="slackwater.kernels.joins.bounded.stats:Stats"),
    )
    recall: Sequence[LateInterval] | None = field(default=None, metadata=LEAN)


@dataclass(frozen=True)
class OperatorReport:
    """What a batch did to one operator in one group: its live runs, and counts.

    ``compacted`` is the number of runs that were merged. ``readers`` has the results of each operator that shares
    this one's state. ``ledger`` is control state for the manifest, in a form of the operator's own; ``hold`` then says what may
    be promised of each input. ``tables`` are the low-level tables that are left, None where there is none to speak of. ``proven`` is
    what partials proved of panes.
    """

    runs: Sequence[Run]
    rows_in: int = field(metadata=stored(name="in"))
    rows_out: int = field(metadata=stored(name="out"))
    late: int = 0
    compacted: int = 0
    seconds: float = 0.0
    readers: Mapping[str, int] = field(default_factory=dict, metadata=LEAN)
    figures: Figures = field(default=Figures(), metadata=stored(name="statistics", lean=True))
    ledger: Any = field(default=None, metadata=LEAN)
    hold: Sequence[int] = field(default=(), metadata=LEAN)
    tables: Sequence[Run] | None = field(default=None, metadata=LEAN)
    proven: Sequence[Proven] = field(default=(), metadata=LEAN)


@dataclass
class Reads:
    """What tasks did for a relation: tables that they had in memory (``hits``) or not (``misses``), files that they decoded
    (``files``) and the bytes of these.

    Of a relation in segments these are counted instead of tables and files. ``asked`` says of each, by name, how many rows asked for it and
    how many bytes it takes decoded; ``rows`` are those that came with a key.
    ``unmatched`` rows had no partner.
    """

    hits: int = 0
    misses: int = 0
    files: int = 0
    bytes: int = 0
    rows: int = field(default=0, metadata=LEAN)
    unmatched: int = field(default=0, metadata=LEAN)
    asked: dict[str, tuple[int, int]] = field(default_factory=dict, metadata=LEAN)

    def add(self, other: Reads) -> None:
        """And what was done besides."""
        self.hits += other.hits
        self.misses += other.misses
        self.files += other.files
        self.bytes += other.bytes
        self.rows += other.rows
        self.unmatched += other.unmatched
        for name, (rows, size) in other.asked.items():
            self.asked[name] = (self.asked.get(name, (0, 0))[0] + rows, size)


class RelationReads(dict[str, Reads]):
    """What tasks did for relations, by their names."""

    def add(self, name: str, reads: Reads) -> None:
        """Count what was done for one of them."""
        self.setdefault(name, Reads()).add(reads)


@dataclass(frozen=True)
class TaskReport:
    """What one task did: its operators' reports, and the files it wrote by output.

    Tasks of level 0 have group -1 and no digest. ``digest`` is that of the progress the task computed; the progress itself
    comes from the first group of level 1 alone. ``dropped`` counts the rows that guards of feedback dropped, by place;
    ``relations`` is what was done for these.
    """

    level: int
    group: int
    operators: Mapping[str, OperatorReport]
    outputs: Mapping[str, Sequence[OutputFile]]
    digest: str | None = field(default=None, metadata=LEAN)
    progress: Progress | None = field(default=None, metadata=LEAN)
    dropped: Mapping[str, int] = field(default_factory=dict, metadata=LEAN)
    relations: Mapping[str, Reads] = field(default_factory=dict, metadata=LEAN)

    @classmethod
    def of_files(
        cls,
        outputs: Mapping[str, Sequence[OutputFile]],
        dropped: Mapping[str, int] | None = None,
        relations: Mapping[str, Reads] | None = None,
    ) -> TaskReport:
        """The report of a task that runs no stateful operator."""
        return cls(0, -1, {}, outputs, dropped=dropped or {}, relations=relations or {})


def dropped_by(reports: Sequence[TaskReport]) -> dict[str, int]:
    """The rows that guards dropped in a batch, by place."""
    total: dict[str, int] = {}
    for report in reports:
        for place, rows in report.dropped.items():
            total[place] = total.get(place, 0) + rows
    return total


def progress_of(reports: Sequence[TaskReport]) -> Progress:
    """The progress that the tasks of a batch agreed on."""
    return next(r.progress for r in reports if r.progress is not None)


def reports_of(reports: Sequence[TaskReport], operator: str) -> list[OperatorReport]:
    """What the tasks report of one operator, by group."""
    return [r.operators[operator] for r in reports if operator in r.operators]
